//! Finding what a service left behind where there is no cgroup to tell: by `KELSON_RUN` in the environment that each of
//! its processes was started with. Best effort: a process can change its environment, and one of another user that
//! forks faster than we look may get away.
//!
//! Reading `/proc/PID/environ` can hang on a process that waits for a dead disk, so a thread of its own does it, and
//! is left behind at the deadline.

use std::fs;
use std::time::Duration;

use kelson_sys::{pidfd, process};
use nix::errno::Errno;
use tokio::sync::oneshot;

/// Rounds of looking and killing: what a fork bomb makes between two of them is found by the next.
const ROUNDS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);

/// Kills all processes whose environment has `KELSON_RUN=<mark><anything>`. Returns how many there were and how many
/// outlived it; at the deadline one, for the process that hung the search.
pub(crate) async fn clear(mark: String, deadline: Duration) -> (u32, u32) {
    let (done, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name(String::from("strays")).stack_size(128 * 1024);
    let started = thread.spawn(move || {
        let _ = done.send(kill_all(&mark));
    });
    if let Err(error) = started {
        tracing::error!("cannot make a thread to look for strays: {error}");
        return (0, 0);
    }
    match tokio::time::timeout(deadline, result).await {
        Ok(Ok(counts)) => counts,
        _ => (1, 1),
    }
}

fn kill_all(mark: &str) -> (u32, u32) {
    let mut killed = 0u32;
    let mut found = 0u32;
    for round in 0..ROUNDS {
        found = kill_once(mark);
        if round == 0 {
            killed = found;
        }
        if found == 0 {
            break;
        }
        // SIGKILL is carried out when the process next runs; there is no one event for the end of strangers.
        std::thread::sleep(PAUSE);
    }
    (killed, found)
}

fn kill_once(mark: &str) -> u32 {
    let own = std::process::id().cast_signed();
    let mut found = 0u32;
    for pid in process::numbers("/proc").unwrap_or_default() {
        if pid == own {
            continue;
        }
        // Opened first: then the environment and the signal mean the same process, or none.
        let pidfd = match pidfd::open(pid) {
            Ok(Some(pidfd)) => Some(pidfd),
            Ok(None) => continue,
            // No descriptor is free. It is counted, so that it is looked for again, or reported.
            Err(_) => None,
        };
        if has_mark(pid, mark) && is_alive(pid) {
            if let Some(pidfd) = pidfd {
                pidfd::signal(&pidfd, libc::SIGKILL);
            }
            found = found.saturating_add(1);
        }
    }
    found
}

fn has_mark(pid: i32, mark: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(b"KELSON_RUN="))
        .any(|value| value.starts_with(mark.as_bytes()))
}

/// Not a zombie: that only waits to be reaped.
fn is_alive(pid: i32) -> bool {
    let signalled = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None);
    let is_zombie = process::stat(pid, |stat| Some(stat.state() == Some("Z")));
    signalled != Err(Errno::ESRCH) && is_zombie.is_ok_and(|zombie| zombie == Some(false))
}
