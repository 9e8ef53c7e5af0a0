//! How each check stands and what it said last, in ten slots a check that are written in turn: one result, one write,
//! and nothing that was learnt is lost.
//!
//! A slot holds a result and how the check stands after it, so the newest that is whole says all that the next
//! incarnation has to know; a torn one costs the one result that was being written.

use std::collections::HashMap;

use kelson_proto::state::v1 as stored;
use prost::Message as _;

use super::StateStore;
use super::file::{Found, seal};
use super::record::start_of;
use super::rings::{Key, Rings, hash};
use super::unwritten::Part;
use crate::health::Level;

pub const SLOT: usize = 192;
/// Results of a check.
const KEPT: u64 = 10;
/// What of the last line of an output is kept.
const TEXT: usize = 72;

/// One result, and how the check stands after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckEntry<'a> {
    pub level: Level,
    /// When the check began to be asked in this run, since PID 1's start, in microseconds.
    pub began: u64,
    /// Since when it stands so, in microseconds since 1970.
    pub since: u64,
    /// The same in milliseconds since PID 1's start.
    pub entered: u64,
    /// When the result came, in microseconds since 1970.
    pub at: u64,
    /// The same in milliseconds since PID 1's start.
    pub heard: u64,
    /// In microseconds.
    pub took: u32,
    pub passed: bool,
    /// The last line of what it said.
    pub text: &'a str,
}

/// What is known of a check of the previous incarnation.
#[derive(Debug, Clone, PartialEq)]
pub struct PastCheck {
    pub run: u64,
    pub level: Level,
    pub began: u64,
    pub since: u64,
    /// As of [`CheckEntry`]; `None`: a release before 0.3.0 has written it.
    pub entered: Option<u64>,
    /// When the last result came.
    pub heard: Option<u64>,
    /// The oldest first.
    pub results: Vec<PastResult>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastResult {
    pub at: u64,
    pub took: u32,
    pub passed: bool,
    pub text: String,
}

/// The checks of one service.
#[derive(Debug, Default)]
pub struct PastChecks(HashMap<u64, PastCheck>);

impl PastChecks {
    /// Of this check in this run.
    pub fn take(&mut self, check: &str, run: u64) -> Option<PastCheck> {
        self.0.remove(&hash(check)).filter(|past| past.run == run)
    }
}

/// What stands for a group among the names of services, none of which has a slash.
pub(super) fn of_group(group: &str) -> String {
    format!("group/{group}")
}

/// Where checks have their slots, by the names of the service and the check.
pub type CheckPlaces = Rings<KEPT>;

/// Where the results of one check in one run are written.
pub struct CheckRecord {
    store: StateStore,
    key: Key,
    run: u64,
}

impl CheckRecord {
    /// Writes one result down, before anybody acts on it.
    pub fn write(&self, entry: CheckEntry<'_>) {
        let (service, check) = self.key;
        let (slot, number) = self.store.checks().next(self.key);
        let CheckEntry { level, began, since, entered, at, heard, took, passed, text } = entry;
        let mut record = stored::CheckRecord {
            service,
            check,
            run: self.run,
            began,
            since,
            at,
            took,
            passed,
            text: start_of(text, TEXT).to_owned(),
            entered: Some(entered),
            heard: Some(heard),
            ..stored::CheckRecord::default()
        };
        level.store(&mut record);
        let bytes = seal(number, &record.encode_to_vec(), SLOT);
        self.store.put(Part::Checks, slot, "the result of a check", bytes.as_deref());
    }
}

impl StateStore {
    /// Where the results of a check are written.
    pub fn check_record(&self, service: &str, check: &str, run: u64) -> CheckRecord {
        CheckRecord { store: self.clone(), key: (hash(service), hash(check)), run }
    }

    /// Where the results of a check of a group are written.
    pub fn group_check_record(&self, group: &str, check: &str, run: u64) -> CheckRecord {
        self.check_record(&of_group(group), check, run)
    }

    /// The service is gone permanently.
    pub(super) fn forget_checks(&self, service: &str) {
        let of = hash(service);
        let gone = self.checks().remove((of, 0)..=(of, u64::MAX));
        for slot in gone {
            self.put(Part::Checks, slot, "the end of a check", Some(&[0; SLOT]));
        }
    }
}

/// All checks by the name of their service, and where they stand in the file.
pub(super) fn checks(found: &Found) -> (HashMap<u64, PastChecks>, CheckPlaces) {
    let mut past: HashMap<u64, PastChecks> = HashMap::new();
    let (places, _) = CheckPlaces::of(found, |whole| {
        let records = whole.into_iter().filter_map(|(_, payload)| stored::CheckRecord::decode(payload).ok());
        let records: Vec<stored::CheckRecord> = records.collect();
        let newest = records.last()?;
        let (service, check, run) = (newest.service, newest.check, newest.run);
        let (level, began, since) = (Level::of_stored(newest), newest.began, newest.since);
        let (entered, heard) = (newest.entered, newest.heard);
        let same = |record: &stored::CheckRecord| {
            (record.service, record.check, record.run) == (service, check, run)
        };
        let results = records.into_iter().filter(same).map(|record| PastResult {
            at: record.at,
            took: record.took,
            passed: record.passed,
            text: record.text,
        });
        let one = PastCheck { run, level, began, since, entered, heard, results: results.collect() };
        past.entry(service).or_default().0.insert(check, one);
        Some((service, check))
    });
    (past, places)
}

/// The checks of a service.
pub(super) fn of_service(checks: &mut HashMap<u64, PastChecks>, service: &str) -> PastChecks {
    checks.remove(&hash(service)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::model::Standing;
    use crate::state_store::{Incarnation, Past};

    fn entry(at: u64, text: &str) -> CheckEntry<'_> {
        let mut level = Level::default();
        level.standing = Standing::Passing;
        let (began, since, entered, heard) = (5, 6, 7, 8);
        CheckEntry { level, began, since, entered, at, heard, took: 9, passed: at.is_multiple_of(2), text }
    }

    #[test]
    fn the_last_ten_of_this_run_are_read_and_a_torn_one_costs_itself_alone() {
        let dir = std::env::temp_dir().join(format!("kelson-checks-{}", std::process::id()));
        let life = Incarnation::current().unwrap();
        let store = StateStore::create(&dir, &life).unwrap();
        let long = "x".repeat(500);
        store.check_record("web", "b", 1).write(entry(1, &long));
        for run in 1..=2 {
            let record = store.check_record("web", "a", run);
            (0..13).for_each(|at| record.write(entry(at, "fine")));
        }
        let times = |past: &PastCheck| past.results.iter().map(|result| result.at).collect::<Vec<_>>();
        let mut past = Past::take(&dir, &life).unwrap();
        let mut web = past.take_checks("web");
        let a = web.take("a", 2).unwrap();
        assert_eq!(times(&a), (3..13).collect::<Vec<_>>());
        assert_eq!((a.began, a.since, a.level.standing), (5, 6, Standing::Passing));
        assert_eq!(web.take("b", 1).unwrap().results[0].text.len(), TEXT);
        assert!(past.take_checks("web").take("a", 2).is_none(), "it was taken");

        // The newest is torn; the next incarnation goes on after the one before it.
        let file = std::fs::File::options().write(true).open(dir.join("checks")).unwrap();
        let newest = (KEPT + 26 % KEPT) * SLOT as u64 + 4096 + 20;
        file.write_all_at(&[0xff; 9], newest).unwrap();
        let mut past = Past::take(&dir, &life).unwrap();
        let mut web = past.take_checks("web");
        assert!(web.take("a", 1).is_none(), "of another run");
        past.store.check_record("web", "a", 2).write(entry(99, ""));
        past.store.forget_checks("other");
        let mut web = Past::take(&dir, &life).unwrap().take_checks("web");
        assert_eq!(times(&web.take("a", 2).unwrap())[8..], [11, 99]);
        past.store.forget_checks("web");
        assert!(Past::take(&dir, &life).unwrap().take_checks("web").take("a", 2).is_none());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
