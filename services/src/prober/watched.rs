//! The checks of one network: what is asked, where answers go, and when the next one is due.

use kelson_sys::ordered;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{CheckAnswer, Schedule, Sink};
use kelson_helper::probe::timing::{self, Eager};
use kelson_helper::probe::{Verdict, micros};
use kelson_helper::random::Random;
use kelson_helper::supervisor::after;
use kelson_proto::v1;
use kelson_spec::wire;

/// The delay of a batch that is not reported.
const TOLERANCE: Duration = Duration::from_millis(300);
/// A new probe asks what is already due within so long, or within the check's interval.
const SPREAD: Duration = Duration::from_millis(500);

/// One check.
pub struct Entry {
    pub id: u64,
    schedule: Schedule,
    sink: Arc<dyn Sink>,
    ended: Arc<AtomicBool>,
    text: Arc<str>,
    /// When the next answer is to be asked for, without jitter.
    due: Instant,
    eager: Eager,
}

impl Entry {
    pub fn new(
        id: u64,
        schedule: Schedule,
        sink: Arc<dyn Sink>,
        ended: Arc<AtomicBool>,
        now: Instant,
    ) -> Entry {
        let due = after(now, schedule.initial_delay);
        let eager = Eager::new(now, schedule.grace, schedule.success_threshold);
        Entry { id, schedule, sink, ended, text: "".into(), due, eager }
    }

    fn late(&self, now: Instant) -> bool {
        let patience = timing::jitter(self.schedule.interval).saturating_add(TOLERANCE);
        now > after(self.due, patience)
    }

    /// The message that begins the check at the probe. `again`: another probe has asked it before.
    pub fn begin(&self, now: Instant, again: bool, random: &mut Random) -> Option<v1::ProbeBegin> {
        let mut delay = self.due.saturating_duration_since(now);
        if again {
            delay = delay.saturating_add(random.part_of(self.schedule.interval.min(SPREAD)));
        }
        Some(v1::ProbeBegin {
            id: self.id,
            probe: wire::encode(&self.schedule.probe).ok()?,
            delay: micros(delay),
            interval: micros(self.schedule.interval),
            timeout: micros(self.schedule.timeout),
            eager: micros(self.eager.left(now)),
            passes: self.schedule.success_threshold,
        })
    }

    /// Hands an answer to whom it is for.
    pub fn answer(&mut self, at: SystemTime, took: Duration, verdict: Verdict, text: Option<&str>) {
        if let Some(text) = text
            && *self.text != *text
        {
            self.text = text.into();
        }
        if !self.ended.load(Ordering::Acquire) {
            self.sink.take(CheckAnswer { at, took, verdict, text: Arc::clone(&self.text) });
        }
    }
}

/// All checks of one network.
#[derive(Default)]
pub struct Watched {
    entries: HashMap<u64, Entry>,
}

impl Watched {
    pub fn add(&mut self, entry: Entry) {
        self.entries.insert(entry.id, entry);
    }

    /// Whether there was one.
    pub fn remove(&mut self, id: u64) -> bool {
        let removed = self.entries.remove(&id).is_some();
        if self.entries.is_empty() {
            self.entries = HashMap::new();
        }
        removed
    }

    pub fn get(&self, id: u64) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// In the order in which they were begun.
    pub fn ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.entries.keys().copied().collect();
        ordered::sort(&mut ids);
        ids
    }

    /// How many should have been asked by now and were not.
    pub fn late(&self, now: Instant) -> usize {
        self.entries.values().filter(|entry| entry.late(now)).count()
    }

    pub fn shortest_interval(&self) -> Option<Duration> {
        self.entries.values().map(|entry| entry.schedule.interval).min()
    }

    /// Takes in what a probe reports; one of a check that has ended is nobody's any more.
    pub fn take(&mut self, result: &v1::ProbeResult, now: Instant) {
        let Some(entry) = self.entries.get_mut(&result.id) else { return };
        let at = SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_micros(result.at))
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let verdict = Verdict::of(result);
        let pause = entry.eager.pause(entry.schedule.interval, verdict, now);
        entry.due = after(now, pause);
        entry.answer(at, Duration::from_micros(result.took), verdict, result.text.as_deref());
    }
}
