//! How the host and each group stand, and since when each culprit is not up: two slots each that are written in turn.

use std::collections::HashMap;
use std::time::Duration;

use kelson_proto::state::v1::{HealthRecord, health_record::What};
use kelson_sys::text::start_of;
use prost::Message as _;

pub use kelson_proto::state::v1::health_record::{
    Break as StoredBreak, Culprit as StoredCulprit, Restarts as StoredRestarts, Scope as StoredScope,
};

use super::StateStore;
use super::checks::{PastChecks, of_group, of_service};
use super::file::{Found, PAYLOAD, seal};
use super::part::{HealthPlaces, Part};
use super::record::Record;
use super::rings::{Key, hash};

pub const SLOT: usize = Part::Health.slot();
/// The length to which the reason of the last break is cut where a record would not fit otherwise, in bytes.
const SHORT: usize = 200;

fn scope_key(group: &str) -> Key {
    (0, hash(group))
}

fn restarts_key(group: &str) -> Key {
    (2, hash(group))
}

fn culprit_key(service: &str) -> Key {
    (1, hash(service))
}

/// The health of the host and of its groups as an earlier incarnation of PID 1 recorded it.
#[derive(Debug, Default)]
pub struct PastHealth {
    pub scopes: Vec<StoredScope>,
    /// The restarts of groups.
    pub restarts: Vec<StoredRestarts>,
    /// By service.
    pub culprits: HashMap<String, StoredCulprit>,
    /// The checks of groups, by group.
    pub checks: HashMap<String, PastChecks>,
    /// When the last run of each service was spawned, since PID 1's start.
    pub spawned: HashMap<String, Duration>,
}

impl PastHealth {
    pub(super) fn with_checks_of(mut self, checks: &mut HashMap<u64, PastChecks>) -> PastHealth {
        let groups = self.scopes.iter().filter(|scope| !scope.group.is_empty());
        let mut of = |scope: &StoredScope| of_service(checks, &of_group(&scope.group));
        self.checks = groups.map(|scope| (scope.group.clone(), of(scope))).collect();
        self
    }

    pub(super) fn with_runs_of(mut self, records: &[Record]) -> PastHealth {
        let runs = records.iter().map(|record| (record.name.clone(), record.service.spawned_at));
        self.spawned = runs.collect();
        self
    }
}

/// All that the file holds, and the slots of what is torn.
pub(super) fn health(found: &Found) -> (PastHealth, HealthPlaces, Vec<u64>) {
    let mut past = PastHealth::default();
    let (places, torn) =
        HealthPlaces::of(found, |_, whole| match HealthRecord::decode(*whole.last()?).ok()?.what? {
            What::Scope(scope) => {
                let key = scope_key(&scope.group);
                past.scopes.push(scope);
                Some(key)
            }
            What::Restarts(restarts) => {
                let key = restarts_key(&restarts.group);
                past.restarts.push(restarts);
                Some(key)
            }
            What::Culprit(culprit) => {
                let key = culprit_key(&culprit.service);
                past.culprits.insert(culprit.service.clone(), culprit);
                Some(key)
            }
        });
    (past, places, torn)
}

impl StateStore {
    /// Writes down how the host or a group stands.
    pub fn write_scope(&self, mut scope: StoredScope) {
        let key = scope_key(&scope.group);
        if scope.encoded_len().saturating_add(PAYLOAD).saturating_add(SPARE) > SLOT
            && let Some(last) = &mut scope.last_break
        {
            last.reason = start_of(&last.reason, SHORT).to_owned();
        }
        self.write_health(key, What::Scope(scope));
    }

    pub fn write_culprit(&self, culprit: StoredCulprit) {
        let key = culprit_key(&culprit.service);
        self.write_health(key, What::Culprit(culprit));
    }

    pub fn write_restarts(&self, restarts: StoredRestarts) {
        let key = restarts_key(&restarts.group);
        self.write_health(key, What::Restarts(restarts));
    }

    fn write_health(&self, key: Key, what: What) {
        let (slot, number) = self.places().health.next(key);
        let record = HealthRecord { what: Some(what) };
        let bytes = seal(number, &record.encode_to_vec(), SLOT);
        self.put(Part::Health, slot, "the health of the host or of a group", bytes.as_deref());
    }

    /// The group is gone.
    pub fn forget_scope(&self, group: &str) {
        self.forget_health(scope_key(group));
        self.forget_checks(&of_group(group));
    }

    /// The service is up, not asked any more, or gone.
    pub fn forget_culprit(&self, service: &str) {
        self.forget_health(culprit_key(service));
    }

    fn forget_health(&self, key: Key) {
        let gone = self.places().health.remove(key..=key);
        self.clear(Part::Health, &gone);
    }
}

/// The size of the message around a scope, in bytes.
const SPARE: usize = 8;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::state_store::{Incarnation, Past};

    fn scope(group: &str, entered: u64, reason: &str) -> StoredScope {
        let (service, reason_of) = ("w".repeat(64), reason.to_owned());
        let last_break = StoredBreak { service, reason: reason_of, at: u64::MAX, check: String::new() };
        let last_break = Some(last_break).filter(|_| !reason.is_empty());
        StoredScope {
            group: group.to_owned(),
            entered,
            steady: Some(entered),
            together: Some(entered),
            checks_run: entered,
            last_break,
            ..StoredScope::default()
        }
    }

    fn culprit(service: &str, since: u64) -> StoredCulprit {
        StoredCulprit { service: service.to_owned(), since, since_in_group: Some(since) }
    }

    #[test]
    fn the_newest_whole_record_of_each_counts() {
        let dir = std::env::temp_dir().join(format!("kelson-health-{}", std::process::id()));
        let life = Incarnation::current().unwrap();
        let store = StateStore::create(&dir, &life).unwrap();
        let long = "x".repeat(900);
        let group = "g".repeat(64);
        store.write_scope(scope("", 1, ""));
        store.write_scope(scope(&group, u64::MAX, &long));
        store.write_culprit(culprit("web", 1));
        store.write_culprit(culprit("db", 2));
        store.write_scope(scope("", 2, ""));
        store.forget_culprit("web");
        store.forget_culprit("web");
        store.write_scope(scope("gone", 3, ""));
        store.forget_scope("gone");
        let take = || Past::take(&dir, &life).unwrap();
        let past = take();
        assert_eq!(past.doubts, Vec::<String>::new());
        let health = past.health;
        let entered = |health: &PastHealth, group: &str| {
            health.scopes.iter().find(|scope| scope.group == group).map(|scope| scope.entered)
        };
        assert_eq!((health.scopes.len(), entered(&health, "")), (2, Some(2)));
        let reason = health.scopes.iter().find_map(|scope| scope.last_break.as_ref()).unwrap();
        assert_eq!(reason.reason.len(), SHORT);
        assert_eq!(health.culprits.into_values().collect::<Vec<_>>(), [culprit("db", 2)]);

        // The newest of the host is torn, and both of the group. The next incarnation goes on after what is left.
        let file = std::fs::File::options().write(true).open(dir.join("health")).unwrap();
        for slot in [0, 2, 3] {
            file.write_all_at(&[0xff; 9], slot * SLOT as u64 + 4096 + 20).unwrap();
        }
        let past = take();
        assert_eq!((past.health.scopes.len(), entered(&past.health, "")), (1, Some(1)));
        assert_eq!(past.doubts.len(), 1, "{:?}", past.doubts);
        assert!(past.doubts[0].contains("is torn"), "{:?}", past.doubts);
        past.store.write_scope(scope("", 9, ""));
        past.store.write_scope(scope("new", 8, ""));
        let past = take();
        assert_eq!((entered(&past.health, ""), entered(&past.health, "new")), (Some(9), Some(8)));
        assert_eq!(past.doubts, Vec::<String>::new(), "it is reported once");

        // A file that is missing is made again, and that is reported.
        std::fs::remove_file(dir.join("health")).unwrap();
        let past = take();
        assert_eq!((past.health.scopes.len(), past.doubts.len()), (0, 1), "{:?}", past.doubts);
        assert_eq!(take().doubts, Vec::<String>::new());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
