//! When a check is asked next. Pure; the probe goes by it, and PID 1 knows by it whether one is late.

use std::time::Duration;

use tokio::time::Instant;

use super::Verdict;

/// The longest interval of an eager check: a start is up soon after it is ready.
const EAGER: Duration = Duration::from_secs(1);

/// The most by which a pause is longer, so that a hundred checks do not beat together.
pub fn jitter(pause: Duration) -> Duration {
    pause.checked_div(10).unwrap_or_default()
}

/// Whether a check is still to pass for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eager {
    /// `None`: it has passed often enough.
    until: Option<Instant>,
    passes: u32,
    needed: u32,
}

impl Eager {
    /// For so long, or until it has passed `needed` times in a row.
    pub fn new(now: Instant, span: Duration, needed: u32) -> Eager {
        Eager { until: now.checked_add(span), passes: 0, needed }
    }

    /// The time that is left of it.
    pub fn left(&self, now: Instant) -> Duration {
        self.until.map(|until| until.saturating_duration_since(now)).unwrap_or_default()
    }

    /// From this answer to the next time, without jitter.
    pub fn pause(&mut self, interval: Duration, verdict: Verdict, now: Instant) -> Duration {
        self.passes = if verdict == Verdict::Passes { self.passes.saturating_add(1) } else { 0 };
        if self.passes >= self.needed {
            self.until = None;
        }
        if self.left(now).is_zero() { interval } else { interval.min(EAGER) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn it_asks_every_second_until_it_has_passed_often_enough() {
        let now = Instant::now();
        let mut eager = Eager::new(now, MINUTE, 2);
        assert_eq!(eager.pause(MINUTE, Verdict::Fails, now), EAGER);
        assert_eq!(eager.pause(MINUTE, Verdict::Passes, now), EAGER);
        assert_eq!(eager.pause(MINUTE, Verdict::Silent, now), EAGER);
        assert_eq!(eager.pause(MINUTE, Verdict::Passes, now), EAGER);
        assert_eq!(eager.pause(MINUTE, Verdict::Passes, now), MINUTE);
        assert_eq!(eager.pause(MINUTE, Verdict::Fails, now), MINUTE);
    }

    #[test]
    fn it_is_eager_no_longer_than_its_grace() {
        let now = Instant::now();
        let mut eager = Eager::new(now, MINUTE, 1);
        assert_eq!(eager.pause(MINUTE, Verdict::Fails, now + MINUTE / 2), EAGER);
        assert_eq!(eager.pause(MINUTE, Verdict::Fails, now + MINUTE), MINUTE);
    }

    #[test]
    fn a_shorter_interval_stays() {
        let now = Instant::now();
        let short = Duration::from_millis(100);
        assert_eq!(Eager::new(now, MINUTE, 1).pause(short, Verdict::Fails, now), short);
    }
}
