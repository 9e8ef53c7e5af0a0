//! Services that do not run beside each other: the start of one stops the others.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kelson_spec::features::{Feature, OWN};
use kelson_sys::ordered;

use super::actions::refusal;
use super::{ActionResult, Entry, Manager, Outcome};
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

    /// Those of these services that can run beside each other, and the answers for the others.
    pub(super) fn compatible<'n>(&self, names: &'n [String]) -> (Cow<'n, [String]>, Vec<ActionResult>) {
        if const { !OWN.has(Feature::Units) } || names.len() < 2 {
            return (Cow::Borrowed(names), Vec::new());
        }
        let entries = self.entries();
        let named = ordered::set(names.iter().map(String::as_str));
        // Few services conflict with another, as a rule none.
        let mut others = BTreeMap::<&str, &str>::new();
        for name in names {
            for spec in entries.get(name.as_str()).into_iter().flat_map(Entry::specs) {
                for other in spec.conflicts.iter().filter(|other| *other != name) {
                    if let Some(other) = named.get(other.as_str()).copied() {
                        others.entry(name).or_insert(other);
                        others.entry(other).or_insert(name);
                    }
                }
            }
        }
        if others.is_empty() {
            return (Cow::Borrowed(names), Vec::new());
        }
        let refused = |name: &String| {
            let other = others.get(name.as_str())?;
            Some(ActionResult {
                name: name.clone(),
                outcome: Outcome::Refused,
                message: format!("it conflicts with {other}, which was asked for too: name one of them"),
                snapshot: entries.get(name.as_str()).map(|entry| entry.watch().borrow().clone()),
            })
        };
        let compatible = names.iter().filter(|name| !others.contains_key(name.as_str()));
        (compatible.cloned().collect(), names.iter().filter_map(refused).collect())
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
