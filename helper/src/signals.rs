//! The signals by which a helper is asked to end.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Becomes readable with SIGTERM or SIGINT, which end the process no longer. To be called while there is one thread.
///
/// # Errors
/// When no descriptor is left.
pub fn termination() -> io::Result<SignalFd> {
    let set: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}
