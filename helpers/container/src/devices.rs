//! The nodes below `/dev` of a container: the harmless ones that every container has, and those that its file lists.

use std::os::fd::AsFd as _;
use std::path::Path;

use kelson_runner::oci::Device;
use kelson_spec::id_range::IdRange;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, makedev, mknodat};
use nix::unistd::{Gid, Uid, fchownat, symlinkat};

use crate::error::{At as _, ContainerError};
use crate::mount_call::{copy_of, put};
use crate::tree::{Tree, text};

/// Name and minor number, all of major number 1 but the terminal.
const USUAL: [(&str, i64, i64); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// What programs expect beside the nodes.
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// Fills `/dev`, which is a file system of the container's own.
pub fn fill(tree: &Tree, listed: &[Device], ids: Option<IdRange>) -> Result<(), ContainerError> {
    for (name, major, minor) in USUAL {
        let path = format!("/dev/{name}");
        node(tree, &Device { path, kind: "c".into(), major, minor, file_mode: 0o666, uid: 0, gid: 0 }, ids)?;
    }
    for device in listed {
        node(tree, device, ids)?;
    }
    let what = |name: &str| format!("cannot make the link /dev/{name}");
    let dev = tree.folder(Path::new("/dev")).at(|| what(""))?;
    for (to, name) in LINKS {
        match symlinkat(to, &dev, name) {
            Err(Errno::EEXIST) => {}
            made => made.at(|| what(name))?,
        }
    }
    Ok(())
}

/// Makes a node, with the same owner inside as on the host if the container has it. Where the kernel lets this process make
/// none (in a user namespace), the one of the host stands there.
fn node(tree: &Tree, device: &Device, ids: Option<IdRange>) -> Result<(), ContainerError> {
    let what = || format!("cannot make device {}", device.path);
    let path = Path::new(&device.path);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ContainerError::Call { what: what(), errno: Errno::EINVAL });
    };
    let folder = tree.folder(folder).at(what)?;
    let kind = if device.kind == "b" { SFlag::S_IFBLK } else { SFlag::S_IFCHR };
    let mode = Mode::from_bits_truncate(device.file_mode);
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    match mknodat(&folder, name, kind, mode, makedev(number(device.major), number(device.minor))) {
        Ok(()) => {}
        Err(Errno::EEXIST) => return Ok(()),
        Err(Errno::EPERM) => {
            let copy = copy_of(&text(&device.path).at(what)?, false).at(what)?;
            let target = tree.file(path).at(what)?;
            return put(copy.as_fd(), target.as_fd()).at(what);
        }
        Err(errno) => return Err(ContainerError::Call { what: what(), errno }),
    }
    // The mask of this process has no say.
    fchmodat(&folder, name, mode, FchmodatFlags::FollowSymlink).at(what)?;
    let on_host = |id| IdRange::of_host(ids, id);
    let owner = (on_host(device.uid).map(Uid::from_raw), on_host(device.gid).map(Gid::from_raw));
    fchownat(&folder, name, owner.0, owner.1, AtFlags::AT_SYMLINK_NOFOLLOW).at(what)?;
    Ok(())
}
