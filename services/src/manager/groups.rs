//! What groups ask of the Manager, and what is told of them.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use kelson_spec::ServiceSpec;

use super::{Kind, Manager};
use crate::model::Snapshot;
use crate::service_runner::table::Input;
use crate::service_runner::task::Command;

impl Manager {
    /// How often each group was restarted in this life of the host.
    pub fn group_restarts(&self) -> BTreeMap<Arc<str>, u64> {
        self.counts().clone()
    }

    pub(crate) fn count_group_restart(&self, group: &Arc<str>) {
        let mut counts = self.counts();
        let count = counts.entry(Arc::clone(group)).or_default();
        *count = count.saturating_add(1);
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, u64>> {
        self.inner.group_restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The members of a group that can be run.
    pub(crate) fn members(&self, group: &str) -> Vec<(Snapshot, Arc<ServiceSpec>)> {
        let entries = self.entries();
        let members = entries.values().filter_map(|entry| {
            let (Kind::Live(handle), Some(spec)) = (&entry.kind, &entry.spec) else { return None };
            let now = handle.snapshot.borrow();
            (now.group.as_deref() == Some(group)).then(|| (now.clone(), Arc::clone(spec)))
        });
        members.collect()
    }

    /// A poststop member that has had its turn waits for the next end of its group's mains.
    pub(crate) fn arm(&self, name: &str) {
        if let Some(handle) = self.live(name).filter(|_| !self.closing()) {
            // Its mailbox is closed where it was removed meanwhile.
            let _ = handle.mailbox.send(Command::Request { input: Input::Arm, reply: None });
        }
    }
}
