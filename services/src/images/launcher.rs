//! Starting `kelson-unpack` from PID 1's copy in memory.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kelson_image::{BoxFuture, Launched, Launcher, NAME, REPORT_DESCRIPTOR};
use kelson_runner::cgroup::Cgroup;
use kelson_runner::{Child, Command, Processes};
use kelson_spec::service::Resources;
use tokio::sync::oneshot;

use crate::service_runner::words;

/// More than it takes for any archive: whichever needs more is ended by the kernel, and nobody else is.
const MEMORY: u64 = 64 << 20;

/// Starts each in a cgroup of its own, beside those of the services: no service's name begins with `_`.
pub struct UnpackLauncher {
    processes: Processes,
    /// The binary itself, for `execveat`.
    binary: Arc<OwnedFd>,
    number: AtomicU64,
}

impl UnpackLauncher {
    pub fn new(processes: Processes, binary: Arc<OwnedFd>) -> UnpackLauncher {
        UnpackLauncher { processes, binary, number: AtomicU64::new(0) }
    }

    fn cgroup(&self) -> Option<Cgroup> {
        let root = self.processes.cgroups()?;
        let name = format!("_unpack-{}", self.number.fetch_add(1, Ordering::Relaxed));
        let cgroup = Cgroup::create(root, &name).map_err(|error| tracing::warn!("{error}")).ok()?;
        // Where there is no memory controller it goes without.
        let resources = Resources { memory_max: Some(MEMORY), ..Resources::default() };
        for warning in cgroup.limit(&resources) {
            tracing::debug!("{NAME}: {warning}");
        }
        Some(cgroup)
    }
}

impl Launcher for UnpackLauncher {
    fn launch(&self, arguments: Vec<OsString>, report: OwnedFd) -> BoxFuture<'static, io::Result<Launched>> {
        let cgroup = self.cgroup();
        let command = self.binary.try_clone().map(|binary| {
            let command = Command::from_descriptor(binary, NAME)
                .args(arguments.into_iter().map(OsString::into_vec))
                .descriptor(report, REPORT_DESCRIPTOR);
            match &cgroup {
                Some(cgroup) => command.cgroup(cgroup.folder(), cgroup.name()),
                None => command,
            }
        });
        let processes = self.processes.clone();
        Box::pin(async move {
            let spawned = match command {
                Ok(command) => {
                    processes.spawn(command).await.map_err(|error| io::Error::other(error.to_string()))
                }
                Err(error) => Err(error),
            };
            let Child { pid, pidfd, exit, .. } = match spawned {
                Ok(child) => child,
                Err(error) => {
                    remove(cgroup);
                    return Err(error);
                }
            };
            // Also where nobody waits for its end any more, its cgroup goes with it.
            let (ended, end) = oneshot::channel();
            tokio::spawn(async move {
                let how = words::exit(exit.await);
                remove(cgroup);
                let _ = ended.send(how);
            });
            Ok(Launched {
                pid,
                exit: Box::pin(async move { end.await.unwrap_or_else(|_| "PID 1 is ending".to_owned()) }),
                kill: Box::new(move || kelson_runner::signal_pidfd(&pidfd, libc::SIGKILL)),
            })
        })
    }
}

fn remove(cgroup: Option<Cgroup>) {
    if let Some(Err(error)) = cgroup.map(|cgroup| cgroup.remove()) {
        tracing::warn!("{error}");
    }
}
