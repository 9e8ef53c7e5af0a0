//! Where the cgroups of services go: `kelson` below PID 1's own cgroup, wherever cgroup2 is mounted.
//!
//! `cgroup.procs`, `.kill` and `.freeze` need no controller, so a hybrid hierarchy without any serves. Where there are
//! controllers they are passed on to the services' cgroups. A cgroup other than the real root cannot do that while it
//! holds processes itself: then those (PID 1, as a rule alone) move to [`INIT`].

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::pids::{self, Pids};
use crate::runner::RunnerError;

/// The folder of all services' cgroups.
const FOLDER: &str = "kelson";
/// So many hosts may run in one cgroup: in PID namespaces of one shell, say.
const MOST_HOSTS: u32 = 64;
/// Where PID 1 itself sits in a container. No service has this name: theirs hold no underscore.
pub(super) const INIT: &str = "_init";
/// The controllers that a service's resources need.
const WANTED: [&str; 3] = ["memory", "cpu", "pids"];

/// The folder below which each service has its cgroup. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CgroupRoot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    folder: OwnedFd,
    controllers: Vec<&'static str>,
    warnings: Vec<String>,
    /// Known from the first service on.
    pids: OnceLock<Option<Pids>>,
}

impl CgroupRoot {
    /// Finds cgroup2 and this process's own cgroup in it, and makes the root.
    ///
    /// # Errors
    /// When there is no cgroup2, or it is not writable.
    pub fn discover() -> Result<CgroupRoot, RunnerError> {
        let read = |path: &str| {
            fs::read_to_string(path)
                .map_err(|error| RunnerError::system(format_args!("cannot read {path}"), &error))
        };
        let own = own_folder(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
            .ok_or_else(|| RunnerError::new("there is no cgroup2 that holds this process"))?;
        // An earlier life moved us there.
        let moved = own.file_name().is_some_and(|name| name == INIT);
        let own = if moved { own.ancestors().nth(2).unwrap_or(&own) } else { &own };
        CgroupRoot::below(own)
    }

    /// Makes the root below the cgroup at `own`.
    ///
    /// # Errors
    /// When it is not writable.
    pub fn below(own: &Path) -> Result<CgroupRoot, RunnerError> {
        let mut warnings = Vec::new();
        let mut path = own.join(FOLDER);
        let mut claimed = claim(&path)?;
        for number in 2..=MOST_HOSTS {
            if claimed.is_some() {
                break;
            }
            path = own.join(format!("{FOLDER}-{number}"));
            claimed = claim(&path)?;
        }
        let Some(folder) = claimed else {
            let own = own.display();
            return Err(RunnerError::new(format!("{MOST_HOSTS} other hosts have their cgroups below {own}")));
        };
        if !path.ends_with(FOLDER) {
            warnings.push(format!(
                "another host runs in this cgroup; the services of this one are below {}",
                path.display()
            ));
        }
        let controllers = pass_on_controllers(own, &path, &mut warnings);
        Ok(CgroupRoot::of(path, folder, controllers, warnings))
    }

    /// The root that an earlier life of this process has taken for itself: `folder` has been open ever since, so that no
    /// other host could take it.
    pub fn again(path: PathBuf, folder: OwnedFd) -> CgroupRoot {
        let mut warnings = Vec::new();
        let own = path.parent().unwrap_or(&path);
        let controllers = pass_on_controllers(own, &path, &mut warnings);
        CgroupRoot::of(path, folder, controllers, warnings)
    }

    fn of(
        path: PathBuf,
        folder: OwnedFd,
        controllers: Vec<&'static str>,
        warnings: Vec<String>,
    ) -> CgroupRoot {
        let pids = OnceLock::new();
        CgroupRoot { inner: Arc::new(Inner { path, folder, controllers, warnings, pids }) }
    }

    /// What keeps other hosts out for as long as it is open.
    pub fn claim(&self) -> BorrowedFd<'_> {
        self.inner.folder.as_fd()
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.inner.folder.as_fd()
    }

    /// Which of `memory`, `cpu` and `pids` the services' cgroups have.
    pub fn controllers(&self) -> &[&'static str] {
        &self.inner.controllers
    }

    /// How many processes and threads a service may have whose file says nothing of it. `None`: nothing limits it.
    pub(super) fn share_of_pids(&self) -> Option<u64> {
        let pids = self.inner.pids.get_or_init(|| {
            let pids = self.path().parent().and_then(Pids::read)?;
            pids::reserve(self.path(), pids);
            Some(pids)
        });
        pids.map(|pids| pids.share)
    }

    /// What could not be set up, for the log.
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }
}

/// Makes a folder and takes it for this process alone; `None` where another host that lives has it. What is in a
/// folder is taken for left over from an earlier life and killed: two hosts in one would kill each other's services.
fn claim(path: &Path) -> Result<Option<OwnedFd>, RunnerError> {
    let cannot =
        |error: &io::Error| RunnerError::system(format_args!("cannot make cgroup {}", path.display()), error);
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(&error)),
        _ => {}
    }
    let folder: OwnedFd = fs::File::open(path).map_err(|error| cannot(&error))?.into();
    // A read-only mount with the folder already there shows only now.
    nix::unistd::faccessat(&folder, ".", nix::unistd::AccessFlags::W_OK, nix::fcntl::AtFlags::AT_EACCESS)
        .map_err(|errno| cannot(&errno.into()))?;
    // SAFETY: a system call on a descriptor that is ours; the lock goes with it.
    if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(Some(folder));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EWOULDBLOCK) { Ok(None) } else { Err(cannot(&error)) }
}

/// The folder of this process's own cgroup: `mountinfo` says where cgroup2 is, `membership` (`/proc/self/cgroup`) which
/// cgroup is ours.
pub fn own_folder(mountinfo: &str, membership: &str) -> Option<PathBuf> {
    let own = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    mountinfo.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        if back.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = front.split(' ').skip(3);
        let (root, mount_point) = (unescape(fields.next()?), unescape(fields.next()?));
        // A mount that does not show our own cgroup serves for nothing.
        let relative = Path::new(own).strip_prefix(root).ok()?;
        let outside = relative.components().any(|part| part == std::path::Component::ParentDir);
        (!outside).then(|| Path::new(&mount_point).join(relative))
    })
}

/// mountinfo writes a space, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Enables the wanted controllers in `own` for `path`, and in `path` for the services. Returns those that work.
fn pass_on_controllers(own: &Path, path: &Path, warnings: &mut Vec<String>) -> Vec<&'static str> {
    let available = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
    let mut working = Vec::new();
    for wanted in WANTED {
        if !available.split_ascii_whitespace().any(|name| name == wanted) {
            continue;
        }
        let mut enabled = enable(own, wanted);
        if enabled.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)) {
            enabled = vacate(own, path).and_then(|()| enable(own, wanted));
        }
        match enabled.and_then(|()| enable(path, wanted)) {
            Ok(()) => working.push(wanted),
            Err(error) => {
                let what = format!("cannot pass on the cgroup controller {wanted}");
                warnings.push(RunnerError::system(what, &error).message);
            }
        }
    }
    working
}

fn enable(folder: &Path, controller: &str) -> io::Result<()> {
    fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"))
}

/// Moves the processes of `own` to a leaf. They may fork meanwhile, so it is done until none is left, a few times.
fn vacate(own: &Path, path: &Path) -> io::Result<()> {
    let leaf = path.join(INIT);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for _ in 0..8 {
        let members = fs::read_to_string(own.join("cgroup.procs"))?;
        if members.trim().is_empty() {
            break;
        }
        for pid in members.lines() {
            match fs::write(leaf.join("cgroup.procs"), pid) {
                // It has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:3 - cgroup cgroup rw,cpuset\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn cgroup2_is_found_in_each_kind_of_hierarchy() {
        let own = |mounts, membership| own_folder(mounts, membership).map(|p| p.display().to_string());
        assert_eq!(own(HYBRID, "5:cpu:/x\n0::/\n").as_deref(), Some("/sys/fs/cgroup/unified/"));
        assert_eq!(own(HYBRID, "0::/a/b\n").as_deref(), Some("/sys/fs/cgroup/unified/a/b"));
        let unified = "25 1 0:22 / /sys/fs/cg\\040roup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(own(unified, "0::/\n").as_deref(), Some("/sys/fs/cg roup/"));
        let container = "25 1 0:22 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(own(container, "0::/docker/abc\n").as_deref(), Some("/sys/fs/cgroup/"));
        assert_eq!(own(container, "0::/elsewhere\n"), None);
        assert_eq!(own(unified, "0::/../outside\n"), None);
        assert_eq!(own(HYBRID, "5:cpu:/x\n"), None);
        assert_eq!(own("", "0::/\n"), None);
    }
}
