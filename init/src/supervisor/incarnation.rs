//! PID 1 from one of its executions to the next: what it has before the host is booted, or gone on with.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use kelson_runner::{CgroupRoot, Options as ProcessOptions, Processes};
use kelson_services::state_store::StateStore;

use super::intent::Intents;
use super::launchers::Personalities;
use super::reaper::Reaper;
use crate::boot::Sequence;
use crate::crash::BootReason;
use crate::error::Result;
use crate::options::Options;
use crate::reexec::ReexecState;

pub(super) struct Incarnation {
    pub(super) options: Options,
    pub(super) sequence: Arc<Sequence>,
    pub(super) reexec_state: ReexecState,
    pub(super) binary: Arc<OwnedFd>,
    pub(super) intents: Intents,
    pub(super) reaper: Reaper,
    pub(super) boot_reason: BootReason,
}

impl Incarnation {
    pub(super) fn personalities(
        &self,
        cgroups: Option<CgroupRoot>,
        store: Option<&StateStore>,
    ) -> Result<Personalities> {
        for warning in cgroups.iter().flat_map(|root| root.warnings()) {
            tracing::warn!("{warning}");
        }
        let processes = Processes::new(process_options(&self.reexec_state, cgroups, store))?;
        Ok(Personalities { processes, binary: Arc::clone(&self.binary) })
    }
}

/// The resources that children are given, and the place of their records.
pub fn process_options(
    reexec_state: &ReexecState,
    cgroups: Option<CgroupRoot>,
    store: Option<&StateStore>,
) -> ProcessOptions {
    let record = store.and_then(|store| {
        let record = store.spawn_record();
        record.map_err(|error| tracing::error!("children that are being made are not recorded: {error}")).ok()
    });
    ProcessOptions {
        limits: reexec_state.limits.clone(),
        oom_score: reexec_state.oom_score,
        cgroups,
        record,
        ..ProcessOptions::default()
    }
}
