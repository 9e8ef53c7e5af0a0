//! What the three threads share: lines on their way to the disk, the last lines in memory, where each file stands.
//!
//! One lock, held for the time of a copy, never over a system call that can wait. The reader never waits for room: what
//! does not fit is dropped and counted, told to PID 1, and noted in the log where writing goes on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::line::{self, Clock, Line, Source};
use super::ring::{Kept, Ring};

/// Bytes of lines that wait for the disk: in all, and of one service, so that one cannot crowd out the others.
const QUEUE: usize = 1024 * 1024;
const QUEUE_OF_ONE: usize = QUEUE / 2;
/// A busy writer writes no more often, so that many small lines cost few writes; unless so much waits already.
const GATHER: Duration = Duration::from_millis(5);
const MUCH: usize = QUEUE / 8;
/// Bytes of the last lines in memory; more while somebody follows.
const RECENT: usize = 256 * 1024;
const RECENT_FOLLOWED: usize = 1024 * 1024;

/// Lines that were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    pub lines: u64,
    pub bytes: u64,
}

impl Lost {
    fn add(&mut self, lines: u64, bytes: u64) {
        self.lines = self.lines.saturating_add(lines);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// How the log of a service is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub max_size: u64,
    pub max_files: u32,
}

/// The file that a service is written to, and how much of it holds whole batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub device: u64,
    pub inode: u64,
    pub length: u64,
}

struct Service {
    limits: Limits,
    /// Number of the next line.
    next: u64,
    /// Text for the file, whole lines.
    pending: Vec<u8>,
    pending_lines: u64,
    /// What the notes in `pending` tell of, to be told again if they are not written.
    pending_said: Lost,
    /// Lines up to this one are in the file, or lost and said.
    written: u64,
    mark: Option<Mark>,
    /// Lost and not yet noted in the log, or not yet told to PID 1.
    unsaid: Lost,
    untold: Lost,
    reason: Arc<str>,
    /// To be written before the next line.
    notes: Vec<String>,
}

/// Work for the writer.
#[derive(Debug)]
pub enum Job {
    Write(Batch),
    Directory(PathBuf),
    Close(Arc<str>),
    End,
}

/// Whole lines of one service.
#[derive(Debug)]
pub struct Batch {
    pub service: Arc<str>,
    pub limits: Limits,
    pub bytes: Vec<u8>,
    lines: u64,
    last: u64,
    said: Lost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    No,
    ForAny,
    ForMuch,
}

struct Inner {
    services: HashMap<Arc<str>, Service>,
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

/// A line that owns its text, for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedLine {
    pub service: Arc<str>,
    pub time: i64,
    pub source: Source,
    pub partial: bool,
    pub text: Vec<u8>,
}

/// Where file and memory of a service meet, at one instant.
pub struct Seam {
    pub mark: Option<Mark>,
    /// Lines that are not in the file, oldest first.
    pub unwritten: Vec<OwnedLine>,
    /// Lines that are in memory although they are in the file too.
    pub written: Vec<OwnedLine>,
    /// Lines neither in the file nor in memory any more.
    pub missed: u64,
    /// Number of the next line.
    pub next: u64,
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
        let kept = inner.services.entry(service.clone()).or_insert_with(|| Service::new(limits));
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

    // The clients' side.

    pub fn directory(&self) -> PathBuf {
        self.lock().directory.clone()
    }

    /// Where file and memory of a service meet now.
    pub fn seam(&self, name: &Arc<str>) -> Seam {
        let inner = self.lock();
        let (mark, written, next) = inner
            .services
            .get(name)
            .map_or((None, 0, 1), |service| (service.mark, service.written, service.next));
        let mut seam = Seam { mark, unwritten: Vec::new(), written: Vec::new(), missed: 0, next };
        for (_, kept) in inner.ring.from(0).filter(|(_, kept)| kept.service == name) {
            if kept.seq > written { &mut seam.unwritten } else { &mut seam.written }.push(owned(kept));
        }
        let unwritten = next.saturating_sub(1).saturating_sub(written);
        seam.missed = unwritten.saturating_sub(seam.unwritten.len() as u64);
        seam
    }

    /// Whether all lines that had come by `numbers` are written.
    pub fn all_written(&self, numbers: &HashMap<Arc<str>, u64>) -> bool {
        let inner = self.lock();
        numbers.iter().all(|(name, next)| {
            inner.services.get(name).is_none_or(|service| service.written >= next.saturating_sub(1))
        })
    }

    /// The number of the next line of each.
    pub fn numbers(&self, names: &[Arc<str>]) -> HashMap<Arc<str>, u64> {
        let inner = self.lock();
        let next = |name| inner.services.get(name).map_or(1, |service: &Service| service.next);
        names.iter().map(|name| (name.clone(), next(name))).collect()
    }

    /// Lines of the services in `expected` from `position` on, at most `limit`; moves both on. A gap in the numbers
    /// becomes a note.
    pub fn live(
        &self,
        position: &mut u64,
        expected: &mut HashMap<Arc<str>, u64>,
        limit: usize,
    ) -> Vec<OwnedLine> {
        let inner = self.lock();
        let mut lines = Vec::new();
        for (behind, kept) in inner.ring.from(*position) {
            *position = behind;
            let Some(next) = expected.get_mut(kept.service).filter(|next| kept.seq >= **next) else {
                continue;
            };
            missed(&mut lines, kept.service, kept.seq.saturating_sub(*next), kept.time);
            *next = kept.seq.saturating_add(1);
            lines.push(owned(kept));
            if lines.len() >= limit {
                return lines;
            }
        }
        for (name, next) in expected.iter_mut() {
            if let Some(service) = inner.services.get(name).filter(|service| service.next > *next) {
                missed(&mut lines, name, service.next.saturating_sub(*next), line::now());
                *next = service.next;
            }
        }
        lines
    }

    /// No further lines come.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// While the guard lives, [`Store::news`] tells of changes.
    pub fn interest(self: &Arc<Store>, follower: bool) -> Interest {
        self.interested.fetch_add(1, Ordering::SeqCst);
        if follower {
            let mut inner = self.lock();
            inner.followers = inner.followers.saturating_add(1);
            inner.ring.set_limit(RECENT_FOLLOWED);
        }
        Interest { store: self.clone(), follower }
    }

    /// Told at each change while somebody is interested.
    pub fn news(&self) -> &Notify {
        &self.news
    }

    fn tell(&self) {
        if self.interested.load(Ordering::SeqCst) > 0 {
            self.news.notify_waiters();
        }
    }
}

/// Somebody waits for news.
pub struct Interest {
    store: Arc<Store>,
    follower: bool,
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.store.interested.fetch_sub(1, Ordering::SeqCst);
        if self.follower {
            let mut inner = self.store.lock();
            inner.followers = inner.followers.saturating_sub(1);
            if inner.followers == 0 {
                inner.ring.set_limit(RECENT);
            }
        }
    }
}

fn owned(kept: Kept<'_>) -> OwnedLine {
    let (time, source, partial) = (kept.time, kept.source, kept.partial);
    OwnedLine {
        service: kept.service.clone(),
        time,
        source,
        partial,
        text: [kept.text.0, kept.text.1].concat(),
    }
}

/// A note to a client.
pub fn client_note(service: &Arc<str>, time: i64, text: String) -> OwnedLine {
    OwnedLine {
        service: service.clone(),
        time,
        source: Source::Note,
        partial: false,
        text: text.into_bytes(),
    }
}

fn missed(lines: &mut Vec<OwnedLine>, service: &Arc<str>, count: u64, time: i64) {
    if count > 0 {
        lines.push(client_note(
            service,
            time,
            format!("{count} lines are missing here: they came too fast to follow"),
        ));
    }
}

impl Service {
    fn new(limits: Limits) -> Service {
        Service {
            limits,
            next: 1,
            pending: Vec::new(),
            pending_lines: 0,
            pending_said: Lost::default(),
            written: 0,
            mark: None,
            unsaid: Lost::default(),
            untold: Lost::default(),
            reason: "".into(),
            notes: Vec::new(),
        }
    }

    fn lose(&mut self, lines: u64, bytes: u64, reason: &str) {
        self.unsaid.add(lines, bytes);
        self.untold.add(lines, bytes);
        if *self.reason != *reason {
            self.reason = reason.into();
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
        if !fits(*queued, QUEUE) || !fits(service.pending.len(), QUEUE_OF_ONE) {
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
