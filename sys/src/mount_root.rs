//! Whether a path is the root of a mount: statx(2).

use std::mem::MaybeUninit;
use std::path::Path;

use nix::NixPath as _;
use nix::errno::Errno;

/// Whether something is mounted at this path, whose last part is not followed if it is a link. Where nothing is, nothing is
/// mounted.
///
/// It costs the same however many mounts there are, and may hang where the file system of the path does.
///
/// # Errors
/// As statx(2), and `ENOSYS` from a kernel before 5.8, which does not know.
pub fn is_mount_root(path: &Path) -> nix::Result<bool> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    // What is asked for comes with each answer: the file system need not be asked for anything.
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_DONT_SYNC;
    let result = path.with_nix_path(|path| {
        // SAFETY: `path` ends with a null, and `found` has room for the answer; both live until the call returns.
        unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, 0, found.as_mut_ptr()) }
    })?;
    match Errno::result(result) {
        Ok(_) => {}
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(false),
        Err(errno) => return Err(errno),
    }
    // SAFETY: it consists of integers alone, for which zeroes are a value, and the kernel has filled it.
    let found = unsafe { found.assume_init() };
    let root = u64::from(libc::STATX_ATTR_MOUNT_ROOT.cast_unsigned());
    if found.stx_attributes_mask & root == 0 {
        return Err(Errno::ENOSYS);
    }
    Ok(found.stx_attributes & root != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_known_by_its_root() {
        for (path, is) in [
            ("/proc", true),
            ("/", true),
            ("/proc/sys", false),
            // A link to the root of a mount.
            ("/proc/self/root", false),
            ("/no/such/place", false),
            ("/proc/version/place", false),
        ] {
            assert_eq!(is_mount_root(Path::new(path)), Ok(is), "{path}");
        }
    }
}
