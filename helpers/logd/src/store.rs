//! The state that the three threads share: lines on their way to the disk, the last lines in memory, and the
//! position in each file.
//!
//! One lock, held for the time of a copy, never over a system call that can wait. Where lines do not fit the oldest are
//! dropped and counted, reported to PID 1, and noted in the log in their place.

mod clients;
mod jobs;
mod pending;
mod service;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::flow::Rate;
use super::line::{self, Clock, Line, Source};
use super::ring::Ring;
use super::run::Run;
pub use clients::{OwnedLine, Seam, client_note};
pub use pending::Lost;
use pending::lines_in;
use service::Service;
pub use service::{Batch, Job, Limits, Mark};

/// Bytes of lines that wait for the disk: in all, and of one service.
const QUEUE: usize = 1024 * 1024;
const QUEUE_OF_ONE: usize = QUEUE / 2;
/// So much of one service may wait before it is crowded; of a service of which next to nothing waits, while others fill
/// the queue.
const CROWDED: usize = QUEUE / 8;
const LITTLE: usize = 16 * 1024;
/// The pause before a failed write is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Why lines are dropped here.
const SLOW: &str = "the disk did not keep up";
/// A busy writer writes no more often, so that many small lines cost few writes; unless so much waits already.
const GATHER: Duration = Duration::from_millis(5);
const MUCH: usize = QUEUE / 8;
/// Bytes of the last lines in memory; more while somebody follows.
const RECENT: usize = 256 * 1024;
const RECENT_FOLLOWED: usize = 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    No,
    ForAny,
    ForMuch,
}

struct Inner {
    /// Boxed: a hash table is half empty.
    services: HashMap<Arc<str>, Box<Service>>,
    /// Services with something pending, and other work, in order.
    ready: VecDeque<Arc<str>>,
    jobs: VecDeque<Job>,
    queued: usize,
    waiting: Waiting,
    ring: Ring,
    clock: Clock,
    followers: usize,
    /// Services of which something was lost that PID 1 does not know of.
    unreported: HashSet<Arc<str>>,
    /// Services whose log could not be written just now, and when it is tried again.
    failed: HashSet<Arc<str>>,
    again: Option<Instant>,
    closed: bool,
    directory: PathBuf,
}

/// See the module.
pub struct Store {
    inner: Mutex<Inner>,
    work: Condvar,
    /// News for clients, sent only while `interested` is not zero.
    news: Notify,
    interested: AtomicUsize,
    /// The reader has left pipes alone until there is room.
    pub held_back: AtomicBool,
}

impl Store {
    pub fn new(directory: PathBuf) -> Store {
        Store {
            inner: Mutex::new(Inner {
                services: HashMap::new(),
                ready: VecDeque::new(),
                jobs: VecDeque::new(),
                queued: 0,
                waiting: Waiting::No,
                ring: Ring::new(RECENT),
                clock: Clock::default(),
                followers: 0,
                unreported: HashSet::new(),
                failed: HashSet::new(),
                again: None,
                closed: false,
                directory,
            }),
            work: Condvar::new(),
            news: Notify::new(),
            interested: AtomicUsize::new(0),
            held_back: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The reader's side.

    /// A run of this service is read from now on.
    pub fn open(&self, service: &Arc<str>, run: Run, limits: Limits) {
        let mut inner = self.lock();
        let kept = inner.services.entry(service.clone()).or_insert_with(|| Box::new(Service::new(limits)));
        (kept.run, kept.limits) = (run, limits);
    }

    /// The service is gone; its file is closed. Its last lines stay in memory while there is room.
    pub fn forget(&self, service: &Arc<str>) {
        self.add_job(Job::Close(service.clone()));
    }

    pub fn set_directory(&self, path: PathBuf) {
        self.add_job(Job::Directory(path));
    }

    fn add_job(&self, job: Job) {
        let mut inner = self.lock();
        inner.jobs.push_back(job);
        inner.waiting = Waiting::No;
        self.work.notify_one();
    }

    /// Takes what a pipe of the service gave, as far as `rate` allows; `copy` gets each line that is kept.
    pub fn feed(
        &self,
        service: &Arc<str>,
        (source, run): (Source, Run),
        held: &mut Vec<u8>,
        bytes: &[u8],
        mut rate: Option<&mut Rate>,
        mut copy: impl FnMut(&[u8]),
    ) {
        if let Some(rate) = rate.as_mut().filter(|rate| rate.is_exhausted()) {
            let (lines, bytes) = line::skip(held, bytes);
            return rate.suppress(lines, bytes);
        }
        let time = line::now();
        self.add_lines(service, |inner| {
            line::split(held, bytes, |text, partial| {
                if rate.as_mut().is_none_or(|rate| rate.admit(text.len())) {
                    inner.add(service, Line { time, source, run, partial, text });
                    copy(text);
                }
            });
        });
    }

    /// Whether so much of the service waits for the disk that its pipes are better left alone for a moment. A log that
    /// cannot be written will not have room in a moment.
    pub fn crowded(&self, service: &Arc<str>) -> bool {
        let inner = self.lock();
        let full = inner.queued >= QUEUE.saturating_sub(QUEUE_OF_ONE);
        let limit = if full { LITTLE } else { CROWDED };
        let crowded = |service: &Service| service.failing.is_none() && service.pending.size() > limit;
        inner.services.get(service).is_some_and(|service| crowded(service))
    }

    /// Lines that are not in the log, behind those that are: noted there at once, and reported to PID 1 unless it knows.
    pub fn lose(&self, service: &Arc<str>, lost: Lost, reason: &str, known: bool) {
        self.add_lines(service, |inner| {
            let Some(kept) = inner.services.get_mut(service) else { return };
            kept.pending.lose_last(lost, reason, kept.last());
            if !known {
                kept.lose(lost, reason);
                inner.unreported.insert(service.clone());
            }
        });
    }

    /// The pipe has ended, or this logd ends: the beginning of a line without its end. Whether it is kept.
    pub fn feed_rest(
        &self,
        service: &Arc<str>,
        (source, run): (Source, Run),
        text: &[u8],
        rate: Option<&mut Rate>,
    ) -> bool {
        let kept = rate.is_none_or(|rate| rate.admit(text.len()));
        if kept {
            let line = Line { time: line::now(), source, run, partial: true, text };
            self.add_lines(service, |inner| inner.add(service, line));
        }
        kept
    }

    /// A note of logd's own, behind the lines that are there.
    pub fn note(&self, service: &Arc<str>, text: &str) {
        self.add_lines(service, |inner| inner.add(service, Line::note(text.as_bytes())));
    }

    fn add_lines(&self, service: &Arc<str>, add: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        add(&mut inner);
        inner.make_ready(service);
        let wake = match inner.waiting {
            Waiting::No => false,
            Waiting::ForAny => !inner.ready.is_empty(),
            Waiting::ForMuch => inner.queued >= MUCH,
        };
        if wake {
            inner.waiting = Waiting::No;
            self.work.notify_one();
        }
        drop(inner);
        self.tell();
    }

    /// Takes the losses since the last call, by service.
    pub fn take_lost(&self) -> Vec<(Arc<str>, Lost, Arc<str>)> {
        let mut inner = self.lock();
        let names = std::mem::take(&mut inner.unreported);
        let mut all = Vec::new();
        for name in names {
            if let Some(service) = inner.services.get_mut(&name) {
                all.push((name, std::mem::take(&mut service.unreported), service.reason.clone()));
            }
        }
        all
    }

    /// Whether [`Store::take_lost`] would give anything.
    pub fn any_lost(&self) -> bool {
        !self.lock().unreported.is_empty()
    }

    /// The writer has not ended in time: what is not written is lost.
    pub fn abandon(&self) {
        let mut inner = self.lock();
        let Inner { services, unreported, .. } = &mut *inner;
        for (name, service) in services {
            let mut lost = std::mem::take(&mut service.writing);
            while let Some(chunk) = service.pending.take() {
                let Lost { lines, bytes } = lines_in(&chunk.bytes);
                lost.add(lines, bytes);
            }
            if lost != Lost::default() {
                let reason = service.failing.clone().unwrap_or_else(|| "the disk does not answer".into());
                service.lose(lost, &reason);
                unreported.insert(Arc::clone(name));
            }
        }
    }

    /// No further lines come: the writer ends after the last, and so do the streams of clients.
    pub fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
        self.tell();
    }

    fn tell(&self) {
        if self.interested.load(Ordering::SeqCst) > 0 {
            self.news.notify_waiters();
        }
    }
}

impl Inner {
    fn add(&mut self, name: &Arc<str>, line: Line<'_>) {
        let Inner { services, ring, clock, queued, .. } = self;
        let Some(service) = services.get_mut(name) else { return };
        let number = service.next;
        ring.push(name, number, line);
        service.next = number.saturating_add(1);
        *queued = queued.saturating_add(service.pending.add(clock, number, line));
        self.bound(name);
    }

    /// Drops what does not fit, after lines of this service have come.
    fn bound(&mut self, name: &Arc<str>) {
        if self.services.get(name).is_some_and(|service| service.pending.size() > QUEUE_OF_ONE) {
            self.drop_oldest_of(name);
        }
        while self.queued > QUEUE {
            let largest = self.services.iter().max_by_key(|(_, service)| service.pending.size());
            let Some(largest) = largest.map(|(name, _)| Arc::clone(name)) else { return };
            if !self.drop_oldest_of(&largest) {
                return;
            }
        }
    }

    /// Returns whether there were any.
    fn drop_oldest_of(&mut self, name: &Arc<str>) -> bool {
        let Some(service) = self.services.get_mut(name) else { return false };
        let reason = service.failing.clone().unwrap_or_else(|| SLOW.into());
        let (lost, bytes) = service.pending.drop_oldest(&reason);
        self.queued = self.queued.saturating_sub(bytes);
        if lost != Lost::default() {
            service.lose(lost, &reason);
            self.unreported.insert(Arc::clone(name));
        }
        bytes > 0
    }

    /// The writer will come to what waits of the service.
    fn make_ready(&mut self, name: &Arc<str>) {
        if let Some(service) = self.services.get_mut(name)
            && !service.ready
            && !service.pending.is_empty()
            && !self.failed.contains(name)
        {
            service.ready = true;
            self.ready.push_back(Arc::clone(name));
        }
    }

    /// Services whose log could not be written have their turn once more, at the end at once.
    fn try_again(&mut self, now: Instant) {
        if self.again.is_some_and(|again| self.closed || now >= again) {
            self.again = None;
            for name in std::mem::take(&mut self.failed) {
                self.make_ready(&name);
            }
        }
    }

    fn take_batch(&mut self) -> Option<Batch> {
        loop {
            let name = self.ready.pop_front()?;
            let Some(service) = self.services.get_mut(&name) else { continue };
            service.ready = false;
            if self.failed.contains(&name) {
                continue;
            }
            let (limits, chunk) = (service.limits, service.pending.take());
            service.writing = chunk.as_ref().map(|chunk| lines_in(&chunk.bytes)).unwrap_or_default();
            self.make_ready(&name);
            if let Some(chunk) = chunk {
                return Some(Batch::new(name, limits, chunk));
            }
        }
    }
}
