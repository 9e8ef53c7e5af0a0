//! Whether a logd that does not answer could have: one that waits for a processor is as sound as the host lets it be, and
//! the next would wait as long.

use std::fs;
use std::time::Duration;

use kelson_sys::process::{self, Stat};

/// The processor time that each thread of a process has had.
#[derive(Debug, Default)]
pub struct Shares(Vec<(u32, Share)>);

/// One thread's, since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    ran: Duration,
    /// Counted only once it runs again.
    waited: Duration,
    /// It runs, or waits to: not asleep, stopped or frozen.
    runnable: bool,
}

impl Shares {
    /// Of the process with this PID; of none where it is gone, or the kernel does not count.
    pub fn of(pid: i32) -> Shares {
        let folder = format!("/proc/{pid}/task");
        let share = |thread: u32| {
            let read = |name| fs::read(format!("{folder}/{thread}/{name}")).ok();
            let schedstat = read("schedstat")?;
            Some((thread, Share::parse(std::str::from_utf8(&schedstat).ok()?, &read("stat")?)?))
        };
        Shares(process::numbers(&folder).unwrap_or_default().into_iter().filter_map(share).collect())
    }

    /// A thread has mostly waited for a processor in the time since `before`. Whichever: the others may wait for that one.
    pub fn starved_since(&self, before: &Shares, elapsed: Duration) -> bool {
        self.0.iter().any(|(thread, now)| {
            let then = before.0.iter().find(|(other, _)| other == thread);
            then.is_some_and(|(_, then)| now.starved_since(then, elapsed))
        })
    }
}

impl Share {
    /// From the texts of `schedstat` (nanoseconds run, nanoseconds waited, turns; the kernel's
    /// Documentation/scheduler/sched-stats) and `stat` (proc_pid_stat(5)).
    fn parse(schedstat: &str, stat: &[u8]) -> Option<Share> {
        let mut numbers = schedstat.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok().map(Duration::from_nanos);
        let (ran, waited) = (next()?, next()?);
        Some(Share { ran, waited, runnable: Stat::parse(stat)?.state()? == "R" })
    }

    fn starved_since(&self, before: &Share, elapsed: Duration) -> bool {
        let most = |span: Duration| span.saturating_mul(2) >= elapsed;
        most(self.waited.saturating_sub(before.waited))
            || (self.runnable && !most(self.ran.saturating_sub(before.ran)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn share(ran: u64, waited: u64, state: &str) -> Share {
        let schedstat = format!("{} {} 12\n", ran * 1_000_000, waited * 1_000_000);
        Share::parse(&schedstat, format!("7 (a) R (b) {state} 1 7 7 0\n").as_bytes()).unwrap()
    }

    #[test]
    fn one_that_waits_for_a_processor_is_told_from_one_that_hangs() {
        let before = share(500, 100, "S");
        for (after, starved, what) in [
            (share(510, 700, "S"), true, "waited most of the time, and sleeps again"),
            (share(500, 100, "R"), true, "has waited all the time, which is not counted yet"),
            (share(900, 500, "R"), true, "ran a little"),
            (share(500, 100, "S"), false, "asleep, or frozen"),
            (share(500, 100, "T"), false, "stopped"),
            (share(500, 100, "D"), false, "a disk that does not answer"),
            (share(1490, 110, "R"), false, "an endless loop"),
        ] {
            assert_eq!(after.starved_since(&before, SECOND), starved, "{what}");
        }
    }

    #[test]
    fn the_one_thread_that_waits_is_enough_and_a_new_one_is_none() {
        let before = Shares(vec![(1, share(0, 0, "S")), (2, share(0, 0, "S"))]);
        let starved = |threads| Shares(threads).starved_since(&before, SECOND);
        assert!(!starved(vec![(1, share(0, 0, "S")), (2, share(0, 0, "S"))]));
        assert!(starved(vec![(1, share(0, 0, "S")), (2, share(0, 900, "S"))]));
        assert!(!starved(vec![(1, share(0, 0, "S")), (3, share(0, 900, "R"))]));
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let shares = Shares::of(i32::try_from(std::process::id()).unwrap());
        assert!(shares.0.iter().any(|(thread, _)| *thread == std::process::id()), "{shares:?}");
        assert!(Shares::of(i32::MAX).0.is_empty());
        for (schedstat, stat) in
            [("", "7 (a) R 1"), ("1", "7 (a) R 1"), ("1 x 2", "7 (a) R 1"), ("1 2 3", "7 a")]
        {
            assert_eq!(Share::parse(schedstat, stat.as_bytes()), None, "{schedstat:?} {stat:?}");
        }
    }
}
