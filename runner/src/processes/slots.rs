//! The spawn record: who is being made at this instant, in memory that outlives a crash.
//!
//! Before a clone the spawner writes service and run into a slot; the kernel itself writes the PID there, before the
//! child runs. The slot is given back once the owner has recorded the child elsewhere. So at any instant every child
//! stands either in the owner's record or here, and a next incarnation of PID 1 that maps the same file finds it.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use kelson_sys::lock;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// The magic number at the start of the file. A release with another layout uses another number.
const MAGIC: u64 = u64::from_le_bytes(*b"KELSONS\x01");

/// Fills the place of the first record: the magic number, the bytes of a record, how many records follow.
fn header() -> [u8; 16] {
    let mut header = [0; 16];
    let numbers = [(size_of::<Slot>() as u64) | (COUNT as u64) << 32];
    let words = std::iter::once(MAGIC).chain(numbers);
    for (to, word) in header.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// One record. Its layout is the file's.
#[derive(Debug)]
#[repr(C)]
struct Slot {
    /// Written by the kernel; 0: no child (yet).
    pid: AtomicI32,
    service: AtomicU32,
    run: AtomicU64,
    reserved: [AtomicU64; 2],
}

const COUNT: usize = 127;
const SIZE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4096 - 1);
const _: () = assert!((COUNT + 1) * size_of::<Slot>() == SIZE.get());

/// A child that an earlier incarnation of PID 1 made and may not have recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leftover {
    /// Number of the service, as given to [`Command::owner`](crate::Command::owner).
    pub service: u32,
    pub run: u64,
    /// May be dead by now, and the number a stranger's: look at its parent and start time before touching it.
    pub pid: i32,
}

/// The mapped records.
#[derive(Debug)]
pub(crate) struct Slots {
    base: NonNull<Slot>,
    /// Numbers of the slots in nobody's hands.
    free: Mutex<Vec<u8>>,
}

// SAFETY: the records are atomics, and the mapping lives as long as this value.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    /// Maps `file` (made 4096 bytes long) or, without one, memory of its own. Returns the children that stand
    /// in it; their slots are used again only after [`Slots::forget`]. A file of another layout is made
    /// empty.
    ///
    /// # Errors
    /// When the file cannot be sized or mapped.
    pub(crate) fn new(file: Option<OwnedFd>) -> io::Result<(Slots, Vec<Leftover>)> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let base = match file {
            Some(file) => {
                let file = File::from(file);
                if file.metadata()?.len() != SIZE.get() as u64 {
                    file.set_len(SIZE.get() as u64)?;
                }
                let mut magic = [0; 16];
                file.read_exact_at(&mut magic, 0)?;
                if magic != header() {
                    file.set_len(0)?;
                    file.set_len(SIZE.get() as u64)?;
                    file.write_all_at(&header(), 0)?;
                }
                // SAFETY: a fresh shared mapping of a file that is long enough.
                unsafe { mmap(None, SIZE, protection, MapFlags::MAP_SHARED, &file, 0) }
            }
            // SAFETY: a fresh anonymous mapping.
            None => unsafe { mmap_anonymous(None, SIZE, protection, MapFlags::MAP_PRIVATE) },
        }?;
        let slots = Slots { base: base.cast(), free: Mutex::new(Vec::new()) };
        let mut leftovers = Vec::new();
        let mut free = Vec::with_capacity(COUNT);
        for (number, slot) in (0..=u8::MAX).zip(slots.records()) {
            match slot.pid.load(SeqCst) {
                0 => free.push(number),
                pid => leftovers.push(Leftover {
                    service: slot.service.load(SeqCst),
                    run: slot.run.load(SeqCst),
                    pid,
                }),
            }
        }
        *lock(&slots.free) = free;
        Ok((slots, leftovers))
    }

    fn records(&self) -> &[Slot] {
        // SAFETY: the mapping holds the header and COUNT records of the same size, page-aligned; any bytes are a valid
        // Slot of atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(1), COUNT) }
    }

    /// A free slot with its owner written in; `None` when all are in use.
    pub(crate) fn take(self: &Arc<Self>, owner: (u32, u64)) -> Option<SlotGuard> {
        let number = lock(&self.free).pop()?;
        let guard = SlotGuard { slots: Arc::clone(self), number };
        let slot = guard.slot()?;
        slot.pid.store(0, SeqCst);
        slot.service.store(owner.0, SeqCst);
        slot.run.store(owner.1, SeqCst);
        Some(guard)
    }

    /// Clears what an earlier incarnation left.
    pub(crate) fn forget(&self, leftover: Leftover) {
        for (number, slot) in (0..=u8::MAX).zip(self.records()) {
            let same = slot.pid.load(SeqCst) == leftover.pid
                && slot.run.load(SeqCst) == leftover.run
                && slot.service.load(SeqCst) == leftover.service;
            let mut free = lock(&self.free);
            if same && !free.contains(&number) {
                slot.pid.store(0, SeqCst);
                free.push(number);
                return;
            }
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; guards hold an Arc of this, so none is left.
        let _ = unsafe { munmap(self.base.cast(), SIZE.get()) };
    }
}

/// One slot in use; given back, empty, when dropped.
#[derive(Debug)]
pub(crate) struct SlotGuard {
    slots: Arc<Slots>,
    number: u8,
}

impl SlotGuard {
    fn slot(&self) -> Option<&Slot> {
        self.slots.records().get(usize::from(self.number))
    }

    /// Where the kernel writes the PID.
    pub(crate) fn pid(&self) -> Option<&AtomicI32> {
        self.slot().map(|slot| &slot.pid)
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if let Some(slot) = self.slot() {
            slot.pid.store(0, SeqCst);
        }
        lock(&self.slots.free).push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_being_made_is_found_by_the_next_life() {
        let file = nix::sys::memfd::memfd_create(c"slots", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
        let (slots, leftovers) = Slots::new(Some(file.try_clone().unwrap())).unwrap();
        assert!(leftovers.is_empty());
        let slots = Arc::new(slots);
        let making = slots.take((7, 3)).unwrap();
        making.pid().unwrap().store(4242, SeqCst);
        let recorded = slots.take((8, 1)).unwrap();
        recorded.pid().unwrap().store(4243, SeqCst);
        drop(recorded);

        let (next, leftovers) = Slots::new(Some(file.try_clone().unwrap())).unwrap();
        let expected = Leftover { service: 7, run: 3, pid: 4242 };
        assert_eq!(leftovers, [expected]);
        let next = Arc::new(next);
        let all: Vec<_> = std::iter::from_fn(|| next.take((0, 0))).collect();
        assert_eq!(all.len(), COUNT - 1, "the leftover's slot is not used");
        next.forget(expected);
        assert!(next.take((0, 0)).is_some());
        drop(all);
        assert_eq!(Slots::new(Some(file.try_clone().unwrap())).unwrap().1, []);

        // A file of another layout has nothing that could be used.
        let other = File::from(file);
        other.write_all_at(&[7; 4096], 0).unwrap();
        let (slots, leftovers) = Slots::new(Some(other.try_clone().unwrap().into())).unwrap();
        assert_eq!(leftovers, []);
        let making = Arc::new(slots).take((7, 3)).unwrap();
        making.pid().unwrap().store(4242, SeqCst);
        assert_eq!(Slots::new(Some(other.into())).unwrap().1, [expected]);
    }

    const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/state");

    /// The contents of the stored state of each release.
    fn stored() -> Vec<Leftover> {
        let child = |place: u8| Leftover {
            service: 40 + u32::from(place),
            run: 50 + u64::from(place),
            pid: 60 + i32::from(place),
        };
        // The last slot is taken first.
        (1..=3).rev().map(child).collect()
    }

    #[test]
    fn the_stored_spawns_of_each_release_are_read() {
        let folders = std::fs::read_dir(STORED).unwrap().map(|folder| folder.unwrap());
        // Release 0.1.0 had no header, and is refused before anybody looks here.
        let folders = folders.filter(|folder| folder.path().is_dir() && folder.file_name() != "0.1.0");
        let mut releases = 0;
        for folder in folders {
            let memory =
                nix::sys::memfd::memfd_create(c"stored", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
            let file = File::from(memory);
            file.write_all_at(&std::fs::read(folder.path().join("spawns")).unwrap(), 0).unwrap();
            let mut found = Slots::new(Some(file.into())).unwrap().1;
            found.reverse();
            assert_eq!(found, stored(), "{:?}", folder.path());
            releases += 1;
        }
        assert!(releases > 1, "there is no stored state: run hack/state-fixture");
    }

    /// For hack/state-fixture.
    #[test]
    #[ignore = "writes to tests/state"]
    fn record_stored_state() {
        for release in [env!("CARGO_PKG_VERSION"), "variant"] {
            let path = std::path::Path::new(STORED).join(release).join("spawns");
            let options = File::options().read(true).write(true).create(true).truncate(true).open(&path);
            let file = options.unwrap();
            let slots = Arc::new(Slots::new(Some(file.try_clone().unwrap().into())).unwrap().0);
            let taken: Vec<SlotGuard> =
                stored().iter().map(|child| slots.take((child.service, child.run)).unwrap()).collect();
            for (making, child) in taken.iter().zip(stored()) {
                making.pid().unwrap().store(child.pid, SeqCst);
            }
            if release == "variant" {
                // The bytes of a record that this release does not use.
                let all = slots.records().iter().flat_map(|slot| &slot.reserved);
                all.for_each(|word| word.store(u64::MAX, SeqCst));
            }
            // They are never given back, as when PID 1 crashes.
            taken.into_iter().for_each(std::mem::forget);
        }
    }
}
