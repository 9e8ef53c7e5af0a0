//! Makes mounts that came later read-only in the mount namespaces of services whose root is read-only.
//!
//! The kernel has a mount arrive in other namespaces with the attributes that it has on the machine, and only
//! who is in a namespace may change its mounts. So this process enters each of them. A mount that a service
//! made there itself, as one that may do so, is left as it is: a mount of the machine is known by its file
//! system, and by the part of it that is mounted.

use std::collections::BTreeSet;
use std::ffi::c_long;
use std::fs::File;
use std::io::{self, Read as _};
use std::mem::size_of_val;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_runner::cgroup::{own_folder, threads};
use kelson_sys::mountinfo::{self, Device, Mount};
use kelson_sys::ordered;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns};
use nix::sys::stat::{Mode, fstat};

/// Of this process, in `/proc`.
const MOUNTINFO: &str = "self/mountinfo";
/// A mount with a file that is open for writing cannot be made read-only. It is tried so often, with this pause.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// Makes the mounts of this process's namespace read-only in those of the threads in `cgroups`.
///
/// # Errors
/// Sentences, one for each service and mount: what could not be made read-only is no longer mounted there.
pub fn make_read_only(cgroups: &[PathBuf]) -> Result<(), String> {
    let proc = folder("/proc").map_err(|errno| format!("/proc: {}", errno.desc()))?;
    let table = read_at(&proc, MOUNTINFO).map_err(|error| format!("/proc/{MOUNTINFO}: {error}"))?;
    let table = mountinfo::parse(&table);
    let mounts = ordered::set(table.iter().cloned().map(key));
    let own = openat(&proc, "self/ns/mnt", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
    let own =
        own.and_then(|own| identity(&own)).map_err(|errno| format!("/proc/self/ns/mnt: {}", errno.desc()))?;
    let (mut seen, mut namespaces) = (ordered::set([own]), Vec::new());
    for cgroup in cgroups {
        for thread in threads(cgroup) {
            let namespace = namespace(&proc, thread, cgroup, &table);
            if let Some(namespace) =
                namespace.filter(|found| identity(found).is_ok_and(|found| seen.insert(found)))
            {
                namespaces.push((cgroup, namespace));
            }
        }
    }
    // From the first of them on paths mean what they mean there.
    let mut failures = Vec::new();
    for (cgroup, namespace) in namespaces {
        let name = cgroup.file_name().unwrap_or_default().display();
        match setns(&namespace, CloneFlags::CLONE_NEWNS) {
            Ok(()) => {
                failures.extend(close(&proc, &mounts).into_iter().map(|text| format!("{name}: {text}")));
            }
            Err(errno) => failures.push(format!("{name}: its mount namespace: {}", errno.desc())),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// A file system, and what of it is mounted.
type Key = (Device, PathBuf);

fn key(mount: Mount) -> Key {
    (mount.device, mount.root)
}

fn folder(path: &str) -> nix::Result<OwnedFd> {
    open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

fn read_at(folder: &OwnedFd, path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = openat(folder, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    File::from(file).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn identity(namespace: &OwnedFd) -> nix::Result<(u64, u64)> {
    fstat(namespace).map(|found| (found.st_dev, found.st_ino))
}

/// The mount namespace of a thread. `None`: it has ended, and its number may be another's.
fn namespace(proc: &OwnedFd, thread: i32, cgroup: &Path, table: &[Mount]) -> Option<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let thread = openat(proc, thread.to_string().as_str(), flags, Mode::empty()).ok()?;
    let namespace = openat(&thread, "ns/mnt", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let membership = read_at(&thread, "cgroup").ok()?;
    let membership = String::from_utf8_lossy(&membership);
    own_folder(table, &membership)?.starts_with(cgroup).then_some(namespace)
}

/// Makes those of `mounts` read-only that are in this namespace.
fn close(proc: &OwnedFd, mounts: &BTreeSet<Key>) -> Vec<String> {
    let table = match read_at(proc, MOUNTINFO) {
        Ok(table) => mountinfo::parse(&table),
        Err(error) => return vec![format!("its mounts: {error}")],
    };
    let open = table.into_iter().filter(Mount::writable_here);
    open.filter(|mount| mounts.contains(&key(mount.clone())))
        .filter_map(|mount| close_one(proc, &mount).err())
        .collect()
}

fn close_one(proc: &OwnedFd, mount: &Mount) -> Result<(), String> {
    let failed = |errno: Errno| Err(format!("{}: {}", mount.target.display(), errno.desc()));
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let target = match open(&mount.target, flags, Mode::empty()) {
        Ok(target) => target,
        // It is gone, or lies below one that hides it.
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(()),
        Err(errno) => return failed(errno),
    };
    if mount_of(proc, &target) != Some(mount.id) {
        // Another one covers it. When that goes, this is done again.
        return Ok(());
    }
    for _ in 0..TRIES {
        match set_read_only(&target) {
            // Invalid: it was unmounted meanwhile.
            Ok(()) | Err(Errno::EINVAL) => return Ok(()),
            Err(Errno::EBUSY) => std::thread::sleep(PAUSE),
            Err(errno) => return failed(errno),
        }
    }
    match umount2(&mount.target, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => Err(format!(
            "{}: a file was opened for writing before the new mount was read-only; it is no longer mounted there",
            mount.target.display()
        )),
        Err(errno) => failed(errno),
    }
}

/// The number of the mount that a descriptor is on.
fn mount_of(proc: &OwnedFd, target: &OwnedFd) -> Option<u32> {
    let text = read_at(proc, &format!("self/fdinfo/{}", target.as_raw_fd())).ok()?;
    String::from_utf8_lossy(&text).lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

fn set_read_only(target: &OwnedFd) -> nix::Result<()> {
    // struct mount_attr: attr_set, attr_clr, propagation, userns_fd.
    let attributes: [u64; 4] = [libc::MOUNT_ATTR_RDONLY, 0, 0, 0];
    // SAFETY: the path is a C string, and the attributes have the given size; both live over the call.
    let result: c_long = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            target.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    Errno::result(result).map(drop)
}
