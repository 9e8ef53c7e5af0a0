//! The changes on the disk, one step at a time. A test ends the writer after each.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::Path;

use kelson_sys::removed;

/// A configuration may hold secrets, such as passwords in the environment of a service.
const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

#[derive(Default)]
pub struct Disk {
    /// How many steps are left before the power goes.
    #[cfg(test)]
    pub left: std::cell::Cell<Option<u32>>,
}

impl Disk {
    #[cfg(test)]
    fn step(&self) -> io::Result<()> {
        match self.left.get() {
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                self.left.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)]
    fn step(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes a folder and those above it.
    pub fn make_folders(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        self.step()?;
        DirBuilder::new().recursive(true).mode(FOLDER).create(path)
    }

    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let torn = self.step().err();
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE).open(path)?;
        match torn {
            None => file.write_all(bytes),
            Some(error) => file.write_all(bytes.get(..bytes.len() / 2).unwrap_or_default()).and(Err(error)),
        }
    }

    /// Waits until a file, or the names in a folder, are on the disk.
    pub fn sync(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        File::open(path)?.sync_all()
    }

    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        fs::rename(from, to)
    }

    pub fn link(&self, target: &str, path: &Path) -> io::Result<()> {
        self.step()?;
        symlink(target, path)
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        removed(fs::remove_file(path))
    }

    /// Removes a file, or a folder with all in it.
    pub fn remove_all(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
    }
}
