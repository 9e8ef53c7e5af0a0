//! The catalog's file.
//!
//! It saves time and nothing else: a part that cannot be trusted is forgotten, and each user of an image
//! proves its digests anyway.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kelson_image::{Digest, Reference};
use nix::fcntl::{Flock, FlockArg, OFlag};
use serde::{Deserialize, Serialize};

use crate::archive::Platform;
use crate::archive::bounded::List;

/// A catalog of another version is not read. Version 1 knew no artifacts.
const VERSION: u32 = 2;
/// Bytes of the file.
const MAX_FILE: u64 = 8 << 20;
pub(super) const MAX_ARCHIVES: usize = 1024;
const MAX_IMAGES: usize = 4096;
const MAX_REFERENCES: usize = 1024;

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    host: Platform,
    archives: List<Known, MAX_ARCHIVES>,
}

/// An archive as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    pub(super) images: List<KnownImage, MAX_IMAGES>,
    /// Its mistakes, which will not change while the archive does not.
    pub(super) notes: List<String, MAX_IMAGES>,
}

impl Known {
    /// Nothing was wrong with it. The fault of a directory may be that its blobs are still being copied,
    /// which its stamp does not show.
    pub(super) fn is_sound(&self) -> bool {
        self.notes.0.is_empty() && self.images.0.iter().all(|image| image.trouble.is_none())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownImage {
    pub(super) references: List<Reference, MAX_REFERENCES>,
    pub(super) platform: Platform,
    pub(super) manifest: Digest,
    pub(super) index: Option<Digest>,
    pub(super) size: u64,
    pub(super) trouble: Option<String>,
}

/// Changes when an archive does. It does not hold the time of change (ctime): an initramfs is unpacked again
/// at each boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Stamp {
    size: u64,
    modified_seconds: i64,
    modified_nanoseconds: i64,
    inode: u64,
}

impl Stamp {
    /// Of a file, or of the index of an OCI layout directory: its blobs do not change under their names. `None`: it is
    /// a directory without a layout.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let mut metadata = fs::metadata(path)?;
        if metadata.is_dir() {
            if !path.join("oci-layout").exists() {
                return Ok(None);
            }
            metadata = fs::metadata(path.join("index.json"))?;
        }
        Ok(Some(Self {
            size: metadata.len(),
            modified_seconds: metadata.mtime(),
            modified_nanoseconds: metadata.mtime_nsec(),
            inode: metadata.ino(),
        }))
    }
}

/// The archives in the file, as this host saw them. Empty: there is no file that can be trusted.
pub(super) fn load(file: &Path, host: &Platform) -> Vec<Known> {
    match read(file) {
        Some(written) if written.version == VERSION && written.host == *host => written.archives.0,
        _ => Vec::new(),
    }
}

fn read(path: &Path) -> Option<Written> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Replaces the file, or leaves the old one whole. Processes that unpack at the same time take turns: they share the
/// name of the file that becomes the next one. The kernel unlocks the folder when its holder dies.
pub(super) fn save(file: &Path, host: &Platform, archives: &[Known]) -> io::Result<()> {
    let written = Written { version: VERSION, host: host.clone(), archives: List(archives.to_vec()) };
    let bytes = serde_json::to_vec(&written)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let _alone = Flock::lock(File::open(folder)?, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    kelson_sys::replace(file, &file.with_extension("json.next"), 0o600, &bytes)
}
