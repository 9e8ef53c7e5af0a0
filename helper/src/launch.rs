//! A helper process: what it is started with, and what its starter holds of it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use futures_util::future::BoxFuture;

/// The descriptor under which a helper finds its link to PID 1.
pub const CONTROL: RawFd = 3;

/// The arguments and descriptors of one helper process.
#[derive(Debug, Default)]
pub struct Start {
    /// Behind `argv[0]`.
    pub arguments: Vec<OsString>,
    /// Each under this number; nothing else is open in the helper.
    pub descriptors: Vec<(RawFd, OwnedFd)>,
    /// The network namespace that it enters; `None`: it stays in that of PID 1.
    pub network: Option<OwnedFd>,
}

impl Start {
    /// With `control` as [`CONTROL`], its only link to PID 1.
    pub fn new(arguments: Vec<OsString>, control: OwnedFd) -> Start {
        Start { arguments, descriptors: vec![(CONTROL, control)], network: None }
    }

    /// Takes out the descriptor of this number.
    ///
    /// # Errors
    /// When there is none.
    pub fn take(&mut self, number: RawFd) -> io::Result<OwnedFd> {
        let place = self.descriptors.iter().position(|(known, _)| *known == number);
        let (_, descriptor) =
            place.map(|place| self.descriptors.swap_remove(place)).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(descriptor)
    }
}

/// Starts helper processes of one kind.
pub trait Launcher: Send + Sync {
    /// Starts one. If the future is dropped, the process may live on: it ends by itself once it finds its link to PID 1
    /// closed.
    fn launch(&self, start: Start) -> BoxFuture<'static, io::Result<Launched>>;

    /// Continues with one that was started before a re-exec. `None`: it has ended, or does not outlive PID 1's program.
    fn attach(&self, _pid: i32, _start_time: u64) -> Option<Launched> {
        None
    }
}

/// A helper process that was started.
pub struct Launched {
    pub pid: i32,
    /// With the PID it names the process permanently.
    pub start_time: u64,
    /// Ends when the process has, and says how (`killed by SIGKILL`); dropping it loses nothing.
    pub exit: BoxFuture<'static, String>,
    /// Sends SIGKILL to this very process; may be called after its end.
    pub kill: Box<dyn Fn() + Send + Sync>,
}

/// Kills a helper when dropped: it is of no use any more. One that has ended does not mind.
pub struct Lease(pub Box<dyn Fn() + Send + Sync>);

impl Drop for Lease {
    fn drop(&mut self) {
        (self.0)();
    }
}
