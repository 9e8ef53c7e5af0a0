//! What is set once and costs nothing: limits, kernel parameters, the module list.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::service::ResourceLimit;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::{Task, TaskFailure};
use crate::task::{self, Launcher, Request};

/// The limit on open files that PID 1 was given; services get it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimit {
    pub soft: u64,
    pub hard: u64,
}

impl FileLimit {
    /// In the form in which children are given it.
    pub fn for_children(self) -> ResourceLimit {
        ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: self.soft, hard: self.hard }
    }
}

/// As many as a thousand services with four descriptors each need, with room.
const FILES: u64 = 65_536;

/// Raises PID 1's own limit on open files (init starts with 1024 and 4096) and returns what it was.
///
/// # Errors
/// When the kernel refuses even the hard limit that we have.
pub fn raise_file_limit() -> std::io::Result<FileLimit> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = FILES.max(hard);
    if setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_err() {
        // Not privileged: as far as it goes.
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(FileLimit { soft, hard })
}

/// How many open files a child can be given, at most `wanted`: a limit above PID 1's own takes a privilege that a container
/// may not have, and then its child could not be started at all.
pub fn files_for_child(wanted: u64) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    // PID 1 keeps what it gets here: its children are given their own limits.
    match hard < wanted && setrlimit(Resource::RLIMIT_NOFILE, soft, wanted).is_err() {
        true => hard,
        false => wanted,
    }
}

/// Sets kernel parameters, all of them, and names those that could not be.
pub fn sysctl(settings: Vec<(String, String)>) -> Task {
    Task::call("kernel parameters", move || {
        let mut failures = Vec::new();
        for (key, value) in &settings {
            let path = sysctl_path(key);
            if let Err(error) = std::fs::write(&path, value) {
                failures.push(format!("{key} = {value}: {error}"));
            }
        }
        if failures.is_empty() {
            Ok(format!("{} set", settings.len()))
        } else {
            Err(TaskFailure::from(failures.join("; ")))
        }
    })
}

/// `net.ipv4.conf.eth0/1.x` → `/proc/sys/net/ipv4/conf/eth0.1/x`: as sysctl(8), a dot parts and a slash is a dot;
/// but where the first separator is a slash, it is a path as it stands.
fn sysctl_path(key: &str) -> PathBuf {
    let slashes_part =
        key.find(['.', '/']).is_some_and(|at| key.get(at..).is_some_and(|rest| rest.starts_with('/')));
    let path: String = if slashes_part {
        key.to_owned()
    } else {
        let turned = |c| match c {
            '.' => '/',
            '/' => '.',
            c => c,
        };
        key.chars().map(turned).collect()
    };
    // Nothing above /proc/sys, whatever is written.
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    PathBuf::from("/proc/sys").join(parts.collect::<PathBuf>())
}

/// Loads kernel modules, in a process of its own: a driver's start may hang.
pub fn modules(launcher: Arc<dyn Launcher>, names: Vec<String>) -> Task {
    let deadline = Duration::from_secs(60);
    let count = names.len();
    let work = async move {
        if count == 0 {
            return Ok("none are named".to_owned());
        }
        Ok(task::run(launcher.as_ref(), &Request::LoadModules { names }, deadline).await?)
    };
    Task::new("kernel modules", work).within(deadline.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_child_is_promised_more_files_than_it_can_have() {
        let given = files_for_child(1 << 20);
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(given <= hard, "{given} of {hard}");
        assert_eq!(files_for_child(16), 16);
    }

    #[test]
    fn keys_become_paths() {
        let path = |key| sysctl_path(key).to_str().unwrap().to_owned();
        assert_eq!(path("net.ipv4.ip_forward"), "/proc/sys/net/ipv4/ip_forward");
        assert_eq!(path("net.ipv4.conf.eth0/1.forwarding"), "/proc/sys/net/ipv4/conf/eth0.1/forwarding");
        assert_eq!(path("net/ipv4/conf/eth0.1/forwarding"), "/proc/sys/net/ipv4/conf/eth0.1/forwarding");
        assert_eq!(path("net/../../etc/passwd"), "/proc/sys/net/etc/passwd");
        assert_eq!(path(".././x"), "/proc/sys/.x");
    }
}
