//! What becomes of the clock after a measurement, and when the next one is due. Pure: the caller looks at servers, sleeps
//! and sets the clock.

use std::collections::VecDeque;
use std::time::Duration;

/// From this offset on, in seconds, the clock is set at once. The kernel takes away less little by little.
const STEP: f64 = 0.4;
/// How far a measurement may be off, in seconds, before it can be a spike.
const SPIKE: f64 = 0.02;
/// The shortest time between two measurements, and the longest.
pub const INTERVALS: (Duration, Duration) = (Duration::from_secs(32), Duration::from_secs(2048));
/// The first wait after a round without an answer, while the clock was never set.
const RETRY: Duration = Duration::from_secs(1);
/// How many measurements say what is usual.
const HISTORY: usize = 8;
/// With an offset below this, in seconds, the clock is looked at less often; above the other more often.
const STEADY: (f64, f64) = (0.01, 0.1);

/// What is to be done with an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Let the kernel take it away little by little.
    Slew,
    /// Set the clock.
    Step,
    /// Nothing: it is unlike those before it, so the next one has to confirm it.
    Spike,
}

/// The memory of a clock that is kept right.
#[derive(Debug)]
pub struct Discipline {
    /// The offsets of the last measurements that counted, in seconds.
    history: VecDeque<f64>,
    interval: Duration,
    /// The last measurement was a spike.
    suspects: bool,
    /// The wait after the next round without an answer.
    retry: Duration,
}

impl Discipline {
    pub fn new() -> Discipline {
        Discipline { history: VecDeque::new(), interval: INTERVALS.0, suspects: false, retry: RETRY }
    }

    /// How long after a measurement the next one is due.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Judges an offset, in seconds.
    pub fn judge(&mut self, offset: f64) -> Verdict {
        self.retry = INTERVALS.0;
        let size = offset.abs();
        let usual = self.history.iter().map(|offset| offset * offset).sum::<f64>();
        #[allow(clippy::cast_precision_loss, reason = "eight at most")]
        let usual = (usual / self.history.len().max(1) as f64).sqrt();
        if !self.history.is_empty() && size > SPIKE.max(3.0 * usual) && !self.suspects {
            self.suspects = true;
            self.interval = INTERVALS.0;
            return Verdict::Spike;
        }
        self.suspects = false;
        if size >= STEP {
            self.history.clear();
            self.history.push_back(0.0);
            self.interval = INTERVALS.0;
            return Verdict::Step;
        }
        self.history.push_back(offset);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        if size < STEADY.0 {
            self.interval = self.interval.saturating_mul(2).min(INTERVALS.1);
        } else if size > STEADY.1 {
            self.interval = INTERVALS.0.max(self.interval.checked_div(2).unwrap_or_default());
        }
        Verdict::Slew
    }

    /// No server has answered. Returns when to ask again: soon while the clock was never set, then at growing intervals.
    pub fn unanswered(&mut self) -> Duration {
        let wait = self.retry;
        self.retry =
            wait.saturating_mul(2).min(if self.history.is_empty() { INTERVALS.0 } else { INTERVALS.1 });
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(duration: Duration) -> u64 {
        duration.as_secs()
    }

    #[test]
    fn the_first_measurement_sets_a_clock_that_is_far_off_and_slews_another() {
        assert_eq!(Discipline::new().judge(-1e9), Verdict::Step);
        assert_eq!(Discipline::new().judge(0.4), Verdict::Step);
        assert_eq!(Discipline::new().judge(0.399), Verdict::Slew);
    }

    #[test]
    fn a_steady_clock_is_looked_at_less_often() {
        let mut discipline = Discipline::new();
        let intervals: Vec<u64> = (0..8)
            .map(|_| {
                assert_eq!(discipline.judge(0.001), Verdict::Slew);
                seconds(discipline.interval())
            })
            .collect();
        assert_eq!(intervals, [64, 128, 256, 512, 1024, 2048, 2048, 2048]);
        assert_eq!(discipline.judge(0.015), Verdict::Slew);
        assert_eq!(seconds(discipline.interval()), 2048, "neither steady nor unsteady");
    }

    #[test]
    fn one_spike_changes_nothing_and_is_looked_at_soon() {
        let mut discipline = Discipline::new();
        (0..4).for_each(|_| _ = discipline.judge(0.002));
        assert_eq!(discipline.judge(30.0), Verdict::Spike);
        assert_eq!(seconds(discipline.interval()), 32);
        assert_eq!(discipline.judge(0.002), Verdict::Slew);
        assert_eq!(discipline.judge(0.3), Verdict::Spike, "every one has to be confirmed");
    }

    #[test]
    fn a_confirmed_change_is_followed() {
        let mut discipline = Discipline::new();
        (0..4).for_each(|_| _ = discipline.judge(0.002));
        assert_eq!(discipline.judge(30.0), Verdict::Spike);
        assert_eq!(discipline.judge(30.0), Verdict::Step);
        assert_eq!(discipline.judge(0.001), Verdict::Slew);
        assert_eq!(discipline.judge(0.2), Verdict::Spike);
        assert_eq!(discipline.judge(0.2), Verdict::Slew);
        assert_eq!(seconds(discipline.interval()), 32, "it is unsteady");
    }

    #[test]
    fn without_an_answer_it_asks_soon_at_first_and_then_ever_less_often() {
        let mut discipline = Discipline::new();
        let waits: Vec<u64> = (0..7).map(|_| seconds(discipline.unanswered())).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 32]);
        discipline.judge(0.001);
        let waits: Vec<u64> = (0..8).map(|_| seconds(discipline.unanswered())).collect();
        assert_eq!(waits, [32, 64, 128, 256, 512, 1024, 2048, 2048]);
    }
}
