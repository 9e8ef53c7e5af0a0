//! The folders of a service below `/run`, `/var/lib` and their like: made, given to its user, and removed.
//!
//! The user of the service may change what is in a folder of its own at any moment. So each part of a path is opened in the
//! one above and never through a link, and what is changed is what was opened. What is mounted in a folder is no part of it.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, read_dir};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use kelson_helper::task::DirectoryRequest;
use kelson_spec::service::{Directory, DirectoryKind};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, fchmod, fstat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, fchownat, unlinkat};

use crate::failure::at;

/// As many folders may be within each other.
const DEPTH: u32 = 200;
/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o7777;

/// Makes the call of a [`DirectoryRequest`].
///
/// # Errors
/// A sentence that says what failed and why.
pub fn perform(words: &[OsString]) -> Result<String, String> {
    let done = match DirectoryRequest::from_arguments(words)? {
        DirectoryRequest::Make { uid, gid, directories } => make_all(&directories, (uid, gid)),
        DirectoryRequest::Renew { uid, gid, directories } => {
            remove_all(&directories).and_then(|()| make_all(&directories, (uid, gid)))
        }
        DirectoryRequest::Remove { directories } => remove_all(&directories),
    };
    done.map(|()| String::new())
}

fn make_all(directories: &[Directory], owner: (u32, u32)) -> Result<(), String> {
    for directory in directories {
        let made = base(Path::new(directory.kind.base())).and_then(|base| make(base, directory, owner));
        made.map_err(|errno| failure(directory, "make", errno))?;
    }
    Ok(())
}

fn remove_all(directories: &[Directory]) -> Result<(), String> {
    // Those within others first.
    let of_runs = directories.iter().rev().filter(|directory| directory.kind == DirectoryKind::Runtime);
    for directory in of_runs {
        let gone = base(Path::new(directory.kind.base())).and_then(|base| remove(base, directory));
        gone.map_err(|errno| failure(directory, "remove", errno))?;
    }
    Ok(())
}

fn failure(directory: &Directory, what: &str, errno: Errno) -> String {
    let why = match errno {
        Errno::ELOOP => "there is a symbolic link in its path, and Kelson follows none there",
        Errno::EXDEV => "a file system is mounted in it",
        errno => errno.desc(),
    };
    at(&directory.whole(), format!("cannot {what} it: {why}"))
}

/// A folder that no service may change; made if it is missing.
pub(crate) fn base(path: &Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let open = || nix::fcntl::open(path, flags, Mode::empty());
    match open() {
        Err(Errno::ENOENT) => {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
            made.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
            open()
        }
        opened => opened,
    }
}

/// The folder of this name in `above`, which is no link; within one file system alone if `resolve` says so.
pub(crate) fn enter(above: &OwnedFd, name: &OsStr, resolve: ResolveFlag) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    openat2(above, name, OpenHow::new().flags(flags).resolve(resolve | ResolveFlag::RESOLVE_NO_SYMLINKS))
}

/// The folder that a path leads to, by folders that are there or made.
pub(crate) fn walk(mut above: OwnedFd, parts: &Path, makes: bool) -> nix::Result<OwnedFd> {
    for part in parts {
        if makes {
            make_one(&above, part)?;
        }
        above = enter(&above, part, ResolveFlag::empty())?;
    }
    Ok(above)
}

/// Returns whether it is new.
pub(crate) fn make_one(above: &OwnedFd, name: &OsStr) -> nix::Result<bool> {
    match mkdirat(above, name, Mode::from_bits_truncate(0o755)) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Where it is, and its name there.
fn parts(directory: &Directory) -> (&Path, &OsStr) {
    let parent = directory.path.parent().unwrap_or(Path::new(""));
    (parent, directory.path.file_name().unwrap_or_default())
}

/// Makes a folder, and gives it to its owner. Configuration is its owner's to read alone: it stays as it is where it is there.
fn make(base: OwnedFd, directory: &Directory, (uid, gid): (u32, u32)) -> nix::Result<()> {
    let (parent, name) = parts(directory);
    let above = walk(base, parent, true)?;
    let is_new = make_one(&above, name)?;
    let folder = enter(&above, name, ResolveFlag::empty())?;
    let is_configuration = directory.kind == DirectoryKind::Configuration;
    if is_configuration && !is_new {
        return Ok(());
    }
    let found = fstat(&folder)?;
    if !is_configuration && (found.st_uid, found.st_gid) != (uid, gid) {
        give(&folder, found.st_uid, (Uid::from_raw(uid), Gid::from_raw(gid)), DEPTH)?;
    }
    // A change of the owner takes bits away.
    if fstat(&folder)?.st_mode & PERMISSIONS != directory.mode {
        fchmod(&folder, Mode::from_bits_truncate(directory.mode))?;
    }
    Ok(())
}

/// Gives a folder to `owner`, and what is in it of the user whose it was. What others have put there stays theirs: by a
/// hard link it may be any file of theirs. The folder itself comes last, so that a broken-off change is done again.
fn give(folder: &OwnedFd, from: u32, owner: (Uid, Gid), left: u32) -> nix::Result<()> {
    let left = left.checked_sub(1).ok_or(Errno::ENAMETOOLONG)?;
    if fstat(folder)?.st_uid != from {
        return Ok(());
    }
    let (uid, gid) = (Some(owner.0), Some(owner.1));
    for name in names(folder)? {
        match enter(folder, &name, ResolveFlag::RESOLVE_NO_XDEV) {
            Ok(inner) => give(&inner, from, owner, left)?,
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let file = match openat(folder, name.as_os_str(), flags, Mode::empty()) {
                    Err(Errno::ENOENT) => continue,
                    opened => opened?,
                };
                if fstat(&file)?.st_uid == from {
                    fchownat(&file, "", uid, gid, AtFlags::AT_EMPTY_PATH)?;
                }
            }
            // Gone by now, or of another file system.
            Err(Errno::ENOENT | Errno::EXDEV) => {}
            Err(errno) => return Err(errno),
        }
    }
    fchown(folder, uid, gid)
}

fn remove(base: OwnedFd, directory: &Directory) -> nix::Result<()> {
    let (parent, name) = parts(directory);
    match walk(base, parent, false) {
        Ok(above) => remove_from(&above, name, DEPTH),
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Removes what has this name, with all that is in it.
fn remove_from(above: &OwnedFd, name: &OsStr, left: u32) -> nix::Result<()> {
    let left = left.checked_sub(1).ok_or(Errno::ENAMETOOLONG)?;
    match unlinkat(above, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(()),
        Err(Errno::EISDIR) => {}
        Err(errno) => return Err(errno),
    }
    let folder = enter(above, name, ResolveFlag::RESOLVE_NO_XDEV)?;
    for inner in names(&folder)? {
        remove_from(&folder, &inner, left)?;
    }
    unlinkat(above, name, UnlinkatFlags::RemoveDir)
}

fn names(folder: &OwnedFd) -> nix::Result<Vec<OsString>> {
    let failed = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    let entries = read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd())).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed)).collect()
}

#[cfg(test)]
mod tests;
