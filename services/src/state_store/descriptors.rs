//! Descriptors that outlive `execve`: each stands in the file at the place of its number, with what it is.
//!
//! A descriptor is written down first and loses its mark to close after that; letting go is the other way round. So
//! what the next incarnation finds open and written down is what is written: a number that another descriptor has by
//! then differs by its inode. For that reason a pipe of a run is just closed: each start and stop would pay for the
//! writes, and the kernel gives each pipe an inode of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use crate::collector::{Copying, DescriptorStore, KeptLog, LogOptions};
use kelson_proto::state::v1 as stored;
use kelson_sys::descriptor::Owned;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use prost::Message as _;

use super::StateStore;
use super::file::{Found, seal, unseal};
use super::part::Part;

pub const SLOT: usize = Part::Descriptors.slot();

/// The use of a kept descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A socket that is held for a service, by where it listens.
    Socket { service: String, listen: String },
}

impl Descriptor {
    fn to_stored(&self) -> stored::descriptor_record::What {
        use stored::descriptor_record::{LogControl, LogPipe, Socket, Voice, What};
        let voice = |service: &str, run: u64| Voice { service: service.to_owned(), run };
        match self {
            Descriptor::Log(KeptLog::Pipe { id, service, run, options, stderr }) => {
                let (copied, named) = options.copy.bits();
                What::LogPipe(LogPipe {
                    id: *id,
                    service: service.clone(),
                    run: *run,
                    stderr: *stderr,
                    max_size: options.max_size,
                    max_files: options.max_files,
                    console: options.console,
                    rate_limit: options.rate_limit,
                    copied,
                    named,
                })
            }
            Descriptor::Log(KeptLog::Control { pid, start_time, restarts }) => {
                What::LogControl(LogControl {
                    pid: *pid,
                    start_time: *start_time,
                    restarts: *restarts,
                    // For earlier releases: this one asks the helper itself.
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                })
            }
            Descriptor::Notify { service, run } => What::Notify(voice(service, *run)),
            Descriptor::Readiness { service, run } => What::Readiness(voice(service, *run)),
            Descriptor::Api => What::Api(true),
            Descriptor::Cgroups { path } => What::Cgroups(path.as_os_str().as_bytes().to_vec()),
            Descriptor::Watchdog => What::Watchdog(true),
            Descriptor::Socket { service, listen } => {
                What::Socket(Socket { service: service.clone(), listen: listen.clone() })
            }
        }
    }

    fn of_stored(what: stored::descriptor_record::What) -> Descriptor {
        use stored::descriptor_record::{LogControl, LogPipe, Socket, Voice, What};
        match what {
            What::LogPipe(pipe) => {
                let LogPipe { id, service, run, stderr, .. } = pipe;
                let options = LogOptions {
                    max_size: pipe.max_size,
                    max_files: pipe.max_files,
                    rate_limit: pipe.rate_limit,
                    console: pipe.console,
                    copy: Copying::of_bits(pipe.copied, pipe.named),
                };
                Descriptor::Log(KeptLog::Pipe { id, service, run, options, stderr })
            }
            What::LogControl(LogControl { pid, start_time, restarts, .. }) => {
                Descriptor::Log(KeptLog::Control { pid, start_time, restarts })
            }
            What::Notify(Voice { service, run }) => Descriptor::Notify { service, run },
            What::Readiness(Voice { service, run }) => Descriptor::Readiness { service, run },
            What::Api(_) => Descriptor::Api,
            What::Cgroups(path) => Descriptor::Cgroups { path: PathBuf::from(OsString::from_vec(path)) },
            What::Watchdog(_) => Descriptor::Watchdog,
            What::Socket(Socket { service, listen }) => Descriptor::Socket { service, listen },
        }
    }
}

/// One that the previous incarnation has left.
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

/// Tells whether the descriptor is from an earlier incarnation: this one marks all that it opens to be closed
/// by `execve`.
fn came_through_execve(descriptor: RawFd) -> bool {
    // SAFETY: a system call on a number.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

impl StateStore {
    /// The descriptor is still open in the next incarnation, and known.
    pub fn keep(&self, descriptor: BorrowedFd<'_>, what: Descriptor) {
        let raw = descriptor.as_raw_fd();
        let what = Some(what.to_stored());
        let bytes = identity(raw).ok().and_then(|(device, inode)| {
            seal(1, &stored::DescriptorRecord { device, inode, what }.encode_to_vec(), SLOT)
        });
        self.put(Part::Descriptors, place(raw), "what a descriptor is", bytes.as_deref());
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

impl DescriptorStore for StateStore {
    fn keep(&self, descriptor: BorrowedFd<'_>, what: KeptLog) {
        StateStore::keep(self, descriptor, Descriptor::Log(what));
    }

    fn let_go(&self, descriptor: BorrowedFd<'_>) {
        StateStore::let_go(self, descriptor);
    }
}

/// Takes over the descriptors that are open and are what is written of them. `doubts` gets the others.
pub(super) fn take(found: &Found, doubts: &mut Vec<String>) -> Vec<Inherited> {
    let mut taken = Vec::new();
    for (raw, slot) in (0..RawFd::MAX).zip(found.slots()) {
        let Some((_, payload)) = unseal(slot) else { continue };
        let Ok(record) = stored::DescriptorRecord::decode(payload) else {
            doubts.push(format!("what is written of descriptor {raw} makes no sense"));
            continue;
        };
        // One that was closed, or another by now: it was let go of, and the write of that was cut off. A
        // descriptor that this incarnation opened itself has an owner, whatever is recorded under its number.
        let same = identity(raw).is_ok_and(|now| now == (record.device, record.inode));
        // A later release knows what it is; it stays open and written down for that.
        let Some(what) = record.what.map(Descriptor::of_stored) else { continue };
        if raw > 2 && same && came_through_execve(raw) {
            // SAFETY: it is open, has come through execve, and this is called once, before anything else could own it.
            let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
            taken.push(Inherited { what, descriptor });
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
    /// Keeps it from now on; without a store it ends with this incarnation.
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

// SAFETY: its descriptor is an `OwnedFd` that nothing replaces.
unsafe impl Owned for KeptDescriptor {}

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
