//! What the three threads share: lines on their way to the disk, the last lines in memory, where each file stands.
//!
//! One lock, held for the time of a copy, never over a system call that can wait. The reader never waits for room: what
//! does not fit is dropped and counted, told to PID 1, and noted in the log where writing goes on.

mod clients;
mod service;

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::line::{self, Clock, Line, Source};
use super::ring::Ring;
pub use clients::{OwnedLine, Seam, client_note};
use service::Service;
pub use service::{Batch, Job, Limits, Lost, Mark};

/// Bytes of lines that wait for the disk: in all, and of one service, so that one cannot crowd out the others.
const QUEUE: usize = 1024 * 1024;
const QUEUE_OF_ONE: usize = QUEUE / 2;
/// Beyond it, for services of which so little waits: one that floods its log has as much again in the writer's hands.
const RESERVE: usize = QUEUE / 4;
const LITTLE: usize = 16 * 1024;
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
    untold: HashSet<Arc<str>>,
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
                untold: HashSet::new(),
                closed: false,
                directory,
            }),
            work: Condvar::new(),
            news: Notify::new(),
            interested: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The reader's side.

    /// A run of this service is read from now on.
    pub fn open(&self, service: &Arc<str>, limits: Limits) {
        let mut inner = self.lock();
        let kept = inner.services.entry(service.clone()).or_insert_with(|| Box::new(Service::new(limits)));
        kept.limits = limits;
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

    /// Takes what a pipe of the service gave.
    pub fn feed(&self, service: &Arc<str>, source: Source, held: &mut Vec<u8>, bytes: &[u8]) {
        let time = line::now();
        self.add_lines(service, |inner| {
            line::split(held, bytes, |text, partial| {
                inner.add(service, Line { time, source, partial, text })
            });
        });
    }

    /// The pipe has ended, or this logd ends: the beginning of a line without its end.
    pub fn feed_rest(&self, service: &Arc<str>, source: Source, held: &mut Vec<u8>) {
        if !held.is_empty() {
            let text = std::mem::take(held);
            let line = Line { time: line::now(), source, partial: true, text: &text };
            self.add_lines(service, |inner| inner.add(service, line));
        }
    }

    /// A note of logd's own, written before the next line of the service: one that is silent needs none.
    pub fn note(&self, service: &Arc<str>, text: String) {
        if let Some(service) = self.lock().services.get_mut(service) {
            service.notes.push(text);
        }
    }

    fn add_lines(&self, service: &Arc<str>, add: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        let before = inner.queued;
        let idle = inner.services.get(service).is_some_and(|service| service.pending.is_empty());
        add(&mut inner);
        if idle && inner.queued != before {
            inner.ready.push_back(service.clone());
        }
        let wake = match inner.waiting {
            Waiting::No => false,
            Waiting::ForAny => inner.queued != before,
            Waiting::ForMuch => inner.queued >= MUCH,
        };
        if wake {
            inner.waiting = Waiting::No;
            self.work.notify_one();
        }
        drop(inner);
        self.tell();
    }

    /// What was lost since the last call, by service.
    pub fn take_lost(&self) -> Vec<(Arc<str>, Lost, Arc<str>)> {
        let mut inner = self.lock();
        let names = std::mem::take(&mut inner.untold);
        let mut all = Vec::new();
        for name in names {
            if let Some(service) = inner.services.get_mut(&name) {
                all.push((name, std::mem::take(&mut service.untold), service.reason.clone()));
            }
        }
        all
    }

    /// Whether [`Store::take_lost`] would give anything.
    pub fn any_lost(&self) -> bool {
        !self.lock().untold.is_empty()
    }

    /// No further lines come: the writer ends after the last, and so do the streams of clients.
    pub fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
        self.tell();
    }

    // The writer's side.

    /// The next thing to do; waits for it. `busy`: something was written just now, so lines may gather a little.
    pub fn next_job(&self, mut busy: bool) -> Job {
        let mut inner = self.lock();
        loop {
            if busy && !inner.closed && inner.queued < MUCH && inner.jobs.is_empty() {
                inner.waiting = Waiting::ForMuch;
                inner = self.work.wait_timeout(inner, GATHER).unwrap_or_else(PoisonError::into_inner).0;
            }
            busy = false;
            inner.waiting = Waiting::No;
            if let Some(job) = inner.jobs.pop_front() {
                return job;
            }
            if let Some(batch) = inner.take_batch() {
                return Job::Write(batch);
            }
            if inner.closed {
                return Job::End;
            }
            inner.waiting = Waiting::ForAny;
            inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The batch is in the file.
    pub fn written(&self, batch: &Batch, mark: Mark) {
        let mut inner = self.lock();
        inner.queued = inner.queued.saturating_sub(batch.bytes.len());
        if let Some(service) = inner.services.get_mut(&batch.service) {
            service.written = service.written.max(batch.last);
            service.mark = Some(mark);
        }
        drop(inner);
        self.tell();
    }

    /// The last lines of the batch could not be written; `kept` bytes were, into the file of `mark`.
    pub fn not_written(&self, batch: &Batch, kept: usize, mark: Option<Mark>, reason: &str) {
        let mut inner = self.lock();
        inner.queued = inner.queued.saturating_sub(batch.bytes.len());
        let rest = batch.bytes.get(kept..).unwrap_or_default();
        let mut lines = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
        if let Some(service) = inner.services.get_mut(&batch.service) {
            service.mark = mark;
            if kept == 0 {
                // Its note was not written either, and is no line of the service.
                lines = batch.lines;
                service.unsaid.add(batch.said.lines, batch.said.bytes);
            } else {
                service.written = service.written.max(batch.last);
            }
            service.lose(lines, rest.len() as u64, reason);
            inner.untold.insert(batch.service.clone());
        }
        drop(inner);
        self.tell();
    }

    /// Log files are closed and may have moved: nothing is known of them.
    pub fn unmark(&self, service: Option<&Arc<str>>) {
        let mut inner = self.lock();
        match service {
            Some(name) => {
                if let Some(service) = inner.services.get_mut(name) {
                    service.mark = None;
                }
            }
            None => inner.services.values_mut().for_each(|service| service.mark = None),
        }
    }

    /// Files are here from now on.
    pub fn moved_to(&self, directory: PathBuf) {
        self.lock().directory = directory;
    }

    fn tell(&self) {
        if self.interested.load(Ordering::SeqCst) > 0 {
            self.news.notify_waiters();
        }
    }
}

/// Room that a line takes in a file beside its text.
const AROUND: usize = 41;

impl Inner {
    fn add(&mut self, name: &Arc<str>, line: Line<'_>) {
        if let Some(service) = self.services.get_mut(name) {
            for note in std::mem::take(&mut service.notes) {
                let text = note.as_bytes();
                self.add_one(name, Line { source: Source::Note, partial: false, text, ..line });
            }
        }
        self.add_one(name, line);
    }

    fn add_one(&mut self, name: &Arc<str>, line: Line<'_>) {
        let Inner { services, ring, clock, queued, untold, .. } = self;
        let Some(service) = services.get_mut(name) else { return };
        ring.push(name, service.next, line);
        service.next = service.next.saturating_add(1);
        let size = line.text.len().saturating_add(AROUND);
        // Room for the note, too.
        let fits = |held: usize, limit: usize| held.saturating_add(size).saturating_add(256) <= limit;
        let reserve = if service.pending.len() < LITTLE { RESERVE } else { 0 };
        if !fits(*queued, QUEUE.saturating_add(reserve)) || !fits(service.pending.len(), QUEUE_OF_ONE) {
            service.lose(1, line.text.len() as u64, "the disk did not keep up");
            untold.insert(name.clone());
            return;
        }
        let before = service.pending.len();
        let unsaid = std::mem::take(&mut service.unsaid);
        if unsaid != Lost::default() {
            let text =
                format!("{} lines ({} bytes) were lost here: {}", unsaid.lines, unsaid.bytes, service.reason);
            let note = Line { time: line.time, source: Source::Note, partial: false, text: text.as_bytes() };
            clock.append(&mut service.pending, note);
            service.pending_said.add(unsaid.lines, unsaid.bytes);
        }
        clock.append(&mut service.pending, line);
        service.pending_lines = service.pending_lines.saturating_add(1);
        *queued = queued.saturating_add(service.pending.len().saturating_sub(before));
    }

    fn take_batch(&mut self) -> Option<Batch> {
        loop {
            let name = self.ready.pop_front()?;
            let Some(service) = self.services.get_mut(&name) else { continue };
            if service.pending.is_empty() {
                continue;
            }
            return Some(Batch {
                service: name,
                limits: service.limits,
                bytes: std::mem::take(&mut service.pending),
                lines: std::mem::take(&mut service.pending_lines),
                last: service.next.saturating_sub(1),
                said: std::mem::take(&mut service.pending_said),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_floods_its_log_crowds_out_nobody() {
        let store = Store::new(PathBuf::from("/nowhere"));
        let (flood, quiet): (Arc<str>, Arc<str>) = (Arc::from("flood"), Arc::from("quiet"));
        for service in [&flood, &quiet] {
            store.open(service, Limits { max_size: 1 << 20, max_files: 2 });
        }
        let much = [[b'x'; 100].as_slice(), b"\n"].concat().repeat(10_000);
        let feed = |service: &Arc<str>, bytes: &[u8]| {
            store.feed(service, Source::Stdout, &mut Vec::new(), bytes);
        };
        feed(&flood, &much);
        // The writer has taken what waited, and hangs; meanwhile as much comes again.
        let Job::Write(batch) = store.next_job(false) else { panic!("nothing to write") };
        assert_eq!(&*batch.service, "flood");
        feed(&flood, &much);
        for _ in 0..100 {
            feed(&quiet, b"a line of its own\n");
        }
        let lost: Vec<String> = store.take_lost().into_iter().map(|(name, ..)| name.to_string()).collect();
        assert_eq!(lost, ["flood"]);
    }
}
