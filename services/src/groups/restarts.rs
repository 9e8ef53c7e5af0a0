//! The restarts of one group, and by which rules there is another one.

use std::time::Duration;

use kelson_runner::restart::{self, Decision, Ended, Failures, RestartHistory};
use kelson_spec::service::RestartSpec;

use crate::state_store::StoredRestarts;
use crate::state_store::numbers::nanos;

/// In how many entries the restarts of a group are written down.
const ENTRIES: usize = 16;

/// The restarts of one group.
#[derive(Debug, Default)]
pub struct GroupRestarts {
    pub count: u64,
    history: RestartHistory,
}

impl GroupRestarts {
    /// Decides by these rules on another restart. `ran`: how long all members were up; `chance` is any number.
    pub fn decide(&mut self, rules: &RestartSpec, ran: Duration, now: Duration, chance: u32) -> Decision {
        let decision =
            restart::decide(rules, &mut self.history, Ended::GivenUp { ran, watchdog: false }, now, chance);
        if matches!(decision, Decision::Again { .. }) {
            self.count = self.count.saturating_add(1);
        }
        decision
    }

    pub fn to_stored(&self, group: &str) -> StoredRestarts {
        let mut history = self.history.clone();
        history.coarsen(ENTRIES);
        let mut stored = StoredRestarts {
            group: group.to_owned(),
            count: self.count,
            doublings: history.doublings(),
            ..StoredRestarts::default()
        };
        let mut before = 0;
        for Failures { at, count } in history.entries() {
            let at = nanos(at);
            stored.at.push(at.saturating_sub(before));
            stored.counts.push(count);
            before = at;
        }
        stored
    }

    pub fn of_stored(stored: &StoredRestarts) -> GroupRestarts {
        let mut at = Duration::ZERO;
        let entries = stored.at.iter().zip(&stored.counts).map(|(since, count)| {
            at = at.saturating_add(Duration::from_nanos(*since));
            Failures { at, count: *count }
        });
        GroupRestarts { count: stored.count, history: RestartHistory::of(entries, stored.doublings) }
    }
}
