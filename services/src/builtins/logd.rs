//! `logd`: collects the logs of services.
//!
//! It is no ordinary service: the [`Collector`] replaces it when it dies or freezes, with the same pipes, and it ends
//! after all services have.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use kelson_runner::seccomp::Filter;
use kelson_spec::MachineSpec;
use kelson_spec::service::{LogSpec, Resources};
use tokio::sync::mpsc;

use super::helper::{self, HelperService};
use crate::collector::{Collector, LogOptions, LogdStatus, Report};
use crate::events::EventLog;
use crate::helpers::{HelperCgroup, HelperKind};
use crate::manager::Manager;
use crate::metrics::Dropped;
use crate::service_runner::host_context::LogPipes;

/// The name under which it is shown.
pub const NAME: &str = "logd";

/// `chown` for the group of its socket, `sys_nice` for its priority; it gives them up once it has begun.
const CAPABILITIES: u64 = 1 << 0 | 1 << 23;

/// How it is started. It begins below the runtime folder; the [`Collector`] tells it the folder that is wanted, and it stays
/// where it is while that one cannot be written. `group` is that of the sockets; apid is in it.
pub fn kind(machine: &MachineSpec, runtime_dir: &Path, group: Option<u32>) -> HelperKind {
    let mut arguments = vec!["--runtime-dir".into(), runtime_dir.into()];
    if let Some(group) = group {
        arguments.extend(["--group".into(), group.to_string().into()]);
    }
    HelperKind {
        name: "kelson-logd",
        arguments,
        confine: |_, command| {
            let filter = Some(Arc::new(Filter::logd()));
            command.bounding(Some(CAPABILITIES)).no_new_privileges(true).seccomp(filter)
        },
        spared: true,
        cgroup: HelperCgroup::of_builtin(machine, NAME, Resources::default()),
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

    fn dropped(&self) -> Option<Dropped> {
        let status = self.0.status();
        let status = status.borrow();
        Some(Dropped { lines: status.dropped_lines, bytes: status.dropped_bytes })
    }
}

/// Shows logd among the services, and makes events of what it reports.
pub fn show(manager: &Manager, events: &EventLog, collector: Collector, reports: mpsc::Receiver<Report>) {
    let service = HelperService {
        name: NAME,
        status: collector.status(),
        snapshot: |status: &LogdStatus, closing| helper::snapshot(NAME, &status.helper, true, closing),
        reports,
        event,
        restart: Box::new(move || collector.restart()),
    };
    service.show(manager, events);
}

fn event(report: Report) -> (Arc<str>, String) {
    match report {
        Report::Dropped { service, lines, bytes, reason } => {
            (service, format!("{lines} lines ({bytes} bytes) of its log were dropped: {reason}"))
        }
        Report::Trouble { text } => (Arc::from(NAME), text),
        Report::Restarted { reason } => (Arc::from(NAME), format!("replaced: {reason}")),
    }
}
