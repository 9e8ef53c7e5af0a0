//! What is set once: limits of PID 1 by itself; kernel parameters, modules, names, clock and randomness by `kelson-task`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_helper::task::EARLIEST_TIME;
use kelson_spec::service::ResourceLimit;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::Task;
use kelson_helper::Launcher;

use crate::task::Request;

/// What is kept of the kernel's randomness from one run to the next.
pub const RANDOM_SEED: &str = "/var/lib/kelson/random-seed";
/// Each step may wait so long for its disk.
const STEP: Duration = Duration::from_secs(10);
/// How long drivers may take to start.
const MODULES: Duration = Duration::from_secs(60);

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

/// Sets kernel parameters.
pub fn parameters(launcher: &Arc<dyn Launcher>, settings: Vec<(String, String)>) -> Task {
    let name = "kernel parameters";
    if settings.is_empty() {
        return Task::call(name, || Ok("none are named".to_owned()));
    }
    Task::request(name, launcher, Request::SetParameters { settings }, STEP)
}

/// Sets the host name: the machine file's, else the kernel command line's (`ip=`), else that of `/etc/hostname`.
pub fn host_name(launcher: &Arc<dyn Launcher>, name: Option<String>) -> Task {
    Task::request("host name", launcher, Request::SetHostName { name }, STEP)
}

/// Makes sure that there is a machine id.
pub fn machine_id(launcher: &Arc<dyn Launcher>, runtime: &Path) -> Task {
    let transient = runtime.join("machine-id");
    Task::request("machine id", launcher, Request::SetMachineId { transient }, STEP)
}

/// Sets the clock from the hardware's where the kernel has not done it.
pub fn clock(launcher: &Arc<dyn Launcher>) -> Task {
    let name = "clock";
    if SystemTime::now().duration_since(UNIX_EPOCH).is_ok_and(|time| time >= EARLIEST_TIME) {
        return Task::call(name, || Ok("the kernel has set it".to_owned()));
    }
    Task::request(name, launcher, Request::SetClock, STEP)
}

/// Stirs the saved seed into the kernel's randomness.
pub fn seed(launcher: &Arc<dyn Launcher>) -> Task {
    Task::request("random seed", launcher, Request::LoadSeed { path: RANDOM_SEED.into() }, STEP)
}

/// Loads kernel modules: a driver's start may hang.
pub fn modules(launcher: &Arc<dyn Launcher>, names: Vec<String>) -> Task {
    let name = "kernel modules";
    if names.is_empty() {
        return Task::call(name, || Ok("none are named".to_owned()));
    }
    Task::request(name, launcher, Request::LoadModules { names }, MODULES)
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
}
