//! Descriptors that outlive `execve`: each stands in the file at the place of its number, with what it is.
//!
//! A descriptor is written down first and loses its mark to close after that; letting go is the other way round. So what
//! the next life finds open and written down is what is written: a number that another descriptor has by then is told
//! by the inode.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use kelson_logs::{Keeper, KeptLog};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use serde::{Deserialize, Serialize};

use super::StateStore;
use super::file::{Found, seal, unseal};
use super::unwritten::Part;

pub const SLOT: usize = 256;

/// What a kept descriptor is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Descriptor {
    /// A log pipe, or the socket to logd.
    Log(KeptLog),
    /// The socket over which a run says what it has to say.
    Notify { service: String, run: u64 },
    /// The pipe on which a run says that it is ready.
    Readiness { service: String, run: u64 },
    /// Where clients of the API connect.
    Api,
    /// The folder of the services' cgroups, claimed for this host.
    Cgroups { path: PathBuf },
    /// The hardware watchdog, which is armed.
    Watchdog,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    device: u64,
    inode: u64,
    what: Descriptor,
}

/// One that the life before has left.
#[derive(Debug)]
pub struct Inherited {
    pub what: Descriptor,
    pub descriptor: OwnedFd,
}

fn identity(descriptor: RawFd) -> io::Result<(u64, u64)> {
    // SAFETY: stat is plain data, for which zeroes are valid; the call fills it.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &raw mut stat) != 0 {
            return Err(io::Error::last_os_error());
        }
        stat
    };
    Ok((stat.st_dev, stat.st_ino))
}

/// What is opened in this life is marked to close, and what came through `execve` is not.
fn came_through_execve(descriptor: RawFd) -> bool {
    // SAFETY: a system call on a number.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

impl StateStore {
    /// The descriptor is still open in the next life, and known.
    pub fn keep(&self, descriptor: BorrowedFd<'_>, what: Descriptor) {
        let raw = descriptor.as_raw_fd();
        let bytes =
            identity(raw).ok().and_then(|(device, inode)| seal::<_, SLOT>(1, &Entry { device, inode, what }));
        let bytes = bytes.as_ref().map(<[u8; SLOT]>::as_slice);
        self.put(Part::Descriptors, place(raw), "what a descriptor is", bytes);
        mark(descriptor, FdFlag::empty());
    }

    /// The descriptor is about to be closed.
    pub fn let_go(&self, descriptor: BorrowedFd<'_>) {
        mark(descriptor, FdFlag::FD_CLOEXEC);
        let place = place(descriptor.as_raw_fd());
        self.put(Part::Descriptors, place, "the end of a descriptor", Some(&[0; SLOT]));
    }
}

fn place(descriptor: RawFd) -> u64 {
    u64::try_from(descriptor).unwrap_or_default()
}

fn mark(descriptor: BorrowedFd<'_>, flag: FdFlag) {
    // It is open, and then it cannot fail.
    let _ = fcntl(descriptor, FcntlArg::F_SETFD(flag));
}

impl Keeper for StateStore {
    fn keep(&self, descriptor: BorrowedFd<'_>, what: KeptLog) {
        StateStore::keep(self, descriptor, Descriptor::Log(what));
    }

    fn let_go(&self, descriptor: BorrowedFd<'_>) {
        StateStore::let_go(self, descriptor);
    }
}

/// Takes over what is open and is what is written of it. `doubts` hears of what is not.
pub(super) fn take(found: &Found, doubts: &mut Vec<String>) -> Vec<Inherited> {
    let mut taken = Vec::new();
    for (raw, slot) in (0..RawFd::MAX).zip(found.slots()) {
        let Some((_, payload)) = unseal(slot) else { continue };
        let Ok(entry) = postcard::from_bytes::<Entry>(payload) else {
            doubts.push(format!("what is written of descriptor {raw} makes no sense"));
            continue;
        };
        // One that was closed, or another by now: it was let go of, and the write of that was cut off. What this life has
        // opened itself has an owner, whatever is written of its number.
        let same = identity(raw).is_ok_and(|now| now == (entry.device, entry.inode));
        if raw > 2 && same && came_through_execve(raw) {
            // SAFETY: it is open, has come through execve, and this is called once, before anything else could own it.
            let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
            taken.push(Inherited { what: entry.what, descriptor });
        }
    }
    taken
}

/// A descriptor that is written down for as long as it is open.
pub struct KeptDescriptor {
    descriptor: OwnedFd,
    store: Option<StateStore>,
}

impl KeptDescriptor {
    /// Keeps it from now on; without a store it ends with this life.
    pub fn new(
        descriptor: OwnedFd,
        store: Option<&StateStore>,
        what: impl FnOnce() -> Descriptor,
    ) -> KeptDescriptor {
        if let Some(store) = store {
            store.keep(descriptor.as_fd(), what());
        }
        KeptDescriptor { descriptor, store: store.cloned() }
    }
}

impl AsRawFd for KeptDescriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl AsFd for KeptDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for KeptDescriptor {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.let_go(self.descriptor.as_fd());
        }
    }
}
