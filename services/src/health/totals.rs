//! Totals of checks and starts over all runs of a service, for metrics.
//!
//! The receiver of a result counts it here; a scrape reads the numbers where they are, so that no service's task is
//! woken to tell them. Each number stands for itself, and a reader that comes in between sees some of a result.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::model::{Numbered as _, Standing};

/// Of one check.
#[derive(Debug, Default)]
pub struct CheckTotals {
    count: AtomicU64,
    failures: AtomicU64,
    /// In microseconds: half a million years fit.
    took: AtomicU64,
    last: AtomicU64,
    /// Its number.
    standing: AtomicI32,
}

/// [`CheckTotals`] as they stood when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckFigures {
    pub count: u64,
    pub failures: u64,
    /// All answers together, and the last one.
    pub took: Duration,
    pub last: Duration,
    /// Of the present run; of the last one where none is checked.
    pub standing: Standing,
}

impl CheckTotals {
    /// One result more, after which the check stands so.
    pub fn add(&self, passed: bool, took: Duration, standing: Standing) {
        let micros = micros(took);
        self.count.fetch_add(1, Ordering::Relaxed);
        if !passed {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.took.fetch_add(micros, Ordering::Relaxed);
        self.last.store(micros, Ordering::Relaxed);
        self.stands(standing);
    }

    /// It stands so, as was known before.
    pub fn stands(&self, standing: Standing) {
        self.standing.store(standing.number(), Ordering::Relaxed);
    }

    pub fn figures(&self) -> CheckFigures {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        CheckFigures {
            count: read(&self.count),
            failures: read(&self.failures),
            took: Duration::from_micros(read(&self.took)),
            last: Duration::from_micros(read(&self.last)),
            standing: Standing::of_number(self.standing.load(Ordering::Relaxed)).unwrap_or_default(),
        }
    }
}

/// Of one service.
#[derive(Debug, Default)]
pub struct Totals {
    starts: AtomicU64,
    /// In microseconds.
    start_took: AtomicU64,
    /// Those of its file. Never held for longer than it takes to copy or replace it.
    checks: Mutex<Arc<[NamedTotals]>>,
}

/// A check's name and its totals.
pub type NamedTotals = (Arc<str>, Arc<CheckTotals>);

impl Totals {
    /// One more run came up, so long after its spawn.
    pub fn started(&self, took: Duration) {
        self.starts.fetch_add(1, Ordering::Relaxed);
        self.start_took.fetch_add(micros(took), Ordering::Relaxed);
    }

    /// How many runs came up, and how long that took them together.
    pub fn starts(&self) -> (u64, Duration) {
        let took = Duration::from_micros(self.start_took.load(Ordering::Relaxed));
        (self.starts.load(Ordering::Relaxed), took)
    }

    /// A run begins with these checks. Those that were there go on from their numbers, others are forgotten.
    pub fn begin(&self, names: impl Iterator<Item = Arc<str>>) -> Arc<[NamedTotals]> {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Arc::clone(&checks);
        let now: Arc<[NamedTotals]> = names
            .map(|name| match known.iter().find(|(other, _)| *other == name) {
                Some((name, totals)) => {
                    totals.stands(Standing::Pending);
                    (Arc::clone(name), Arc::clone(totals))
                }
                None => (name, Arc::default()),
            })
            .collect();
        checks.clone_from(&now);
        now
    }

    pub fn checks(&self) -> Arc<[NamedTotals]> {
        Arc::clone(&self.checks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> impl Iterator<Item = Arc<str>> {
        names.iter().map(|&name| Arc::from(name)).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn a_check_goes_on_over_runs_and_its_standing_does_not() {
        let totals = Totals::default();
        let first = totals.begin(names(&["http", "old"]));
        first[0].1.add(true, Duration::from_millis(3), Standing::Passing);
        first[0].1.add(false, Duration::from_millis(5), Standing::Passing);
        let figures = first[0].1.figures();
        assert_eq!((figures.count, figures.failures), (2, 1));
        assert_eq!((figures.took, figures.last), (Duration::from_millis(8), Duration::from_millis(5)));
        assert_eq!(figures.standing, Standing::Passing);

        let second = totals.begin(names(&["new", "http"]));
        let kept = totals.checks();
        let kept: Vec<&str> = kept.iter().map(|(name, _)| &**name).collect();
        assert_eq!(kept, ["new", "http"], "a check that the file no longer has is forgotten");
        let figures = second[1].1.figures();
        assert_eq!((figures.count, figures.standing), (2, Standing::Pending));
        assert_eq!(second[0].1.figures().count, 0);
    }

    #[test]
    fn starts_add_up() {
        let totals = Totals::default();
        totals.started(Duration::from_millis(20));
        totals.started(Duration::from_millis(30));
        assert_eq!(totals.starts(), (2, Duration::from_millis(50)));
    }
}
