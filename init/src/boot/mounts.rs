//! The file systems that the kernel makes up: `/proc`, `/sys`, `/dev`, `/run` and what belongs to them.

use std::ffi::CStr;
use std::fs::DirBuilder;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use kelson_sys::mountinfo;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use super::{Order, Phase, Task, TaskFailure};
use crate::error::{At as _, Result};

/// One mount that every machine has.
#[derive(Debug, Clone, Copy)]
pub struct ApiMount {
    pub target: &'static str,
    pub fs_type: &'static str,
    pub flags: MsFlags,
    pub data: &'static str,
    /// Nothing works without it.
    essential: bool,
}

const SAFE: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);
const SAFEST: MsFlags = SAFE.union(MsFlags::MS_NOEXEC);

const fn api(target: &'static str, fs_type: &'static str, flags: MsFlags, data: &'static str) -> ApiMount {
    ApiMount { target, fs_type, flags, data, essential: false }
}

const fn needed(mount: ApiMount) -> ApiMount {
    ApiMount { essential: true, ..mount }
}

/// The mounts that must exist before anything else, in our own initramfs too.
pub const FIRST: [ApiMount; 4] = [
    needed(api("/proc", "proc", SAFEST, "")),
    needed(api("/sys", "sysfs", SAFEST, "")),
    needed(api("/dev", "devtmpfs", MsFlags::MS_NOSUID, "mode=0755")),
    needed(api("/run", "tmpfs", SAFE, "mode=0755,size=20%")),
];

/// The rest.
const SECOND: [ApiMount; 6] = [
    api("/dev/pts", "devpts", MsFlags::MS_NOSUID.union(MsFlags::MS_NOEXEC), "mode=0620,gid=5,ptmxmode=0666"),
    api("/dev/shm", "tmpfs", SAFE, "mode=1777"),
    api("/dev/mqueue", "mqueue", SAFEST, ""),
    api("/tmp", "tmpfs", SAFE, "mode=1777,size=50%"),
    api("/sys/fs/cgroup", "cgroup2", SAFEST, "nsdelegate,memory_recursiveprot"),
    api("/sys/kernel/security", "securityfs", SAFEST, ""),
];

impl ApiMount {
    /// Mounts it unless something of its kind is there already: a boot loader's initramfs may have done it.
    ///
    /// # Errors
    /// A sentence that says what failed.
    pub fn mount(&self) -> Result<String> {
        if self.is_there() {
            return Ok("it was mounted already".to_owned());
        }
        // It may be there already, or be made by the file system above; the mount itself tells.
        let _ = DirBuilder::new().mode(0o755).create(self.target);
        match self.try_mount(self.data) {
            // Options that an older kernel does not know are a nicety.
            Err(Errno::EINVAL) if !self.data.is_empty() && self.fs_type == "cgroup2" => self.try_mount(""),
            result => result,
        }
        .map(|()| String::new())
        .at(format!("{} on {}", self.fs_type, self.target))
    }

    fn try_mount(&self, data: &str) -> nix::Result<()> {
        match mount(Some(self.fs_type), self.target, Some(self.fs_type), self.flags, Some(data)) {
            Err(Errno::EBUSY) => Ok(()),
            result => result,
        }
    }

    /// Whether the target is a mount point of this type. Without `/proc` it is asked by the kind of file system.
    fn is_there(&self) -> bool {
        if let Ok(mounts) = mountinfo::read() {
            let topmost = mountinfo::topmost(&mounts, Path::new(self.target));
            return topmost.is_some_and(|mount| mount.fs_type == self.fs_type);
        }
        false
    }

    fn task(self) -> Task {
        let task = Task::call(format!("mount {}", self.target), move || Ok(self.mount()?));
        if self.essential { task.essential() } else { task }
    }
}

/// All of them, and the links in `/dev` that programs expect.
pub fn phase() -> Phase {
    Phase::new("kernel interfaces", Order::InTurn)
        .task(Task::call("share the mounts", share))
        .tasks(FIRST.map(ApiMount::task))
        .tasks(SECOND.map(ApiMount::task))
        .task(Task::call("links in /dev", links))
}

/// Makes every mount shared, and so each that is made below one later: what is mounted and unmounted from now on comes
/// and goes in the mount namespaces of services and containers too. The kernel and our initramfs leave mounts private.
fn share() -> Result<String, TaskFailure> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SHARED, None::<&str>)
        .at("/ cannot be made shared")?;
    Ok(String::new())
}

fn links() -> Result<String, TaskFailure> {
    for (target, link) in [
        ("/proc/self/fd", "/dev/fd"),
        ("/proc/self/fd/0", "/dev/stdin"),
        ("/proc/self/fd/1", "/dev/stdout"),
        ("/proc/self/fd/2", "/dev/stderr"),
    ] {
        match std::os::unix::fs::symlink(target, link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(format!("{link}: {error}").into());
            }
            _ => {}
        }
    }
    Ok(String::new())
}

/// The folder of sockets, and a small file system of its own for the recovery state: what fills `/run` must not be able
/// to keep PID 1 from writing down what it does.
///
/// # Errors
/// When a folder cannot be made or the file system not mounted.
pub fn runtime_folders(runtime: &Path, own_memory: bool) -> Result<String, TaskFailure> {
    DirBuilder::new().recursive(true).mode(0o755).create(runtime).at(runtime.display())?;
    let state = runtime.join("state");
    DirBuilder::new().recursive(true).mode(0o700).create(&state).at(state.display())?;
    if !own_memory {
        return Ok(String::new());
    }
    let mounts = mountinfo::read().unwrap_or_default();
    if mountinfo::topmost(&mounts, &state).is_some() {
        return Ok("it was mounted already".to_owned());
    }
    let unswapped = tmpfs_knows(c"noswap");
    let data = if unswapped { "mode=0700,size=64M,noswap" } else { "mode=0700,size=64M" };
    mount(Some("kelson-state"), &state, Some("tmpfs"), SAFEST, Some(data)).at(state.display())?;
    let text = if unswapped { "never swapped" } else { "noswap is not known to this kernel" };
    Ok(text.to_owned())
}

/// Whether the kernel's tmpfs takes a flag. A mount with an unknown option would complain in the kernel log.
fn tmpfs_knows(flag: &CStr) -> bool {
    /// `FSOPEN_CLOEXEC` and `FSCONFIG_SET_FLAG` of the kernel's `mount.h`.
    const CLOSE_ON_EXEC: libc::c_uint = 1;
    const SET_FLAG: libc::c_uint = 0;
    // SAFETY: a C string, and a number.
    let opened = unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), CLOSE_ON_EXEC) };
    let Some(fd) = libc::c_int::try_from(opened).ok().filter(|fd| *fd >= 0) else { return false };
    // SAFETY: the kernel has just made it, and nobody else has it.
    let context = unsafe { OwnedFd::from_raw_fd(fd) };
    let no_value = std::ptr::null::<libc::c_void>();
    // SAFETY: the descriptor is open, and the C string lives over the call.
    let set = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), SET_FLAG, flag.as_ptr(), no_value, 0)
    };
    set == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_mounted_is_left_alone() {
        let proc = FIRST[0];
        assert!(proc.is_there());
        assert_eq!(proc.mount().unwrap(), "it was mounted already");
        let wrong = ApiMount { fs_type: "sysfs", ..proc };
        assert!(!wrong.is_there());
    }

    /// The kernel of the tests may be older or newer than the flag: a mount tells which.
    #[test]
    fn the_state_is_bounded_and_not_swapped_where_the_kernel_can() {
        assert!(!tmpfs_knows(c"no_such_flag"));
        // In a mount namespace of this thread's own.
        let mounted = std::thread::spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).ok()?;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).ok()?;
            let folder = std::env::temp_dir().join(format!("kelson-unswapped-{}", std::process::id()));
            runtime_folders(&folder, true).unwrap();
            let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
            let state = folder.join("state");
            nix::mount::umount(&state).unwrap();
            let refused = mount(None::<&str>, &state, Some("tmpfs"), SAFEST, Some("noswap")).is_err();
            let _ = nix::mount::umount(&state);
            std::fs::remove_dir_all(&folder).unwrap();
            Some((mounts, state, refused))
        });
        let Some((mounts, state, refused)) = mounted.join().unwrap() else {
            assert!(!nix::unistd::geteuid().is_root());
            return;
        };
        let line = mounts.lines().find(|line| line.contains(state.to_str().unwrap())).unwrap();
        assert!(line.contains("- tmpfs ") && line.contains("size=65536k"), "{line}");
        assert_eq!(line.contains("noswap"), !refused, "{line}");
    }

    #[test]
    fn the_state_folder_is_closed_to_others() {
        let folder = std::env::temp_dir().join(format!("kelson-runtime-{}", std::process::id()));
        runtime_folders(&folder, false).unwrap();
        runtime_folders(&folder, false).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.join("state")), 0o700);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
