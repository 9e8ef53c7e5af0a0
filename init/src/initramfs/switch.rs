//! switch_root: the initramfs's root is emptied and the real one put over it.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::path::Path;

use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::error::{At as _, Error, Result};

/// The path of the real root's init.
const INIT: &CStr = c"/sbin/init";

/// Makes `root` the root of everything and executes its `/sbin/init`.
///
/// # Errors
/// A sentence. Before the point of no return all is as it was; after it, the host has no root.
pub fn switch_root(root: &Path) -> Result<Infallible> {
    // A link may be absolute, and would lead into the wrong root from here: that it is there must do.
    if root.join("sbin/init").symlink_metadata().is_err() {
        return Err(Error::Told("the root has no /sbin/init".to_owned()));
    }
    let old =
        Dir::open("/", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).at("/")?;
    for name in ["proc", "sys", "dev", "run"] {
        move_mount(name, root)?;
    }
    nix::unistd::chdir(root).at("entering the new root")?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).at("moving the new root")?;
    nix::unistd::chroot(".").at("chroot")?;
    nix::unistd::chdir("/").at("chdir")?;
    // Its memory comes back; what is still in use (the image beneath the loop device) stays until it is not.
    if let Ok(status) = fstat(old.as_fd()) {
        empty(old, status.st_dev);
    }
    execute()
}

fn move_mount(name: &str, root: &Path) -> Result<()> {
    let (from, to) = (Path::new("/").join(name), root.join(name));
    // It fails on a root that is read-only; then it must be there already.
    let _ = std::fs::create_dir(&to);
    mount(Some(&from), &to, None::<&str>, MsFlags::MS_MOVE, None::<&str>).map_err(|errno| {
        // Left where it is, it would be hidden but not gone.
        let _ = umount2(&from, MntFlags::MNT_DETACH);
        Error::Told(format!(
            "moving {} to the new root: {} (does the root have that folder?)",
            from.display(),
            errno.desc()
        ))
    })
}

/// Removes all that is in a folder, and never leaves its file system.
fn empty(mut folder: Dir, device: libc::dev_t) {
    let names: Vec<(CString, Option<Type>)> =
        folder.iter().flatten().map(|entry| (entry.file_name().to_owned(), entry.file_type())).collect();
    for (name, kind) in names {
        if name.as_c_str() == c"." || name.as_c_str() == c".." {
            continue;
        }
        let status = fstatat(folder.as_fd(), name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        if !status.is_ok_and(|status| status.st_dev == device) {
            continue;
        }
        if kind != Some(Type::Directory) {
            let _ = unlinkat(folder.as_fd(), name.as_c_str(), UnlinkatFlags::NoRemoveDir);
            continue;
        }
        if let Ok(inner) = open_folder(&folder, &name) {
            empty(inner, device);
        }
        let _ = unlinkat(folder.as_fd(), name.as_c_str(), UnlinkatFlags::RemoveDir);
    }
}

fn open_folder(parent: &Dir, name: &CStr) -> nix::Result<Dir> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Dir::openat(parent.as_fd(), name, flags, Mode::empty())
}

/// Executes the real init with our own arguments and environment.
fn execute() -> Result<Infallible> {
    let (arguments, environment) = crate::entry::arguments_and_environment();
    let program = CString::from(INIT);
    let arguments: Vec<CString> =
        std::iter::once(program.clone()).chain(arguments.into_iter().skip(1)).collect();
    nix::unistd::execve(&program, &arguments, &environment).at(INIT.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_emptied_but_not_what_its_links_lead_to() {
        let base = std::env::temp_dir().join(format!("kelson-switch-{}", std::process::id()));
        let (victim, kept) = (base.join("victim"), base.join("kept"));
        std::fs::create_dir_all(victim.join("a/b")).unwrap();
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        std::fs::write(victim.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, victim.join("link")).unwrap();
        let folder = Dir::open(&victim, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        let device = fstat(folder.as_fd()).unwrap().st_dev;
        empty(folder, device);
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
        assert!(kept.join("file").exists());
        // Another file system is not entered.
        let folder = Dir::open(&kept, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        empty(folder, device.wrapping_add(1));
        assert!(kept.join("file").exists());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
