//! A file of slots that belongs to one life of the host, and what a slot is made of.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::FallocateFlags;
use serde::Serialize;

use super::LifeId;

/// Of every file here. One higher with every change of what is written: a new PID 1 must not misread an old one.
pub const VERSION: u32 = 4;
const HEADER: u64 = 4096;
const MAGIC: &[u8; 8] = b"KELSONST";
/// Of the life in the header.
const LIFE_SLOT: usize = 512;

/// An open file of slots of one size.
#[derive(Debug)]
pub struct SlotFile {
    file: File,
    slot: usize,
    path: PathBuf,
}

/// What a file of an earlier part of this life holds.
pub struct Found {
    pub file: SlotFile,
    bytes: Vec<u8>,
}

impl SlotFile {
    /// A new, empty file.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(path: &Path, slot: usize, life: &LifeId) -> io::Result<SlotFile> {
        let file = options().create(true).truncate(true).open(path)?;
        let header =
            seal::<_, LIFE_SLOT>(0, life).ok_or_else(|| io::Error::other("the boot id is too long"))?;
        file.write_all_at(MAGIC, 0)?;
        file.write_all_at(&VERSION.to_le_bytes(), 8)?;
        file.write_all_at(&header, 16)?;
        Ok(SlotFile { file, slot, path: path.to_owned() })
    }

    /// Takes the room for so many slots at once: what is written there cannot fail for want of it, whoever fills the
    /// file system afterwards. The file does not become longer by it.
    ///
    /// # Errors
    /// When there is no room, or the file system knows no such thing.
    pub fn reserve(&self, slots: u64) -> io::Result<()> {
        let length = HEADER.saturating_add(slots.saturating_mul(self.slot.try_into().unwrap_or(u64::MAX)));
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        nix::fcntl::fallocate(&self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, length)?;
        Ok(())
    }

    /// What somebody else has done to the file since it was made: a sentence. What is written goes on to the open file.
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

    /// The file that an earlier part of the same life left.
    ///
    /// # Errors
    /// A sentence: it cannot be read, is none of ours, of another version or of another life.
    pub fn open(path: &Path, slot: usize, life: &LifeId) -> Result<Found, String> {
        let told = |text: &str| format!("{}: {text}", path.display());
        let file = options().open(path).map_err(|error| told(&error.to_string()))?;
        let bytes = std::fs::read(path).map_err(|error| told(&error.to_string()))?;
        if bytes.get(..8) != Some(MAGIC.as_slice()) {
            return Err(told("is no state of Kelson, not used"));
        }
        let version = bytes.get(8..12).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        if version != Some(VERSION) {
            return Err(told(&format!(
                "has version {}, this is version {VERSION}, not used",
                version.unwrap_or_default()
            )));
        }
        let of: Option<LifeId> = bytes
            .get(16..16_usize.saturating_add(LIFE_SLOT))
            .and_then(unseal)
            .and_then(|(_, payload)| postcard::from_bytes(payload).ok());
        if of.as_ref() != Some(life) {
            return Err(told("belongs to another life of the host, not used"));
        }
        Ok(Found { file: SlotFile { file, slot, path: path.to_owned() }, bytes })
    }

    /// Writes a whole slot.
    ///
    /// # Errors
    /// When the file system is full or gone.
    pub fn write(&self, index: u64, bytes: &[u8]) -> io::Result<()> {
        let place = index.saturating_mul(u64::try_from(self.slot).unwrap_or(u64::MAX));
        self.file.write_all_at(bytes, HEADER.saturating_add(place))
    }
}

impl Found {
    /// All slots, in the order of the file.
    pub fn slots(&self) -> impl Iterator<Item = &[u8]> {
        let start = usize::try_from(HEADER).unwrap_or(usize::MAX);
        self.bytes.get(start..).unwrap_or_default().chunks(self.file.slot)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// `crc32 of the rest, length of the payload, number, payload`, zero padded to a whole slot. `None`: it does not fit.
pub fn seal<T: Serialize, const N: usize>(number: u64, value: &T) -> Option<[u8; N]> {
    let mut bytes = [0_u8; N];
    let payload = postcard::to_slice(value, bytes.get_mut(16..)?).ok()?.len();
    finish(&mut bytes, number, payload)?;
    Some(bytes)
}

/// As [`seal`], of bytes that are there already and of any length.
pub fn seal_bytes(number: u64, payload: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 16];
    bytes.extend_from_slice(payload);
    finish(&mut bytes, number, payload.len())?;
    Some(bytes)
}

fn finish(bytes: &mut [u8], number: u64, payload: usize) -> Option<()> {
    bytes.get_mut(4..8)?.copy_from_slice(&u32::try_from(payload).ok()?.to_le_bytes());
    bytes.get_mut(8..16)?.copy_from_slice(&number.to_le_bytes());
    let crc = crc32fast::hash(bytes.get(4..payload.checked_add(16)?)?);
    bytes.get_mut(..4)?.copy_from_slice(&crc.to_le_bytes());
    Some(())
}

/// Number and payload of a slot that is whole; `None` for one that is empty, torn or foreign.
pub fn unseal(slot: &[u8]) -> Option<(u64, &[u8])> {
    let word = |range: std::ops::Range<usize>| slot.get(range)?.try_into().ok().map(u32::from_le_bytes);
    let length = usize::try_from(word(4..8)?).ok()?;
    let end = length.checked_add(16)?;
    if length == 0 || word(0..4)? != crc32fast::hash(slot.get(4..end)?) {
        return None;
    }
    let number = u64::from_le_bytes(slot.get(8..16)?.try_into().ok()?);
    Some((number, slot.get(16..end)?))
}

/// Whether anything was ever written there.
pub fn is_used(slot: &[u8]) -> bool {
    slot.iter().any(|byte| *byte != 0)
}

/// A file that is written whole, or not at all: the next to it first, then moved to its place.
#[derive(Debug)]
pub struct Paper(pub PathBuf);

impl Paper {
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, payload: &[u8]) -> io::Result<()> {
        let bytes = seal_bytes(VERSION.into(), payload)
            .ok_or_else(|| io::Error::other("longer than a file may be"))?;
        let beside = self.0.with_extension("new");
        // Truncated where one is left of a write that was broken off.
        let file = options().create(true).truncate(true).open(&beside)?;
        let written = file.write_all_at(&bytes, 0).and_then(|()| std::fs::rename(&beside, &self.0));
        if written.is_err() {
            // Where there is no room it must not keep what it has got of it.
            let _ = std::fs::remove_file(beside);
        }
        written
    }

    /// `None`: there is none.
    ///
    /// # Errors
    /// A sentence, where it is not whole or of another version.
    pub fn read(&self) -> Result<Option<Vec<u8>>, String> {
        let told = |text: &str| format!("{}: {text}", self.0.display());
        let bytes = match std::fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(told(&error.to_string())),
        };
        match unseal(&bytes) {
            Some((version, payload)) if version == u64::from(VERSION) => Ok(Some(payload.to_vec())),
            Some((version, _)) => {
                Err(told(&format!("has version {version}, this is version {VERSION}, not used")))
            }
            None => Err(told("is torn, not used")),
        }
    }

    pub fn remove(&self) {
        // One that was never written need not be.
        let _ = std::fs::remove_file(&self.0);
    }
}
