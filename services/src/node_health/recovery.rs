//! The health of the host and of its groups, from one incarnation of PID 1 to the next. Times are written down as they
//! count from PID 1's start, which all incarnations share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::scope::{Break, HealthState, Scope};
use super::tracker::Tracker;
use crate::state_store::numbers::{Numbered as _, nanos};
use crate::state_store::{PastHealth, StateStore, StoredBreak, StoredCulprit, StoredScope};

/// Since when a service is a culprit of the host, and of its group.
pub type Since = (Option<Instant>, Option<Instant>);

/// What an earlier incarnation of PID 1 knew.
#[derive(Default)]
pub struct Recovery {
    /// `None`: that is lost.
    pub node: Option<Scope>,
    /// With how often each was restarted.
    pub groups: BTreeMap<Arc<str>, (u64, Scope)>,
    pub culprits: HashMap<Arc<str>, Since>,
    /// When the last run of each service was spawned.
    spawned: HashMap<Arc<str>, Instant>,
}

impl Recovery {
    pub fn of_stored(past: PastHealth, origin: Instant) -> Recovery {
        let at = |since: u64| instant(since, origin);
        let mut recovery = Recovery::default();
        for scope in past.scopes {
            match scope.group.as_str() {
                "" => recovery.node = Some(Scope::of_stored(&scope, origin)),
                group => {
                    let found = (scope.restarts, Scope::of_stored(&scope, origin));
                    recovery.groups.insert(Arc::from(group), found);
                }
            }
        }
        let culprits = past.culprits.into_values();
        let since = |culprit: &StoredCulprit| (Some(at(culprit.since)), culprit.since_in_group.map(at));
        recovery.culprits =
            culprits.map(|culprit| (Arc::from(culprit.service.as_str()), since(&culprit))).collect();
        let spawned = past.spawned.into_iter();
        recovery.spawned =
            spawned.map(|(service, spawned)| (Arc::from(service), at(nanos(spawned)))).collect();
        recovery
    }

    /// Takes what is known of a service.
    pub fn of(&mut self, service: &str) -> (Since, Option<Instant>) {
        let since = self.culprits.remove(service).unwrap_or_default();
        (since, self.spawned.get(service).copied())
    }
}

fn instant(since: u64, origin: Instant) -> Instant {
    origin.checked_add(Duration::from_nanos(since)).unwrap_or(origin)
}

impl Scope {
    fn to_stored(&self, group: &str, restarts: u64, origin: Instant) -> StoredScope {
        let since_start = |at: Instant| nanos(at.saturating_duration_since(origin));
        StoredScope {
            group: group.to_owned(),
            state: self.state.number(),
            reported: self.reported.number(),
            begun: since_start(self.begun),
            renewed: self.renewed,
            entered: since_start(self.entered),
            steady: self.steady.map(since_start),
            together: self.together.map(since_start),
            checks_run: self.checks_run,
            last_break: self.last_break.as_ref().map(|last| StoredBreak {
                service: last.service.to_string(),
                check: last.check.to_string(),
                reason: last.reason.to_string(),
                at: since_start(last.at),
            }),
            restarts,
        }
    }

    /// A state that this version does not know is `Pending`.
    fn of_stored(stored: &StoredScope, origin: Instant) -> Scope {
        let at = |since: u64| instant(since, origin);
        Scope {
            begun: at(stored.begun),
            renewed: stored.renewed,
            state: HealthState::of_number(stored.state).unwrap_or_default(),
            reported: HealthState::of_number(stored.reported).unwrap_or_default(),
            steady: stored.steady.map(at),
            together: stored.together.or(stored.steady).map(at),
            checks_run: stored.checks_run,
            last_break: stored.last_break.as_ref().map(|last| Break {
                service: Arc::from(last.service.as_str()),
                check: Arc::from(last.check.as_str()),
                reason: Arc::from(last.reason.as_str()),
                at: at(last.at),
            }),
            unwritten: false,
            ..Scope::new(at(stored.entered))
        }
    }
}

impl Tracker {
    /// Writes down what is not written yet, and nothing else.
    pub fn write(&mut self, store: &StateStore, origin: Instant) {
        let since_start = |at: Instant| nanos(at.saturating_duration_since(origin));
        for service in std::mem::take(&mut self.changed_culprits) {
            match self.culprit(&service) {
                Some((since, in_group)) => store.write_culprit(StoredCulprit {
                    service: service.to_string(),
                    since: since_start(since),
                    since_in_group: in_group.map(since_start),
                }),
                None => store.forget_culprit(&service),
            }
        }
        for group in std::mem::take(&mut self.gone_groups) {
            store.forget_scope(&group);
        }
        for (group, restarts, scope) in self.scopes() {
            if std::mem::take(&mut scope.unwritten) {
                store.write_scope(scope.to_stored(group.map_or("", |group| group), restarts, origin));
            }
        }
    }
}
