//! `logd`: collects the logs of services.
//!
//! It is no ordinary service: the [`Collector`] replaces it when it dies or freezes, with the same pipes, and it ends
//! after all services have. Here it is started, and shown like a service.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use kelson_helper::{BoxFuture, Launched, Launcher, Start};
use kelson_runner::cgroup::Cgroup;
use kelson_runner::seccomp::Filter;
use kelson_runner::{Command, Processes};
use kelson_spec::service::{LogSpec, Resources};
use tokio::sync::{mpsc, watch};

use crate::collector::{Collector, LogOptions, LogdStatus, Report};
use crate::error::ServicesError;
use crate::events::EventLog;
use crate::helpers::{arrange, launched};
use crate::manager::{ExternalService, Manager};
use crate::metrics::Dropped;
use crate::model::{Snapshot, State, wall};
use crate::service_runner::host_context::LogPipes;

/// The name under which it is shown.
pub const NAME: &str = "logd";

/// `chown` for the group of its socket, `sys_nice` for its priority; it gives them up once it has begun.
const CAPABILITIES: u64 = 1 << 0 | 1 << 23;

/// Starts `kelson-logd` from PID 1's copy in memory. It begins below the runtime folder; the [`Collector`] tells it the
/// folder that is wanted, and it stays where it is while that one cannot be written.
pub struct LogdLauncher {
    pub processes: Processes,
    /// The binary itself, for `execveat`.
    pub binary: Arc<OwnedFd>,
    pub runtime_dir: PathBuf,
    /// The group of the sockets; apid is in it.
    pub group: Option<u32>,
    /// What its cgroup may use.
    pub resources: Resources,
}

impl Launcher for LogdLauncher {
    fn launch(&self, start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let command = self.binary.try_clone().map(|binary| {
            let mut command = arrange(Command::from_descriptor(binary, "kelson-logd"), start)
                .arg("--runtime-dir")
                .arg(self.runtime_dir.as_os_str().as_encoded_bytes())
                .bounding(Some(CAPABILITIES))
                .no_new_privileges(true)
                .seccomp(Some(Arc::new(Filter::logd())))
                .spared();
            if let Some(group) = self.group {
                command = command.arg("--group").arg(group.to_string());
            }
            if let Some(Ok(cgroup)) = self.processes.cgroups().map(|root| Cgroup::create(root, NAME))
                && let Ok(folder) = cgroup.folder()
            {
                // Where the last one was frozen, the next would be too.
                if let Err(error) = cgroup.thaw() {
                    tracing::warn!("{error}");
                }
                for warning in cgroup.limit(&self.resources) {
                    tracing::warn!("{NAME}: {warning}");
                }
                command = command.cgroup(folder, NAME);
            }
            command
        });
        let processes = self.processes.clone();
        Box::pin(async move {
            let child =
                processes.spawn(command?).await.map_err(|error| io::Error::other(error.to_string()))?;
            Ok(launched(child))
        })
    }

    fn attach(&self, pid: i32, start_time: u64) -> Option<Launched> {
        self.processes.adopt(pid, start_time).ok().flatten().map(launched)
    }
}

/// The collector as the services use it.
pub struct Pipes(pub Collector);

impl LogPipes for Pipes {
    fn pipes(&self, service: &str, run: u64, spec: &LogSpec) -> io::Result<(OwnedFd, OwnedFd)> {
        let options = LogOptions {
            max_size: spec.max_size,
            max_files: spec.max_files,
            rate_limit: spec.rate_limit,
            console: spec.console,
        };
        self.0.pipes(service, run, options)
    }

    fn forget(&self, service: &str) {
        self.0.forget(service);
    }
}

struct Shown {
    collector: Collector,
    snapshot: watch::Receiver<Snapshot>,
}

impl ExternalService for Shown {
    fn snapshot(&self) -> watch::Receiver<Snapshot> {
        self.snapshot.clone()
    }

    fn restart(&self) -> Result<(), ServicesError> {
        self.collector.restart();
        Ok(())
    }

    fn dropped(&self) -> Option<Dropped> {
        let status = self.collector.status();
        let status = status.borrow();
        Some(Dropped { lines: status.dropped_lines, bytes: status.dropped_bytes })
    }
}

/// Shows logd among the services, and makes events of what it reports.
pub fn show(manager: &Manager, events: &EventLog, collector: Collector, mut reports: mpsc::Receiver<Report>) {
    let mut status = collector.status();
    let mut first = snapshot(&status.borrow_and_update(), false);
    if let Some(told) = events.of_service(NAME).last().filter(|_| first.up) {
        // It has gone on from an earlier incarnation of PID 1.
        first.since = told.time;
    }
    let (publisher, receiver) = watch::channel(first);
    manager.add_external(NAME, Arc::new(Shown { collector, snapshot: receiver }));
    let (events, told) = (events.clone(), manager.clone());
    let reported = manager.clone();
    let name: Arc<str> = Arc::from(NAME);
    tokio::spawn(async move {
        while status.changed().await.is_ok() {
            let now = snapshot(&status.borrow_and_update(), told.closing());
            let before = publisher.send_replace(now.clone());
            if before.message != now.message || before.pid != now.pid {
                events.add(&name, now.state, Arc::clone(&now.message), now.run);
            }
        }
    });
    tokio::spawn(async move {
        while let Some(report) = reports.recv().await {
            match report {
                Report::Dropped { service, lines, bytes, reason } => reported.service_event(
                    &service,
                    &format!("{lines} lines ({bytes} bytes) of its log were dropped: {reason}"),
                ),
                Report::Trouble { text } => reported.service_event(NAME, &text),
                Report::Restarted { reason } => reported.service_event(NAME, &format!("replaced: {reason}")),
            }
        }
    });
}

fn snapshot(status: &LogdStatus, closing: bool) -> Snapshot {
    let status = &status.helper;
    let ended = closing && status.pid.is_none();
    let state = match status.up {
        true => State::Running,
        false if ended => State::Stopped,
        false => State::Starting,
    };
    Snapshot {
        up: status.up,
        down: ended,
        restarts: status.restarts,
        runs: status.pid.is_some(),
        pid: status.pid,
        since: wall(status.since),
        entered: status.since,
        builtin: true,
        stopped: ended,
        run: u64::from(status.restarts).saturating_add(1),
        ..Snapshot::new(Arc::from(NAME), state, Arc::clone(&status.message))
    }
}
