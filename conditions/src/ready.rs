//! Descriptors that tokio watches.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the runtime watch a descriptor.
pub(crate) fn watch<T: AsFd + AsRawFd>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: what it is called with owns its descriptor (a File, an OwnedFd, an Inotify), never gives another one out,
    // and lives in the AsyncFd until it is dropped, which ends the registration first.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    Ok(watched?)
}
