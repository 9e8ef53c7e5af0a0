//! The container's process as the kernel knows it: what containerd and its shim say of it may come late or never.

use std::io;
use std::os::fd::OwnedFd;

use kelson_spec::service::StopSpec;
use kelson_sys::descriptor::Watched;
use kelson_sys::{pidfd, process};

use crate::cgroup::Cgroup;
use crate::runner::{Exit, RunnerError, StopPlan, StopReport};
use crate::stop;

/// One process, for as long as this is held, whichever its parent is.
#[derive(Debug)]
pub(super) struct ProcessHandle {
    pid: i32,
    start_time: u64,
    pidfd: Watched<OwnedFd>,
}

impl ProcessHandle {
    /// The process with this PID now. `None`: there is none.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub(super) fn open(pid: i32) -> Result<Option<ProcessHandle>, RunnerError> {
        let cannot =
            |error: &io::Error| RunnerError::system(format_args!("cannot watch process {pid}"), error);
        let Some(pidfd) = pidfd::open(pid).map_err(|error| cannot(&error))? else { return Ok(None) };
        // Read with the pidfd open, so that both mean the same process, or it has ended.
        let start_time = process::started(pid).map_err(|error| cannot(&error))?.unwrap_or_default();
        let pidfd = Watched::reading(pidfd).map_err(|error| cannot(&error))?;
        Ok(Some(ProcessHandle { pid, start_time, pidfd }))
    }

    /// Whether it is in the same PID namespace as another process. One that is not is a stranger that was given the
    /// number of what had ended. Where it may not be asked it is taken for what it should be.
    pub(super) fn is_beside(&self, other: i32) -> bool {
        match (process::namespace(self.pid, "pid"), process::namespace(other, "pid")) {
            (Ok(own), Ok(other)) => own == other,
            _ => true,
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Returns once it has ended. Cancelled by dropping.
    pub(super) async fn ended(&self) {
        // A pidfd stays readable from its process's end on.
        if self.pidfd.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        pidfd::has_ended(self.pidfd.get_ref())
    }

    pub(super) fn signal(&self, signal: i32) {
        pidfd::signal(self.pidfd.get_ref(), signal);
    }

    /// As [`stop::end`].
    pub(super) async fn end(
        &self,
        plan: StopPlan,
        stop: (&StopSpec, i32),
        cgroup: Option<&Cgroup>,
    ) -> StopReport {
        if self.has_ended() {
            return StopReport::default();
        }
        stop::end(self.pid, plan, stop, cgroup, |signal| self.signal(signal), || self.ended()).await
    }

    /// Kills its process group, which runc makes for each process that it starts, and the process itself.
    pub(super) fn kill_group(&self) {
        let sent = pidfd::send_to_group(self.pidfd.get_ref(), libc::SIGKILL);
        if sent.is_err() && !self.has_ended() {
            // An older kernel. While it lives its group's number is its own.
            // SAFETY: numbers only.
            let leads = unsafe { libc::getpgid(self.pid) } == self.pid;
            if leads {
                // SAFETY: numbers only.
                unsafe { libc::kill(self.pid.wrapping_neg(), libc::SIGKILL) };
            }
        }
        self.signal(libc::SIGKILL);
    }

    /// How it ended, in the kernel's own words: they tell a signal from a status. `None` where the kernel is too old,
    /// or its parent has not reaped it yet.
    pub(super) fn exit(&self) -> Option<Exit> {
        pidfd::wait_status(self.pidfd.get_ref()).map(exit_of_wait_status)
    }
}

/// The result that `wait` would have had.
fn exit_of_wait_status(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        Exit::Signal { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
    } else {
        Exit::Status(libc::WEXITSTATUS(status))
    }
}

/// Whether the process with this PID is the one that started then.
pub(super) fn is_same(pid: i32, started: u64) -> bool {
    process::start_time(pid) == Some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_tells_a_signal_from_a_status() {
        assert_eq!(exit_of_wait_status(3 << 8), Exit::Status(3));
        assert_eq!(exit_of_wait_status(137 << 8), Exit::Status(137));
        assert_eq!(exit_of_wait_status(9), Exit::Signal { signal: 9, core: false });
        assert_eq!(exit_of_wait_status(11 | 0x80), Exit::Signal { signal: 11, core: true });
    }

    #[tokio::test]
    async fn the_end_of_a_process_is_seen() {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", "read x; exit 5"]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let handle = ProcessHandle::open(pid).unwrap().unwrap();
        assert!(handle.start_time() > 0 && is_same(pid, handle.start_time()));
        assert!(!handle.has_ended());
        assert_eq!(handle.exit(), None);
        drop(child.stdin.take());
        handle.ended().await;
        assert!(handle.has_ended());
        child.wait().unwrap();
        // An older kernel does not know; one that knows says it right.
        assert!(matches!(handle.exit(), None | Some(Exit::Status(5))), "{:?}", handle.exit());
        assert!(!is_same(pid, handle.start_time().wrapping_add(1)));
    }

    #[tokio::test]
    async fn a_process_of_another_namespace_is_a_stranger() {
        let mut command = std::process::Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "/bin/sh", "-c", "echo; read x"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut outer = command.spawn().unwrap();
        let mut begun = [0];
        std::io::Read::read_exact(outer.stdout.as_mut().unwrap(), &mut begun).unwrap();
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let inner: i32 = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let beside = |pid, other| ProcessHandle::open(pid).unwrap().unwrap().is_beside(other);
        assert!(beside(own, own) && beside(inner, inner));
        assert!(!beside(own, inner) && !beside(inner, own));
        drop(outer.stdin.take());
        outer.wait().unwrap();
    }
}
