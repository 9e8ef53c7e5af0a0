//! The requests of groups to the Manager, and the reports of them.

use kelson_sys::ordered;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use kelson_runner::restart::Decision;
use kelson_spec::service::RestartSpec;
use kelson_spec::{GroupSpec, ServiceSpec};

use super::Manager;
use crate::error::ServicesError;
use crate::groups::{GroupRequest, GroupRestarts};
use crate::health::network::Network;
use crate::model::Snapshot;
use crate::service_runner::table::Input;
use crate::state_store::StoredRestarts;

impl Manager {
    /// How often each group was restarted in this incarnation of the host.
    pub fn group_restarts(&self) -> BTreeMap<Arc<str>, u64> {
        ordered::map(self.restarts().iter().map(|(group, restarts)| (Arc::clone(group), restarts.count)))
    }

    /// Decides by these rules on a restart of a group, and writes it down. `ran`: how long all members were up;
    /// `chance` is any number.
    pub(crate) fn decide_group_restart(
        &self,
        group: &Arc<str>,
        rules: &RestartSpec,
        ran: Duration,
        chance: u32,
    ) -> Decision {
        let now = self.since_start();
        let mut all = self.restarts();
        let restarts = all.entry(Arc::clone(group)).or_default();
        let decision = restarts.decide(rules, ran, now, chance);
        if let Some(store) = self.store() {
            store.write_restarts(restarts.to_stored(group));
        }
        decision
    }

    /// The restarts by an earlier incarnation of PID 1.
    pub(crate) fn recall_group_restarts(&self, stored: &[StoredRestarts]) {
        let restarts = stored.iter();
        let restarts = restarts.map(|one| (Arc::from(one.group.as_str()), GroupRestarts::of_stored(one)));
        self.restarts().extend(restarts);
    }

    fn restarts(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, GroupRestarts>> {
        self.inner.group_restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes by these files of groups from now on.
    pub fn set_groups(&self, specs: &[GroupSpec]) {
        *self.group_specs() = ordered::map(specs.iter().map(|spec| (spec.name.clone(), spec.clone())));
    }

    /// The rules of a group's own file for its restarts.
    pub(crate) fn group_rules(&self, group: &str) -> Option<RestartSpec> {
        self.group_specs().get(group)?.restart.clone()
    }

    fn group_specs(&self) -> MutexGuard<'_, BTreeMap<String, GroupSpec>> {
        self.inner.group_specs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ask_for_group_restart(&self, request: GroupRequest) {
        self.inner.host_context.groups.ask(request);
    }

    /// Performs checks in the network of the host.
    pub(crate) fn host_network(&self) -> Result<Arc<dyn Network>, ServicesError> {
        self.inner.host_context.runners.host_network()
    }

    /// The group of a service is not restarted, though the service has asked for it.
    pub(crate) fn refuse_group_restart(&self, service: &str, text: String) {
        self.tell(service, Input::GroupRefused { text });
    }

    /// The members of a group that can be run.
    pub(crate) fn members(&self, group: &str) -> Vec<(Snapshot, Arc<ServiceSpec>)> {
        let entries = self.entries();
        let members = entries.values().filter_map(|entry| {
            let (now, spec) = (entry.live()?.snapshot.borrow(), entry.spec.as_ref()?);
            (now.group.as_deref() == Some(group)).then(|| (now.clone(), Arc::clone(spec)))
        });
        members.collect()
    }

    /// A poststop member that has had its turn waits for the next end of its group's mains.
    pub(crate) fn arm(&self, name: &str) {
        if !self.closing() {
            self.tell(name, Input::Arm);
        }
    }
}
