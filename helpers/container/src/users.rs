//! The user namespace of a container: its root is no user of the host.
//!
//! This process makes it, but enters it last ([`Users::enter`]): all mounts are those of the host's user namespace, so the
//! container can change none of them. Until then it makes files as the container's root ([`Users::own_files`]).

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use kelson_spec::id_range::IdRange;
use kelson_sys::{capability, mountinfo, pidfd};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::utsname::uname;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, pause, pipe2, setfsgid, setfsuid, setresgid, setresuid};

use crate::error::{At as _, ContainerError};
use crate::mount_call::{Change, change};

/// A user namespace, and the ids of the host that are in it.
pub struct Users {
    range: IdRange,
    namespace: OwnedFd,
}

impl Users {
    /// Makes it, and makes and enters the `others`, which belong to it: its root has power over them.
    pub fn make(range: IdRange, others: CloneFlags) -> Result<Users, ContainerError> {
        let what =
            || "cannot make a user namespace; write userNamespace: false if this host has none".to_owned();
        let (said, says) = pipe2(OFlag::O_CLOEXEC).at(what)?;
        // SAFETY: this process has one thread.
        match unsafe { fork() }.at(what)? {
            ForkResult::Child => {
                drop(said);
                hold(File::from(says), others)
            }
            ForkResult::Parent { child } => {
                drop(says);
                let made = Users::of(child, said, range, others);
                // It has nothing more to do.
                let _ = kill(child, Signal::SIGKILL);
                let _ = waitpid(child, None);
                made.at(what)
            }
        }
    }

    /// Takes over the namespaces that the child holds.
    fn of(child: Pid, said: OwnedFd, range: IdRange, others: CloneFlags) -> io::Result<Users> {
        let mut text = String::new();
        File::from(said).read_to_string(&mut text)?;
        let Some(number) = text.strip_prefix(IS) else {
            return Err(Errno::from_raw(text.parse().unwrap_or(libc::EIO)).into());
        };
        let folder = Path::new("/proc").join(number);
        let map = format!("0 {} {}", range.first, IdRange::SIZE);
        for file in ["uid_map", "gid_map"] {
            fs::write(folder.join(file), &map)?;
        }
        let namespace = File::open(folder.join("ns/user"))?.into();
        let child = pidfd::open(child.as_raw())?.ok_or(Errno::ESRCH)?;
        setns(child, others)?;
        Ok(Users { range, namespace })
    }

    pub fn range(&self) -> IdRange {
        self.range
    }

    /// Makes this process the owner of files as the container's root is: what it makes from now on is owned by that.
    pub fn own_files(&self) -> Result<(), ContainerError> {
        setfsgid(Gid::from_raw(self.range.first));
        setfsuid(Uid::from_raw(self.range.first));
        // They go with root's files.
        capability::keep(u64::MAX).at(|| "cannot keep capabilities".to_owned())
    }

    /// Has the ids of the files of a new mount mean those of the container: a file of user 0 belongs to its root.
    pub fn map(&self, mount: BorrowedFd<'_>, is_recursive: bool, path: &Path) -> Result<(), ContainerError> {
        let mapped =
            Change { set: libc::MOUNT_ATTR_IDMAP, users: Some(self.namespace.as_fd()), ..Change::default() };
        let Err(errno) = change(mount, mapped, is_recursive) else { return Ok(()) };
        if !matches!(errno, Errno::EINVAL | Errno::EOPNOTSUPP | Errno::EPERM) {
            return Err(errno).at(|| format!("cannot map the owners of {}", path.display()));
        }
        let mounts = mountinfo::read().unwrap_or_default();
        let below = mounts.iter().filter(|mount| path.starts_with(&mount.target));
        let holder = below.max_by_key(|mount| mount.target.as_os_str().len());
        let kernel = uname().map(|names| names.release().to_string_lossy().into_owned());
        Err(ContainerError::Unmapped {
            path: path.to_owned(),
            or_below: if is_recursive { ", or one that is mounted below it" } else { "" },
            kind: holder.map_or_else(String::new, |mount| mount.fs_type.clone()),
            kernel: kernel.unwrap_or_default(),
        })
    }

    /// Becomes the container's root.
    pub fn enter(self) -> Result<(), ContainerError> {
        join(self.namespace)
    }
}

/// Enters a user namespace, which a descriptor of it or the pidfd of a process in it names, as its root.
pub fn join(namespace: OwnedFd) -> Result<(), ContainerError> {
    let what = || "cannot enter the user namespace of the container".to_owned();
    setns(namespace, CloneFlags::CLONE_NEWUSER).at(what)?;
    let (gid, uid) = (Gid::from_raw(0), Uid::from_raw(0));
    setresgid(gid, gid, gid).at(what)?;
    setresuid(uid, uid, uid).at(what)
}

/// Stands before the number of the child.
const IS: &str = "is ";

/// The child: makes the namespaces, says its number as `/proc` has it, which is the host's, and waits for its end.
fn hold(mut says: File, others: CloneFlags) -> ! {
    let made = unshare(CloneFlags::CLONE_NEWUSER | others).map_err(io::Error::from);
    let said = match made.and_then(|()| fs::read_link("/proc/self")) {
        Ok(number) => format!("{IS}{}", number.display()),
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO).to_string(),
    };
    let _ = says.write_all(said.as_bytes());
    // The reader waits for its end, and then ends this process.
    drop(says);
    loop {
        pause();
    }
}
