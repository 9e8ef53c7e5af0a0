//! Which check is due next. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokio::time::Instant;

/// Checks by the time at which they are to be asked. One that has ended stays until then; the code that takes
/// it out knows.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Agenda {
    pub fn add(&mut self, due: Instant, id: u64) {
        self.heap.push(Reverse((due, id)));
    }

    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes out one that is due.
    pub fn take(&mut self, now: Instant) -> Option<u64> {
        let Reverse((due, _)) = self.heap.peek()?;
        if *due > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, id))| id)
    }

    /// Lets go of those that have ended, once they are most of it.
    pub fn tidy(&mut self, living: usize, mut lives: impl FnMut(u64) -> bool) {
        if self.heap.len() > living.saturating_mul(2).saturating_add(64) {
            self.heap.retain(|Reverse((_, id))| lives(*id));
            self.heap.shrink_to(self.heap.len().saturating_mul(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn they_come_in_the_order_of_their_times_and_not_before() {
        let now = Instant::now();
        let mut agenda = Agenda::default();
        for (id, seconds) in [(1, 3), (2, 1), (3, 2)] {
            agenda.add(now + Duration::from_secs(seconds), id);
        }
        assert_eq!(agenda.next(), Some(now + Duration::from_secs(1)));
        assert_eq!(agenda.take(now), None);
        let later = now + Duration::from_secs(2);
        assert_eq!([agenda.take(later), agenda.take(later), agenda.take(later)], [Some(2), Some(3), None]);
    }

    #[test]
    fn those_that_ended_do_not_pile_up() {
        let far = Instant::now() + Duration::from_secs(86_400);
        let mut agenda = Agenda::default();
        for id in 0..10_000 {
            agenda.add(far, id);
            agenda.tidy(1, |other| other == id);
        }
        assert!(agenda.heap.len() <= 67 && agenda.heap.capacity() < 300, "{}", agenda.heap.capacity());
    }
}
