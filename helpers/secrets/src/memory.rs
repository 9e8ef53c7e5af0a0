//! Memory that is never swapped, as a file system.

use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

use crate::SecretError;

pub const FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC);
/// `RAMFS_MAGIC` of the kernel's `magic.h`.
const RAMFS: FsType = FsType(0x8584_58f6);

/// Mounts memory that is never swapped: a tmpfs where the kernel can have one so, since Linux 6.4, else a ramfs. Returns its
/// type. `None`: PID 1 may not mount, as in most containers, and the folder lies in memory already.
pub fn mount_memory(folder: &Path, size: u64) -> Result<Option<&'static str>, SecretError> {
    let tmpfs = format!("mode=0700,size={size},noswap");
    let mounted = mount(Some("kelson-secrets"), folder, Some("tmpfs"), FLAGS, Some(tmpfs.as_str()));
    let (mounted, fs_type) = match mounted {
        Err(Errno::EINVAL) => {
            (mount(Some("kelson-secrets"), folder, Some("ramfs"), FLAGS, Some("mode=0700")), "ramfs")
        }
        mounted => (mounted, "tmpfs"),
    };
    match mounted {
        Ok(()) => Ok(Some(fs_type)),
        Err(Errno::EPERM) if is_memory(folder) => Ok(None),
        Err(errno) => Err(SecretError::NoMemory { path: folder.to_owned(), error: errno.into() }),
    }
}

fn is_memory(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|found| [TMPFS_MAGIC, RAMFS].contains(&found.filesystem_type()))
}
