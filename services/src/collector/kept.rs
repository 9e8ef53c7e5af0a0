//! The descriptors that outlive PID 1 itself: the pipes and the socket to logd stay open across its `execve`,
//! and the next incarnation takes them up.
//!
//! Nothing is handed over at the end, as a crash leaves no time for it: each descriptor is in the
//! [`DescriptorStore`] while it is open. logd goes on reading meanwhile; it gets all pipes once more, and passes
//! over those that it has.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::LogOptions;

/// The use of a descriptor of the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptLog {
    Pipe {
        /// The number by which logd knows the run.
        id: u64,
        service: String,
        run: u64,
        options: LogOptions,
        stderr: bool,
    },
    /// The socket to this logd.
    Control {
        pid: i32,
        start_time: u64,
        /// How often it had been replaced when it was started.
        restarts: u32,
    },
}

/// Remembers which descriptors are open, over the incarnations of PID 1.
pub trait DescriptorStore: Send + Sync {
    /// It comes through `execve` from now on.
    fn keep(&self, descriptor: BorrowedFd<'_>, what: KeptLog);
    /// It is about to be closed.
    fn let_go(&self, descriptor: BorrowedFd<'_>);
}

/// For a PID 1 that has no memory.
struct Forgetful;

impl DescriptorStore for Forgetful {
    fn keep(&self, _: BorrowedFd<'_>, _: KeptLog) {}

    fn let_go(&self, _: BorrowedFd<'_>) {}
}

/// The keeper of a PID 1 that has no memory: nothing comes through `execve`.
pub fn forgetful() -> Arc<dyn DescriptorStore> {
    Arc::new(Forgetful)
}

/// A descriptor that the previous incarnation has left.
#[derive(Debug)]
pub struct InheritedLog {
    pub what: KeptLog,
    pub descriptor: OwnedFd,
}
