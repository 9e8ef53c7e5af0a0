//! When PID 1 looks after logd: never while all is quiet, and soon enough that no service is held up for 2 s.
//!
//! Pure. Quiet: the copies of the pipes are armed, the first unread byte wakes PID 1 once. Busy: a timer looks whether
//! something is still unread; a service that writes all the time is then seen by a look a [`LOOK`], not by its lines.
//! Asked: something was unread, so logd has to answer a ping. First byte to replaced: [`LOOK`] + [`ANSWER`] + 100 ms, if
//! a pipe fills up meanwhile. As long as none does nobody is held up, and logd keeps what is in its memory: it has
//! [`LONGEST`]. One that has nothing worse than no processor has [`STARVED`]: the next would have none either.

use std::time::Duration;

use tokio::time::Instant;

/// From the first unread byte, or the last answer, to the next look.
pub const LOOK: Duration = Duration::from_millis(800);
/// Within so long a ping is answered.
pub const ANSWER: Duration = Duration::from_millis(500);
/// The same for the first ping of a logd: many services may be starting beside it.
pub const START: Duration = Duration::from_secs(3);
/// What it has where nobody is held up. What is unread by then has room in the next one's queue.
pub const LONGEST: Duration = Duration::from_millis(1100);
/// What it has while it waits for a processor.
pub const STARVED: Duration = Duration::from_secs(10);
/// From one look whether anybody is held up to the next.
const GLANCE: Duration = Duration::from_millis(100);
/// If PID 1 itself comes so late, the whole host stood still, and logd gets its time once more.
const LATE: Duration = Duration::from_millis(250);

/// Where the watch over one logd stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    phase: Phase,
    number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Quiet,
    Busy {
        look: Instant,
    },
    /// `sent`: the ping has gone out. PID 1 may be at something else for a while before it does.
    Asked {
        by: Instant,
        again: bool,
        /// Nobody is held up, and it has until then; starved, until then.
        last: Instant,
        starved: Instant,
        sent: bool,
    },
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

fn asked(now: Instant, span: Duration, sent: bool) -> Phase {
    let (last, starved) = (after(now, LONGEST), after(now, STARVED));
    Phase::Asked { by: after(now, span), again: false, last, starved, sent }
}

impl Heartbeat {
    /// A logd that has just been started, and is sent ping 1.
    pub fn new(now: Instant) -> Heartbeat {
        Heartbeat { phase: asked(now, START, false), number: 1 }
    }

    /// This ping has gone out: its time begins now.
    pub fn sent(&mut self, number: u64, now: Instant) {
        if number == self.number && matches!(self.phase, Phase::Asked { sent: false, .. }) {
            self.phase = asked(now, if number == 1 { START } else { ANSWER }, true);
        }
    }

    /// The pipes are to be armed: nothing was unread at the last look.
    pub fn quiet(&self) -> bool {
        self.phase == Phase::Quiet
    }

    /// When [`Heartbeat::tick`] wants to be called; never while quiet.
    pub fn next(&self) -> Option<Instant> {
        match self.phase {
            Phase::Quiet => None,
            Phase::Busy { look } => Some(look),
            Phase::Asked { by, .. } => Some(by),
        }
    }

    /// Something can be read.
    pub fn data(&mut self, now: Instant) {
        if self.quiet() {
            self.phase = Phase::Busy { look: after(now, LOOK) };
        }
    }

    /// logd answered this ping; true if it was the one that is waited for.
    pub fn pong(&mut self, number: u64, now: Instant) -> bool {
        let awaited = number == self.number && matches!(self.phase, Phase::Asked { .. });
        if awaited {
            self.phase = Phase::Busy { look: after(now, LOOK) };
        }
        awaited
    }

    /// Time has passed; `unread` tells whether anything can be read, and is asked only at a look; `filling` whether a pipe
    /// fills up, and `starved` whether logd waits for a processor; both are asked only when an answer is late.
    pub fn tick(
        &mut self,
        now: Instant,
        unread: impl FnOnce() -> bool,
        filling: impl FnOnce() -> bool,
        starved: impl FnOnce() -> bool,
    ) -> Step {
        match self.phase {
            Phase::Busy { look } if now >= look => {
                if unread() {
                    self.number = self.number.wrapping_add(1);
                    self.phase = asked(now, ANSWER, false);
                    Step::Ping(self.number)
                } else {
                    self.phase = Phase::Quiet;
                    Step::Nothing
                }
            }
            Phase::Asked { by, again, last, starved: until, sent } if now >= by => {
                let (by, again) = if !again && (!sent || now.duration_since(by) > LATE) {
                    (after(now, ANSWER), true)
                } else if now < last && !filling() {
                    (after(now, GLANCE).min(last), again)
                } else if now < until && starved() {
                    (after(now, GLANCE), again)
                } else {
                    return Step::Dead;
                };
                self.phase = Phase::Asked { by, again, last, starved: until, sent };
                Step::Nothing
            }
            _ => Step::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(now: Instant) -> Heartbeat {
        let mut heartbeat = Heartbeat::new(now);
        heartbeat.sent(1, now);
        assert!(heartbeat.pong(1, now));
        heartbeat
    }

    #[test]
    fn quiet_needs_no_timer_and_a_byte_starts_one() {
        let now = Instant::now();
        let mut heartbeat = answered(now);
        assert_eq!(heartbeat.tick(now + LOOK, || false, || false, || false), Step::Nothing);
        assert!(heartbeat.quiet());
        assert_eq!(heartbeat.next(), None);
        heartbeat.data(now + LOOK * 2);
        assert_eq!(heartbeat.next(), Some(now + LOOK * 3));
    }

    #[test]
    fn a_logd_that_leaves_bytes_unread_while_pipes_fill_is_dead_in_less_than_two_seconds() {
        let start = Instant::now();
        let mut heartbeat = answered(start);
        heartbeat.tick(start + LOOK, || false, || false, || false);
        let byte = start + LOOK * 4;
        heartbeat.data(byte);
        let mut now = byte;
        let mut steps = Vec::new();
        while let Some(next) = heartbeat.next() {
            now = next;
            steps.push(heartbeat.tick(now, || true, || true, || false));
            heartbeat.sent(2, now);
            if steps.last() == Some(&Step::Dead) {
                break;
            }
        }
        assert_eq!(steps, [Step::Ping(2), Step::Dead]);
        assert!(now - byte + Duration::from_millis(100) < Duration::from_millis(1800));
    }

    #[test]
    fn while_nobody_is_held_up_logd_has_more_time_but_not_for_ever() {
        // Asked, and the times at which it is looked at until it is dead, with a pipe that fills up at a time.
        let dead_after = |fills: Duration| {
            let start = Instant::now();
            let mut heartbeat = answered(start);
            assert_eq!(heartbeat.tick(start + LOOK, || true, || false, || false), Step::Ping(2));
            heartbeat.sent(2, start + LOOK);
            let asked = start + LOOK;
            loop {
                let now = heartbeat.next().expect("an answer is waited for");
                if heartbeat.tick(now, || true, || now - asked >= fills, || false) == Step::Dead {
                    return now - asked;
                }
            }
        };
        assert_eq!(dead_after(Duration::from_secs(60)), LONGEST);
        let after = dead_after(Duration::from_millis(700));
        assert!(after >= Duration::from_millis(700) && after < Duration::from_millis(900), "{after:?}");
        // An answer that comes late is one.
        let start = Instant::now();
        let mut heartbeat = answered(start);
        heartbeat.tick(start + LOOK, || true, || false, || false);
        heartbeat.sent(2, start + LOOK);
        for _ in 0..5 {
            let now = heartbeat.next().expect("an answer is waited for");
            assert_eq!(heartbeat.tick(now, || true, || false, || false), Step::Nothing);
        }
        assert!(heartbeat.pong(2, start + LOOK * 4));
        assert_eq!(heartbeat.next(), Some(start + LOOK * 5));
    }

    #[test]
    fn one_that_waits_for_a_processor_has_more_time_but_not_for_ever() {
        let dead_after = |fed: Duration| {
            let start = Instant::now();
            let mut heartbeat = answered(start);
            let asked = start + LOOK;
            assert_eq!(heartbeat.tick(asked, || true, || true, || true), Step::Ping(2));
            heartbeat.sent(2, asked);
            loop {
                let now = heartbeat.next().expect("an answer is waited for");
                if heartbeat.tick(now, || true, || true, || now - asked < fed) == Step::Dead {
                    return now - asked;
                }
            }
        };
        assert_eq!(dead_after(Duration::ZERO), ANSWER);
        let after = dead_after(Duration::from_secs(2));
        assert!(after >= Duration::from_secs(2) && after <= Duration::from_secs(2) + GLANCE, "{after:?}");
        let after = dead_after(Duration::from_secs(60));
        assert!(after >= STARVED && after <= STARVED + GLANCE, "{after:?}");
    }

    #[test]
    fn a_chatty_service_costs_a_ping_a_look_and_stale_answers_do_not_count() {
        let now = Instant::now();
        let mut heartbeat = answered(now);
        let look = now + LOOK;
        assert_eq!(heartbeat.tick(look, || true, || true, || false), Step::Ping(2));
        assert!(!heartbeat.pong(1, look));
        assert!(heartbeat.pong(2, look));
        assert_eq!(heartbeat.next(), Some(look + LOOK));
    }

    #[test]
    fn when_the_whole_host_stood_still_logd_gets_its_time_again_but_once() {
        let now = Instant::now();
        let mut heartbeat = answered(now);
        heartbeat.tick(now + LOOK, || true, || true, || false);
        heartbeat.sent(2, now + LOOK);
        let late = now + LOOK + ANSWER + Duration::from_secs(60);
        assert_eq!(heartbeat.tick(late, || true, || true, || false), Step::Nothing);
        assert_eq!(heartbeat.tick(late + Duration::from_secs(60), || true, || true, || false), Step::Dead);
    }

    #[test]
    fn the_time_of_an_answer_begins_when_it_is_asked_for() {
        let now = Instant::now();
        // PID 1 took up all its services, and came to nothing else.
        let mut heartbeat = Heartbeat::new(now);
        let turned = now + START + Duration::from_millis(100);
        assert_eq!(heartbeat.tick(turned, || true, || true, || false), Step::Nothing);
        heartbeat.sent(1, turned);
        assert_eq!(heartbeat.next(), Some(turned + START));
        heartbeat.sent(1, turned + ANSWER);
        assert_eq!(heartbeat.next(), Some(turned + START), "once");
        assert_eq!(heartbeat.tick(turned + START, || true, || true, || false), Step::Dead);
        // One that cannot be sent, since nobody reads, is not waited for without an end.
        let mut heartbeat = Heartbeat::new(now);
        assert_eq!(heartbeat.tick(now + START, || true, || true, || false), Step::Nothing);
        assert_eq!(heartbeat.tick(now + START + ANSWER, || true, || true, || false), Step::Dead);
    }
}
