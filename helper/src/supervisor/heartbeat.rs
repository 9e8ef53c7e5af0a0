//! When PID 1 asks a helper whether it still works: never while nothing depends on it. Pure.
//!
//! Every message of a helper shows that it works. After a silence it is sent a ping, and has a time to say anything.

use std::time::Duration;

use tokio::time::Instant;

/// From one look at a late answer that is excused to the next.
const GLANCE: Duration = Duration::from_millis(100);
/// If PID 1 itself comes so late, the whole host stood still, and the helper gets its time once more.
const LATE: Duration = Duration::from_millis(250);

/// The expectations that a helper must meet now.
pub trait Expectations {
    /// How long it may be silent before it is asked. `None`: nothing depends on it, and no timer runs.
    fn silence(&self) -> Option<Duration>;

    /// It has been silent for so long. False: there is no reason to ask it.
    fn is_due(&mut self) -> bool {
        true
    }

    /// It was asked so long ago, and the time to answer is over. True: it has a little more.
    fn excuses(&mut self, _asked: Duration, _now: Instant) -> bool {
        false
    }
}

/// How long a helper has for an answer.
#[derive(Debug, Clone, Copy)]
pub struct AnswerTimes {
    pub usual: Duration,
    /// To the first ping: many services may be starting beside it.
    pub first: Duration,
}

/// The watch over one helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its silence counts from then.
    Alive { since: Instant },
    /// `sent`: the ping has gone out; PID 1 may be at something else for a while before it does.
    Asked { at: Instant, by: Instant, time: Duration, sent: bool, again: bool },
}

/// The step that is due by the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Nothing,
    Ping,
    /// It does not answer.
    Dead,
}

/// `now + span`, or `now` where that is beyond all clocks.
pub fn after(now: Instant, span: Duration) -> Instant {
    now.checked_add(span).unwrap_or(now)
}

fn asked(now: Instant, time: Duration, sent: bool) -> Phase {
    Phase::Asked { at: now, by: after(now, time), time, sent, again: false }
}

impl Heartbeat {
    /// A helper that has just been started, and is sent its first ping.
    pub fn new(times: AnswerTimes, now: Instant) -> Heartbeat {
        Heartbeat { phase: asked(now, times.first, false) }
    }

    /// The ping has gone out: the time for its answer begins now.
    pub fn sent(&mut self, now: Instant) {
        if let Phase::Asked { time, sent: false, .. } = self.phase {
            self.phase = asked(now, time, true);
        }
    }

    /// The helper has sent something.
    pub fn received(&mut self, now: Instant) {
        self.phase = Phase::Alive { since: now };
    }

    /// Something depends on it from now on: unless it is asked, its silence begins.
    pub fn expect(&mut self, now: Instant) {
        if let Phase::Alive { since } = &mut self.phase {
            *since = now;
        }
    }

    /// When [`Heartbeat::tick`] is to be called.
    pub fn next(&self, expectations: &impl Expectations) -> Option<Instant> {
        match self.phase {
            Phase::Alive { since } => expectations.silence().map(|silence| after(since, silence)),
            Phase::Asked { by, .. } => Some(by),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, times: AnswerTimes, expectations: &mut impl Expectations, now: Instant) -> Step {
        if self.next(expectations).is_none_or(|next| now < next) {
            return Step::Nothing;
        }
        match &mut self.phase {
            Phase::Alive { .. } if expectations.is_due() => {
                self.phase = asked(now, times.usual, false);
                return Step::Ping;
            }
            Phase::Alive { since } => *since = now,
            Phase::Asked { by, again, sent, .. } if !*again && (!*sent || now.duration_since(*by) > LATE) => {
                (*by, *again) = (after(now, times.usual), true);
            }
            Phase::Asked { at, by, .. } if expectations.excuses(now.duration_since(*at), now) => {
                *by = after(now, GLANCE);
            }
            Phase::Asked { .. } => return Step::Dead,
        }
        Step::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const TIMES: AnswerTimes =
        AnswerTimes { usual: Duration::from_millis(500), first: Duration::from_secs(3) };

    /// Asks after a second of silence, if `due`; excuses late answers up to `excused`.
    struct Test {
        silence: Option<Duration>,
        due: bool,
        excused: Duration,
    }

    impl Test {
        fn new() -> Test {
            Test { silence: Some(SECOND), due: true, excused: Duration::ZERO }
        }
    }

    impl Expectations for Test {
        fn silence(&self) -> Option<Duration> {
            self.silence
        }

        fn is_due(&mut self) -> bool {
            self.due
        }

        fn excuses(&mut self, asked: Duration, _now: Instant) -> bool {
            asked < self.excused
        }
    }

    fn answered(now: Instant) -> Heartbeat {
        let mut heartbeat = Heartbeat::new(TIMES, now);
        heartbeat.sent(now);
        heartbeat.received(now);
        heartbeat
    }

    #[test]
    fn a_silence_is_followed_by_a_ping_and_that_by_its_end() {
        let (now, mut test) = (Instant::now(), Test::new());
        let mut heartbeat = answered(now);
        let asked = now + SECOND;
        assert_eq!(heartbeat.next(&test), Some(asked));
        assert_eq!(heartbeat.tick(TIMES, &mut test, asked - Duration::from_millis(1)), Step::Nothing);
        assert_eq!(heartbeat.tick(TIMES, &mut test, asked), Step::Ping);
        heartbeat.sent(asked);
        let late = asked + TIMES.usual;
        assert_eq!(heartbeat.next(&test), Some(late));
        assert_eq!(heartbeat.tick(TIMES, &mut test, late - Duration::from_millis(1)), Step::Nothing);
        assert_eq!(heartbeat.tick(TIMES, &mut test, late), Step::Dead);
    }

    #[test]
    fn what_it_sends_shows_that_it_works() {
        let (now, mut test) = (Instant::now(), Test::new());
        let mut heartbeat = answered(now);
        for turn in 1..10 {
            let now = now + SECOND * 9 / 10 * turn;
            assert_eq!(heartbeat.tick(TIMES, &mut test, now), Step::Nothing);
            heartbeat.received(now);
        }
    }

    #[test]
    fn while_nothing_depends_on_it_there_is_no_timer() {
        let now = Instant::now();
        let mut heartbeat = answered(now);
        let mut test = Test { silence: None, ..Test::new() };
        assert_eq!(heartbeat.next(&test), None);
        let later = now + SECOND * 3600;
        assert_eq!(heartbeat.tick(TIMES, &mut test, later), Step::Nothing);
        test.silence = Some(SECOND);
        heartbeat.expect(later);
        assert_eq!(heartbeat.next(&test), Some(later + SECOND));
        // A look at which nothing is found asks nobody, and the next silence begins.
        test.due = false;
        assert_eq!(heartbeat.tick(TIMES, &mut test, later + SECOND), Step::Nothing);
        assert_eq!(heartbeat.next(&test), Some(later + SECOND * 2));
    }

    #[test]
    fn a_late_answer_is_excused_but_not_for_ever() {
        let dead_after = |excused: Duration| {
            let (start, mut test) = (Instant::now(), Test { excused, ..Test::new() });
            let mut heartbeat = answered(start);
            let asked = start + SECOND;
            assert_eq!(heartbeat.tick(TIMES, &mut test, asked), Step::Ping);
            heartbeat.sent(asked);
            loop {
                let now = heartbeat.next(&test).unwrap();
                if heartbeat.tick(TIMES, &mut test, now) == Step::Dead {
                    return now - asked;
                }
            }
        };
        assert_eq!(dead_after(Duration::ZERO), TIMES.usual);
        assert_eq!(dead_after(Duration::from_millis(1100)), Duration::from_millis(1100));
        let after = dead_after(SECOND * 10);
        assert!(after >= SECOND * 10 && after <= SECOND * 10 + GLANCE, "{after:?}");
        // An answer that comes late is one.
        let (start, mut test) = (Instant::now(), Test { excused: SECOND * 10, ..Test::new() });
        let mut heartbeat = answered(start);
        heartbeat.tick(TIMES, &mut test, start + SECOND);
        heartbeat.sent(start + SECOND);
        for _ in 0..5 {
            let now = heartbeat.next(&test).unwrap();
            assert_eq!(heartbeat.tick(TIMES, &mut test, now), Step::Nothing);
        }
        heartbeat.received(start + SECOND * 4);
        assert_eq!(heartbeat.next(&test), Some(start + SECOND * 5));
    }

    #[test]
    fn when_the_whole_host_stood_still_it_gets_its_time_once_more() {
        let (now, mut test) = (Instant::now(), Test::new());
        let mut heartbeat = answered(now);
        assert_eq!(heartbeat.tick(TIMES, &mut test, now + SECOND), Step::Ping);
        heartbeat.sent(now + SECOND);
        let late = now + SECOND + TIMES.usual + SECOND * 60;
        assert_eq!(heartbeat.tick(TIMES, &mut test, late), Step::Nothing);
        assert_eq!(heartbeat.tick(TIMES, &mut test, late + SECOND * 60), Step::Dead);
    }

    #[test]
    fn the_time_of_an_answer_begins_when_it_is_asked_for() {
        let (now, mut test) = (Instant::now(), Test::new());
        // PID 1 took up all its services, and came to nothing else.
        let mut heartbeat = Heartbeat::new(TIMES, now);
        let turned = now + TIMES.first + Duration::from_millis(100);
        assert_eq!(heartbeat.tick(TIMES, &mut test, turned), Step::Nothing);
        heartbeat.sent(turned);
        assert_eq!(heartbeat.next(&test), Some(turned + TIMES.first));
        heartbeat.sent(turned + TIMES.usual);
        assert_eq!(heartbeat.next(&test), Some(turned + TIMES.first), "once");
        assert_eq!(heartbeat.tick(TIMES, &mut test, turned + TIMES.first), Step::Dead);
        // One that cannot be sent, since nobody reads, is not waited for without an end.
        let mut heartbeat = Heartbeat::new(TIMES, now);
        assert_eq!(heartbeat.tick(TIMES, &mut test, now + TIMES.first), Step::Nothing);
        assert_eq!(heartbeat.tick(TIMES, &mut test, now + TIMES.first + TIMES.usual), Step::Dead);
    }
}
