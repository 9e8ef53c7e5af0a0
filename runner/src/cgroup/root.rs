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

use kelson_spec::names::service_of_cgroup;
use kelson_sys::mountinfo::{self, Mount};
use kelson_sys::process;

use super::pids::{self, INIT, Pids};
use crate::runner::RunnerError;

/// The folder of all services' cgroups.
const FOLDER: &str = "kelson";
/// How many hosts may run in one cgroup: in PID namespaces of one shell, say.
const MOST_HOSTS: u32 = 64;
/// The controllers that a service's resources need.
const WANTED: [&str; 3] = ["memory", "cpu", "pids"];
/// The one that few services need.
const IO: &str = "io";

/// The folder below which each service has its cgroup. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CgroupRoot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// The same as the kernel names it in `/proc/PID/cgroup`.
    kernel_path: Option<String>,
    folder: OwnedFd,
    controllers: Vec<&'static str>,
    warnings: Vec<String>,
    /// Known from the first service on.
    pids: OnceLock<Option<Pids>>,
    /// Whether the services have the controller [`IO`]; known from the first service on that needs it.
    io: OnceLock<bool>,
    /// Known from the first delegated service on.
    delegated: OnceLock<Vec<String>>,
}

impl CgroupRoot {
    /// Finds cgroup2 and this process's own cgroup in it, and makes the root.
    ///
    /// # Errors
    /// When there is no cgroup2, or it is not writable.
    pub fn discover() -> Result<CgroupRoot, RunnerError> {
        let unreadable =
            |path: &str, error: io::Error| RunnerError::system(format_args!("cannot read {path}"), &error);
        let mounts = mountinfo::read().map_err(|error| unreadable("/proc/self/mountinfo", error))?;
        let membership =
            process::membership("self").map_err(|error| unreadable("/proc/self/cgroup", error))?;
        let own = own_folder(&mounts, &membership)
            .ok_or_else(|| RunnerError::new("there is no cgroup2 that holds this process"))?;
        // An earlier incarnation moved us there.
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

    /// The root that an earlier incarnation of this process has taken for itself: `folder` has been open ever since, so
    /// that no other host could take it.
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
        let (pids, io, delegated) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let membership = process::membership("self").unwrap_or_default();
        let kernel_path = kernel_path(&path, &membership);
        CgroupRoot {
            inner: Arc::new(Inner { path, kernel_path, folder, controllers, warnings, pids, io, delegated }),
        }
    }

    /// The descriptor that keeps other hosts out for as long as it is open.
    pub fn claim(&self) -> BorrowedFd<'_> {
        self.inner.folder.as_fd()
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The service that a process belongs to, by what `/proc/PID/cgroup` says of it: [`CgroupRoot::cgroup`] the other
    /// way round. `None`: it is in no service's cgroup.
    pub fn service_of(&self, membership: &str) -> Option<String> {
        let root = self.inner.kernel_path.as_deref()?;
        let below = unified(membership)?.strip_prefix(root)?.strip_prefix('/')?;
        service_of_cgroup(below).map(str::to_owned)
    }

    /// The cgroup of a service, as `/proc/PID/cgroup` names it. `None`: the kernel does not say where the services' are.
    pub fn kernel_path_of(&self, service: &str) -> Option<String> {
        Some(format!("{}/{service}", self.inner.kernel_path.as_deref()?))
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.inner.folder.as_fd()
    }

    /// Which of `memory`, `cpu` and `pids` the services' cgroups have.
    pub fn controllers(&self) -> &[&'static str] {
        &self.inner.controllers
    }

    /// Whether the services' cgroups have this controller. [`IO`] is passed on to them when the first service asks.
    pub(super) fn has(&self, controller: &str) -> bool {
        let has_io = || available(self.own()).iter().any(|name| name == IO) && self.pass_on_late(IO);
        self.controllers().contains(&controller) || controller == IO && *self.inner.io.get_or_init(has_io)
    }

    /// The cgroup that it is in.
    fn own(&self) -> &Path {
        self.path().parent().unwrap_or(self.path())
    }

    fn pass_on_late(&self, controller: &str) -> bool {
        let mut warnings = Vec::new();
        let works = pass_on(self.own(), self.path(), controller, &mut warnings);
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        works
    }

    /// Every controller that a delegated service can be given: all that this host has. They are passed on as far as the
    /// services' cgroups when the first such service asks; until then only the [`WANTED`] ones cost anything.
    pub(super) fn delegated_controllers(&self) -> &[String] {
        self.inner.delegated.get_or_init(|| {
            let mut offered = available(self.own());
            offered.retain(|controller| self.pass_on_late(controller));
            offered
        })
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

    /// The parts that could not be set up, for the log.
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }
}

/// Makes a folder and takes it for this process alone; `None` where another host that lives has it. Processes
/// in a folder are taken for leftovers of an earlier incarnation and killed: two hosts in one would kill each
/// other's services.
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

/// The folder of this process's own cgroup: `mounts` say where cgroup2 is, `membership` (`/proc/self/cgroup`) which
/// cgroup is ours.
pub fn own_folder(mounts: &[Mount], membership: &str) -> Option<PathBuf> {
    let own = unified(membership)?;
    mounts.iter().filter(|mount| mount.fs_type == "cgroup2").find_map(|mount| {
        // A mount that does not show our own cgroup serves for nothing.
        let relative = Path::new(own).strip_prefix(&mount.root).ok()?;
        let outside = relative.components().any(|part| part == std::path::Component::ParentDir);
        (!outside).then(|| mount.target.join(relative))
    })
}

/// The cgroup of version 2 in `/proc/PID/cgroup`.
fn unified(membership: &str) -> Option<&str> {
    membership.lines().find_map(|line| line.strip_prefix("0::"))
}

/// How the kernel names the root at `path`: it is below this process's own cgroup, or this process has moved below it.
fn kernel_path(path: &Path, membership: &str) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let own = unified(membership)?.trim_end_matches('/');
    match own.strip_suffix(INIT).and_then(|root| root.strip_suffix('/')) {
        Some(root) if root.ends_with(name) => Some(root.to_owned()),
        _ => Some(format!("{own}/{name}")),
    }
}

/// The controllers that the cgroup at `own` may pass on.
fn available(own: &Path) -> Vec<String> {
    let text = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Passes on the wanted controllers. Returns those that work.
fn pass_on_controllers(own: &Path, path: &Path, warnings: &mut Vec<String>) -> Vec<&'static str> {
    let available = available(own);
    let there = |wanted: &&str| available.iter().any(|name| name == wanted);
    WANTED.into_iter().filter(there).filter(|wanted| pass_on(own, path, wanted, warnings)).collect()
}

/// Enables a controller in `own` for `path`, and in `path` for the services. Returns whether it works.
fn pass_on(own: &Path, path: &Path, controller: &str, warnings: &mut Vec<String>) -> bool {
    let mut enabled = enable(own, controller);
    if enabled.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)) {
        enabled = vacate(own, path).and_then(|()| enable(own, controller));
    }
    match enabled.and_then(|()| enable(path, controller)) {
        Ok(()) => true,
        Err(error) => {
            let what = format!("cannot pass on the cgroup controller {controller}");
            warnings.push(RunnerError::system(what, &error).message);
            false
        }
    }
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
        let own = |table: &str, membership| {
            own_folder(&mountinfo::parse(table.as_bytes()), membership).map(|p| p.display().to_string())
        };
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

    #[test]
    fn the_kernels_name_of_the_root_leads_back_to_a_service() {
        let of = |path: &str, membership| kernel_path(Path::new(path), membership);
        assert_eq!(of("/sys/fs/cgroup/kelson", "0::/\n").as_deref(), Some("/kelson"));
        assert_eq!(of("/sys/fs/cgroup/kelson", "0::/kelson/_init\n").as_deref(), Some("/kelson"));
        let path = "/sys/fs/cgroup/unified/box/kelson-2";
        assert_eq!(of(path, "5:cpu:/x\n0::/box\n").as_deref(), Some("/box/kelson-2"));
        assert_eq!(of(path, "0::/box/kelson-2/_init\n").as_deref(), Some("/box/kelson-2"));
        assert_eq!(of(path, "5:cpu:/x\n"), None);
        let own = std::env::temp_dir().join(format!("kelson-membership-{}", std::process::id()));
        fs::create_dir_all(&own).unwrap();
        let root = CgroupRoot::below(&own).unwrap();
        let kernel_path = root.inner.kernel_path.clone().unwrap();
        let service = |below: &str| root.service_of(&format!("3:cpu:/x\n0::{kernel_path}{below}\n"));
        for below in ["/web", "/web/main", "/web/main/kelson/db", "/shims/web"] {
            assert_eq!(service(below).as_deref(), Some("web"), "{below}");
        }
        for below in ["", "/", "/_init", "/_unpack-3", "x/web"] {
            assert_eq!(service(below), None, "{below}");
        }
        fs::remove_dir_all(&own).unwrap();
    }
}
