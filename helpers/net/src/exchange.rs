//! Messages with one number, sent again until there is an answer.

use std::time::Duration;

use crate::lease::Moment;

/// RFC 2131, 4.1: the time before the second message; it doubles up to [`LONGEST_PAUSE`], each with a second more or less.
pub const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
/// RFC 2131, 4.4.5: the shortest time between two requests for more time.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);

/// The times of an exchange of DHCPv6 (RFC 8415, 7.6).
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub first: Duration,
    pub longest: Duration,
    /// Its first time is not shorter than it says: answers are collected meanwhile.
    pub is_solicitation: bool,
}

/// Messages with one number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    pub transaction: u32,
    began: Moment,
    /// The last message.
    pub sent: Moment,
    pub count: u32,
    pub next: Moment,
}

impl Exchange {
    pub fn new(transaction: u32, now: Moment) -> Exchange {
        Exchange { transaction, began: now, sent: now, count: 0, next: now }
    }

    /// The same number for the next kind of message.
    pub fn again(&self) -> Exchange {
        Exchange { count: 0, ..self.clone() }
    }

    /// Notes that a message is sent now, and when the next one is due. `jitter`: up to two seconds.
    pub fn send(&mut self, now: Moment, jitter: Duration) {
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.count.min(4));
        let pause = doubled.min(LONGEST_PAUSE).saturating_sub(Duration::from_secs(1));
        self.note(now, now.saturating_add(pause).saturating_add(jitter));
    }

    /// As [`Exchange::send`], while there is time up to `end`.
    pub fn send_before(&mut self, now: Moment, end: Moment) {
        let half = end.saturating_sub(now).checked_div(2).unwrap_or_default();
        self.note(now, now.saturating_add(half.max(RENEWAL_PAUSE)).min(end));
    }

    /// Notes that a message of DHCPv6 is sent now, and when the next one is due (RFC 8415, 15). `chance`: a random number.
    pub fn repeat(&mut self, now: Moment, timing: Timing, chance: u32) {
        if self.count == 0 {
            self.began = now;
        }
        let share = |time: Duration, least: u32, width: u32| {
            let thousandths = least.saturating_add(chance.checked_rem(width).unwrap_or_default());
            time.saturating_mul(thousandths).checked_div(1000).unwrap_or_default()
        };
        let pause = match self.count {
            0 if timing.is_solicitation => share(timing.first, 1001, 100),
            0 => share(timing.first, 900, 201),
            _ => share(self.next.saturating_sub(self.sent), 1900, 201),
        };
        let pause = if pause > timing.longest { share(timing.longest, 900, 201) } else { pause };
        self.note(now, now.saturating_add(pause));
    }

    /// This time after the first message, which may be the next one.
    pub fn latest(&self, now: Moment, time: Duration) -> Moment {
        if self.count == 0 { now } else { self.began }.saturating_add(time)
    }

    /// Whether the next message would come this time after the first one, or later.
    pub fn has_lasted(&self, time: Duration) -> bool {
        self.count > 0 && self.next.saturating_sub(self.began) >= time
    }

    /// Since the first message, in hundredths of a second.
    pub fn hundredths(&self, now: Moment) -> u16 {
        u16::try_from(now.saturating_sub(self.began).as_millis() / 10).unwrap_or(u16::MAX)
    }

    fn note(&mut self, now: Moment, next: Moment) {
        self.sent = now;
        self.count = self.count.saturating_add(1);
        self.next = next;
    }

    /// Since it began.
    pub fn seconds(&self, now: Moment) -> u16 {
        u16::try_from(now.saturating_sub(self.began).as_secs()).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_of_dhcpv6_double_with_a_tenth_more_or_less() {
        let timing = |is_solicitation| Timing {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(30),
            is_solicitation,
        };
        for chance in [0, 100, 200, 4711, u32::MAX] {
            for is_solicitation in [false, true] {
                let mut exchange = Exchange::new(1, Duration::from_secs(5));
                let mut before = Duration::from_millis(500);
                for count in 0..9_u32 {
                    let now = exchange.next;
                    exchange.repeat(now, timing(is_solicitation), chance);
                    let pause = exchange.next - now;
                    let least = if is_solicitation && count == 0 { 1.001 } else { 0.0 };
                    assert!(pause.as_secs_f64() >= least, "{count} {pause:?}");
                    let usual = 1.9..=2.101;
                    let times = pause.as_secs_f64() / before.as_secs_f64();
                    let at_most = (27.0..=33.01).contains(&pause.as_secs_f64());
                    assert!(count == 0 || at_most || usual.contains(&times), "{count} {pause:?} {before:?}");
                    assert!(pause <= Duration::from_millis(33_010));
                    before = pause;
                }
                assert_eq!(exchange.hundredths(Duration::from_secs(6)), 100);
                assert!(before >= Duration::from_secs(27));
            }
        }
    }
}
