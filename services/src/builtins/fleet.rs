//! `fleet`: registers the host and its services in the store of its fleet.
//!
//! It is no ordinary service: [`Fleet`] keeps one `kelson-fleet` at work on a host whose machine file has `fleet`, and replaces
//! it when it dies or freezes.

use std::path::Path;
use std::sync::Arc;

use kelson_spec::MachineSpec;
use kelson_spec::service::Resources;
use tokio::sync::mpsc;

use super::helper::{self, HelperService};
use crate::events::EventLog;
use crate::fleet::{Fleet, FleetStatus, Report};
use crate::helpers::{HelperCgroup, HelperKind};
use crate::manager::Manager;

/// The name under which it is shown, and of its cgroup.
pub const NAME: &str = "fleet";
const MEMORY_MAX: u64 = 64 << 20;
const PIDS_MAX: u64 = 16;

/// How it is started: root without a capability, for its files in the state folder and the runtime folder.
pub fn kind(machine: &MachineSpec, state_dir: &Path, runtime_dir: &Path) -> HelperKind {
    let usual = Resources { memory_max: Some(MEMORY_MAX), pids_max: Some(PIDS_MAX), ..Resources::default() };
    HelperKind {
        name: "kelson-fleet",
        arguments: vec![state_dir.into(), runtime_dir.into()],
        confine: |processes, command| {
            command.bounding(Some(0)).no_new_privileges(true).seccomp(Some(processes.default_filter(0)))
        },
        spared: false,
        cgroup: HelperCgroup::of_builtin(machine, NAME, usual),
    }
}

/// Shows it among the services.
pub fn show(manager: &Manager, events: &EventLog, fleet: Fleet, reports: mpsc::Receiver<Report>) {
    let Some(status) = fleet.status() else { return };
    let service = HelperService {
        name: NAME,
        status,
        snapshot: |status: &FleetStatus, closing| crate::model::Snapshot {
            required: false,
            ..helper::snapshot(NAME, &status.helper, !status.closing, closing)
        },
        reports,
        event: |Report { service, message }| (service.unwrap_or_else(|| Arc::from(NAME)), message, None),
        restart: Box::new(move || fleet.restart()),
    };
    service.show(manager, events);
}
