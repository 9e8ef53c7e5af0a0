//! Reaping: each ended child's status goes to its owner, then the kernel may forget it.

use std::sync::Arc;

use kelson_sys::{lock, pidfd};

use super::child::ExitCell;
use super::shared::{Processes, State};
use crate::runner::Exit;

/// Children reaped in one go, so that ten thousand exits do not keep PID 1 from everything else.
const BATCH: u32 = 256;

/// The result of one call of [`Processes::reap`](crate::Processes::reap).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReapReport {
    /// Children reaped, orphans included.
    pub reaped: u32,
    /// Processes that others made and that were left to PID 1.
    pub orphans: u32,
    /// There may be more: call again.
    pub more: bool,
}

impl Processes {
    /// Reaps a bounded number of ended children; call it whenever SIGCHLD was read, and again at once (after other
    /// work) while it says that there is more.
    pub fn reap(&self) -> ReapReport {
        self.reap_recording(&mut |_, _| ())
    }

    /// As [`Processes::reap`]; `record` gets each status before the kernel forgets it, so that a crash in between
    /// loses none. It runs under the lock: it must not call back.
    pub fn reap_recording(&self, record: &mut dyn FnMut(i32, Exit)) -> ReapReport {
        let mut report = ReapReport::default();
        while report.reaped < BATCH {
            let Some((pid, exit)) = next_ended() else { return report };
            // Held until the kernel has forgotten the PID: under this lock a PID that is known is this child's.
            let mut state = lock(&self.shared.state);
            record(pid, exit);
            let owner = state.hand_over(pid, exit);
            forget(pid);
            drop(state);
            report.reaped = report.reaped.saturating_add(1);
            match owner {
                Owner::Waiting(cell) => cell.complete(exit),
                Owner::Known => {}
                Owner::Nobody => report.orphans = report.orphans.saturating_add(1),
            }
        }
        ReapReport { more: true, ..report }
    }
}

enum Owner {
    Waiting(Arc<ExitCell>),
    /// Its spawner has the status now, or it failed before its exec.
    Known,
    Nobody,
}

impl State {
    fn hand_over(&mut self, pid: i32, exit: Exit) -> Owner {
        match self.children.remove(&pid) {
            Some(Some(cell)) => return Owner::Waiting(cell),
            Some(None) => return Owner::Known,
            None => {}
        }
        for job in self.making() {
            let mut work = lock(&job.work);
            if work.early.is_none() && job.pid(&work) == pid {
                // Still a zombie, so the number is still its own.
                let pidfd = if job.control.has_pidfd() { None } else { pidfd::open(pid).ok().flatten() };
                work.early = Some((exit, pidfd));
                return Owner::Known;
            }
        }
        Owner::Nobody
    }
}

/// Looks at an ended child and leaves it as it is.
fn next_ended() -> Option<(i32, Exit)> {
    look_at(libc::P_ALL, 0)
}

/// Whether this process is a child that has ended and is not reaped yet.
pub(crate) fn has_ended(pid: i32) -> bool {
    look_at(libc::P_PID, pid).is_some()
}

fn look_at(kind: libc::idtype_t, pid: i32) -> Option<(i32, Exit)> {
    // SAFETY: siginfo_t is plain data, for which zeroes are valid; waitid fills it.
    let info = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(kind, pid.cast_unsigned(), &raw mut info, flags) != 0 {
            return None;
        }
        info
    };
    // SAFETY: waitid succeeded; without an ended child the PID is 0 and the status unused.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let exit = match info.si_code {
        libc::CLD_KILLED => Exit::Signal { signal: status, core: false },
        libc::CLD_DUMPED => Exit::Signal { signal: status, core: true },
        _ => Exit::Status(status),
    };
    (pid > 0).then_some((pid, exit))
}

fn forget(pid: i32) {
    // SAFETY: the kernel allows a null siginfo; the PID is that of our own ended child.
    unsafe {
        libc::waitid(libc::P_PID, pid.cast_unsigned(), std::ptr::null_mut(), libc::WEXITED | libc::WNOHANG);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_ended_is_known_until_it_is_reaped() {
        let mut child = std::process::Command::new("/bin/cat");
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id().cast_signed();
        assert!(!has_ended(pid));
        let input = child.stdin.take().unwrap();
        let pidfd = pidfd::open(pid).unwrap().unwrap();
        drop(input);
        let mut ready =
            [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(&pidfd), nix::poll::PollFlags::POLLIN)];
        nix::poll::poll(&mut ready, nix::poll::PollTimeout::NONE).unwrap();
        assert!(has_ended(pid) && has_ended(pid));
        child.wait().unwrap();
        assert!(!has_ended(pid));
    }
}
