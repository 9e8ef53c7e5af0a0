//! The last results of one check, held small: a thousand checks a second pass, and most have nothing to say.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::output::{LINE, last_line};
use crate::model::CheckResult;
use crate::state_store::PastCheck;

/// How many results of each check are kept.
const RESULTS: usize = 10;

/// Oldest first. Only the last has its whole output.
#[derive(Debug, Default)]
pub struct History {
    results: VecDeque<Kept>,
    /// When the last one came.
    newest: Option<Instant>,
}

/// A result without output holds no memory of its own, one with the same output as the last none either.
#[derive(Debug)]
struct Kept {
    /// Since 1970, in microseconds.
    at: u64,
    /// In microseconds; what does not fit is more than an hour.
    took: u32,
    passed: bool,
    output: Option<Arc<str>>,
}

impl History {
    pub fn push(&mut self, at: SystemTime, took: Duration, passed: bool, output: Arc<str>) {
        // Old outputs are worth a line each: a hundred checks must not hold ten times their output.
        if let Some(output) = self.results.back_mut().and_then(|last| last.output.as_mut())
            && (output.contains('\n') || output.len() > LINE)
        {
            *output = last_line(output).into();
        }
        if self.results.is_empty() {
            self.results.reserve_exact(RESULTS);
        }
        if self.results.len() >= RESULTS {
            self.results.pop_front();
        }
        self.newest = Some(Instant::now());
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.results.push_back(Kept {
            at: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
            took: u32::try_from(took.as_micros()).unwrap_or(u32::MAX),
            passed,
            output: (!output.is_empty()).then_some(output),
        });
    }

    /// The results of an earlier incarnation of PID 1; `newest`: when the last came, where that is known.
    pub fn recall(results: PastCheck, newest: Option<Instant>) -> History {
        let mut history = History::default();
        for result in results {
            let at = time_of(result.at);
            history.push(at, Duration::from_micros(result.took.into()), result.passed, result.text.into());
            history.newest = newest.or_else(|| Some(instant_of(at)));
        }
        history
    }

    /// When the last one came, since 1970 in microseconds, and how long it took, in microseconds.
    pub fn times_of_last(&self) -> Option<(u64, u32)> {
        self.results.back().map(|last| (last.at, last.took))
    }

    /// Whether the last one passed, and its output.
    pub fn last(&self) -> Option<(bool, &str)> {
        self.results.back().map(|last| (last.passed, last.output.as_deref().unwrap_or_default()))
    }

    pub fn report(&self) -> Vec<CheckResult> {
        let mut results: Vec<CheckResult> = self.results.iter().map(Kept::report).collect();
        if let Some(last) = results.last_mut() {
            last.ago = self.newest.map(|at| at.elapsed());
        }
        results
    }
}

/// As long ago as the clock says: a release before 0.3.0 has recorded the time of the day alone.
pub fn instant_of(at: SystemTime) -> Instant {
    let now = Instant::now();
    now.checked_sub(at.elapsed().unwrap_or_default()).unwrap_or(now)
}

fn time_of(micros: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros)).unwrap_or(SystemTime::UNIX_EPOCH)
}

impl Kept {
    fn report(&self) -> CheckResult {
        CheckResult {
            at: time_of(self.at),
            took: Duration::from_micros(self.took.into()),
            passed: self.passed,
            ago: None,
            output: self.output.as_deref().unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_are_kept_and_the_last_whole() {
        let mut history = History::default();
        for n in 0..25_u64 {
            let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_000 + n);
            history.push(at, Duration::from_micros(n), n % 2 == 0, format!("first {n}\nlast {n}").into());
        }
        let results = history.report();
        assert_eq!((results.len(), history.results.capacity()), (RESULTS, RESULTS));
        assert_eq!((results[0].output.as_str(), results[0].passed), ("last 15", false));
        assert_eq!((results[9].output.as_str(), results[9].passed), ("first 24\nlast 24", true));
        assert_eq!(results[9].took, Duration::from_micros(24));
        assert_eq!(results[9].at, SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_024));
        assert_eq!(history.last(), Some((true, "first 24\nlast 24")));
    }

    #[test]
    fn what_says_nothing_is_small() {
        assert!(std::mem::size_of::<Kept>() <= 32);
        let mut history = History::default();
        history.push(SystemTime::now(), Duration::MAX, true, "".into());
        assert!(history.results[0].output.is_none());
    }
}
