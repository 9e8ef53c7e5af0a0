//! The mount namespace of a process that does not see the files of the host as they are.
//!
//! No file holds it: Linux lets a file hold a mount namespace only if that is younger than the one in which the file is, and
//! 6.18 tells their ages wrong. PID 1 gets it as a descriptor, and later opens that of the process. It is a copy of this namespace: mounts and unmounts of the host still arrive there, and nothing of it arrives here.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use kelson_container::mount_call::{Change, NewFileSystem, change, copy_of, put};
use kelson_container::tree::{Tree, text};
use kelson_container::{mask, protect};
use kelson_spec::service::ViewRule;
use kelson_sys::rights;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::symlinkat;

use crate::failure::at;

/// Nodes of `/dev` that belong to no device of the machine, and what stands below.
const DEVICES: [&str; 11] =
    ["null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "mqueue", "hugepages", "log"];
/// Links of `/dev`, and where they lead.
const LINKS: [(&str, &str); 6] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
];

/// Makes the namespace, and sends it.
pub fn make(rules: &[String], control: &OwnedFd) -> Result<String, String> {
    let rules = rules.iter().map(|word| Rule::read(word)).collect::<Option<Vec<Rule<'_>>>>();
    let namespace = arrange(&rules.ok_or("one of its rules is not known")?)?;
    rights::send(control.as_fd(), b"v", &[namespace.as_fd()])
        .map_err(|errno| format!("cannot send its mount namespace: {}", errno.desc()))?;
    Ok(String::new())
}

struct Rule<'a> {
    rule: ViewRule,
    path: &'a Path,
    /// Nothing has to be there.
    may_be_missing: bool,
}

impl<'a> Rule<'a> {
    fn read(word: &'a str) -> Option<Rule<'a>> {
        let (rule, path) = ViewRule::of_word(word)?;
        let (may_be_missing, path) = match path.strip_prefix('-') {
            Some(path) => (true, path),
            None => (false, path),
        };
        Some(Rule { rule, path: Path::new(path), may_be_missing })
    }

    /// Whether it has something to act on.
    fn is_there(&self, tree: &Tree) -> Result<bool, String> {
        match tree.find(self.path) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT | Errno::ENOTDIR) if self.may_be_missing => Ok(false),
            Err(errno) => Err(at(self.path, errno.desc())),
        }
    }
}

/// Enters a new namespace, and arranges it. Returns the namespace.
fn arrange(rules: &[Rule<'_>]) -> Result<File, String> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none))
        .map_err(|errno| format!("cannot make its mount namespace: {}", errno.desc()))?;
    let tree = Tree::at(Path::new("/")).map_err(|errno| at(Path::new("/"), errno.desc()))?;
    let mut there = Vec::new();
    for rule in rules {
        if rule.is_there(&tree)? {
            // As it is before anything is taken away.
            let copy = match rule.rule {
                ViewRule::Writable => Some(copy(&tree, rule.path)?),
                _ => None,
            };
            there.push((rule, copy));
        }
    }
    let refused = |error: &dyn std::fmt::Display| error.to_string();
    for (Rule { rule, path, .. }, copy) in there {
        let on = |made: OwnedFd| {
            let target = tree.find(path).map_err(|errno| at(path, errno.desc()))?;
            put(made.as_fd(), target.as_fd()).map_err(|errno| at(path, errno.desc()))
        };
        match rule {
            ViewRule::ReadOnlyRoot => {
                let read_only = Change { set: libc::MOUNT_ATTR_RDONLY, ..Change::default() };
                change(tree.root(), read_only, true)
                    .map_err(|errno| format!("cannot make its root read-only: {}", errno.desc()))?;
            }
            ViewRule::ReadOnly => {
                protect(&tree, &path.to_string_lossy()).map_err(|error| refused(&error))?;
            }
            ViewRule::Writable => copy.map_or(Ok(()), on)?,
            ViewRule::Hidden => mask(&tree, &path.to_string_lossy()).map_err(|error| refused(&error))?,
            ViewRule::Temporary => on(temporary(c"1777").map_err(|errno| at(path, errno.desc()))?)?,
            ViewRule::Devices => devices(&tree, path)?,
        }
    }
    File::open("/proc/self/ns/mnt").map_err(|error| format!("its mount namespace: {error}"))
}

/// What is at a path, with all that is mounted below.
fn copy(tree: &Tree, path: &Path) -> Result<OwnedFd, String> {
    let copied = tree.find(path).and_then(|found| {
        let source = text(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
        copy_of(&source, true)
    });
    copied.map_err(|errno| at(path, errno.desc()))
}

fn temporary(mode: &std::ffi::CStr) -> nix::Result<OwnedFd> {
    let new = NewFileSystem::new(c"tmpfs")?;
    new.option(c"mode", Some(mode))?;
    new.mount(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV)
}

/// Puts a `/dev` there that has no device of the machine.
fn devices(tree: &Tree, path: &Path) -> Result<(), String> {
    let mut kept = Vec::new();
    for name in DEVICES {
        let place = path.join(name);
        match tree.find(&place) {
            Err(Errno::ENOENT) => {}
            // A folder with its mounts, or a node.
            _ => kept.push((place.clone(), copy(tree, &place)?)),
        }
    }
    let failed = |errno: Errno| at(path, errno.desc());
    // What is put into it may be opened as a device, and it has none itself.
    let made = temporary(c"0755").map_err(failed)?;
    for (name, target) in LINKS {
        symlinkat(target, &made, name).map_err(failed)?;
    }
    for (place, copy) in &kept {
        let name = place.file_name().unwrap_or_default();
        let is_folder = nix::sys::stat::fstat(copy).map_err(failed)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        match is_folder {
            true => mkdirat(&made, name, Mode::from_bits_truncate(0o755)),
            false => {
                let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
                openat(&made, name, flags, Mode::from_bits_truncate(0o644)).map(drop)
            }
        }
        .map_err(failed)?;
    }
    let target = tree.find(path).map_err(failed)?;
    put(made.as_fd(), target.as_fd()).map_err(failed)?;
    for (place, copy) in kept {
        let target = tree.find(&place).map_err(|errno| at(&place, errno.desc()))?;
        put(copy.as_fd(), target.as_fd()).map_err(|errno| at(&place, errno.desc()))?;
    }
    let read_only = Change { set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC, ..Change::default() };
    let new = tree.find(path).map_err(failed)?;
    change(new.as_fd(), read_only, false).map_err(failed)
}
