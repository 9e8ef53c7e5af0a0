//! The state of each check and its last output, in ten slots a check that are written in turn: one result, one write,
//! and nothing that was learnt is lost.
//!
//! A slot holds a result and how the check stands after it, so the newest that is whole says all that the next
//! incarnation has to know; a torn one costs the one result that was being written.

use std::collections::HashMap;

use kelson_proto::state::v1 as stored;
use kelson_sys::text::start_of;
use prost::Message as _;

use super::StateStore;
use super::file::{Found, seal};
use super::part::{CheckPlaces, Part};
use super::rings::{Key, hash};
use crate::model::{Numbered as _, Standing};

pub const SLOT: usize = Part::Checks.slot();
/// The length to which the last line of an output is cut.
const TEXT: usize = 72;

/// The results of a check of the previous incarnation, in one run: the oldest first, each with how the check
/// stood after it. Not empty.
pub type PastCheck = Vec<stored::CheckRecord>;

/// The checks of one service.
#[derive(Debug, Default)]
pub struct PastChecks(HashMap<u64, PastCheck>);

impl PastChecks {
    /// Whether this check passed last in this run.
    pub fn passed(&self, check: &str, run: u64) -> bool {
        let last = self.0.get(&hash(check)).and_then(|past| past.last());
        last.is_some_and(|last| last.run == run && last.standing == Standing::Passing.number())
    }

    /// Of this check in this run.
    pub fn take(&mut self, check: &str, run: u64) -> Option<PastCheck> {
        self.0.remove(&hash(check)).filter(|past| past.last().is_some_and(|last| last.run == run))
    }
}

/// The name of a group among the names of services, none of which has a slash.
pub(super) fn of_group(group: &str) -> String {
    format!("group/{group}")
}

/// Where the results of one check in one run are written.
pub struct CheckRecord {
    store: StateStore,
    key: Key,
    run: u64,
}

impl CheckRecord {
    /// Writes one result and how the check stands after it, before anybody acts on it.
    pub fn write(&self, mut record: stored::CheckRecord) {
        (record.service, record.check) = self.key;
        record.run = self.run;
        record.text.truncate(start_of(&record.text, TEXT).len());
        let (slot, number) = self.store.places().checks.next(self.key);
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
        let gone = self.places().checks.remove((of, 0)..=(of, u64::MAX));
        self.clear(Part::Checks, &gone);
    }
}

/// All checks by the name of their service, and where they stand in the file.
pub(super) fn checks(found: &Found) -> (HashMap<u64, PastChecks>, CheckPlaces) {
    let mut past: HashMap<u64, PastChecks> = HashMap::new();
    let (places, _) = CheckPlaces::of(found, |_, whole| {
        let mut results: PastCheck =
            whole.iter().filter_map(|payload| stored::CheckRecord::decode(*payload).ok()).collect();
        let newest = results.last()?;
        let (service, check, run) = (newest.service, newest.check, newest.run);
        results.retain(|record| (record.service, record.check, record.run) == (service, check, run));
        past.entry(service).or_default().0.insert(check, results);
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
    use crate::state_store::{Incarnation, Past};

    const KEPT: u64 = 10;

    fn entry(at: u64, text: &str) -> stored::CheckRecord {
        let (text, passed) = (text.to_owned(), at.is_multiple_of(2));
        stored::CheckRecord { standing: 2, began: 5, since: 6, at, text, passed, ..Default::default() }
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
        let times = |past: &PastCheck| past.iter().map(|result| result.at).collect::<Vec<_>>();
        let mut past = Past::take(&dir, &life).unwrap();
        let mut web = past.take_checks("web");
        let a = web.take("a", 2).unwrap();
        assert_eq!(times(&a), (3..13).collect::<Vec<_>>());
        assert_eq!((a[9].began, a[9].since, a[9].standing), (5, 6, 2));
        assert_eq!(web.take("b", 1).unwrap()[0].text.len(), TEXT);
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
