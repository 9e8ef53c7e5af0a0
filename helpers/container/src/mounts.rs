//! The mounts of a container, put into its root in their order.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use kelson_runner::oci::Mount;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{Gid, Uid, fchownat};

use crate::error::{At as _, ContainerError};
use crate::mount_call::{Change, NewFileSystem, change, copy_of, put};
use crate::tree::{Tree, is_folder, text};
use crate::users::Users;

/// What the words of a mount ask for.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    pub(crate) change: Change<'static>,
    /// Of all mounts below it.
    is_recursive: bool,
    /// The ids of its files are those of the container: of the mount, or of all below it too.
    maps: Option<bool>,
    /// For the file system itself: `size=65536k`.
    pub(crate) own: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Wanted<'a> {
    /// `bind`: the words that are not those of every mount are mistakes.
    pub fn read(mount: &'a Mount) -> Result<Wanted<'a>, ContainerError> {
        let is_bind = mount.kind == "bind";
        let is_disk = !is_bind && Path::new(&mount.source).starts_with("/dev");
        let mut wanted = Wanted::default();
        for option in &mount.options {
            let change = &mut wanted.change;
            // Of two that contradict each other the last counts.
            let mut turn = |set: u64, clear: u64| {
                change.set = change.set & !clear | set;
                change.clear = change.clear & !set | clear;
            };
            // How a file's times are kept is one of several, so all of them are cleared.
            let times = libc::MOUNT_ATTR__ATIME;
            match option.as_str() {
                "ro" => {
                    turn(libc::MOUNT_ATTR_RDONLY, 0);
                    if is_disk {
                        wanted.own.push(("ro", None));
                    }
                }
                "rro" => turn(libc::MOUNT_ATTR_RDONLY, 0),
                "rw" => turn(0, libc::MOUNT_ATTR_RDONLY),
                "nosuid" => turn(libc::MOUNT_ATTR_NOSUID, 0),
                "suid" => turn(0, libc::MOUNT_ATTR_NOSUID),
                "nodev" => turn(libc::MOUNT_ATTR_NODEV, 0),
                "dev" => turn(0, libc::MOUNT_ATTR_NODEV),
                "noexec" => turn(libc::MOUNT_ATTR_NOEXEC, 0),
                "exec" => turn(0, libc::MOUNT_ATTR_NOEXEC),
                "nosymfollow" => turn(libc::MOUNT_ATTR_NOSYMFOLLOW, 0),
                "nodiratime" => turn(libc::MOUNT_ATTR_NODIRATIME, 0),
                "diratime" => turn(0, libc::MOUNT_ATTR_NODIRATIME),
                "noatime" => time(change, times, libc::MOUNT_ATTR_NOATIME),
                "strictatime" => time(change, times, libc::MOUNT_ATTR_STRICTATIME),
                "relatime" => time(change, times, libc::MOUNT_ATTR_RELATIME),
                "bind" if is_bind => {}
                "rbind" if is_bind => wanted.is_recursive = true,
                "idmap" if is_bind || is_disk => wanted.maps = Some(false),
                "ridmap" if is_bind => wanted.maps = Some(true),
                "private" | "rprivate" => change.propagation = libc::MS_PRIVATE,
                "slave" | "rslave" => change.propagation = libc::MS_SLAVE,
                "shared" | "rshared" => change.propagation = libc::MS_SHARED,
                "unbindable" | "runbindable" => change.propagation = libc::MS_UNBINDABLE,
                other if is_bind => {
                    let destination = mount.destination.clone();
                    return Err(ContainerError::Option { destination, option: other.to_owned() });
                }
                other => wanted.own.push(match other.split_once('=') {
                    Some((key, value)) => (key, Some(value)),
                    None => (other, None),
                }),
            }
        }
        Ok(wanted)
    }
}

fn time(change: &mut Change<'_>, all: u64, one: u64) {
    change.set = change.set & !all | one;
    change.clear |= all;
}

pub(crate) fn what(mount: &Mount) -> String {
    format!("cannot mount {} at {}", mount.source, mount.destination)
}

/// Puts one mount where it belongs.
pub fn place(tree: &Tree, mount: &Mount, users: Option<&Users>) -> Result<(), ContainerError> {
    let what = || what(mount);
    let destination = Path::new(&mount.destination);
    let (made, is_folder) = make_for(mount, users)?;
    let target = if is_folder { tree.folder(destination) } else { tree.file(destination) }.at(what)?;
    put(made.as_fd(), target.as_fd()).at(what)
}

/// A mount that is at no place yet, and whether it is a folder.
///
/// # Errors
/// When the kernel refuses it, or one of its words is none.
pub fn make(mount: &Mount) -> Result<(OwnedFd, bool), ContainerError> {
    make_for(mount, None)
}

fn make_for(mount: &Mount, users: Option<&Users>) -> Result<(OwnedFd, bool), ContainerError> {
    let wanted = Wanted::read(mount)?;
    let what = || what(mount);
    if mount.kind == "bind" {
        // The folder that the container sees stays the same, whatever is put in its place on the host.
        let copy = copy_of(&text(&mount.source).at(what)?, wanted.is_recursive).at(what)?;
        let is_folder = is_folder(&copy).at(what)?;
        change(copy.as_fd(), wanted.change, wanted.is_recursive).at(what)?;
        if let Some((users, is_recursive)) = users.zip(wanted.maps) {
            users.map(copy.as_fd(), is_recursive, Path::new(&mount.source))?;
        }
        Ok((copy, is_folder))
    } else {
        let kind = if mount.kind == "cgroup" { "cgroup2" } else { &*mount.kind };
        let new = NewFileSystem::new(&text(kind).at(what)?).at(what)?;
        new.option(c"source", Some(&text(&mount.source).at(what)?)).at(what)?;
        for (key, value) in &wanted.own {
            let what = || format!("{}: option {key:?}", what());
            let value = value.map(|value| text(on_host(key, value, users)?)).transpose().at(what)?;
            new.option(&text(key).at(what)?, value.as_deref()).at(what)?;
        }
        let mounted = new.mount(wanted.change.set).at(what)?;
        if let Some(users) = users {
            // The kernel makes these as the host's root.
            let made: &[&str] = match kind {
                "devpts" => &["ptmx", ""],
                "mqueue" => &[""],
                _ => &[],
            };
            give(mounted.as_fd(), made, users).at(what)?;
            if let Some(is_recursive) = wanted.maps {
                users.map(mounted.as_fd(), is_recursive, Path::new(&mount.source))?;
            }
        }
        if wanted.change.propagation != 0 {
            let propagation = Change { propagation: wanted.change.propagation, ..Change::default() };
            change(mounted.as_fd(), propagation, false).at(what)?;
        }
        Ok((mounted, true))
    }
}

/// The value of an option: an id of the container is one of the host.
fn on_host(key: &str, value: &str, users: Option<&Users>) -> nix::Result<String> {
    let Some(users) = users.filter(|_| matches!(key, "uid" | "gid")) else { return Ok(value.to_owned()) };
    let id = value.parse().ok().and_then(|id| users.range().on_host(id));
    id.map(|id| id.to_string()).ok_or(Errno::EINVAL)
}

/// Gives files of a new mount, each a name or nothing for its root, to the root of the container.
fn give(mounted: BorrowedFd<'_>, files: &[&str], users: &Users) -> nix::Result<()> {
    let first = users.range().first;
    let (uid, gid) = (Some(Uid::from_raw(first)), Some(Gid::from_raw(first)));
    let flags = AtFlags::AT_EMPTY_PATH | AtFlags::AT_SYMLINK_NOFOLLOW;
    files.iter().try_for_each(|file| fchownat(mounted, *file, uid, gid, flags))
}

/// Hides a path: a folder behind an empty one, a file behind `/dev/null`.
pub fn mask(tree: &Tree, path: &str) -> Result<(), ContainerError> {
    let what = || format!("cannot hide {path}");
    let target = match tree.find(Path::new(path)) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(()),
        found => found.at(what)?,
    };
    let is_folder = is_folder(&target).at(what)?;
    let hidden = if is_folder {
        NewFileSystem::new(c"tmpfs").and_then(|new| new.mount(libc::MOUNT_ATTR_RDONLY)).at(what)?
    } else {
        let null = tree.find(Path::new("/dev/null")).at(what)?;
        copy_of(&of_descriptor(&null).at(what)?, false).at(what)?
    };
    put(hidden.as_fd(), target.as_fd()).at(what)
}

/// The path of what a descriptor refers to, wherever that is.
fn of_descriptor(fd: &OwnedFd) -> nix::Result<CString> {
    text(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Makes what is at a path read-only.
pub fn protect(tree: &Tree, path: &str) -> Result<(), ContainerError> {
    let what = || format!("cannot make {path} read-only");
    let target = match tree.find(Path::new(path)) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(()),
        found => found.at(what)?,
    };
    let copy = copy_of(&of_descriptor(&target).at(what)?, true).at(what)?;
    let change_to =
        Change { set: libc::MOUNT_ATTR_RDONLY, propagation: libc::MS_PRIVATE, ..Change::default() };
    change(copy.as_fd(), change_to, true).at(what)?;
    put(copy.as_fd(), target.as_fd()).at(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &'static str, options: &[&str]) -> Mount {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Mount { destination: "/x".into(), kind: kind.into(), source: "/y".into(), options }
    }

    #[test]
    fn the_last_of_two_words_counts() {
        let words = mount("bind", &["ro", "rbind", "nosuid", "rw", "rprivate"]);
        let wanted = Wanted::read(&words).unwrap();
        let Change { set, clear, propagation, .. } = wanted.change;
        let expected = (libc::MOUNT_ATTR_NOSUID, libc::MOUNT_ATTR_RDONLY, libc::MS_PRIVATE);
        assert_eq!((set, clear, propagation), expected);
        assert_eq!((wanted.is_recursive, wanted.maps, wanted.own.len()), (true, None, 0));
        let words = mount("bind", &["bind", "idmap"]);
        assert_eq!(Wanted::read(&words).unwrap().maps, Some(false));
    }

    #[test]
    fn other_words_are_the_file_systems() {
        let words = mount("tmpfs", &["strictatime", "size=65536k", "noswap"]);
        let wanted = Wanted::read(&words).unwrap();
        assert_eq!(wanted.own, [("size", Some("65536k")), ("noswap", None)]);
        assert_eq!(wanted.change.set, libc::MOUNT_ATTR_STRICTATIME);
        let words = mount("bind", &["size=1"]);
        let error = Wanted::read(&words).unwrap_err().to_string();
        assert_eq!(error, "mount /x: \"size=1\" is no option of a mount");
    }
}
