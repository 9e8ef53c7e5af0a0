//! The stream of events: pulled from the ring batch by batch when the client has room for one, never pushed.
//!
//! Each message tells how many events before its last one are no longer kept. A client that reads slowly falls behind
//! in the ring and misses more of them; nothing is kept for it but the one batch that is on its way.

use std::time::SystemTime;

use kelson_proto::v1;
use kelson_services::manager::EventBatch;
use kelson_services::model::Event;
use tokio::sync::watch;

use super::model;

/// Most events of one message.
pub const BATCH: usize = 256;

/// Which events a client wants.
#[derive(Debug, Default)]
pub struct Wanted {
    /// First number; 0: from the oldest.
    pub since: u64,
    pub follow: bool,
    /// Sorted; empty: all.
    pub names: Vec<String>,
    /// Only events from then on.
    pub not_before: Option<SystemTime>,
}

/// A position in the ring.
pub struct Reader<R> {
    /// Events numbered `since` and up, at most `count`.
    ring: R,
    newest: watch::Receiver<u64>,
    closed: watch::Receiver<()>,
    wanted: Wanted,
    /// Without `follow`: the newest event when the client asked.
    last: Option<u64>,
    ended: bool,
}

impl<R: Fn(u64, usize) -> EventBatch> Reader<R> {
    /// `newest` and `closed` end the stream, after the last event, when their senders are dropped.
    pub fn new(
        ring: R,
        newest: watch::Receiver<u64>,
        closed: watch::Receiver<()>,
        wanted: Wanted,
    ) -> Reader<R> {
        // Asked of the ring itself: the channel may be closed already, and knows nothing of PID 1's earlier
        // incarnation.
        let last = (!wanted.follow).then(|| ring(u64::MAX, 0).next.saturating_sub(1));
        Reader { ring, newest, closed, wanted, last, ended: false }
    }

    /// The next message. `None`: there is nothing more to come. Cancelled by dropping, without a loss.
    pub async fn next(&mut self) -> Option<v1::EventsResponse> {
        loop {
            if self.last.is_some_and(|last| self.wanted.since > last) {
                return None;
            }
            let batch = (self.ring)(self.wanted.since, BATCH);
            let message = self.message(&batch);
            self.wanted.since = batch.next;
            if message.is_some() {
                return message;
            }
            if !batch.events.is_empty() {
                // A ring full of events that are not wanted is walked with a pause for others between batches.
                tokio::task::yield_now().await;
                continue;
            }
            if self.last.is_some() || self.ended {
                return None;
            }
            self.ended = tokio::select! {
                changed = self.newest.changed() => changed.is_err(),
                _ = self.closed.changed() => true,
            };
        }
    }

    fn message(&self, batch: &EventBatch) -> Option<v1::EventsResponse> {
        let events: Vec<v1::Event> =
            batch.events.iter().filter(|event| self.wants(event)).map(model::event).collect();
        let missed = self.missed(&batch.events);
        (missed > 0 || !events.is_empty()).then_some(v1::EventsResponse { events, missed })
    }

    /// How many events are no longer kept from the number that was asked for up to the last of these.
    fn missed(&self, events: &[Event]) -> u64 {
        // A client that asks from 0 wants what there is: what is gone before the first was not promised.
        let mut expected = match self.wanted.since {
            0 => events.first().map_or(0, |event| event.seq),
            since => since,
        };
        let mut missed = 0_u64;
        for event in events {
            // Without `follow`, what came after the client asked does not concern it.
            let up_to = self.last.map_or(event.seq, |last| event.seq.min(last.saturating_add(1)));
            // The client did not miss events that are older than those it wants.
            if self.wanted.not_before.is_none_or(|from| event.time >= from) {
                missed = missed.saturating_add(up_to.saturating_sub(expected));
            }
            expected = event.seq.saturating_add(1);
        }
        missed
    }

    fn wants(&self, event: &Event) -> bool {
        let named = self.wanted.names.is_empty()
            || self.wanted.names.binary_search_by(|name| name.as_str().cmp(&event.service)).is_ok();
        named
            && self.wanted.not_before.is_none_or(|from| event.time >= from)
            && self.last.is_none_or(|last| event.seq <= last)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use kelson_services::model::State;

    use super::*;

    /// A ring that keeps the last eight.
    #[derive(Clone, Default)]
    struct Ring(Arc<Mutex<(u64, Vec<Event>)>>);

    impl Ring {
        fn push(&self, service: &str) -> u64 {
            let mut ring = self.0.lock().unwrap();
            ring.0 += 1;
            let seq = ring.0;
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seq);
            let event = Event {
                seq,
                time,
                service: service.into(),
                state: State::Running,
                message: "".into(),
                run: 1,
                details: None,
            };
            ring.1.push(event);
            if ring.1.len() > 8 {
                ring.1.remove(0);
            }
            seq
        }

        fn read(&self, since: u64, limit: usize) -> EventBatch {
            let ring = self.0.lock().unwrap();
            let events: Vec<Event> =
                ring.1.iter().filter(|event| event.seq >= since).take(limit).cloned().collect();
            let next = events.last().map_or(since.min(ring.0 + 1), |event| event.seq + 1);
            EventBatch { events, next }
        }
    }

    struct World {
        ring: Ring,
        newest: watch::Sender<u64>,
        closing: watch::Sender<()>,
    }

    impl World {
        fn new() -> World {
            World { ring: Ring::default(), newest: watch::channel(0).0, closing: watch::channel(()).0 }
        }

        fn push(&self, service: &str) {
            self.newest.send_replace(self.ring.push(service));
        }

        fn reader(&self, wanted: Wanted) -> Reader<impl Fn(u64, usize) -> EventBatch + use<>> {
            let ring = self.ring.clone();
            Reader::new(
                move |since, limit| ring.read(since, limit),
                self.newest.subscribe(),
                self.closing.subscribe(),
                wanted,
            )
        }
    }

    fn numbers(message: Option<v1::EventsResponse>) -> (u64, Vec<u64>) {
        let message = message.expect("the stream ended too early");
        (message.missed, message.events.iter().map(|event| event.seq).collect())
    }

    #[tokio::test]
    async fn without_follow_it_ends_at_what_was_there() {
        let world = World::new();
        for _ in 0..3 {
            world.push("web");
        }
        let mut reader = world.reader(Wanted::default());
        world.push("web");
        assert_eq!(numbers(reader.next().await), (0, vec![1, 2, 3]));
        assert_eq!(reader.next().await, None);
        assert_eq!(World::new().reader(Wanted::default()).next().await, None);
    }

    #[tokio::test]
    async fn a_number_that_is_gone_is_told_as_missed() {
        let world = World::new();
        for _ in 0..12 {
            world.push("web");
        }
        let mut reader = world.reader(Wanted { since: 2, ..Wanted::default() });
        assert_eq!(numbers(reader.next().await), (3, (5..=12).collect()));
        assert_eq!(reader.next().await, None);
    }

    #[tokio::test]
    async fn numbers_that_are_gone_in_between_are_missed_as_well() {
        let world = World::new();
        for _ in 0..8 {
            world.push("web");
        }
        world.ring.0.lock().unwrap().1.retain(|event| ![1, 4, 5, 7].contains(&event.seq));
        let kept = [2, 3, 6, 8];
        for (since, missed) in [(0, 3), (1, 4), (2, 3), (3, 3), (4, 3), (5, 2), (6, 1), (8, 0)] {
            let mut reader = world.reader(Wanted { since, ..Wanted::default() });
            let expected = kept.iter().copied().filter(|seq| *seq >= since).collect();
            assert_eq!(numbers(reader.next().await), (missed, expected), "since {since}");
            assert_eq!(reader.next().await, None);
        }
        // 4 and 5 may have been after the third second, 1 was not.
        let from = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(3));
        let mut reader = world.reader(Wanted { since: 1, not_before: from, ..Wanted::default() });
        assert_eq!(numbers(reader.next().await), (3, vec![3, 6, 8]));
    }

    #[tokio::test]
    async fn what_is_overwritten_while_it_is_read_is_missed() {
        let world = World::new();
        for _ in 0..4 {
            world.push("web");
        }
        let mut reader = world.reader(Wanted { since: 2, ..Wanted::default() });
        for _ in 0..20 {
            world.push("web");
        }
        assert_eq!(numbers(reader.next().await), (3, vec![]));
        assert_eq!(reader.next().await, None);
    }

    #[tokio::test]
    async fn a_number_of_an_earlier_life_of_the_host_starts_with_what_comes() {
        let world = World::new();
        world.push("web");
        let mut reader = world.reader(Wanted { since: 5000, follow: true, ..Wanted::default() });
        let waiting = tokio::spawn(async move { reader.next().await });
        tokio::task::yield_now().await;
        world.push("web");
        assert_eq!(numbers(waiting.await.unwrap()), (0, vec![2]));
    }

    #[tokio::test]
    async fn names_and_time_filter() {
        let world = World::new();
        for name in ["web", "db", "", "web"] {
            world.push(name);
        }
        let mut reader = world.reader(Wanted { names: vec!["db".into(), "web".into()], ..Wanted::default() });
        assert_eq!(numbers(reader.next().await), (0, vec![1, 2, 4]));
        let from = SystemTime::UNIX_EPOCH + Duration::from_secs(3);
        let mut reader = world.reader(Wanted { not_before: Some(from), ..Wanted::default() });
        assert_eq!(numbers(reader.next().await), (0, vec![3, 4]));
    }

    #[tokio::test]
    async fn older_than_wanted_is_not_missed() {
        let world = World::new();
        for _ in 0..12 {
            world.push("web");
        }
        let at = |second| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
        let mut reader = world.reader(Wanted { since: 1, not_before: at(7), ..Wanted::default() });
        assert_eq!(numbers(reader.next().await), (0, (7..=12).collect()));
        let mut reader = world.reader(Wanted { since: 1, not_before: at(2), ..Wanted::default() });
        assert_eq!(numbers(reader.next().await), (4, (5..=12).collect()));
    }

    #[tokio::test]
    async fn a_slow_reader_misses_and_is_told() {
        let world = World::new();
        let mut reader = world.reader(Wanted { follow: true, ..Wanted::default() });
        world.push("web");
        assert_eq!(numbers(reader.next().await), (0, vec![1]));
        for _ in 0..20 {
            world.push("web");
        }
        assert_eq!(numbers(reader.next().await), (12, (14..=21).collect()));
    }

    #[tokio::test]
    async fn s6_a_follower_gets_the_last_event_and_then_the_end() {
        let world = World::new();
        world.push("web");
        let mut reader = world.reader(Wanted { follow: true, ..Wanted::default() });
        assert_eq!(numbers(reader.next().await), (0, vec![1]));
        world.push("web");
        drop(world.newest);
        assert_eq!(numbers(reader.next().await), (0, vec![2]));
        assert_eq!(reader.next().await, None);
    }

    #[tokio::test]
    async fn s6_a_follower_that_waits_is_ended_by_the_server_too() {
        let world = World::new();
        let mut reader =
            world.reader(Wanted { follow: true, names: vec!["web".into()], ..Wanted::default() });
        let waiting = tokio::spawn(async move { (reader.next().await, reader.next().await) });
        world.push("other");
        world.push("web");
        drop(world.closing);
        let (first, second) = waiting.await.unwrap();
        assert_eq!(numbers(first), (0, vec![2]));
        assert_eq!(second, None);
    }
}
