//! `volumes`: has storage plugins provide the volumes of services.
//!
//! It is no ordinary service: [`Volumes`] starts `kelson-volumes` while a service is a plugin or uses one, and replaces it
//! when it dies or freezes.

use std::path::Path;
use std::sync::Arc;

use kelson_spec::MachineSpec;
use kelson_spec::service::Resources;
use tokio::sync::mpsc;

use super::helper::{self, HelperService};
use crate::events::EventLog;
use crate::helpers::{HelperCgroup, HelperKind};
use crate::manager::Manager;
use crate::volumes::{Report, Volumes, VolumesStatus};

/// The name under which it is shown, and of its cgroup.
pub const NAME: &str = "volumes";
const MEMORY_MAX: u64 = 64 << 20;
const PIDS_MAX: u64 = 64;
/// Sockets and folders of plugins may belong to other users: dac_override.
const CAPABILITIES: u64 = 1 << 1;

/// How it is started: root without most capabilities, for the sockets and the folders of plugins. It reads the
/// volumes of the configuration, and their secrets.
pub fn kind(machine: &MachineSpec, state_dir: &Path, runtime_dir: &Path, config: &Path) -> HelperKind {
    let usual = Resources { memory_max: Some(MEMORY_MAX), pids_max: Some(PIDS_MAX), ..Resources::default() };
    HelperKind {
        name: "kelson-volumes",
        arguments: vec![state_dir.into(), runtime_dir.into(), config.into()],
        confine: |processes, command| {
            let filter = Some(processes.default_filter(CAPABILITIES));
            command.bounding(Some(CAPABILITIES)).no_new_privileges(true).seccomp(filter)
        },
        spared: false,
        cgroup: HelperCgroup::of_builtin(machine, NAME, usual),
    }
}

/// Shows it among the services once there is a first plugin.
pub fn show(manager: &Manager, events: &EventLog, volumes: Volumes, reports: mpsc::Receiver<Report>) {
    let service = HelperService {
        name: NAME,
        status: volumes.status(),
        snapshot: |status: &VolumesStatus, closing| crate::model::Snapshot {
            required: false,
            ..helper::snapshot(NAME, &status.helper, status.wanted && !status.closing, closing)
        },
        reports,
        event: |Report { service, message, details }| {
            (service.unwrap_or_else(|| Arc::from(NAME)), message, details)
        },
        restart: Box::new(move || volumes.restart()),
    };
    service.show(manager, events);
}
