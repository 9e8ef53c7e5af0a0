//! A `/dev` that has no device of the machine.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use kelson_container::mount_call::{Change, change, put};
use kelson_container::tree::{Tree, is_folder};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::symlinkat;

use super::{copy, temporary};
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

/// Copies of what stays of a `/dev`: a folder with its mounts, or a node.
pub(super) fn copies(tree: &Tree, path: &Path) -> Result<Vec<(PathBuf, OwnedFd)>, String> {
    let mut kept = Vec::new();
    for name in DEVICES {
        let place = path.join(name);
        match tree.find(&place) {
            Err(Errno::ENOENT) => {}
            _ => kept.push((place.clone(), copy(tree, &place)?)),
        }
    }
    Ok(kept)
}

/// Puts a `/dev` there that has no device of the machine.
pub(super) fn make(
    tree: &Tree,
    path: &Path,
    kept: Vec<(PathBuf, OwnedFd)>,
    is_read_only: bool,
) -> Result<(), String> {
    let failed = |errno: Errno| at(path, errno.desc());
    // What is put into it may be opened as a device, and it has none itself.
    let made = temporary(c"0755", 0).map_err(failed)?;
    for (name, target) in LINKS {
        symlinkat(target, &made, name).map_err(failed)?;
    }
    for (place, copy) in &kept {
        let name = place.file_name().unwrap_or_default();
        match is_folder(copy).map_err(failed)? {
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
        if is_read_only {
            let read_only = Change { set: libc::MOUNT_ATTR_RDONLY, ..Change::default() };
            change(copy.as_fd(), read_only, true).map_err(failed)?;
        }
        let target = tree.find(&place).map_err(|errno| at(&place, errno.desc()))?;
        put(copy.as_fd(), target.as_fd()).map_err(|errno| at(&place, errno.desc()))?;
    }
    let read_only = Change { set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC, ..Change::default() };
    let new = tree.find(path).map_err(failed)?;
    change(new.as_fd(), read_only, false).map_err(failed)
}
