//! The namespaces of a process that has some of its own: a container, or what a service made.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kelson_spec::service::OwnNamespaces;
use kelson_sys::process;

use crate::runner::{Namespaces, RunnerError};

/// Opens the network namespace of the process that PID and start time name, for
/// [`Command::network_of`](crate::Command::network_of). While it is open the namespace stays, also when all its
/// processes have ended. A file of `/proc`: it never waits.
///
/// # Errors
/// When that process has ended, the PID being a stranger's or nobody's, or its namespaces are not ours to enter.
pub fn open_network(pid: i32, start_time: u64) -> Result<OwnedFd, RunnerError> {
    open(pid, start_time, "net", "network")
}

impl Namespaces {
    /// Those of a process, where these say that it has some of its own.
    ///
    /// # Errors
    /// As [`open_network`].
    pub fn of(
        pid: i32,
        start_time: u64,
        has_mounts: bool,
        own: OwnNamespaces,
    ) -> Result<Namespaces, RunnerError> {
        let one = |wanted: bool, file, kind| match wanted {
            true => open(pid, start_time, file, kind).map(|fd| Some(Arc::new(fd))),
            false => Ok(None),
        };
        Ok(Namespaces {
            mounts: one(has_mounts, "mnt", "mount")?,
            network: one(own.network, "net", "network")?,
            users: one(own.users, "user", "user")?,
            devices: None,
        })
    }
}

fn open(pid: i32, start_time: u64, file: &str, kind: &str) -> Result<OwnedFd, RunnerError> {
    let cannot = |error: io::Error| {
        RunnerError::system(format_args!("cannot open the {kind} namespace of process {pid}"), &error)
    };
    let opened = File::open(format!("/proc/{pid}/ns/{file}"));
    // Asked after: the PID was this process's when it was opened.
    if process::started(pid).map_err(cannot)? != Some(start_time) {
        return Err(RunnerError::new(format!("process {pid} is gone")));
    }
    opened.map(OwnedFd::from).map_err(cannot)
}
