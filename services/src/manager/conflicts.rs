//! Services that do not run beside each other: the start of one stops the others.

use std::collections::BTreeMap;

use kelson_spec::features::{Feature, OWN};

use super::actions::refusal;
use super::{Entry, Manager};
use crate::service_runner::table::{Input, StopReason};

impl Manager {
    /// Stops what conflicts with services that are to start, after what needs it, and waits until it has stopped.
    pub(super) async fn stop_conflicting(&self, names: &[String], request: &Input) {
        if const { !OWN.has(Feature::Units) } {
            return;
        }
        for (starting, conflicting) in self.conflicting(names, request) {
            let manager = self.clone();
            // In order, also when the client waits no longer.
            let stopped = kelson_sys::spawn(async move {
                let first = manager.needed_closure(&conflicting);
                manager.stop_cascade(&first, &conflicting, &StopReason::Conflict(starting)).await;
            });
            if stopped.await.is_err() {
                tracing::error!("stopping what conflicts was broken off");
            }
        }
    }

    /// The services that do not rest and conflict with one of these, which are not among them; each with that one.
    fn conflicting(&self, names: &[String], request: &Input) -> BTreeMap<String, Vec<String>> {
        let entries = self.entries();
        let conflict = |entry: &Entry, other: &str| {
            entry.specs().any(|spec| spec.conflicts.iter().any(|name| name == other))
        };
        let starts = |name: &&String| {
            let entry = entries.get(name.as_str()).filter(|entry| entry.live().is_some());
            entry.is_some_and(|entry| !self.closing() && refusal(entry.specs(), request).is_none())
        };
        let starting: Vec<&String> = names.iter().filter(starts).collect();
        let mut found = BTreeMap::<String, Vec<String>>::new();
        for (name, entry) in entries.iter() {
            let rests = entry.watch().borrow().state.at_rest();
            if entry.live().is_none() || rests || names.iter().any(|known| **known == **name) {
                continue;
            }
            let winner = starting.iter().find(|starting| {
                let starter = entries.get(starting.as_str());
                conflict(entry, starting) || starter.is_some_and(|starter| conflict(starter, name))
            });
            if let Some(winner) = winner {
                found.entry((*winner).clone()).or_default().push(name.to_string());
            }
        }
        found
    }
}
