//! When PID 1 looks after a probe: only while there is something to ask, and soon enough for the checks that it asks.
//!
//! Pure. Whatever the probe sends is a sign of life; a ping is sent only after a silence. A probe with many checks is
//! never pinged, one whose checks are minutes apart rarely.

use std::time::Duration;

use tokio::time::Instant;

/// Within so long a ping is answered.
pub const ANSWER: Duration = Duration::from_secs(2);
/// The same for the first ping of a probe: many services may be starting beside it.
pub const START: Duration = Duration::from_secs(5);
/// The silence before a ping: half the shortest interval, within these.
const SILENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// If PID 1 itself comes so late, the whole host stood still, and the probe gets its time once more.
const LATE: Duration = Duration::from_millis(500);

/// Where the watch over one probe stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    phase: Phase,
    number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Received { at: Instant },
    Asked { by: Instant, again: bool },
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Nothing,
    Ping(u64),
    /// It does not answer.
    Dead,
}

/// `now + span`, or `now` where that is beyond all clocks.
pub fn after(now: Instant, span: Duration) -> Instant {
    now.checked_add(span).unwrap_or(now)
}

/// How long a probe may be silent, by the shortest interval of its checks.
pub fn silence(shortest_interval: Duration) -> Duration {
    shortest_interval.checked_div(2).unwrap_or_default().clamp(SILENCE.0, SILENCE.1)
}

impl Heartbeat {
    /// A probe that has just been started, and is sent ping 1.
    pub fn new(now: Instant) -> Heartbeat {
        Heartbeat { phase: Phase::Asked { by: after(now, START), again: false }, number: 1 }
    }

    /// When [`Heartbeat::tick`] wants to be called. `silence`: none while there is nothing to ask.
    pub fn next(&self, silence: Option<Duration>) -> Option<Instant> {
        match self.phase {
            Phase::Received { at } => silence.map(|silence| after(at, silence)),
            Phase::Asked { by, .. } => Some(by),
        }
    }

    /// The probe has sent something.
    pub fn received(&mut self, now: Instant) {
        self.phase = Phase::Received { at: now };
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant, silence: Option<Duration>) -> Step {
        match self.phase {
            Phase::Received { at } if silence.is_some_and(|silence| now >= after(at, silence)) => {
                self.number = self.number.wrapping_add(1);
                self.phase = Phase::Asked { by: after(now, ANSWER), again: false };
                Step::Ping(self.number)
            }
            Phase::Asked { by, again } if now >= by => {
                if !again && now.duration_since(by) > LATE {
                    self.phase = Phase::Asked { by: after(now, ANSWER), again: true };
                    Step::Nothing
                } else {
                    Step::Dead
                }
            }
            _ => Step::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Option<Duration> = Some(Duration::from_secs(1));

    fn received(now: Instant) -> Heartbeat {
        let mut heartbeat = Heartbeat::new(now);
        heartbeat.received(now);
        heartbeat
    }

    #[test]
    fn a_silence_is_followed_by_a_ping_and_that_by_its_end() {
        let now = Instant::now();
        let mut heartbeat = received(now);
        let asked = now + Duration::from_secs(1);
        assert_eq!(heartbeat.next(QUIET), Some(asked));
        assert_eq!(heartbeat.tick(asked - Duration::from_millis(1), QUIET), Step::Nothing);
        assert_eq!(heartbeat.tick(asked, QUIET), Step::Ping(2));
        assert_eq!(heartbeat.next(QUIET), Some(asked + ANSWER));
        assert_eq!(heartbeat.tick(asked + ANSWER - Duration::from_millis(1), QUIET), Step::Nothing);
        assert_eq!(heartbeat.tick(asked + ANSWER, QUIET), Step::Dead);
    }

    #[test]
    fn what_it_sends_is_a_sign_of_life() {
        let now = Instant::now();
        let mut heartbeat = received(now);
        for second in 1..10 {
            let now = now + Duration::from_millis(900) * second;
            assert_eq!(heartbeat.tick(now, QUIET), Step::Nothing);
            heartbeat.received(now);
        }
    }

    #[test]
    fn with_nothing_to_ask_it_needs_no_timer() {
        let now = Instant::now();
        let mut heartbeat = received(now);
        assert_eq!(heartbeat.next(None), None);
        assert_eq!(heartbeat.tick(now + Duration::from_secs(3600), None), Step::Nothing);
    }

    #[test]
    fn when_the_whole_host_stood_still_it_gets_its_time_once_more() {
        let now = Instant::now();
        let mut heartbeat = received(now);
        let asked = now + Duration::from_secs(1);
        assert_eq!(heartbeat.tick(asked, QUIET), Step::Ping(2));
        let late = asked + Duration::from_secs(60);
        assert_eq!(heartbeat.tick(late, QUIET), Step::Nothing);
        assert_eq!(heartbeat.tick(late + ANSWER + Duration::from_secs(60), QUIET), Step::Dead);
    }

    #[test]
    fn the_silence_follows_the_shortest_interval_within_bounds() {
        let of = |millis| silence(Duration::from_millis(millis)).as_millis();
        assert_eq!([of(100), of(5_000), of(60_000)], [1_000, 2_500, 5_000]);
    }
}
