//! Starts Kelson's own helpers from PID 1's copy in memory, each kind with its privileges and its cgroup.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kelson_helper::{BoxFuture, Launched, Launcher, Start};
use kelson_runner::cgroup::Cgroup;
use kelson_runner::{CgroupRoot, Child, Command, Processes, Stdio};
use kelson_spec::MachineSpec;
use kelson_spec::service::Resources;
use tokio::sync::{Notify, oneshot};

use crate::service_runner::words;

/// A process that SIGKILL has not ended by then waits for a disk that does not answer.
const KILL: Duration = Duration::from_secs(3);

/// A helper program, with the cgroup and the limits that contain it.
#[derive(Debug, Clone)]
pub struct HelperKind {
    /// Of the personality.
    pub name: &'static str,
    /// Behind those of the single start.
    pub arguments: Vec<OsString>,
    /// Takes from it the privileges that it does not need.
    pub confine: fn(&Processes, Command) -> Command,
    /// PID 1 cannot do without it: the kernel spares it where memory is short.
    pub spared: bool,
    pub cgroup: HelperCgroup,
}

impl HelperKind {
    /// PID 1 cannot do without it, and it needs PID 1's privileges.
    pub const fn part_of_init(name: &'static str) -> HelperKind {
        HelperKind { name, arguments: Vec::new(), confine: as_init, spared: true, cgroup: HelperCgroup::None }
    }

    /// Each process has a cgroup of its own, which limits its memory.
    pub const fn limited(name: &'static str, cgroup: &'static str, memory: u64) -> HelperKind {
        let cgroup = HelperCgroup::Each { name: cgroup, memory };
        HelperKind { name, arguments: Vec::new(), confine: as_init, spared: false, cgroup }
    }
}

/// With the privileges of PID 1.
fn as_init(_: &Processes, command: Command) -> Command {
    command
}

/// In which cgroup a helper is.
#[derive(Debug, Clone)]
pub enum HelperCgroup {
    /// That of PID 1.
    None,
    /// Each process has one, which goes with it. They lie beside those of the services: no service's name begins with
    /// `_`.
    Each {
        name: &'static str,
        /// In bytes; whichever needs more is ended by the kernel, and nobody else is.
        memory: u64,
    },
    /// All processes share that of a built-in service, which stays.
    Shared {
        name: &'static str,
        resources: Resources,
        /// An operator asked for these limits: one that is not enforced is reported.
        asked_for: bool,
    },
}

impl HelperCgroup {
    /// That of a built-in service, with the limits of the machine file, else with its usual ones.
    pub fn of_builtin(machine: &MachineSpec, name: &'static str, usual: Resources) -> HelperCgroup {
        let resources = machine.builtin(name).and_then(|builtin| builtin.resources.clone());
        let asked_for = resources.is_some();
        HelperCgroup::Shared { name, resources: resources.unwrap_or(usual), asked_for }
    }
}

/// Starts helpers of one kind.
pub struct HelperLauncher {
    processes: Processes,
    /// The binary itself, for `execveat`.
    binary: Arc<OwnedFd>,
    kind: HelperKind,
    /// How many cgroups were made.
    number: AtomicU64,
}

impl HelperLauncher {
    pub fn new(processes: Processes, binary: Arc<OwnedFd>, kind: HelperKind) -> HelperLauncher {
        if let (Some(root), HelperCgroup::Each { name, .. }) = (processes.cgroups(), &kind.cgroup) {
            sweep(root, name);
        }
        HelperLauncher { processes, binary, kind, number: AtomicU64::new(0) }
    }

    fn cgroup(&self) -> Option<Cgroup> {
        let root = self.processes.cgroups()?;
        let number = || self.number.fetch_add(1, Ordering::Relaxed);
        let create = |name| Cgroup::create(root, name).map_err(|error| tracing::warn!("{error}")).ok();
        let (cgroup, warnings, warns) = match &self.kind.cgroup {
            HelperCgroup::None => return None,
            HelperCgroup::Each { name, memory } => {
                let mut free = format!("{name}-{}", number());
                // A helper of the previous incarnation may still be in its own.
                while root.path().join(&free).exists() {
                    free = format!("{name}-{}", number());
                }
                let cgroup = create(&free)?;
                // Where there is no memory controller it goes without.
                let resources = Resources { memory_max: Some(*memory), ..Resources::default() };
                let warnings = cgroup.limit(&resources);
                (cgroup, warnings, false)
            }
            HelperCgroup::Shared { name, resources, asked_for } => {
                let cgroup = create(name)?;
                // Where the last one was frozen, the next would be too.
                if let Err(error) = cgroup.thaw() {
                    tracing::warn!("{error}");
                }
                let warnings = cgroup.limit(resources);
                (cgroup, warnings, *asked_for && number() == 0)
            }
        };
        for warning in warnings {
            match warns {
                true => tracing::warn!("{}: {warning}", cgroup.name()),
                false => tracing::debug!("{}: {warning}", self.kind.name),
            }
        }
        Some(cgroup)
    }

    fn command(&self, start: Start, cgroup: Option<&Cgroup>) -> io::Result<Command> {
        let command = arrange(Command::from_descriptor(self.binary.try_clone()?, self.kind.name), start)
            .args(self.kind.arguments.iter().map(|argument| argument.as_bytes()));
        let command = (self.kind.confine)(&self.processes, command);
        let command = if self.kind.spared { command.spared() } else { command };
        Ok(match cgroup.and_then(|cgroup| Some((cgroup.folder().ok()?, cgroup.name()))) {
            Some((folder, name)) => command.cgroup(folder, name),
            None => command,
        })
    }
}

impl Launcher for HelperLauncher {
    fn launch(&self, start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let (cgroup, name) = (self.cgroup(), self.kind.name);
        let command = self.command(start, cgroup.as_ref());
        let own = cgroup.filter(|_| matches!(self.kind.cgroup, HelperCgroup::Each { .. }));
        let processes = self.processes.clone();
        let (started, start) = oneshot::channel();
        // A task of its own: also when nobody waits any more for the start, the cgroup goes with what was started.
        kelson_sys::spawn(async move {
            let spawned = match command {
                Ok(command) => {
                    processes.spawn(command).await.map_err(|error| io::Error::other(error.to_string()))
                }
                Err(error) => Err(error),
            };
            let Child { pid, start_time, pidfd, exit } = match spawned {
                Ok(child) => child,
                Err(error) => {
                    remove(own);
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
            remove(own);
            let _ = ended.send(how);
        });
        Box::pin(async move { start.await.unwrap_or_else(|_| Err(io::Error::other("PID 1 is ending"))) })
    }

    fn attach(&self, pid: i32, start_time: u64) -> Option<Launched> {
        let Child { pid, start_time, pidfd, exit } = self.processes.adopt(pid, start_time).ok()??;
        Some(Launched {
            pid,
            start_time,
            exit: Box::pin(async move { words::exit(exit.await) }),
            kill: Box::new(move || kelson_sys::pidfd::signal(&pidfd, libc::SIGKILL)),
        })
    }
}

/// Gives a command its arguments, its network and its descriptors.
fn arrange(command: Command, start: Start) -> Command {
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
        let kind = HelperKind::limited("kelson-test", "_test", 1 << 20);
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
