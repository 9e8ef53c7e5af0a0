//! How full a file system is, as df(1) counts it.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};

/// What a file system holds, and what a user without privileges may still write. The call for it hangs where the disk
/// does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// In bytes; 0: it counts none, as that of `/proc`.
    pub size: u64,
    pub used: u64,
    pub available: u64,
    /// 0: the file system counts none.
    pub inodes: u64,
    pub inodes_used: u64,
}

impl Room {
    /// Of the file system at a path.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn at(path: &Path) -> io::Result<Room> {
        Ok(Room::from(&statvfs(path)?))
    }

    /// Of the file system of an open file, which may be opened with `O_PATH`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn of(file: impl AsFd) -> io::Result<Room> {
        Ok(Room::from(&fstatvfs(file)?))
    }
}

impl From<&Statvfs> for Room {
    fn from(found: &Statvfs) -> Room {
        let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
        Room {
            size: bytes(found.blocks()),
            used: bytes(found.blocks().saturating_sub(found.blocks_free())),
            available: bytes(found.blocks_available()),
            inodes: found.files(),
            inodes_used: found.files().saturating_sub(found.files_free()),
        }
    }
}
