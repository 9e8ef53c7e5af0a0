//! How long a group rests between its stop and its next start. Pure: time and chance come in as arguments.

use std::time::Duration;

use kelson_spec::service::RestartSpec;
use tokio::time::Instant;

/// A group that has been up for at least this long is forgiven, however small `maxDelay` is.
const STABLE: Duration = Duration::from_secs(10);

/// What is remembered of the restarts of one group.
#[derive(Debug, Default)]
pub struct Backoff {
    /// Restarts since it was last up for long.
    doublings: u32,
    /// Since when all its members are up.
    well_since: Option<Instant>,
    /// How long they must be.
    stable: Duration,
}

impl Backoff {
    /// Nothing has to be watched.
    pub fn is_fresh(&self) -> bool {
        self.doublings == 0
    }

    /// Its members are all up, or not.
    pub fn see(&mut self, well: bool, now: Instant) {
        match (well, self.well_since) {
            (true, None) => self.well_since = Some(now),
            (false, Some(since)) => {
                if now.saturating_duration_since(since) > self.stable {
                    self.doublings = 0;
                }
                self.well_since = None;
            }
            _ => {}
        }
    }

    /// The delay of the next restart, by the rules of the member that asked for it; `chance` is any number.
    pub fn next(&mut self, rules: &RestartSpec, now: Instant, chance: u32) -> Duration {
        self.see(false, now);
        self.stable = rules.max_delay.max(STABLE);
        let factor = 1_u32.checked_shl(self.doublings).unwrap_or(u32::MAX);
        let base = rules.delay.saturating_mul(factor).min(rules.max_delay);
        self.doublings = self.doublings.saturating_add(1);
        let jitter = base.mul_f64(0.25 * f64::from(chance) / f64::from(u32::MAX));
        base.saturating_add(jitter)
    }
}

#[cfg(test)]
mod tests {
    use kelson_spec::service::ServiceKind;

    use super::*;

    #[test]
    fn it_doubles_up_to_its_bound_and_is_forgotten_after_all_were_up_for_long() {
        let secs = Duration::from_secs;
        let rules =
            RestartSpec { delay: secs(1), max_delay: secs(5), ..RestartSpec::for_kind(ServiceKind::Service) };
        let begun = Instant::now();
        let mut backoff = Backoff::default();
        assert!(backoff.is_fresh());
        for seconds in [1, 2, 4, 5, 5] {
            assert_eq!(backoff.next(&rules, begun, 0), secs(seconds));
        }
        assert!(!backoff.is_fresh());
        // Jitter comes on top.
        assert_eq!(backoff.next(&rules, begun, u32::MAX), secs(5).mul_f64(1.25));
        // Up, but not for long enough.
        backoff.see(true, begun);
        backoff.see(true, begun + secs(8));
        assert_eq!(backoff.next(&rules, begun + secs(10), 0), secs(5));
        // Long enough; whoever asks may be the first to say that it is over.
        backoff.see(true, begun + secs(20));
        assert_eq!(backoff.next(&rules, begun + secs(31), 0), secs(1));
        backoff.see(true, begun + secs(40));
        backoff.see(false, begun + secs(51));
        assert!(backoff.is_fresh());
    }

    #[test]
    fn no_delay_stays_none() {
        let rules = RestartSpec { delay: Duration::ZERO, ..RestartSpec::for_kind(ServiceKind::Service) };
        let mut backoff = Backoff::default();
        for _ in 0..100 {
            assert_eq!(backoff.next(&rules, Instant::now(), u32::MAX), Duration::ZERO);
        }
    }
}
