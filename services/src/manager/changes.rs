//! What a configuration would change about the services, before it does.

use kelson_sys::ordered;
use std::collections::HashMap;

use kelson_proto::v1::ServiceChange;
use kelson_proto::v1::service_change::Change;
use kelson_spec::ServiceSpec;
use kelson_spec::service::StartMode;

use super::Manager;
use crate::model::{Snapshot, State};

impl Manager {
    /// Compares these services, which a configuration has without a mistake, with those that run, by name.
    pub fn changes(&self, read: &[ServiceSpec]) -> Vec<ServiceChange> {
        let all = self.list().into_iter().filter(|now| !now.builtin);
        let mut known: HashMap<String, Snapshot> = all.map(|now| (now.name.to_string(), now)).collect();
        let mut changes: Vec<ServiceChange> = Vec::new();
        for spec in read {
            let (change, acts) = match known.remove(&spec.name) {
                Some(now) if now.spec.as_deref().is_some_and(|runs| runs.runs_like(spec)) => {
                    (Change::Unchanged, false)
                }
                Some(now) => (Change::Changed, runs(&now)),
                None => (Change::Added, spec.start == StartMode::Auto),
            };
            changes.push(ServiceChange { name: spec.name.clone(), change: change.into(), acts });
        }
        let gone = known.into_iter().map(|(name, now)| ServiceChange {
            name,
            change: Change::Removed.into(),
            acts: !now.state.at_rest(),
        });
        changes.extend(gone);
        ordered::sort_by(&mut changes, |one, other| one.name.cmp(&other.name));
        changes
    }
}

/// Whether it goes on with its old file until it is restarted.
fn runs(now: &Snapshot) -> bool {
    matches!(now.state, State::Starting | State::Running)
}
