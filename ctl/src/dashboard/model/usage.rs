//! The resources that services use: memory as reported, and the share of a CPU from two samples.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Failed samples in a row after which the last values are dropped.
const TIMEOUT: u32 = 3;

/// The resources that one service has used so far, as far as its cgroup counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub memory: Option<u64>,
    pub cpu: Option<Duration>,
}

/// The last sample, and what it tells beside the one before.
#[derive(Debug, Default)]
pub struct Usages {
    last: Option<(Instant, HashMap<String, Usage>)>,
    /// In percent of one CPU.
    shares: HashMap<String, f64>,
    failed: u32,
}

impl Usages {
    /// Takes a sample of this time.
    pub fn take(&mut self, at: Instant, sample: HashMap<String, Usage>) {
        self.failed = 0;
        self.shares.clear();
        if let Some((before, old)) = &self.last {
            let passed = at.saturating_duration_since(*before).as_secs_f64();
            for (name, usage) in &sample {
                // A service that was started again counts from 0.
                if let (Some(now), Some(then)) = (usage.cpu, old.get(name).and_then(|old| old.cpu))
                    && let Some(used) = now.checked_sub(then)
                    && passed > 0.0
                {
                    self.shares.insert(name.clone(), used.as_secs_f64() / passed * 100.0);
                }
            }
        }
        self.last = Some((at, sample));
    }

    /// There was no sample.
    pub fn fail(&mut self) {
        self.failed += 1;
        if self.failed >= TIMEOUT {
            *self = Usages { failed: TIMEOUT, ..Usages::default() };
        }
    }

    /// The share of one CPU in percent, between the last two samples.
    pub fn share(&self, name: &str) -> Option<f64> {
        self.shares.get(name).copied()
    }

    /// Bytes.
    pub fn memory(&self, name: &str) -> Option<u64> {
        let (_, sample) = self.last.as_ref()?;
        sample.get(name)?.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(millis: u64) -> HashMap<String, Usage> {
        let usage = Usage { memory: Some(millis), cpu: Some(Duration::from_millis(millis)) };
        HashMap::from([("db".to_owned(), usage)])
    }

    #[test]
    fn a_share_is_what_lies_between_two_samples() {
        let (mut usages, begin) = (Usages::default(), Instant::now());
        usages.take(begin, sample(1000));
        assert_eq!((usages.share("db"), usages.memory("db")), (None, Some(1000)));
        usages.take(begin + Duration::from_secs(2), sample(1500));
        assert_eq!((usages.share("db"), usages.memory("db")), (Some(25.0), Some(1500)));
        assert_eq!((usages.share("web"), usages.memory("web")), (None, None));
        // A new cgroup begins at nothing.
        usages.take(begin + Duration::from_secs(4), sample(10));
        assert_eq!(usages.share("db"), None);
        usages.take(begin + Duration::from_secs(4), sample(20));
        assert_eq!(usages.share("db"), None, "no time has passed");
    }

    #[test]
    fn what_is_old_is_not_shown_as_new() {
        let mut usages = Usages::default();
        usages.take(Instant::now(), sample(1));
        usages.fail();
        usages.fail();
        assert_eq!(usages.memory("db"), Some(1), "one that was busy");
        usages.fail();
        assert_eq!(usages.memory("db"), None);
    }
}
