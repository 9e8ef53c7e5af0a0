//! Files of a container, found and made such that no link of the image leads out of it.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::{Mode, fstat, mkdirat};

const FOLDER: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY);
/// As many links as the kernel follows in one path.
const LINKS: usize = 40;

/// Whether what was opened is a folder.
///
/// # Errors
/// What the kernel says.
pub fn is_folder(found: &OwnedFd) -> nix::Result<bool> {
    Ok(fstat(found)?.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

/// The root of a container.
pub struct Tree(OwnedFd);

impl Tree {
    /// # Errors
    /// When there is no such folder.
    pub fn at(path: &Path) -> nix::Result<Tree> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        nix::fcntl::open(path, flags, Mode::empty()).map(Tree)
    }

    pub fn root(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn open(&self, path: &Path, flags: OFlag, mode: Mode) -> nix::Result<OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(resolve);
        openat2(&self.0, path, how)
    }

    /// What is at a path, to be referred to alone.
    ///
    /// # Errors
    /// What the kernel says; ENOENT if nothing is there.
    pub fn find(&self, path: &Path) -> nix::Result<OwnedFd> {
        self.open(path, OFlag::O_PATH, Mode::empty())
    }

    /// The folder at a path, made with all above it where they are missing. A link that leads nowhere gets its folder.
    ///
    /// # Errors
    /// What the kernel says; ENOTDIR if a file is in the way, ELOOP if links lead in a circle.
    pub fn folder(&self, path: &Path) -> nix::Result<OwnedFd> {
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            match self.open(&path, FOLDER, Mode::empty()) {
                Err(Errno::ENOENT) => {}
                found => return found,
            }
            match self.make(&path)? {
                Some(led) => path = led,
                None => return self.open(&path, FOLDER, Mode::empty()),
            }
        }
        Err(Errno::ELOOP)
    }

    /// Makes the folders of a path. Returns where the path leads if a link without a target is on its way.
    fn make(&self, path: &Path) -> nix::Result<Option<PathBuf>> {
        let path = normal(path);
        let mut there = PathBuf::from("/");
        for part in path.iter().skip(1) {
            let above = self.open(&there, FOLDER, Mode::empty())?;
            let next = there.join(part);
            match self.open(&next, FOLDER, Mode::empty()) {
                Err(Errno::ENOENT) => match mkdirat(&above, part, Mode::from_bits_truncate(0o755)) {
                    Err(Errno::EEXIST) => {
                        let led = there.join(readlinkat(&above, part)?);
                        let rest = path.strip_prefix(&next).unwrap_or(Path::new(""));
                        return Ok(Some(normal(&led.join(rest))));
                    }
                    made => made?,
                },
                found => drop(found?),
            }
            there = next;
        }
        Ok(None)
    }

    /// The file at a path, made empty with all above it where they are missing.
    ///
    /// # Errors
    /// As [`Tree::folder`].
    pub fn file(&self, path: &Path) -> nix::Result<OwnedFd> {
        match self.find(path) {
            Err(Errno::ENOENT) => {}
            found => return found,
        }
        self.folder(path.parent().unwrap_or(Path::new("/")))?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
        self.open(path, flags, Mode::from_bits_truncate(0o644))?;
        self.find(path)
    }
}

/// A path from the root without `.` and `..`, by its text.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

/// A path for the kernel.
///
/// # Errors
/// EINVAL if it has a NUL byte.
pub fn text(bytes: impl AsRef<OsStr>) -> nix::Result<CString> {
    CString::new(bytes.as_ref().as_bytes()).map_err(|_| Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_missing_is_made_within_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("real")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        symlink("/real", root.join("link")).unwrap();
        symlink("../../outside", root.join("escape")).unwrap();
        let tree = Tree::at(&root).unwrap();
        tree.folder(Path::new("/link/a/b")).unwrap();
        assert!(root.join("real/a/b").is_dir());
        tree.file(Path::new("/new/file")).unwrap();
        assert!(root.join("new/file").is_file());
        tree.folder(Path::new("/escape/x")).unwrap();
        assert!(root.join("outside/x").is_dir());
        assert_eq!(fs::read_dir(folder.path().join("outside")).unwrap().count(), 0);
        assert_eq!(tree.folder(Path::new("/new/file/x")).unwrap_err(), Errno::ENOTDIR);
        symlink("circle", root.join("circle")).unwrap();
        assert_eq!(tree.folder(Path::new("/circle/x")).unwrap_err(), Errno::ELOOP);
    }
}
