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

use kelson_sys::fnmatch;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlinkat};
use nix::sys::inotify::{AddWatchFlags, WatchDescriptor};
use nix::sys::stat::{Mode, SFlag, fstat};
use serde::{Deserialize, Serialize};

use super::mounts::{Mount, MountKey, Mounts, tidy};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Of the names in a folder: longer than any name need be.
pub(super) const LONGEST_PATTERN: usize = 1024;
/// What can change the finding of a walk that passes a folder.
const OF_NAMES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);
/// A change of a file, or of the entries of a folder.
const OF_CHANGES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_CLOSE_WRITE);

/// What is asked of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Question {
    /// Whether it exists.
    Exists,
    /// Whether a folder has an entry of this pattern; without one, an entry that is neither hidden nor a backup.
    Entry(Option<String>),
    /// Whether it has changed since the question was asked. The number makes it one of its own.
    Changed { writes: bool, number: u64 },
}

impl Question {
    /// Whether there can be such a name.
    pub(super) fn is_sound(&self) -> bool {
        !matches!(self, Question::Entry(Some(pattern)) if pattern.len() > LONGEST_PATTERN)
    }

    /// The events of the path itself that answer it.
    pub(super) fn news(&self) -> AddWatchFlags {
        match self {
            Question::Exists | Question::Entry(_) => AddWatchFlags::empty(),
            Question::Changed { writes: false, .. } => OF_CHANGES,
            Question::Changed { writes: true, .. } => OF_CHANGES.union(AddWatchFlags::IN_MODIFY),
        }
    }
}

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
    /// Folders, and the name that was looked up in each; without a name, what concerns the path as a whole.
    pub(super) steps: Vec<(WatchDescriptor, OsString)>,
    /// Which file it is, for one who asks for changes; where inotify is blind, how it was written last.
    pub(super) identity: Option<[i64; 4]>,
    /// inotify would not report some change of it.
    pub(super) blind: bool,
    /// It left the path's own text: any mount may concern it.
    pub(super) wandered: bool,
}

impl Walk {
    pub(super) const NOTHING: Walk =
        Walk { finding: Finding::Missing, steps: Vec::new(), identity: None, blind: false, wandered: false };
}

/// Puts a watch for these events on an open file or folder; `None` where that is not possible.
pub(super) type Watch<'a> = &'a dyn Fn(&OwnedFd, AddWatchFlags) -> Option<WatchDescriptor>;

/// Walks along `path`. Of the file systems that are not memory, only the mounts numbered in `allowed` are touched; and of
/// all, where more is asked for than whether the path exists: a folder may be long.
pub(super) fn walk(
    path: &Path,
    question: &Question,
    mounts: &Mounts,
    allowed: &[u32],
    watch: Watch<'_>,
) -> Walk {
    let mut walker = Walker {
        question,
        mounts,
        allowed,
        watch,
        todo: VecDeque::new(),
        position: PathBuf::new(),
        folders: Vec::new(),
        mount: mounts.of(Path::new("/")),
        result: Walk::NOTHING,
    };
    let finding =
        walker.begin(path.to_owned()).and_then(|()| walker.run()).and_then(|end| walker.answer(end));
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
    question: &'a Question,
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

    /// The type of what is there; a file that is no folder, besides.
    fn run(&mut self) -> Result<(Type, Option<OwnedFd>), Stop> {
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
            let watched = (self.watch)(folder, OF_NAMES);
            self.note(watched, name.clone());
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
            } else {
                let is_device = [SFlag::S_IFBLK.bits(), SFlag::S_IFCHR.bits()].contains(&kind);
                return Ok((if is_device { Type::Device } else { Type::Other }, Some(found)));
            }
        }
        Ok((Type::Other, None))
    }

    /// Takes note of a watch, and of the name that matters there.
    fn note(&mut self, watched: Option<WatchDescriptor>, name: OsString) {
        match watched {
            Some(descriptor) => self.result.steps.push((descriptor, name)),
            None => self.result.blind = true,
        }
        self.result.blind |= !self.mount.notifies();
    }

    /// Answers the question about what is at the end of the path.
    fn answer(&mut self, (kind, file): (Type, Option<OwnedFd>)) -> Result<Type, Stop> {
        let Some(end) = file.as_ref().or(self.folders.last()) else { return Err(Stop::Missing) };
        match self.question {
            Question::Exists => Ok(kind),
            Question::Entry(_) if file.is_some() => Err(Stop::Missing),
            Question::Entry(pattern) => {
                let watched = (self.watch)(end, OF_NAMES);
                let fits = has_entry(end, pattern.as_deref());
                self.note(watched, OsString::new());
                if fits { Ok(kind) } else { Err(Stop::Missing) }
            }
            Question::Changed { .. } => {
                let watched = (self.watch)(end, self.question.news());
                let file = fstat(end.as_fd()).map_err(|_| Stop::Missing)?;
                self.note(watched, OsString::new());
                let [device, inode] = [file.st_dev.cast_signed(), file.st_ino.cast_signed()];
                let [written, size] = if self.result.blind { [file.st_mtime, file.st_size] } else { [0; 2] };
                self.result.identity = Some([device, inode, written, size]);
                Err(Stop::Missing)
            }
        }
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
        if (mount.is_memory() && *self.question == Question::Exists) || self.allowed.contains(&mount.key.id) {
            Ok(())
        } else {
            Err(Stop::Elsewhere(mount.key))
        }
    }
}

/// Whether an open folder has an entry of this pattern; without one, an entry that is neither hidden nor a backup.
fn has_entry(folder: &OwnedFd, pattern: Option<&str>) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let Ok(mut entries) = Dir::openat(folder, ".", flags, Mode::empty()) else { return false };
    entries.iter().flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy();
        let hidden = name.starts_with('.');
        match pattern {
            None => !hidden && !name.ends_with('~'),
            Some(pattern) => (!hidden || pattern.starts_with('.')) && fnmatch::matches(pattern, &name),
        }
    })
}

/// The path by which inotify reaches an open folder without looking anything up on its file system.
pub(super) fn through_proc(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}
