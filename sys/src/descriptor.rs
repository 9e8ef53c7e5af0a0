//! Descriptors that Tokio waits for.
//!
//! `AsyncFd::register` is unsafe: the descriptor must stay open and the same until it is dropped. [`Watched`] keeps that
//! promise. Only an [`Owned`] descriptor is registered, and nothing gives out a `&mut` to it, through which another one
//! could be put in its place.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use nix::sys::signalfd::SignalFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::process;

/// The numbers that this process has open, each with what `/proc` calls it.
pub fn open() -> Vec<(RawFd, PathBuf)> {
    let numbers: Vec<RawFd> = process::numbers("/proc/self/fd").unwrap_or_default();
    let file = |number| Some((number, std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?));
    numbers.into_iter().filter_map(file).collect()
}

/// An owner of one open descriptor, always the same one.
///
/// # Safety
/// `as_raw_fd` must name an open descriptor that the value owns and never changes through `&self`.
pub unsafe trait Owned: AsRawFd {}

// SAFETY: an `OwnedFd` owns its descriptor, and has no other.
unsafe impl Owned for OwnedFd {}
// SAFETY: a `File` is an `OwnedFd` and nothing else.
unsafe impl Owned for File {}
// SAFETY: a `SignalFd` is an `OwnedFd` and nothing else.
unsafe impl Owned for SignalFd {}

/// A descriptor that the runtime watches.
#[derive(Debug)]
pub struct Watched<T: Owned>(AsyncFd<T>);

impl<T: Owned> Watched<T> {
    /// Must be called on the runtime.
    ///
    /// # Errors
    /// When the kernel refuses to watch it.
    pub fn new(descriptor: T, interest: Interest) -> io::Result<Watched<T>> {
        // SAFETY: `Owned` says that the descriptor stays open and the same for as long as the value lives, and no `&mut`
        // to the value is given out.
        let registered = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
        registered.map(Watched).map_err(|refused| refused.into_parts().1)
    }

    /// Waits for what can be read.
    ///
    /// # Errors
    /// When the kernel refuses to watch it.
    pub fn reading(descriptor: T) -> io::Result<Watched<T>> {
        Watched::new(descriptor, Interest::READABLE)
    }

    /// Returns once a file of proc or of a cgroup has changed since this was last called, or since it was opened. It must
    /// be watched for [`Interest::PRIORITY`].
    ///
    /// # Errors
    /// When the runtime ends.
    pub async fn changed(&self) -> io::Result<()> {
        self.0.ready(Interest::PRIORITY).await?.clear_ready();
        Ok(())
    }
}

impl<T: Owned> Deref for Watched<T> {
    type Target = AsyncFd<T>;

    fn deref(&self) -> &AsyncFd<T> {
        &self.0
    }
}
