//! A place below the target: its folder is open, and what is done is done in that folder, whatever becomes of the path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, linkat, symlinkat, unlinkat};

/// Only to do things in it; never through a symbolic link.
const FOLDER: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Where the archive is laid out.
#[derive(Debug)]
pub struct Target {
    folder: OwnedFd,
    /// The name that the top of the archive gets there.
    pub name: OsString,
    /// Files that are there already give way.
    pub force: bool,
}

impl Target {
    /// In this folder, under this name.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn new(folder: &Path, name: &OsStr, force: bool) -> io::Result<Target> {
        // The person who calls may well name a symbolic link.
        let open = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Target { folder: openat(AT_FDCWD, folder, open, Mode::empty())?, name: name.to_owned(), force })
    }

    /// The place of this path, each part of which is a name.
    ///
    /// # Errors
    /// A folder on the way is not there, or is none.
    pub fn parent(&self, path: &[OsString]) -> io::Result<Parent> {
        let (name, above) = path.split_last().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut folder = self.folder.try_clone()?;
        for part in above {
            folder =
                openat(&folder, part.as_os_str(), FOLDER, Mode::empty()).map_err(|error| match error {
                    Errno::ENOTDIR | Errno::ELOOP => {
                        io::Error::other(format!("{} is no folder here", part.display()))
                    }
                    error => error.into(),
                })?;
        }
        Ok(Parent { folder, name: name.clone() })
    }
}

/// An open folder, and a name in it.
#[derive(Debug)]
pub struct Parent {
    folder: OwnedFd,
    name: OsString,
}

impl Parent {
    pub fn shown(&self) -> String {
        self.name.display().to_string()
    }

    fn name(&self) -> &OsStr {
        &self.name
    }

    /// Tells whether a folder is there, or something else.
    fn is_folder(&self) -> io::Result<Option<bool>> {
        match fstatat(&self.folder, self.name(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether something may be put there.
    fn is_free(&self, force: bool) -> io::Result<()> {
        match self.is_folder()? {
            None => Ok(()),
            Some(true) => Err(io::Error::other("it is a folder here already")),
            Some(false) if force => Ok(()),
            Some(false) => Err(io::Error::other("it is here already (--force overwrites it)")),
        }
    }

    /// Makes a folder, in which its owner may write; one that is there already will do.
    pub fn folder(&self, mode: u32) -> io::Result<()> {
        match self.is_folder()? {
            Some(true) => Ok(()),
            Some(false) => Err(io::Error::other("it is here already, and is no folder")),
            None => Ok(mkdirat(&self.folder, self.name(), Mode::from_bits_truncate(mode | 0o700))?),
        }
    }

    /// Makes a symbolic link. Where it leads to is its own affair: nothing here goes that way.
    pub fn symlink(&self, link: &OsStr, force: bool) -> io::Result<()> {
        self.is_free(force)?;
        let mut draft = Draft { parent: self, name: self.draft_name(), file: None, moved: false };
        symlinkat(link, &self.folder, draft.name.as_os_str())?;
        draft.move_there()
    }

    /// Makes another name of a file.
    pub fn link(&self, first: &Parent, force: bool) -> io::Result<()> {
        self.is_free(force)?;
        let mut draft = Draft { parent: self, name: self.draft_name(), file: None, moved: false };
        linkat(&first.folder, first.name(), &self.folder, draft.name.as_os_str(), AtFlags::empty())?;
        // Two names of the same file: moving one onto the other would leave both.
        if self.is_folder()?.is_some() {
            unlinkat(&self.folder, self.name(), UnlinkatFlags::NoRemoveDir)?;
        }
        draft.move_there()
    }

    /// A file that will be here once it is whole.
    pub fn draft(&self, mode: u32, force: bool) -> io::Result<Draft<'_>> {
        self.is_free(force)?;
        let name = self.draft_name();
        let new = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&self.folder, name.as_os_str(), new, Mode::from_bits_truncate(mode))?;
        Ok(Draft { parent: self, name, file: Some(File::from(file)), moved: false })
    }

    /// Not longer than names may be, whatever the file is called.
    fn draft_name(&self) -> OsString {
        format!(".kelsonctl-cp-{}", std::process::id()).into()
    }
}

/// Something under another name. Goes away if it is not moved to its place.
#[derive(Debug)]
pub struct Draft<'a> {
    parent: &'a Parent,
    name: OsString,
    file: Option<File>,
    moved: bool,
}

impl Draft<'_> {
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Puts it where it belongs. `modified` is in seconds since 1970.
    pub fn finish(mut self, modified: u64) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            let modified = TimeSpec::new(i64::try_from(modified).unwrap_or(i64::MAX), 0);
            // A file with another time is better than none.
            let _ = futimens(file.as_fd(), &TimeSpec::UTIME_OMIT, &modified);
        }
        self.move_there()
    }

    fn move_there(&mut self) -> io::Result<()> {
        renameat(&self.parent.folder, self.name.as_os_str(), &self.parent.folder, self.parent.name())?;
        self.moved = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.moved {
            let _ = unlinkat(&self.parent.folder, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}
