//! The calls of mount(2)'s successor (Linux 5.2; attributes 5.12): a mount is a descriptor first, and is put at a descriptor,
//! so that no name is looked up twice.

use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;

const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_FLAG: libc::c_uint = 0;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC.cast_unsigned();
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;

/// A new descriptor, or the error.
fn descriptor(result: libc::c_long) -> nix::Result<OwnedFd> {
    let fd = Errno::result(result)?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it, for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A file system that is being described.
pub struct NewFileSystem(OwnedFd);

impl NewFileSystem {
    pub fn new(kind: &CStr) -> nix::Result<NewFileSystem> {
        // SAFETY: a C string and a number.
        descriptor(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })
            .map(NewFileSystem)
    }

    fn set(
        &self,
        how: libc::c_uint,
        key: *const libc::c_char,
        value: *const libc::c_char,
    ) -> nix::Result<()> {
        // SAFETY: each pointer is null or a C string that lives over the call.
        let done = unsafe { libc::syscall(libc::SYS_fsconfig, self.0.as_raw_fd(), how, key, value, 0) };
        Errno::result(done).map(drop)
    }

    /// A word such as `newinstance`, or a pair such as `size=65536k`.
    pub fn option(&self, key: &CStr, value: Option<&CStr>) -> nix::Result<()> {
        match value {
            Some(value) => self.set(FSCONFIG_SET_STRING, key.as_ptr(), value.as_ptr()),
            None => self.set(FSCONFIG_SET_FLAG, key.as_ptr(), std::ptr::null()),
        }
    }

    /// A mount of it with these attributes (`MOUNT_ATTR_*`), at no place yet.
    pub fn mount(self, attributes: u64) -> nix::Result<OwnedFd> {
        self.set(FSCONFIG_CMD_CREATE, std::ptr::null(), std::ptr::null())?;
        // SAFETY: numbers alone.
        descriptor(unsafe {
            libc::syscall(libc::SYS_fsmount, self.0.as_raw_fd(), FSMOUNT_CLOEXEC, attributes)
        })
    }
}

/// A copy of the mount at a path, at no place yet; with all mounts below it if `recursive`.
pub fn copy_of(path: &CStr, recursive: bool) -> nix::Result<OwnedFd> {
    let recursive = if recursive { libc::AT_RECURSIVE.cast_unsigned() } else { 0 };
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive;
    // SAFETY: a C string and numbers.
    descriptor(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
}

/// Attributes (`MOUNT_ATTR_*`) to set and to clear, and the propagation (`MS_*`; 0: as it is).
#[derive(Debug, Clone, Copy, Default)]
pub struct Change<'a> {
    pub set: u64,
    pub clear: u64,
    pub propagation: u64,
    /// With `MOUNT_ATTR_IDMAP`: the user namespace that says what the ids of files mean.
    pub users: Option<BorrowedFd<'a>>,
}

/// Changes the mount that a descriptor is the root of; with all below it if `recursive`.
pub fn change(mount: BorrowedFd<'_>, change: Change<'_>, recursive: bool) -> nix::Result<()> {
    let Change { set: attr_set, clear: attr_clr, propagation, users } = change;
    let users = users.map_or(0, |users| u64::from(users.as_raw_fd().unsigned_abs()));
    let words: [u64; 4] = [attr_set, attr_clr, propagation, users];
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: laid out as `struct mount_attr`, and lives over the call.
    let done = unsafe {
        let (empty, size) = (c"".as_ptr(), size_of_val(&words));
        libc::syscall(libc::SYS_mount_setattr, mount.as_raw_fd(), empty, flags, words.as_ptr(), size)
    };
    Errno::result(done).map(drop)
}

/// Puts a mount at the file or folder that `target` is.
pub fn put(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> nix::Result<()> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    let empty = c"".as_ptr();
    // SAFETY: C strings and numbers.
    let done = unsafe {
        libc::syscall(libc::SYS_move_mount, mount.as_raw_fd(), empty, target.as_raw_fd(), empty, flags)
    };
    Errno::result(done).map(drop)
}
