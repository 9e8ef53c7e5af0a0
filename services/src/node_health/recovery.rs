//! The health of the host and of its groups, from one incarnation of PID 1 to the next. Times are written down as they
//! count from PID 1's start, which all incarnations share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::scope::{Break, HealthState, Scope};
use crate::model::Numbered as _;
use crate::state_store::numbers::nanos;
use crate::state_store::{PastHealth, StoredBreak, StoredScope};

/// Since when a service is a culprit of the host, and of its group.
pub type Since = (Option<Instant>, Option<Instant>);

/// Records of services by an earlier incarnation of PID 1 that have not been taken yet.
pub struct Recovery {
    past: PastHealth,
    origin: Instant,
}

impl Recovery {
    pub fn new(past: PastHealth, origin: Instant) -> Recovery {
        Recovery { past, origin }
    }

    /// Takes the scopes, each with its group (empty: the host) and how often that was restarted.
    pub fn scopes(&mut self) -> impl Iterator<Item = (Arc<str>, u64, Scope)> + use<> {
        let (scopes, origin) = (std::mem::take(&mut self.past.scopes), self.origin);
        scopes.into_iter().map(move |stored| {
            (Arc::from(stored.group.as_str()), stored.restarts, Scope::of_stored(&stored, origin))
        })
    }

    /// Takes what is known of a service: since when it is a culprit, and when its last run was spawned.
    pub fn of(&mut self, service: &str) -> (Since, Option<Instant>) {
        let at = |since: u64| instant(since, self.origin);
        let culprit = self.past.culprits.remove(service);
        let since = culprit.map(|culprit| (Some(at(culprit.since)), culprit.since_in_group.map(at)));
        (since.unwrap_or_default(), self.past.spawned.get(service).map(|spawned| at(nanos(*spawned))))
    }

    /// The culprits that were not taken.
    pub fn rest(self) -> impl Iterator<Item = Arc<str>> {
        self.past.culprits.into_keys().map(Arc::from)
    }
}

fn instant(since: u64, origin: Instant) -> Instant {
    origin.checked_add(Duration::from_nanos(since)).unwrap_or(origin)
}

impl Scope {
    pub fn to_stored(&self, group: &str, restarts: u64, origin: Instant) -> StoredScope {
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
