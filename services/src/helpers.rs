//! Starting Kelson's own helpers from PID 1's copy in memory: in a cgroup of its own that goes with it, or as a part of PID 1.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kelson_helper::{BoxFuture, Launched, Launcher, Start};
use kelson_runner::cgroup::Cgroup;
use kelson_runner::{CgroupRoot, Child, Command, Processes, Stdio};
use kelson_spec::service::Resources;
use tokio::sync::{Notify, oneshot};

use crate::service_runner::words;

/// A process that SIGKILL has not ended by then waits for a disk that does not answer.
const KILL: Duration = Duration::from_secs(3);

/// What is to be started.
#[derive(Debug, Clone, Copy)]
pub struct HelperKind {
    /// Of the personality.
    pub name: &'static str,
    /// `None`: PID 1 cannot do without it. It has no cgroup, and the kernel spares it where memory is short.
    pub limits: Option<Limits>,
}

/// What contains a helper.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of its cgroups, beside those of the services: no service's name begins with `_`.
    pub cgroup: &'static str,
    /// In bytes; whichever needs more is ended by the kernel, and nobody else is.
    pub memory: u64,
}

/// Starts helpers of one kind.
pub struct HelperLauncher {
    processes: Processes,
    /// The binary itself, for `execveat`.
    binary: Arc<OwnedFd>,
    kind: HelperKind,
    number: AtomicU64,
}

impl HelperLauncher {
    pub fn new(processes: Processes, binary: Arc<OwnedFd>, kind: HelperKind) -> HelperLauncher {
        if let (Some(root), Some(limits)) = (processes.cgroups(), kind.limits) {
            sweep(root, limits.cgroup);
        }
        HelperLauncher { processes, binary, kind, number: AtomicU64::new(0) }
    }

    fn cgroup(&self) -> Option<Cgroup> {
        let (root, limits) = (self.processes.cgroups()?, self.kind.limits?);
        let name = || format!("{}-{}", limits.cgroup, self.number.fetch_add(1, Ordering::Relaxed));
        let mut free = name();
        // A helper of the previous incarnation may still be in its own.
        while root.path().join(&free).exists() {
            free = name();
        }
        let cgroup = Cgroup::create(root, &free).map_err(|error| tracing::warn!("{error}")).ok()?;
        // Where there is no memory controller it goes without.
        let resources = Resources { memory_max: Some(limits.memory), ..Resources::default() };
        for warning in cgroup.limit(&resources) {
            tracing::debug!("{}: {warning}", self.kind.name);
        }
        Some(cgroup)
    }

    fn command(&self, start: Start, cgroup: Option<&Cgroup>) -> io::Result<Command> {
        let command = arrange(Command::from_descriptor(self.binary.try_clone()?, self.kind.name), start);
        Ok(match cgroup.and_then(|cgroup| Some((cgroup.folder().ok()?, cgroup.name()))) {
            Some((folder, name)) => command.cgroup(folder, name),
            None if self.kind.limits.is_none() => command.spared(),
            None => command,
        })
    }
}

impl Launcher for HelperLauncher {
    fn launch(&self, start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let (cgroup, name) = (self.cgroup(), self.kind.name);
        let command = self.command(start, cgroup.as_ref());
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
            let Child { pid, start_time, pidfd, exit } = match spawned {
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
            let helper = Launched {
                pid,
                start_time,
                exit: Box::pin(async move { end.await.unwrap_or_else(|_| "PID 1 is ending".to_owned()) }),
                kill: Box::new(move || {
                    kelson_sys::pidfd::signal(&pidfd, libc::SIGKILL);
                    killing.notify_one();
                }),
            };
            if let Err(Ok(helper)) = started.send(Ok(helper)) {
                (helper.kill)();
            }
            // Also where nobody waits for its end any more, its cgroup goes with it.
            let outlives = async {
                killed.notified().await;
                tokio::time::sleep(KILL).await;
            };
            tokio::select! {
                _ = exit.clone() => {}
                () = outlives => tracing::warn!(
                    "{name} (PID {pid}) cannot be killed, as it waits for a disk that does not answer; it is left behind"
                ),
            }
            let how = words::exit(exit.await);
            remove(cgroup);
            let _ = ended.send(how);
        });
        Box::pin(async move { start.await.unwrap_or_else(|_| Err(io::Error::other("PID 1 is ending"))) })
    }
}

/// Gives a command its arguments, its network and its descriptors.
pub fn arrange(command: Command, start: Start) -> Command {
    let mut command = command.args(start.arguments.into_iter().map(OsString::into_vec));
    if let Some(network) = start.network {
        command = command.network_of(network);
    }
    start.descriptors.into_iter().fold(command, |command, (number, descriptor)| match number {
        libc::STDIN_FILENO => command.stdin(Stdio::Descriptor(descriptor)),
        libc::STDOUT_FILENO => command.stdout(Stdio::Descriptor(descriptor)),
        _ => command.descriptor(descriptor, number),
    })
}

/// What PID 1 holds of a process that was spawned.
pub fn launched(child: Child) -> Launched {
    let Child { pid, start_time, pidfd, exit } = child;
    Launched {
        pid,
        start_time,
        exit: Box::pin(async move { words::exit(exit.await) }),
        kill: Box::new(move || kelson_sys::pidfd::signal(&pidfd, libc::SIGKILL)),
    }
}

/// Removes what helpers of the previous incarnation have left; one that still lives keeps its own.
fn sweep(root: &CgroupRoot, cgroup: &str) {
    let left = std::fs::read_dir(root.path()).into_iter().flatten().flatten();
    let of_kind = |name: &str| name.strip_prefix(cgroup).is_some_and(|rest| rest.starts_with('-'));
    for entry in left.filter(|entry| entry.file_name().to_str().is_some_and(of_kind)) {
        let _ = std::fs::remove_dir(entry.path());
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

    use kelson_runner::Options;

    use super::*;

    #[tokio::test]
    async fn no_cgroup_stays_of_a_start_that_nobody_waits_for() {
        let folder = std::env::temp_dir().join(format!("kelson-launcher-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // A folder like any other: it takes no process, so the start fails.
        let root = CgroupRoot::below(&folder).unwrap();
        let path = root.path().to_owned();
        fs::create_dir_all(path.join("_test-0")).unwrap();
        fs::create_dir_all(path.join("_test-1/lives")).unwrap();
        fs::create_dir_all(path.join("_testing")).unwrap();
        let cgroups = || {
            let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.as_encoded_bytes().starts_with(b"_test-")).count()
        };
        let processes = Processes::new(Options { cgroups: Some(root), ..Options::default() }).unwrap();
        let binary = Arc::new(OwnedFd::from(File::open("/bin/true").unwrap()));
        let limits = Limits { cgroup: "_test", memory: 1 << 20 };
        let kind = HelperKind { name: "kelson-test", limits: Some(limits) };
        let launcher = HelperLauncher::new(processes, binary, kind);
        assert_eq!(cgroups(), 1, "that of the life before is gone, but for the one in which something is");
        let starts = [(); 2].map(|()| launcher.launch(Start::default()));
        assert_eq!(cgroups(), 3);
        assert!(path.join("_test-2").exists());
        drop(starts);
        let gone = async {
            while cgroups() > 1 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
        assert!(path.join("_testing").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
