//! Overlays as volumes.

use std::fs::DirBuilder;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;

use kelson_runner::oci::Mount;
use nix::mount::{MntFlags, MsFlags, mount as mount_at, umount2};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::{Gid, Uid, chdir, chown, fchdir};

use crate::error::{At as _, ContainerError};
use crate::mount_call::{NewFileSystem, change, copy_of, put};
use crate::mounts::{Wanted, what};
use crate::tree::{Tree, text};

const POINT: &str = "point";
const UPPER: &str = "upper";
const WORK: &str = "work";

/// An overlay that is at no place yet.
///
/// fsconfig(2) takes less than 256 bytes of an option, so mount(2) makes it. That needs a place, and an upper folder in memory
/// has to be mounted. Both are in a file system in memory over the root of the tree, where no path leads to it.
///
/// # Errors
/// When the kernel refuses it.
pub fn overlay(tree: &Tree, mount: &Mount) -> Result<OwnedFd, ContainerError> {
    let what = || what(mount);
    let wanted = Wanted::read(mount)?;
    let new = NewFileSystem::new(c"tmpfs").at(what)?;
    new.option(c"mode", Some(c"0700")).at(what)?;
    if let Some(size) = of(&wanted, "size") {
        new.option(c"size", Some(&text(size).at(what)?)).at(what)?;
    }
    let scratch = new.mount(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV).at(what)?;
    fchdir(scratch.as_fd()).at(what)?;
    let made = put(scratch.as_fd(), tree.root()).at(what).and_then(|()| {
        let made = within(&wanted).at(|| format!("{} (more in the kernel log)", what()));
        // The overlay has what it needs of it.
        made.and_then(|made| umount2(".", MntFlags::MNT_DETACH).at(what).map(|()| made))
    });
    chdir("/").at(what)?;
    made
}

fn of<'a>(wanted: &Wanted<'a>, key: &str) -> Option<&'a str> {
    wanted.own.iter().find(|(known, _)| *known == key).and_then(|(_, value)| *value)
}

/// Makes it in this folder.
fn within(wanted: &Wanted<'_>) -> std::io::Result<OwnedFd> {
    let folder = |name: &str| DirBuilder::new().mode(0o700).create(name);
    folder(POINT)?;
    let mut data: Vec<String> = Vec::new();
    for key in ["lowerdir", "upperdir", "workdir"] {
        data.extend(of(wanted, key).map(|value| format!("{key}={value}")));
    }
    if let Some(mode) = of(wanted, "mode") {
        folder(UPPER)?;
        folder(WORK)?;
        let id = |key| of(wanted, key).and_then(|id| id.parse().ok());
        chown(UPPER, id("uid").map(Uid::from_raw), id("gid").map(Gid::from_raw))?;
        let mode = Mode::from_bits_truncate(u32::from_str_radix(mode, 8).unwrap_or(0o755));
        fchmodat(nix::fcntl::AT_FDCWD, UPPER, mode, FchmodatFlags::FollowSymlink)?;
        data.push(format!("upperdir={UPPER},workdir={WORK}"));
    }
    let (kind, data) = (Some("overlay"), data.join(","));
    mount_at(kind, POINT, kind, MsFlags::empty(), Some(data.as_str()))?;
    let made = copy_of(c"point", false)?;
    change(made.as_fd(), wanted.change, false)?;
    Ok(made)
}
