//! A program that a test starts in the place of one of Kelson's helpers: often its own binary.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Where a helper finds its link to PID 1.
const CONTROL: i32 = 3;

/// A process that runs.
pub struct Child {
    pub pid: i32,
    /// Sends SIGKILL to this very process; may be called after its end.
    pub kill: Box<dyn Fn() + Send + Sync>,
}

/// Starts `command` with `control` as descriptor 3, after `before` in the child. `ended` gets the way in
/// which it ended: `killed by signal 9`.
pub fn start(
    mut command: Command,
    control: OwnedFd,
    before: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ended: impl FnOnce(String) + Send + 'static,
) -> io::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let raw = control.as_raw_fd();
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            before()?;
            let done = if raw == CONTROL {
                libc::fcntl(CONTROL, libc::F_SETFD, 0)
            } else {
                libc::dup2(raw, CONTROL)
            };
            if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let mut child = command.spawn()?;
    drop(control);
    let id = child.id();
    let pid = i32::try_from(id).map_err(io::Error::other)?;
    let alive = Arc::new(Mutex::new(true));
    let waiting = Arc::clone(&alive);
    std::thread::spawn(move || {
        // Not reaped before nobody can signal it any more.
        // SAFETY: a zeroed siginfo is one, and lives until the call returns.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let waited = unsafe { libc::waitid(libc::P_PID, id, &raw mut info, libc::WEXITED | libc::WNOWAIT) };
        assert_eq!(waited, 0, "{}", io::Error::last_os_error());
        *waiting.lock().expect("nobody panics with it") = false;
        let status = child.wait().expect("it is a child");
        ended(match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with status {code}"),
            (_, signal) => format!("killed by signal {}", signal.unwrap_or(0)),
        });
    });
    let kill = move || {
        if *alive.lock().expect("nobody panics with it") {
            // SAFETY: a system call on numbers.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    };
    Ok(Child { pid, kill: Box::new(kill) })
}
