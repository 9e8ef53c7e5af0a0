//! Starting `kelson-unpack` from PID 1's copy in memory.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kelson_image::{BoxFuture, Launched, Launcher, NAME, REPORT_DESCRIPTOR};
use kelson_runner::cgroup::Cgroup;
use kelson_runner::{Child, Command, Processes};
use kelson_spec::service::Resources;
use tokio::sync::{Notify, oneshot};

use crate::service_runner::words;

/// More than it takes for any archive: whichever needs more is ended by the kernel, and nobody else is.
const MEMORY: u64 = 64 << 20;

/// A process that SIGKILL has not ended by then waits for a disk that does not answer.
const KILL: Duration = Duration::from_secs(3);

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
        let (started, start) = oneshot::channel();
        // A task of its own: also when nobody waits any more for the start, the cgroup goes with what was started.
        tokio::spawn(async move {
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
                    let _ = started.send(Err(error));
                    return;
                }
            };
            let (ended, end) = oneshot::channel();
            let killing = Arc::new(Notify::new());
            let killed = Arc::clone(&killing);
            let launched = Launched {
                pid,
                exit: Box::pin(async move { end.await.unwrap_or_else(|_| "PID 1 is ending".to_owned()) }),
                kill: Box::new(move || {
                    kelson_runner::signal_pidfd(&pidfd, libc::SIGKILL);
                    killing.notify_one();
                }),
            };
            if let Err(Ok(launched)) = started.send(Ok(launched)) {
                (launched.kill)();
            }
            // Also where nobody waits for its end any more, its cgroup goes with it.
            let outlives = async {
                killed.notified().await;
                tokio::time::sleep(KILL).await;
            };
            tokio::select! {
                _ = exit.clone() => {}
                () = outlives => tracing::warn!(
                    "{NAME} (PID {pid}) cannot be killed, as it waits for a disk that does not answer; it is left behind"
                ),
            }
            let how = words::exit(exit.await);
            remove(cgroup);
            let _ = ended.send(how);
        });
        Box::pin(async move { start.await.unwrap_or_else(|_| Err(io::Error::other("PID 1 is ending"))) })
    }
}

fn remove(cgroup: Option<Cgroup>) {
    if let Some(Err(error)) = cgroup.map(|cgroup| cgroup.remove()) {
        tracing::warn!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use kelson_runner::{CgroupRoot, Options};

    use super::*;

    #[tokio::test]
    async fn no_cgroup_stays_of_a_start_that_nobody_waits_for() {
        let folder = std::env::temp_dir().join(format!("kelson-launcher-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // A folder like any other: it takes no process, so the start fails.
        let root = CgroupRoot::below(&folder).unwrap();
        let path = root.path().to_owned();
        let cgroups = || {
            let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.as_encoded_bytes().starts_with(b"_unpack-")).count()
        };
        let processes = Processes::new(Options { cgroups: Some(root), ..Options::default() }).unwrap();
        let binary = Arc::new(OwnedFd::from(File::open("/bin/true").unwrap()));
        let launcher = UnpackLauncher::new(processes, binary);
        let (_ours, theirs) = io::pipe().unwrap();
        let start = launcher.launch(Vec::new(), theirs.into());
        assert_eq!(cgroups(), 1);
        drop(start);
        let gone = async {
            while cgroups() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
