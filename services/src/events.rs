//! The events of the host: one ring of the last 4096, numbered from 1 without gaps.
//!
//! Nothing is queued per reader: a reader asks from a number and gets all that is still kept, and is told how many
//! before that are not. A slow reader costs nothing and loses nothing silently.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use crate::model::{Event, State};
use crate::state_store::StateStore;

/// How many events of the host are kept.
pub const KEPT: usize = 4096;
/// How many of them are told of one service.
pub const KEPT_OF_SERVICE: usize = 64;

/// Events from a number on.
#[derive(Debug, Clone, Default)]
pub struct EventBatch {
    /// How many before the first are no longer kept.
    pub missed: u64,
    pub events: Vec<Event>,
    /// What to ask for next time.
    pub next: u64,
}

/// The ring. Cheap to clone.
#[derive(Clone)]
pub struct EventLog {
    inner: Arc<Inner>,
}

struct Inner {
    ring: Mutex<Ring>,
    store: Option<StateStore>,
}

struct Ring {
    events: VecDeque<Event>,
    /// Number of the next event.
    next: u64,
    /// Dropped when no more events will come: that ends every stream after its last event.
    newest: Option<watch::Sender<u64>>,
}

impl EventLog {
    pub fn new(store: Option<StateStore>) -> EventLog {
        let ring = Ring { events: VecDeque::new(), next: 1, newest: Some(watch::channel(0).0) };
        EventLog { inner: Arc::new(Inner { ring: Mutex::new(ring), store }) }
    }

    /// Goes on after the events that an earlier life of PID 1 told, the oldest first.
    pub fn restore(store: StateStore, mut told: Vec<Event>) -> EventLog {
        told.drain(..told.len().saturating_sub(KEPT));
        let last = told.last().map_or(0, |event| event.seq);
        let newest = Some(watch::channel(last).0);
        let ring = Ring { events: told.into(), next: last.saturating_add(1), newest };
        EventLog { inner: Arc::new(Inner { ring: Mutex::new(ring), store: Some(store) }) }
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.inner.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event: to the ring, the state on disk, the kernel log and to whoever follows. Returns its number.
    pub fn add(&self, service: &Arc<str>, state: State, message: impl Into<Arc<str>>, run: u64) -> u64 {
        let mut ring = self.ring();
        let seq = ring.next;
        ring.next = seq.saturating_add(1);
        let event = Event {
            seq,
            time: SystemTime::now(),
            service: Arc::clone(service),
            state,
            message: message.into(),
            run,
        };
        if let Some(store) = &self.inner.store {
            store.event(&event);
        }
        log(&event);
        if ring.events.len() >= KEPT {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
        if let Some(newest) = &ring.newest {
            newest.send_replace(seq);
        }
        seq
    }

    /// An event of the host itself.
    pub fn host(&self, message: &str) -> u64 {
        self.add(&Arc::from(""), State::Initialized, message, 0)
    }

    /// Events numbered `since` and up, at most `limit`.
    pub fn since(&self, since: u64, limit: usize) -> EventBatch {
        let ring = self.ring();
        let oldest = ring.events.front().map_or(ring.next, |event| event.seq);
        let first = since.max(oldest).min(ring.next);
        let skip = usize::try_from(first.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let events: Vec<Event> = ring.events.iter().skip(skip).take(limit).cloned().collect();
        let next = events.last().map_or(first, |event| event.seq.saturating_add(1));
        // Whoever asks from 0 wants what there is: nothing that is gone was promised to it.
        let missed = if since == 0 { 0 } else { first.saturating_sub(since) };
        EventBatch { missed, events, next }
    }

    /// The last events of one service, oldest first.
    pub fn of_service(&self, name: &str) -> Vec<Event> {
        let ring = self.ring();
        let mut events: Vec<Event> =
            ring.events.iter().rev().filter(|e| *e.service == *name).take(KEPT_OF_SERVICE).cloned().collect();
        events.reverse();
        events
    }

    /// What was told last of each service.
    pub fn told(&self) -> Told {
        let ring = self.ring();
        let last = ring.events.iter().map(|event| (Arc::clone(&event.service), (event.state, event.run)));
        let whole = ring.events.front().is_none_or(|event| event.seq == 1);
        Told { last: last.collect(), whole }
    }

    /// The number of the newest event.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.ring().newest.as_ref().map_or_else(|| watch::channel(0).1, watch::Sender::subscribe)
    }

    /// No more events will come: streams end after the last one.
    pub fn close(&self) {
        self.ring().newest = None;
    }
}

/// See [`EventLog::told`].
pub struct Told {
    last: HashMap<Arc<str>, (State, u64)>,
    /// No event is missing.
    whole: bool,
}

impl Told {
    /// State and run that were told last; `None` where that is no longer known.
    pub fn of(&self, service: &str) -> Option<(State, u64)> {
        self.last.get(service).copied().or(self.whole.then_some((State::Initialized, 0)))
    }
}

/// The line in the kernel log.
fn log(event: &Event) {
    let Event { service, message, .. } = event;
    if service.is_empty() {
        tracing::info!("{message}");
    } else if event.state == State::Failed {
        tracing::warn!("{service}: {} - {message}", event.state.name());
    } else {
        tracing::info!("{service}: {} - {message}", event.state.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u64) -> EventLog {
        let log = EventLog::new(None);
        let names: [Arc<str>; 2] = [Arc::from("a"), Arc::from("b")];
        for n in 0..count {
            log.add(&names[usize::try_from(n % 2).unwrap()], State::Running, format!("m{n}"), 1);
        }
        log
    }

    #[test]
    fn numbers_have_no_gaps_and_missed_ones_are_counted() {
        let log = filled(5000);
        let batch = log.since(100, 10_000);
        assert_eq!(batch.missed, 5000 - 4096 + 1 - 100);
        assert_eq!(batch.events.len(), KEPT);
        assert_eq!(batch.next, 5001);
        for pair in batch.events.windows(2) {
            assert_eq!(pair[0].seq + 1, pair[1].seq);
        }
        let rest = log.since(batch.next, 10);
        assert!(rest.events.is_empty() && rest.missed == 0 && rest.next == 5001);
    }

    #[test]
    fn a_limit_goes_on_where_it_stopped() {
        let log = filled(10);
        let first = log.since(0, 4);
        assert_eq!(first.events.len(), 4);
        let second = log.since(first.next, 100);
        assert_eq!(second.events.first().map(|e| e.seq), Some(5));
        assert_eq!(second.events.last().map(|e| e.seq), Some(10));
    }

    #[test]
    fn a_number_of_the_future_waits_for_what_comes() {
        let log = filled(3);
        let batch = log.since(100, 10);
        assert_eq!((batch.missed, batch.events.len(), batch.next), (0, 0, 4));
    }

    #[test]
    fn a_service_keeps_its_last_64() {
        let log = filled(1000);
        let events = log.of_service("a");
        assert_eq!(events.len(), KEPT_OF_SERVICE);
        assert!(events.iter().all(|e| &*e.service == "a"));
        assert_eq!(events.last().map(|e| e.seq), Some(999));
    }

    #[test]
    fn numbers_go_on_in_the_next_life() {
        let directory = std::env::temp_dir().join(format!("kelson-events-{}", std::process::id()));
        let life = crate::state_store::LifeId::current().unwrap();
        let store = StateStore::create(&directory, &life).unwrap();
        let log = EventLog::new(Some(store));
        for n in 1..=5000 {
            log.host(&format!("m{n}"));
        }
        let past = crate::state_store::Past::take(&directory, &life).unwrap();
        let next = EventLog::restore(past.store, past.events);
        assert_eq!(*next.newest().borrow(), 5000);
        assert_eq!(next.since(4000, 10_000).events, log.since(4000, 10_000).events);
        assert_eq!(next.since(1, 10_000).missed, log.since(1, 10_000).missed);
        assert_eq!(next.host("another life"), 5001);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn streams_end_after_the_last_event() {
        let log = filled(1);
        let mut newest = log.newest();
        log.host("the end");
        log.close();
        assert!(newest.changed().await.is_ok());
        assert_eq!(*newest.borrow_and_update(), 2);
        assert!(newest.changed().await.is_err());
    }
}
