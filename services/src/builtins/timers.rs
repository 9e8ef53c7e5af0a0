//! `timers`: knows when the schedules of services are due.
//!
//! It is no ordinary service: [`Timers`] starts `kelson-timers` while a service has a schedule, and replaces it when it
//! dies or freezes.

use std::path::Path;
use std::sync::Arc;

use kelson_spec::MachineSpec;
use kelson_spec::service::Resources;
use tokio::sync::mpsc;

use super::helper::{self, HelperService};
use crate::events::EventLog;
use crate::helpers::{HelperCgroup, HelperKind};
use crate::manager::Manager;
use crate::timers::{Timers, TimersStatus};

/// The name under which it is shown, and of its cgroup.
pub const NAME: &str = "timers";
const MEMORY_MAX: u64 = 32 << 20;
const PIDS_MAX: u64 = 4;

/// How it is started: root without a capability, for a file in the state folder.
pub fn kind(machine: &MachineSpec, state_dir: &Path) -> HelperKind {
    let usual = Resources { memory_max: Some(MEMORY_MAX), pids_max: Some(PIDS_MAX), ..Resources::default() };
    HelperKind {
        name: "kelson-timers",
        arguments: vec![state_dir.into()],
        confine: |processes, command| {
            command.bounding(Some(0)).no_new_privileges(true).seccomp(Some(processes.default_filter(0)))
        },
        spared: false,
        cgroup: HelperCgroup::of_builtin(machine, NAME, usual),
    }
}

/// Shows it among the services once there is a first schedule.
pub fn show(manager: &Manager, events: &EventLog, timers: &'static Timers, reports: mpsc::Receiver<String>) {
    let service = HelperService {
        name: NAME,
        status: timers.status(),
        snapshot: |status: &TimersStatus, closing| crate::model::Snapshot {
            required: false,
            ..helper::snapshot(NAME, &status.helper, status.schedules > 0 && !status.closing, closing)
        },
        reports,
        event: |text| (Arc::from(NAME), text, None),
        restart: Box::new(|| timers.restart()),
    };
    service.show(manager, events);
}
