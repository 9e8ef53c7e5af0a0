//! Descriptors that Tokio waits for.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::signalfd::SignalFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What owns one open descriptor, always the same one.
///
/// # Safety
/// `as_raw_fd` must name an open descriptor that the value owns and never changes.
pub unsafe trait Owned: AsRawFd {}

// SAFETY: an `OwnedFd` owns its descriptor, and has no other.
unsafe impl Owned for OwnedFd {}
// SAFETY: a `SignalFd` is an `OwnedFd` and nothing else.
unsafe impl Owned for SignalFd {}

/// Has the runtime tell when the descriptor can be read.
///
/// # Errors
/// When the kernel refuses to watch it.
pub fn readable<T: Owned>(fd: T) -> io::Result<AsyncFd<T>> {
    watched(fd, Interest::READABLE)
}

/// Has the runtime tell when a file of `/proc` has changed.
///
/// # Errors
/// When the kernel refuses to watch it.
pub fn changeable<T: Owned>(fd: T) -> io::Result<AsyncFd<T>> {
    watched(fd, Interest::PRIORITY)
}

/// Returns once the file has changed since this was last called, or since it was opened.
///
/// # Errors
/// When the runtime ends.
pub async fn changed<T: Owned>(file: &AsyncFd<T>) -> io::Result<()> {
    file.ready(Interest::PRIORITY).await?.clear_ready();
    Ok(())
}

fn watched<T: Owned>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `Owned` says that the descriptor stays open and the same for as long as the value lives.
    let registered = unsafe { AsyncFd::register_with_interest(fd, interest) };
    registered.map_err(|refused| refused.into_parts().1)
}
