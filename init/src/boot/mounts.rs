//! The file systems that the kernel makes up: `/proc`, `/sys`, `/dev`, `/run` and what belongs to them.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use super::{Order, Phase, Task, TaskFailure};

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

/// What must be there before anything else, in our own initramfs too.
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
    pub fn mount(&self) -> Result<String, TaskFailure> {
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
        .map_err(|errno| TaskFailure::from(format!("{} on {}: {}", self.fs_type, self.target, errno.desc())))
    }

    fn try_mount(&self, data: &str) -> nix::Result<()> {
        match mount(Some(self.fs_type), self.target, Some(self.fs_type), self.flags, Some(data)) {
            Err(Errno::EBUSY) => Ok(()),
            result => result,
        }
    }

    /// Whether the target is a mount point of this type. Without `/proc` it is asked by the kind of file system.
    fn is_there(&self) -> bool {
        if let Ok(mounts) = crate::mountinfo::read() {
            let topmost = crate::mountinfo::topmost(&mounts, Path::new(self.target));
            return topmost.is_some_and(|mount| mount.fs_type == self.fs_type);
        }
        false
    }

    fn task(self) -> Task {
        let task = Task::call(format!("mount {}", self.target), move || self.mount());
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
        .map(|()| String::new())
        .map_err(|errno| TaskFailure::from(format!("/ cannot be made shared: {}", errno.desc())))
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

/// The folder of sockets, and the small tmpfs of its own for the recovery state: what fills `/run` must not be able
/// to keep PID 1 from writing down what it does.
///
/// # Errors
/// When a folder cannot be made or the tmpfs not mounted.
pub fn runtime_folders(runtime: &Path, own_tmpfs: bool) -> Result<String, TaskFailure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        TaskFailure::from(format!("{}: {error}", path.display()))
    };
    DirBuilder::new().recursive(true).mode(0o755).create(runtime).map_err(|error| failed(runtime, &error))?;
    let state = runtime.join("state");
    DirBuilder::new().recursive(true).mode(0o700).create(&state).map_err(|error| failed(&state, &error))?;
    if !own_tmpfs {
        return Ok(String::new());
    }
    let mounts = crate::mountinfo::read().unwrap_or_default();
    if crate::mountinfo::topmost(&mounts, &state).is_some() {
        return Ok("it was mounted already".to_owned());
    }
    mount(Some("kelson-state"), &state, Some("tmpfs"), SAFEST, Some("mode=0700,size=64M"))
        .map_err(|errno| failed(&state, &errno.desc()))?;
    Ok(String::new())
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
