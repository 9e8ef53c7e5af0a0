//! Ending the processes that are left: SIGTERM, a bounded wait, SIGKILL, a bounded wait.

use std::time::Duration;

use kelson_sys::descriptor::Watched;
use kelson_sys::pidfd;
use kelson_sys::process::{self, KERNEL_THREAD, Stat};
use kelson_sys::text::first_of_many;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::time::Instant;

/// Whom to end, and how.
pub struct Targets<'a> {
    pub list: Box<dyn Fn() -> Vec<Process> + Send + Sync + 'a>,
    pub signal: Box<dyn Fn(Signal) + Send + Sync + 'a>,
}

/// A process that lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub command: String,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (PID {})", self.command, self.pid)
    }
}

/// Everybody but PID 1 itself and the kernel's threads.
pub fn everybody() -> Targets<'static> {
    let own = nix::unistd::getpid().as_raw();
    Targets {
        list: Box::new(move || living().into_iter().filter(|process| process.pid != own).collect()),
        // PID -1: all that we may signal, but not the caller. Only ever right for PID 1.
        signal: Box::new(move |signal| {
            if own == 1 {
                let _ = nix::sys::signal::kill(Pid::from_raw(-1), signal);
            }
        }),
    }
}

/// Ends all of them. Returns those that even SIGKILL did not end, as texts.
pub async fn end_all(targets: &Targets<'_>, grace: Duration, kill: Duration) -> Vec<String> {
    if (targets.list)().is_empty() {
        return Vec::new();
    }
    (targets.signal)(Signal::SIGTERM);
    // A process stopped by SIGSTOP cannot react to SIGTERM.
    (targets.signal)(Signal::SIGCONT);
    let stubborn = wait_until_gone(targets, grace).await;
    if stubborn.is_empty() {
        return Vec::new();
    }
    let names = first_of_many(stubborn.iter(), ", ");
    tracing::warn!("shutdown: killing {} that SIGTERM did not end: {names}", stubborn.len());
    (targets.signal)(Signal::SIGKILL);
    wait_until_gone(targets, kill).await.iter().map(ToString::to_string).collect()
}

/// Waits until the list is empty, woken by the end of each process. Returns who is left at the deadline.
async fn wait_until_gone(targets: &Targets<'_>, patience: Duration) -> Vec<Process> {
    let deadline = Instant::now().checked_add(patience).unwrap_or_else(Instant::now);
    loop {
        let left = (targets.list)();
        let Some(first) = left.first() else { return left };
        // One at a time serves: the list is empty only after each of them has ended.
        match tokio::time::timeout_at(deadline, ended(first.pid)).await {
            Ok(()) => {}
            Err(_) => return (targets.list)(),
        }
    }
}

/// Returns once a process has ended, whether or not somebody has reaped it.
async fn ended(pid: i32) {
    let Ok(Some(fd)) = pidfd::open(pid) else { return };
    if let Ok(fd) = Watched::reading(fd) {
        let _ = fd.readable().await;
    }
}

/// All processes of this PID namespace that live and are not the kernel's.
pub fn living() -> Vec<Process> {
    // `stat`, not `cmdline`: that one waits for the process's memory, which a dead disk may hold.
    let pids = process::numbers("/proc").unwrap_or_default();
    pids.into_iter()
        .filter_map(|pid: i32| process::stat(pid, |stat| alive(pid, stat)).ok().flatten())
        .collect()
}

/// `None` for a kernel thread and for one that has ended, with all its threads.
fn alive(pid: i32, stat: &Stat<'_>) -> Option<Process> {
    let ended = matches!(stat.state()?, "Z" | "X") && stat.threads()? <= 1;
    (stat.flags()? & KERNEL_THREAD == 0 && !ended).then(|| Process { pid, command: stat.name() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn stat_lines_are_understood() {
        let line = |state: &str, flags: u64, threads: u64| {
            format!("42 (a ) b) {state} 1 42 42 0 -1 {flags} 1 2 3 4 5 6 7 8 20 0 {threads} 0 99 0 0\n")
        };
        let alive_of = |line: &str| alive(42, &Stat::parse(line.as_bytes())?);
        let process = alive_of(&line("S", 4_194_560, 1)).unwrap();
        assert_eq!(process, Process { pid: 42, command: "a ) b".to_owned() });
        assert_eq!(alive_of(&line("Z", 4_194_560, 1)), None);
        assert!(alive_of(&line("Z", 4_194_560, 3)).is_some(), "its other threads live");
        assert_eq!(alive_of(&line("I", 0x0020_8040, 1)), None);
        assert_eq!(alive_of(""), None);
        let own = std::process::id();
        assert!(living().iter().any(|process| process.pid.unsigned_abs() == own));
    }

    /// Only these children, which nobody reaps meanwhile.
    fn children(children: &[Child]) -> Targets<'static> {
        let pids: Vec<i32> = children.iter().map(|child| child.id().cast_signed()).collect();
        let signalled = pids.clone();
        Targets {
            list: Box::new(move || {
                living().into_iter().filter(|process| pids.contains(&process.pid)).collect()
            }),
            signal: Box::new(move |signal| {
                for pid in &signalled {
                    let _ = nix::sys::signal::kill(Pid::from_raw(*pid), signal);
                }
            }),
        }
    }

    fn shell(script: &str) -> Child {
        use std::io::Read;
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It says "r" once its traps stand.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    #[tokio::test]
    async fn who_obeys_ends_by_sigterm_and_who_does_not_by_sigkill() {
        let obeys = "echo r; exec /bin/sleep 1000";
        let stopped = "echo r; kill -STOP $$; exec /bin/sleep 1000";
        let deaf = "trap '' TERM; echo r; exec /bin/sleep 1000";
        let mut all = vec![shell(obeys), shell(stopped), shell(deaf)];
        let begun = Instant::now();
        let left = end_all(&children(&all), Duration::from_millis(300), Duration::from_secs(30)).await;
        assert!(left.is_empty(), "{left:?}");
        assert!(begun.elapsed() >= Duration::from_millis(300), "the deaf one was given its time");
        use std::os::unix::process::ExitStatusExt;
        let signals: Vec<_> = all.iter_mut().map(|child| child.wait().unwrap().signal().unwrap()).collect();
        assert_eq!(signals, [libc::SIGTERM, libc::SIGTERM, libc::SIGKILL]);
    }

    #[tokio::test]
    async fn who_cannot_be_ended_is_named() {
        let mut child = shell("echo r; exec /bin/sleep 1000");
        let pid = child.id().cast_signed();
        let targets = Targets {
            list: Box::new(move || vec![Process { pid, command: "stuck".to_owned() }]),
            signal: Box::new(|_| {}),
        };
        let left = end_all(&targets, Duration::from_millis(20), Duration::from_millis(20)).await;
        assert_eq!(left, [format!("stuck (PID {pid})")]);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
