//! The network namespace of a process that has one of its own: a container, or what a service made.

use std::fs::File;
use std::os::fd::OwnedFd;

use crate::processes;
use crate::runner::RunnerError;

/// Opens the network namespace of the process that PID and start time name, for
/// [`Command::network_of`](crate::Command::network_of). While it is open the namespace stays, also when all its
/// processes have ended. A file of `/proc`: it never waits.
///
/// # Errors
/// When that process has ended, the PID being a stranger's or nobody's, or its namespaces are not ours to enter.
pub fn open_network(pid: i32, start_time: u64) -> Result<OwnedFd, RunnerError> {
    let gone = || RunnerError::new(format!("process {pid} is gone"));
    let lives = || processes::start_time(&pid.to_string()) == Some(start_time);
    match File::open(format!("/proc/{pid}/ns/net")) {
        // Asked after: the PID was this process's when it was opened.
        Ok(namespace) if lives() => Ok(namespace.into()),
        Ok(_) => Err(gone()),
        Err(_) if !lives() => Err(gone()),
        Err(error) => {
            let what = format_args!("cannot open the network namespace of process {pid}");
            Err(RunnerError::system(what, &error))
        }
    }
}
