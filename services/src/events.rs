//! The events of the host: 4096 at most, numbered from 1 without gaps.
//!
//! When 4096 are kept, the next one takes the place of the oldest event of the service that holds most. A service that
//! crashes in a loop evicts its own events, and those of the others stay.
//!
//! Nothing is queued per reader: a reader asks from a number and gets all that is still kept from there on. The numbers
//! show what is missing. A slow reader costs nothing and loses nothing silently.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use crate::model::{Details, Event, State};
use crate::state_store::{EVENTS as KEPT, StateStore};

/// How many of them are kept of one service.
pub const KEPT_OF_SERVICE: usize = 64;

/// Events from a number on.
#[derive(Debug, Clone, Default)]
pub struct EventBatch {
    /// In the order of their numbers. A number that is missing in between belongs to an event that is no longer kept.
    pub events: Vec<Event>,
    /// The number to ask for next time.
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

/// An event, and its slot in the state.
struct Kept {
    slot: u64,
    event: Event,
}

struct Ring {
    /// In the order of their numbers.
    events: VecDeque<Kept>,
    /// The numbers of the events that each service holds, the oldest first.
    held: HashMap<Arc<str>, VecDeque<u64>>,
    /// The services that hold events, in the order of [`rank`].
    ranks: BTreeSet<(usize, Reverse<u64>, Arc<str>)>,
    /// Slots in which no event is, all below `unused`: from there on no slot was used yet.
    free: Vec<u64>,
    unused: u64,
    /// Number of the next event.
    next: u64,
    /// Dropped when no more events will come: that ends every stream after its last event.
    newest: Option<watch::Sender<u64>>,
}

/// What is compared to find the service that holds most; of several, the one that holds the oldest event.
fn rank(service: &Arc<str>, seqs: &VecDeque<u64>) -> Option<(usize, Reverse<u64>, Arc<str>)> {
    seqs.front().map(|oldest| (seqs.len(), Reverse(*oldest), Arc::clone(service)))
}

impl Ring {
    /// With these events, in the order of their numbers.
    fn new(kept: Vec<(u64, Event)>) -> Ring {
        let used: HashSet<u64> = kept.iter().map(|(slot, _)| *slot).collect();
        let last = kept.last().map_or(0, |(_, event)| event.seq);
        let unused = used.iter().max().map_or(0, |slot| slot.saturating_add(1));
        let mut ring = Ring {
            events: VecDeque::new(),
            held: HashMap::new(),
            ranks: BTreeSet::new(),
            free: (0..unused.min(KEPT as u64)).rev().filter(|slot| !used.contains(slot)).collect(),
            unused,
            next: last.saturating_add(1),
            newest: Some(watch::channel(last).0),
        };
        for (slot, event) in kept {
            ring.push(slot, event);
        }
        // Another release may have kept more.
        while ring.events.len() > KEPT && ring.evict().is_some() {}
        ring
    }

    fn push(&mut self, slot: u64, event: Event) {
        let seqs = self.held.entry(Arc::clone(&event.service)).or_default();
        if let Some(before) = rank(&event.service, seqs) {
            self.ranks.remove(&before);
        }
        seqs.push_back(event.seq);
        self.ranks.extend(rank(&event.service, seqs));
        self.events.push_back(Kept { slot, event });
    }

    /// Where the event of this number is, or would be.
    fn position(&self, seq: u64) -> Result<usize, usize> {
        self.events.binary_search_by_key(&seq, |kept| kept.event.seq)
    }

    /// A slot in which no event is.
    fn take_free(&mut self) -> Option<u64> {
        self.free.pop().or_else(|| {
            let slot = self.unused;
            self.unused = slot.saturating_add(1);
            (slot < KEPT as u64).then_some(slot)
        })
    }

    /// Evicts the oldest event of the service that holds most; of several such services, the oldest of all. Returns
    /// its slot.
    fn evict(&mut self) -> Option<u64> {
        let (_, _, service) = self.ranks.pop_last()?;
        let seqs = self.held.get_mut(&service)?;
        let seq = seqs.pop_front()?;
        match rank(&service, seqs) {
            Some(rank) => drop(self.ranks.insert(rank)),
            None => drop(self.held.remove(&service)),
        }
        let position = self.position(seq).ok()?;
        self.events.remove(position).map(|kept| kept.slot)
    }

    fn of(&self, seq: u64) -> Option<&Event> {
        self.events.get(self.position(seq).ok()?).map(|kept| &kept.event)
    }
}

impl EventLog {
    pub fn new(store: Option<StateStore>) -> EventLog {
        EventLog { inner: Arc::new(Inner { ring: Mutex::new(Ring::new(Vec::new())), store }) }
    }

    /// Goes on after the events that an earlier incarnation of PID 1 kept, each with its slot, in the order of their
    /// numbers.
    pub fn restore(store: StateStore, kept: Vec<(u64, Event)>) -> EventLog {
        EventLog { inner: Arc::new(Inner { ring: Mutex::new(Ring::new(kept)), store: Some(store) }) }
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.inner.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event: to the ring, the state on disk, the kernel log and the followers. Returns its number.
    pub fn add(&self, service: &Arc<str>, state: State, message: impl Into<Arc<str>>, run: u64) -> u64 {
        self.add_detailed(service, state, message, run, None)
    }

    /// As [`Self::add`], with what the message says for programs.
    pub fn add_detailed(
        &self,
        service: &Arc<str>,
        state: State,
        message: impl Into<Arc<str>>,
        run: u64,
        details: Details,
    ) -> u64 {
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
            details,
        };
        let slot = if ring.events.len() < KEPT { ring.take_free() } else { ring.evict() };
        let slot = slot.unwrap_or_default();
        if let Some(store) = &self.inner.store {
            store.event(slot, &event);
        }
        log(&event);
        ring.push(slot, event);
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
        let first = ring.position(since).unwrap_or_else(|position| position);
        let events: Vec<Event> =
            ring.events.iter().skip(first).take(limit).map(|kept| kept.event.clone()).collect();
        let next = events.last().map_or(since.min(ring.next), |event| event.seq.saturating_add(1));
        EventBatch { events, next }
    }

    /// The last events of one service, oldest first.
    pub fn of_service(&self, name: &str) -> Vec<Event> {
        let ring = self.ring();
        let Some(seqs) = ring.held.get(name) else { return Vec::new() };
        let skip = seqs.len().saturating_sub(KEPT_OF_SERVICE);
        seqs.iter().skip(skip).filter_map(|seq| ring.of(*seq)).cloned().collect()
    }

    /// The last event of each service.
    pub fn latest(&self) -> Latest {
        let ring = self.ring();
        let last = |(service, seqs): (&Arc<str>, &VecDeque<u64>)| {
            let event = ring.of(*seqs.back()?)?;
            Some((Arc::clone(service), (event.state, event.run)))
        };
        let whole = u64::try_from(ring.events.len()).is_ok_and(|kept| kept.saturating_add(1) == ring.next);
        Latest { last: ring.held.iter().filter_map(last).collect(), whole }
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

/// See [`EventLog::latest`].
pub struct Latest {
    last: HashMap<Arc<str>, (State, u64)>,
    /// No event is missing.
    whole: bool,
}

impl Latest {
    /// State and run of the last event; `None` where that is no longer known.
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

    fn numbers(log: &EventLog, service: &str) -> Vec<u64> {
        let all = log.since(0, usize::MAX).events.into_iter();
        all.filter(|event| &*event.service == service).map(|event| event.seq).collect()
    }

    #[test]
    fn numbers_have_no_gaps_and_those_that_are_gone_are_the_oldest() {
        let log = filled(5000);
        let batch = log.since(100, 10_000);
        assert_eq!(
            batch.events.iter().map(|event| event.seq).collect::<Vec<_>>(),
            (905..=5000).collect::<Vec<_>>()
        );
        assert_eq!((batch.events.len(), batch.next), (KEPT, 5001));
        let rest = log.since(batch.next, 10);
        assert!(rest.events.is_empty() && rest.next == 5001);
    }

    #[test]
    fn who_holds_most_loses_its_oldest() {
        let log = EventLog::new(None);
        let (quiet, noisy) = (Arc::from("quiet"), Arc::from("noisy"));
        let mut expected = Vec::new();
        for n in 0..20_000 {
            if n % 100 == 0 {
                expected.push(log.add(&quiet, State::Running, "fine", 1));
            }
            log.add(&noisy, State::Backoff, "crashed", n);
        }
        assert_eq!(expected.len(), 200);
        assert_eq!(numbers(&log, "quiet"), expected);
        let noisy = numbers(&log, "noisy");
        assert_eq!(noisy.len(), KEPT - 200);
        // 20,000 and 200 events: its newest are all there.
        assert!(noisy.windows(2).all(|pair| pair[0] < pair[1]) && noisy.last() == Some(&20_200));
        assert!(noisy.first().is_some_and(|first| *first > 20_200 - 4096));
        assert_eq!(log.of_service("noisy").len(), KEPT_OF_SERVICE);
        assert!(log.latest().of("never").is_none());
    }

    #[test]
    fn of_thousands_with_one_event_the_oldest_goes() {
        let log = EventLog::new(None);
        for n in 0..5000 {
            log.add(&Arc::from(format!("service-{n}")), State::Running, "", 1);
        }
        let kept = log.since(0, usize::MAX).events;
        assert_eq!((kept.len(), kept[0].seq, log.ring().held.len()), (KEPT, 905, KEPT));
        assert!(log.of_service("service-0").is_empty());
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
        assert_eq!((batch.events.len(), batch.next), (0, 4));
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
    fn numbers_go_on_in_the_next_incarnation() {
        let directory = std::env::temp_dir().join(format!("kelson-events-{}", std::process::id()));
        let life = crate::state_store::Incarnation::current().unwrap();
        let store = StateStore::create(&directory, &life).unwrap();
        let quiet: Arc<str> = Arc::from("quiet");
        let mut log = EventLog::new(Some(store));
        for incarnation in 1..=3 {
            for n in 1..=5000 {
                log.host(&format!("m{n}"));
            }
            log.add(&quiet, State::Running, "fine", incarnation);
            let past = crate::state_store::Past::take(&directory, &life).unwrap();
            let next = EventLog::restore(past.store, past.events);
            assert_eq!(*next.newest().borrow(), incarnation * 5001);
            assert_eq!(next.since(0, 10_000).events, log.since(0, 10_000).events);
            assert_eq!(next.of_service("quiet").len() as u64, incarnation);
            log = next;
        }
        assert_eq!(log.host("another incarnation"), 3 * 5001 + 1);
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
