//! The few words of memory through which parent and child speak between clone and exec.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};

use super::Step;

pub(super) const NO_PIDFD: i32 = -1;
const TAKEN: i32 = -2;

/// Written by the child (step, errno, detail), by the kernel (pid, pidfd) and by the thread that gives the start up
/// (cancelled).
#[derive(Debug)]
pub(crate) struct Control {
    step: AtomicU32,
    /// 0: no step failed.
    errno: AtomicI32,
    /// Which of several, in the failed step: a resource, a capability, a descriptor's number.
    detail: AtomicU32,
    cancelled: AtomicBool,
    /// Where the kernel writes the PID when no slot is free.
    pub(crate) pid: AtomicI32,
    /// Where the kernel writes the pidfd; [`NO_PIDFD`] before.
    pub(crate) pidfd: AtomicI32,
}

impl Control {
    pub(crate) fn new() -> Self {
        Control {
            step: AtomicU32::new(Step::Queued as u32),
            errno: AtomicI32::new(0),
            detail: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            pid: AtomicI32::new(0),
            pidfd: AtomicI32::new(NO_PIDFD),
        }
    }

    pub(crate) fn enter(&self, step: Step) {
        self.step.store(step as u32, SeqCst);
    }

    pub(crate) fn fail(&self, errno: i32) {
        self.errno.store(errno, SeqCst);
    }

    pub(crate) fn set_detail(&self, detail: u32) {
        self.detail.store(detail, SeqCst);
    }

    /// Gives the start up. The child looks before its exec: either it sees this, or the caller sees its PID.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    pub(crate) fn has_pidfd(&self) -> bool {
        self.pidfd.load(SeqCst) != NO_PIDFD
    }

    /// The pidfd that the kernel made, once.
    pub(crate) fn take_pidfd(&self) -> Option<OwnedFd> {
        let fd = match self.pidfd.load(SeqCst) {
            NO_PIDFD => return None,
            _ => self.pidfd.swap(TAKEN, SeqCst),
        };
        // SAFETY: the kernel made it for us, and the swap gives it out once.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }

    pub(crate) fn step(&self) -> Step {
        Step::from_number(self.step.load(SeqCst))
    }

    pub(crate) fn detail(&self) -> u32 {
        self.detail.load(SeqCst)
    }

    /// Errno of the step that failed.
    pub(crate) fn failure(&self) -> Option<i32> {
        match self.errno.load(SeqCst) {
            0 => None,
            errno => Some(errno),
        }
    }
}
