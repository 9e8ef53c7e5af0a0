//! How the pipes of one service are read: left alone for a moment while too many of its lines wait for the disk, and, with
//! `logs.rateLimit`, only as far as that allows.
//!
//! Pure, but for the clock of the thread's CPU time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::store::Lost;

const SECOND: Duration = Duration::from_secs(1);
/// A writer waits no longer than 50 ms in any second because its pipe is left alone. The rest is for a late
/// wake-up.
const WAIT: Duration = Duration::from_millis(40);
/// Less is not worth a wait.
const SHORTEST: Duration = Duration::from_millis(1);
/// A service that is silent for so long has its suppressed lines noted.
const QUIET: Duration = Duration::from_millis(100);
/// Reading lines that are only counted and dropped takes this part of a processor: one in `SHARE`.
const SHARE: u32 = 13;
/// The cost of such a turn beside the time that is measured around it: to sleep and to wake up, on a busy
/// computer.
const AROUND: Duration = Duration::from_micros(50);
/// A longer line counts as several.
const LINE: usize = 1024;

/// The pipes of one service.
#[derive(Debug, Default)]
pub struct Flow {
    /// Those that are open, by their tokens.
    pub streams: Vec<u64>,
    pub wait_budget: WaitBudget,
    pub rate: Option<Rate>,
    pub pause: Option<Pause>,
}

/// Nothing is read of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Until then, or until there is room again.
    Crowded(Instant),
    /// Until then, or until one side of PID 1's own output has room again; of standard error if so.
    Unread(Instant, bool),
    /// Until then.
    Resting(Instant),
}

impl Pause {
    pub fn until(self) -> Instant {
        match self {
            Pause::Crowded(until) | Pause::Unread(until, _) | Pause::Resting(until) => until,
        }
    }
}

/// How much longer the writers of a service may wait: at most [`WAIT`], and then not for a second.
#[derive(Debug, Default)]
pub struct WaitBudget {
    spent: Duration,
    since: Option<Instant>,
    ended: Option<Instant>,
}

impl WaitBudget {
    /// Begins a wait, and gives its end; `None`: nobody may wait any longer.
    pub fn begin(&mut self, now: Instant) -> Option<Instant> {
        if self.ended.is_some_and(|ended| now.saturating_duration_since(ended) >= SECOND) {
            self.spent = Duration::ZERO;
        }
        let rest = WAIT.checked_sub(self.spent).filter(|rest| *rest >= SHORTEST)?;
        self.since = Some(now);
        now.checked_add(rest)
    }

    /// The wait is over.
    pub fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.spent = self.spent.saturating_add(now.saturating_duration_since(since));
            self.ended = Some(now);
        }
    }
}

/// `logs.rateLimit`: a number of lines in each second, and no more until the next second begins.
#[derive(Debug)]
pub struct Rate {
    limit: u32,
    left: u32,
    began: Option<Instant>,
    /// The last time that anything was read.
    last: Option<Instant>,
    suppressed: Lost,
}

impl Rate {
    pub fn new(limit: u32) -> Rate {
        Rate { limit, left: limit, began: None, last: None, suppressed: Lost::default() }
    }

    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Something is about to be read. Gives what was suppressed in the second that is over.
    pub fn begin(&mut self, now: Instant) -> Lost {
        self.last = Some(now);
        if self.began.is_none_or(|began| now.saturating_duration_since(began) >= SECOND) {
            self.began = Some(now);
            self.left = self.limit;
            return std::mem::take(&mut self.suppressed);
        }
        Lost::default()
    }

    /// Whether a line of this many bytes may be kept; if not it counts as suppressed.
    pub fn admit(&mut self, bytes: usize) -> bool {
        if self.left == 0 {
            self.suppress(1, bytes as u64);
            return false;
        }
        let lines = u32::try_from(bytes / LINE).unwrap_or(u32::MAX).saturating_add(1);
        self.left = self.left.saturating_sub(lines);
        true
    }

    pub fn suppress(&mut self, lines: u64, bytes: u64) {
        self.suppressed.add(lines, bytes);
    }

    /// Nothing more is kept in this second.
    pub fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// When what was suppressed is to be noted, if nothing is read until then.
    pub fn due(&self) -> Option<Instant> {
        let last = self.last.filter(|_| self.suppressed != Lost::default())?;
        last.checked_add(QUIET)
    }

    /// Takes the losses that are to be noted now.
    pub fn take(&mut self) -> Lost {
        std::mem::take(&mut self.suppressed)
    }

    /// Why lines are missing.
    pub fn reason(&self) -> Arc<str> {
        format!("suppressed, logs.rateLimit allows {} lines a second", self.limit).into()
    }
}

/// CPU time of this thread.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// After `spent` CPU time on lines that are not kept: how long nothing more is read of the service.
pub fn rest_after(spent: Duration) -> Duration {
    spent.saturating_add(AROUND).saturating_mul(SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn writers_wait_at_most_so_long_in_any_second() {
        // Whenever waits are asked for, and however long they are made use of.
        for (every, used) in [(1, 1), (5, 3), (100, 7), (333, 40), (990, 40), (1000, 40), (1001, 25)] {
            let (begin, mut wait_budget, mut waits) = (Instant::now(), WaitBudget::default(), Vec::new());
            let mut now = begin;
            while now < begin + SECOND * 10 {
                if let Some(until) = wait_budget.begin(now) {
                    let end = until.min(now + MILLI * used);
                    waits.push((now, end));
                    wait_budget.end(end);
                    now = end;
                }
                now += MILLI * every;
            }
            // Where they are asked for each 990 ms, every other one is granted.
            assert!(waits.len() >= 5, "{waits:?}");
            for (from, _) in &waits {
                let within = waits.iter().filter(|(start, _)| start >= from && *start < *from + SECOND);
                let sum: Duration = within.map(|(start, end)| *end - *start).sum();
                assert!(sum <= WAIT, "{sum:?} of waits, {every} ms apart");
            }
        }
    }

    #[test]
    fn so_many_lines_a_second_are_kept_and_the_others_counted() {
        let (begin, mut rate) = (Instant::now(), Rate::new(3));
        assert_eq!(rate.begin(begin), Lost::default());
        assert_eq!([10, 10, 10, 10, 20].map(|bytes| rate.admit(bytes)), [true, true, true, false, false]);
        assert!(rate.is_exhausted());
        assert_eq!(rate.due(), Some(begin + QUIET));
        assert_eq!(rate.begin(begin + MILLI * 999), Lost::default());
        assert_eq!(rate.due(), Some(begin + MILLI * 999 + QUIET));
        rate.suppress(5, 50);
        assert_eq!(rate.begin(begin + SECOND), Lost { lines: 7, bytes: 80 });
        assert_eq!(rate.due(), None);
        assert!(rate.admit(10));
        assert_eq!(rate.take(), Lost::default());
        // A long line counts as several.
        assert!(rate.admit(5000) && !rate.admit(1));
    }

    #[test]
    fn what_is_thrown_away_takes_less_than_a_tenth_of_a_processor() {
        let spent = Duration::from_micros(90);
        assert_eq!(rest_after(spent), Duration::from_micros(1820));
    }
}
