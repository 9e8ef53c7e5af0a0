//! One walk along a path, a component at a time, watching each folder before looking into it.
//!
//! A walk touches only the file systems that it is allowed to. It follows symbolic links itself, by their text, and
//! asks the kernel for one component at a time with `RESOLVE_NO_XDEV`: nobody can lead it onto another mount between
//! the question and the step. It starts at the mount that the table names; the folders above a mount point are held in
//! memory by the mount itself.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlinkat};
use nix::sys::inotify::WatchDescriptor;
use nix::sys::stat::{Mode, SFlag, fstat};
use serde::{Deserialize, Serialize};

use super::mounts::{Mount, MountKey, Mounts, tidy};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The type of a file, as far as a condition asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Type {
    /// A block or character device.
    Device,
    Other,
}

/// The result of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    Exists(Type),
    Missing,
    /// It goes on at this mount, which this walk may not touch.
    Elsewhere(MountKey),
}

/// The finding, and what can change it.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) finding: Finding,
    /// Folders, and the name that was looked up in each.
    pub(super) steps: Vec<(WatchDescriptor, OsString)>,
    /// inotify would not report some change of it.
    pub(super) blind: bool,
    /// It left the path's own text: any mount may concern it.
    pub(super) wandered: bool,
}

/// Puts a watch on an open folder; `None` where that is not possible.
pub(super) type Watch<'a> = &'a dyn Fn(&OwnedFd) -> Option<WatchDescriptor>;

/// Walks along `path`. Of the file systems that are not memory, only the mounts numbered in `allowed` are touched.
pub(super) fn walk(path: &Path, mounts: &Mounts, allowed: &[u32], watch: Watch<'_>) -> Walk {
    let mut walker = Walker {
        mounts,
        allowed,
        watch,
        todo: VecDeque::new(),
        position: PathBuf::new(),
        folders: Vec::new(),
        mount: mounts.of(Path::new("/")),
        result: Walk { finding: Finding::Missing, steps: Vec::new(), blind: false, wandered: false },
    };
    let finding = walker.begin(path.to_owned()).and_then(|()| walker.run());
    walker.result.finding = match finding {
        Ok(kind) => Finding::Exists(kind),
        Err(Stop::Missing) => Finding::Missing,
        Err(Stop::Elsewhere(mount)) => Finding::Elsewhere(mount),
    };
    walker.result
}

enum Stop {
    Missing,
    Elsewhere(MountKey),
}

struct Walker<'a> {
    mounts: &'a Mounts,
    allowed: &'a [u32],
    watch: Watch<'a>,
    todo: VecDeque<OsString>,
    /// Where the last of `folders` is; free of symbolic links and `..`.
    position: PathBuf,
    /// From where the walk began or last started again.
    folders: Vec<OwnedFd>,
    mount: Mount,
    result: Walk,
}

impl Walker<'_> {
    /// Begins at the mount point nearest to the path, as far as its text leads without `..`.
    fn begin(&mut self, path: PathBuf) -> Result<(), Stop> {
        let path = tidy(&path);
        let plain: PathBuf = path.components().take_while(|part| *part != Component::ParentDir).collect();
        self.enter(self.mounts.of(&plain))?;
        self.position = self.mount.point.clone();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        self.folders = vec![open(&self.position, flags, Mode::empty()).map_err(|_| Stop::Missing)?];
        let rest = path.strip_prefix(&self.position).map_err(|_| Stop::Missing)?;
        self.todo = rest.components().map(|part| part.as_os_str().to_owned()).collect();
        Ok(())
    }

    fn run(&mut self) -> Result<Type, Stop> {
        let mut links: usize = 0;
        while let Some(name) = self.todo.pop_front() {
            if name == "." || name == "/" {
                continue;
            }
            if name == ".." {
                self.up()?;
                continue;
            }
            let Some(folder) = self.folders.last() else { return Err(Stop::Missing) };
            match (self.watch)(folder) {
                Some(descriptor) => self.result.steps.push((descriptor, name.clone())),
                None => self.result.blind = true,
            }
            self.result.blind |= !self.mount.notifies();
            let found = self.step(&name)?;
            let kind = fstat(found.as_fd()).map_err(|_| Stop::Missing)?.st_mode & SFlag::S_IFMT.bits();
            if kind == SFlag::S_IFLNK.bits() {
                links = links.saturating_add(1);
                if links > MOST_LINKS {
                    return Err(Stop::Missing);
                }
                self.follow_link(&found)?;
            } else if kind == SFlag::S_IFDIR.bits() {
                self.position.push(&name);
                self.folders.push(found);
            } else if !self.todo.is_empty() {
                return Err(Stop::Missing);
            } else if [SFlag::S_IFBLK.bits(), SFlag::S_IFCHR.bits()].contains(&kind) {
                return Ok(Type::Device);
            }
        }
        Ok(Type::Other)
    }

    /// Opens one name in the last folder, without following it.
    fn step(&mut self, name: &OsStr) -> Result<OwnedFd, Stop> {
        let Some(folder) = self.folders.last() else { return Err(Stop::Missing) };
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_XDEV);
        let there = self.position.join(name);
        match openat2(folder, name, how) {
            Ok(found) => return Ok(found),
            Err(Errno::EXDEV) => {}
            // Before Linux 5.6, or forbidden to a container: the table alone says where mounts are.
            Err(Errno::ENOSYS | Errno::EPERM) => {
                if self.mounts.of(&there).key == self.mount.key {
                    return openat(folder, name, flags, Mode::empty()).map_err(|_| Stop::Missing);
                }
            }
            Err(_) => return Err(Stop::Missing),
        }
        let mount = self.mounts.of(&there);
        if mount.point != there {
            // The table is older than the mount; its change is yet to be reported, and starts another walk.
            return Err(Stop::Missing);
        }
        let found = match self.may_enter(&mount) {
            Ok(()) => openat(folder, name, flags, Mode::empty()).map_err(|_| Stop::Missing)?,
            Err(stop) => return Err(stop),
        };
        self.mount = mount;
        Ok(found)
    }

    fn up(&mut self) -> Result<(), Stop> {
        self.result.wandered = true;
        if self.folders.len() > 1 && self.position != self.mount.point {
            self.position.pop();
            self.folders.pop();
            return Ok(());
        }
        let mut path = self.position.clone();
        path.pop();
        self.restart(path)
    }

    fn follow_link(&mut self, link: &OwnedFd) -> Result<(), Stop> {
        self.result.wandered = true;
        let target = PathBuf::from(readlinkat(link, "").map_err(|_| Stop::Missing)?);
        if target.is_absolute() {
            return self.restart(target);
        }
        for part in target.components().rev() {
            self.todo.push_front(part.as_os_str().to_owned());
        }
        Ok(())
    }

    /// Goes on at another absolute path, with what is left to do after it.
    fn restart(&mut self, path: PathBuf) -> Result<(), Stop> {
        let whole = self.todo.iter().fold(path, |path, name| path.join(name));
        self.begin(whole)
    }

    fn enter(&mut self, mount: Mount) -> Result<(), Stop> {
        self.may_enter(&mount)?;
        self.mount = mount;
        Ok(())
    }

    fn may_enter(&self, mount: &Mount) -> Result<(), Stop> {
        if mount.is_memory() || self.allowed.contains(&mount.key.id) {
            Ok(())
        } else {
            Err(Stop::Elsewhere(mount.key))
        }
    }
}

/// The path by which inotify reaches an open folder without looking anything up on its file system.
pub(super) fn through_proc(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}
