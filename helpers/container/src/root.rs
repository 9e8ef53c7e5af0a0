//! The root of a container: its layers with a folder for what it writes over them, its mounts, and the change into it.

use std::fs::{self, DirBuilder};
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use kelson_runner::native::{Request, Rootfs};
use kelson_spec::service::OverlaySource;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, fchdir, getcwd, pivot_root};

use crate::error::{At as _, ContainerError};
use crate::mount_call::{Change, change, copy_of, put};
use crate::tree::{Tree, text};
use crate::users::Users;
use crate::{devices, mounts, overlay};

/// Makes the root and changes into it.
pub fn enter(request: &Request, users: Option<&Users>) -> Result<(), ContainerError> {
    let linux = &request.config.linux;
    // As runc does it: what the host mounts and unmounts later arrives here unless the file says otherwise; nothing of
    // here arrives there unless the file asks for it.
    let asked = match linux.rootfs_propagation.as_deref() {
        // One with a user namespace mounts nothing later.
        Some("rshared" | "shared") if users.is_none() => MsFlags::MS_SHARED,
        _ => MsFlags::MS_SLAVE,
    };
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | asked, none)
        .at(|| "cannot cut off the container's mounts".to_owned())?;
    if asked == MsFlags::MS_SHARED {
        keep_here(Path::new(&request.rootfs.point))?;
    }
    image(&request.rootfs, users)?;
    let tree =
        Tree::at(Path::new(&request.rootfs.point)).at(|| "cannot open the container's root".to_owned())?;
    for one in &request.config.mounts {
        if one.kind == OverlaySource::KIND {
            let what = || mounts::what(one);
            let target = tree.folder(Path::new(&one.destination)).at(what)?;
            put(overlay(&tree, one)?.as_fd(), target.as_fd()).at(what)?;
        } else {
            mounts::place(&tree, one, users)?;
        }
    }
    devices::fill(&tree, &linux.devices, request.ids)?;
    for path in &linux.masked_paths {
        mounts::mask(&tree, path)?;
    }
    for path in &linux.readonly_paths {
        mounts::protect(&tree, path)?;
    }
    change_root(&tree)?;
    if request.config.root.readonly {
        let read_only = Change { set: libc::MOUNT_ATTR_RDONLY, ..Change::default() };
        let what = || "cannot make the container's root read-only".to_owned();
        let root = Tree::at(Path::new("/")).at(what)?;
        change(root.root().as_fd(), read_only, false).at(what)?;
    }
    Ok(())
}

/// Makes the mount that holds a path private. Otherwise the root of the container would be mounted on the host too, and the
/// kernel lets no process change its root to one below a shared mount.
fn keep_here(path: &Path) -> Result<(), ContainerError> {
    let none: Option<&str> = None;
    let private = |path: &Path| mount(none, path, none, MsFlags::MS_PRIVATE, none);
    // EINVAL: the path is no mount point. ENOENT: it is made later.
    let is_none = |done: &nix::Result<()>| matches!(done, Err(Errno::EINVAL | Errno::ENOENT));
    let done = path.ancestors().map(private).find(|done| !is_none(done));
    done.unwrap_or(Err(Errno::EINVAL)).at(|| format!("cannot make the mount of {} private", path.display()))
}

/// Mounts the layers. Their names are relative to their folder: the kernel takes a page of options.
fn image(rootfs: &Rootfs, users: Option<&Users>) -> Result<(), ContainerError> {
    let Rootfs { store, layers, writable, point } = rootfs;
    let folder = |path: &Path, mode| {
        let made = DirBuilder::new().recursive(true).mode(mode).create(path);
        made.at(|| format!("cannot make {}", path.display()))
    };
    let (upper, work) = (Path::new(writable).join("upper"), Path::new(writable).join("work"));
    folder(&upper, 0o755)?;
    folder(&work, 0o700)?;
    folder(Path::new(point), 0o700)?;
    let below = if layers.is_empty() {
        // An image without layers is an empty folder.
        let empty = Path::new(writable).join("empty");
        folder(&empty, 0o755)?;
        empty.display().to_string()
    } else {
        layers.join(":")
    };
    if let Some(users) = users {
        // The kernel takes no layer that is mounted nowhere: they are mounted over themselves, in this namespace alone.
        for path in [store, writable] {
            map(Path::new(path), users)?;
        }
        users.own_files()?;
    }
    let what = || format!("cannot mount the image at {point}");
    chdir(store.as_str()).at(|| format!("cannot enter {store}"))?;
    let data = format!("lowerdir={below},upperdir={},workdir={}", upper.display(), work.display());
    mount(Some("overlay"), point.as_str(), Some("overlay"), MsFlags::empty(), Some(data.as_str()))
        .at(what)?;
    let none: Option<&str> = None;
    mount(none, point.as_str(), none, MsFlags::MS_PRIVATE, none).at(what)
}

/// Mounts a folder over itself such that the ids of its files are those of the container.
fn map(path: &Path, users: &Users) -> Result<(), ContainerError> {
    let what = || format!("cannot mount {} for a user namespace", path.display());
    let copy = copy_of(&text(path).at(what)?, false).at(what)?;
    users.map(copy.as_fd(), false, path)?;
    let target = Tree::at(path).at(what)?;
    put(copy.as_fd(), target.root()).at(what)
}

/// Makes the tree the root of this mount namespace, and lets the one before go.
fn change_root(tree: &Tree) -> Result<(), ContainerError> {
    let what = || "cannot change into the container's root".to_owned();
    let old = Tree::at(Path::new("/")).at(what)?;
    fchdir(tree.root()).at(what)?;
    // The old root is put over the new one, and goes from there: no folder is needed for it.
    pivot_root(".", ".").at(what)?;
    // What is unmounted here stays on the host. The mounts of the new root keep the propagation that they asked for.
    fchdir(old.root()).at(what)?;
    let none: Option<&str> = None;
    mount(none, ".", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none).at(what)?;
    umount2(".", MntFlags::MNT_DETACH).at(what)?;
    chdir("/").at(what)
}

/// Enters the folder that the program begins in, made if the image lacks it.
pub fn enter_folder(path: &str) -> Result<(), ContainerError> {
    let what = || format!("cannot enter the working directory {path}");
    if !Path::new(path).exists() {
        fs::create_dir_all(path).at(what)?;
    }
    chdir(path).at(what)?;
    // A descriptor of a folder of the host would be reached as /proc/self/fd/N.
    match getcwd() {
        Ok(folder) if folder.is_absolute() => Ok(()),
        _ => Err(Errno::EXDEV).at(what),
    }
}
