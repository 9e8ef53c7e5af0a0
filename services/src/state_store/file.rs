//! A file of slots that belongs to one run of the host, and what a slot is made of.
//!
//! The layout of a file is fixed: magic, version, the length of a slot, and in a slot of its own the
//! [`HostRun`] that it belongs to; slots from byte 4096 on. A slot has a checksum, the length of what it
//! holds, a number, and what it holds. Each file defines its contents, and how later releases add to them.
//!
//! [`HostRun`]: stored::HostRun

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use kelson_proto::state::v1 as stored;
use kelson_sys::crc32::crc32;
use nix::fcntl::FallocateFlags;
use prost::Message as _;

use super::Incarnation;
use crate::error::ServicesError;

/// Of the layout of all files here: one higher where an older release could not read what this one writes.
/// Additions to records do not count: they are tagged. Version 4 and those before it were no tagged records.
pub const VERSION: u32 = 5;
const HEADER: u64 = 4096;
const MAGIC: &[u8; 8] = b"KELSONST";
/// Where the owner of the file stands in the header, and how much room it has.
const OWNER: usize = 16;
const OWNER_SLOT: usize = 512;
/// Where in a slot that begins what it holds.
pub const PAYLOAD: usize = 16;
/// How much room is taken beyond the last slot that was written, in bytes.
const AHEAD: u64 = 8 << 10;

/// An open file of slots of one size.
#[derive(Debug)]
pub struct SlotFile {
    file: File,
    slot: usize,
    path: PathBuf,
    /// The end of the room that the file has, in bytes.
    room: AtomicU64,
}

/// The contents of a file of an earlier part of this incarnation.
pub struct Found {
    pub file: SlotFile,
    bytes: Vec<u8>,
}

impl SlotFile {
    /// A new, empty file.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path, slot: usize, life: &Incarnation) -> io::Result<SlotFile> {
        let file = options().create(true).truncate(true).open(path)?;
        let owner = stored::HostRun { boot_id: life.boot.clone(), start_time: life.start_time };
        let owner = seal(0, &owner.encode_to_vec(), OWNER_SLOT)
            .ok_or_else(|| io::Error::other("the boot id is too long"))?;
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend(u32::try_from(slot).unwrap_or(u32::MAX).to_le_bytes());
        header.extend(owner);
        file.write_all_at(&header, 0)?;
        Ok(SlotFile { file, slot, path: path.to_owned(), room: AtomicU64::new(HEADER) })
    }

    /// Takes room up to [`AHEAD`] bytes beyond `end`: the writes that follow cannot fail for want of it, even if others
    /// fill the file system meanwhile. The file does not become longer by it.
    fn take_room(&self, end: u64) {
        let (room, needed) = (self.room.load(Ordering::Relaxed), end.saturating_add(AHEAD));
        if needed <= room {
            return;
        }
        // Twice as much as is asked for: it is done once for many slots. Room is no file system's duty: without it a
        // slot gets its room when it is first written, and what finds none is kept.
        let more = needed.saturating_add(AHEAD).saturating_sub(room);
        let range = i64::try_from(room).ok().zip(i64::try_from(more).ok());
        if let Some((from, length)) = range {
            let _ = nix::fcntl::fallocate(&self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, length);
        }
        self.room.fetch_max(room.saturating_add(more), Ordering::Relaxed);
    }

    /// Describes a change that somebody else has made to the file since it was made, in a sentence. Kelson
    /// goes on writing to the open file.
    pub fn harm(&self) -> Option<String> {
        let told = |text: &str| Some(format!("{} {text}", self.path.display()));
        let mut begin = [0; 12];
        let whole = self.file.read_exact_at(&mut begin, 0).is_ok() && begin.starts_with(MAGIC);
        if !whole {
            return told("was changed by another process");
        }
        let (ours, there) = (self.file.metadata().ok()?, std::fs::metadata(&self.path).ok());
        let same = there.is_some_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
        if same { None } else { told("was removed or replaced by another process") }
    }

    /// The file that an earlier part of the same run of the host left. Its slots are of the size that it names itself,
    /// but of at least `slot` bytes.
    ///
    /// # Errors
    /// It cannot be read, is none of ours, of another version or of another incarnation.
    pub fn open(path: &Path, slot: usize, life: &Incarnation) -> Result<Found, ServicesError> {
        let told = |text: &str| ServicesError::Untrusted(format!("{}: {text}", path.display()));
        let file = options().open(path).map_err(|error| told(&error.to_string()))?;
        let mut bytes = std::fs::read(path).map_err(|error| told(&error.to_string()))?;
        if bytes.get(..8) != Some(MAGIC.as_slice()) {
            return Err(told("is no state of Kelson, not used"));
        }
        let number = |at: usize| {
            let bytes = bytes.get(at..at.saturating_add(4)).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes).unwrap_or_default()
        };
        if number(8) != VERSION {
            let there = number(8);
            return Err(told(&format!("has state format {there}, this release reads {VERSION}: not used")));
        }
        let owner = bytes
            .get(OWNER..OWNER.saturating_add(OWNER_SLOT))
            .and_then(unseal)
            .and_then(|(_, payload)| stored::HostRun::decode(payload).ok());
        if owner.is_none_or(|owner| (owner.boot_id, owner.start_time) != (life.boot.clone(), life.start_time))
        {
            return Err(told("belongs to another life of the host, not used"));
        }
        let there = usize::try_from(number(12)).unwrap_or_default();
        if there < slot {
            return Err(told(&format!("has slots of {there} bytes, {slot} are needed, not used")));
        }
        bytes.truncate(written(&bytes, there));
        let room = AtomicU64::new(u64::try_from(bytes.len()).unwrap_or(HEADER).max(HEADER));
        Ok(Found { file: SlotFile { file, slot: there, path: path.to_owned(), room }, bytes })
    }

    /// Writes a slot, and nothing of those beside it.
    ///
    /// # Errors
    /// When the file system is full or gone.
    pub fn write(&self, index: u64, bytes: &[u8]) -> io::Result<()> {
        let slot = u64::try_from(self.slot).unwrap_or(u64::MAX);
        let place = HEADER.saturating_add(index.saturating_mul(slot));
        self.take_room(place.saturating_add(slot));
        let bytes = bytes.get(..self.slot).unwrap_or(bytes);
        self.file.write_all_at(bytes, place)
    }
}

impl Found {
    /// A file in which nothing was written yet.
    pub fn empty(file: SlotFile) -> Found {
        Found { file, bytes: Vec::new() }
    }

    /// All slots, in the order of the file.
    pub fn slots(&self) -> impl Iterator<Item = &[u8]> {
        let start = usize::try_from(HEADER).unwrap_or(usize::MAX);
        self.bytes.get(start..).unwrap_or_default().chunks(self.file.slot)
    }
}

/// The length up to the last slot that was written: a file whose room is locked is as long as that room.
fn written(bytes: &[u8], slot: usize) -> usize {
    let header = usize::try_from(HEADER).unwrap_or(usize::MAX);
    let last = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at.saturating_add(1));
    let slots = last.saturating_sub(header).div_ceil(slot.max(1));
    header.saturating_add(slots.saturating_mul(slot))
}

pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// `crc32 of the rest, length of the payload, number, payload`, zero padded to `slot` bytes. `None`: it does not fit.
pub fn seal(number: u64, payload: &[u8], slot: usize) -> Option<Vec<u8>> {
    let end = payload.len().checked_add(PAYLOAD)?;
    // Zeroed by the allocator: `resize` writes one byte at a time in a program that is compiled for its size.
    let mut bytes = vec![0; slot];
    bytes.get_mut(4..8)?.copy_from_slice(&u32::try_from(payload.len()).ok()?.to_le_bytes());
    bytes.get_mut(8..PAYLOAD)?.copy_from_slice(&number.to_le_bytes());
    bytes.get_mut(PAYLOAD..end)?.copy_from_slice(payload);
    let crc = crc32(bytes.get(4..end)?);
    bytes.get_mut(..4)?.copy_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

/// Number and payload of a slot that is whole; `None` for one that is empty, torn or foreign.
pub fn unseal(slot: &[u8]) -> Option<(u64, &[u8])> {
    let word = |range: std::ops::Range<usize>| slot.get(range)?.try_into().ok().map(u32::from_le_bytes);
    let length = usize::try_from(word(4..8)?).ok()?;
    let end = length.checked_add(PAYLOAD)?;
    if length == 0 || word(0..4)? != crc32(slot.get(4..end)?) {
        return None;
    }
    let number = u64::from_le_bytes(slot.get(8..PAYLOAD)?.try_into().ok()?);
    Some((number, slot.get(PAYLOAD..end)?))
}

/// Whether anything was ever written there.
pub fn is_used(slot: &[u8]) -> bool {
    slot.iter().any(|byte| *byte != 0)
}
