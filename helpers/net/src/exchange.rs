//! Messages with one number, sent again until there is an answer.

use std::time::Duration;

use crate::lease::Moment;

/// RFC 2131, 4.1: the time before the second message; it doubles up to [`LONGEST_PAUSE`], each with a second more or less.
pub const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
/// RFC 2131, 4.4.5: the shortest time between two requests for more time.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);

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
