//! Mounts, by the calls of the system.

use std::ffi::{CString, c_ulong};
use std::io;
use std::path::Path;
use std::ptr::null;

fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn of(path: &str) -> CString {
    CString::new(path).expect("a path without a null")
}

/// Whether something is mounted there.
pub fn is_mounted(path: &str) -> io::Result<bool> {
    let path = of(path);
    // SAFETY: it consists of numbers alone, for which zeroes are a value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the text and the answer live until the call returns.
    match checked(unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, 0, &raw mut found) }) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        result => result
            .map(|()| found.stx_attributes & u64::from(libc::STATX_ATTR_MOUNT_ROOT.cast_unsigned()) != 0),
    }
}

/// Binds a folder to another, unless something is mounted there.
pub fn bind(from: &str, to: &str, read_only: bool) -> io::Result<()> {
    if is_mounted(to)? {
        return Ok(());
    }
    let mount = |from: &str, flags: c_ulong| {
        let (from, to) = (of(from), of(to));
        // SAFETY: the texts live until the call returns, and a bind mount has neither type nor data.
        checked(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), null(), flags, null()) })
    };
    mount(from, libc::MS_BIND)?;
    match read_only {
        true => mount(from, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY),
        false => Ok(()),
    }
}

/// Unmounts what is there.
pub fn unmount(path: &str) -> io::Result<()> {
    if !is_mounted(path)? {
        return Ok(());
    }
    let path = of(path);
    // SAFETY: the text lives until the call returns.
    checked(unsafe { libc::umount2(path.as_ptr(), 0) })
}

/// Makes the node of a block device: that of the first loop device.
pub fn device(path: &str) -> io::Result<()> {
    if Path::new(path).exists() {
        return Ok(());
    }
    let path = of(path);
    // SAFETY: the text lives until the call returns.
    checked(unsafe { libc::mknod(path.as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(7, 0)) })
}
