//! `logd`: collects the logs of services.
//!
//! It is no ordinary service: the [`Collector`] replaces it when it dies or freezes, with the same pipes, and it ends
//! after all services have.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use kelson_runner::Stdio;
use kelson_runner::seccomp::Filter;
use kelson_spec::service::{LogSpec, Resources, Stdout};
use kelson_spec::{MachineSpec, ServiceSpec};
use tokio::sync::mpsc;

use super::helper::{self, HelperService};
use crate::collector::{Collector, Copying, LogOptions, LogdStatus, Report};
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
            let command = command.bounding(Some(CAPABILITIES)).no_new_privileges(true).seccomp(filter);
            // Where lines of services with `logs: {stdout: true}` go.
            match own_output() {
                Ok((stdout, stderr)) => {
                    command.stdout(Stdio::Descriptor(stdout)).stderr(Stdio::Descriptor(stderr))
                }
                Err(_) => command,
            }
        },
        spared: true,
        cgroup: HelperCgroup::of_builtin(machine, NAME, Resources::default()),
    }
}

/// PID 1's own standard output and error.
fn own_output() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((io::stdout().as_fd().try_clone_to_owned()?, io::stderr().as_fd().try_clone_to_owned()?))
}

/// The collector as the services use it.
pub struct Pipes {
    pub collector: Collector,
    /// For services that do not say it themselves.
    pub stdout: Stdout,
}

impl LogPipes for Pipes {
    fn pipes(&self, spec: &ServiceSpec, run: u64) -> io::Result<(OwnedFd, OwnedFd)> {
        let LogSpec { max_size, max_files, rate_limit, console, stdout } = spec.logs;
        let copy = match stdout.unwrap_or(self.stdout) {
            // A container's shim opens pipes by their path, so it has pipes of its own.
            Stdout::Only if spec.container().is_none() => return own_output(),
            Stdout::Only | Stdout::Copy => Copying::Lines,
            Stdout::Named => Copying::Named,
            Stdout::Nothing => Copying::Nothing,
        };
        let options = LogOptions { max_size, max_files, rate_limit, console, copy };
        self.collector.pipes(&spec.name, run, options)
    }

    fn forget(&self, service: &str) {
        self.collector.forget(service);
    }

    fn dropped(&self) -> Option<Dropped> {
        let status = self.collector.status();
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
        event: |report| {
            let (service, message) = event(report);
            (service, message, None)
        },
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
