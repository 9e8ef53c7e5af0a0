//! The pipes that PID 1 holds copies of, and the epoll that tells whether any has something unread.
//!
//! The copies are what saves a service from SIGPIPE when logd dies. A pipe stays here until logd reports that it was
//! read to its end. While there is no logd for too long, PID 1 drops the oldest lines of pipes that fill up, so that
//! nobody blocks on them; the newest stay in the pipe for the next logd.

#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use kelson_proto::v1;
use kelson_sys::descriptor::{Owned, Watched};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::LogOptions;
use super::kept::{DescriptorStore, InheritedLog, KeptLog};

/// Pipes looked at in one turn of [`Held::relieve_full`].
const BATCH: usize = 64;
/// A pipe that is this part full fills up. Small writes can waste half of a pipe's pages, so a full one may hold little
/// more than half of its size.
const FULL: usize = 4;
/// This part of a pipe that fills up is left in it while there is no logd: its newest lines.
const NEWEST: usize = 8;
/// More than a pipe holds.
const ALL: usize = 1024 * 1024;
/// So far the end of a line is looked for whose beginning is dropped.
const LINE: usize = 1024;

/// A pipe: the read end nonblocking (which the writer does not see), both closed on exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((read, write))
}

/// The read ends of a run, as they come from the handle. They are kept already.
pub struct NewRun {
    /// The number by which logd knows it; no other has it while its pipes are open.
    pub id: u64,
    pub service: Arc<str>,
    pub run: u64,
    pub options: LogOptions,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// The output that PID 1 dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    pub lines: u64,
    pub bytes: u64,
}

impl Lost {
    pub fn add(&mut self, other: Lost) {
        self.lines = self.lines.saturating_add(other.lines);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

struct Run {
    service: Arc<str>,
    run: u64,
    options: LogOptions,
    /// stdout, stderr; absent once it has ended.
    ends: [Option<OwnedFd>; 2],
    /// A logd that did not end in order had them.
    interrupted: bool,
    /// A logd has them.
    handed: bool,
    lost: Lost,
}

/// The epoll as tokio may watch it: nested in tokio's own, and only while all is quiet.
struct Nested(Arc<Epoll>);

impl AsRawFd for Nested {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

// SAFETY: it holds a share of the epoll, whose descriptor nothing replaces while it is shared.
unsafe impl Owned for Nested {}

impl NewRun {
    /// From here on they come through `execve`: the run is started beside the driver, which may not come to it before.
    pub fn keep(&self, descriptor_store: &dyn DescriptorStore) {
        for (end, stderr) in [(&self.stdout, false), (&self.stderr, true)] {
            let (id, run, options) = (self.id, self.run, self.options);
            let what = KeptLog::Pipe { id, service: self.service.to_string(), run, options, stderr };
            descriptor_store.keep(end.as_fd(), what);
        }
    }
}

/// All runs whose pipes have not ended.
pub struct Held {
    runs: BTreeMap<u64, Run>,
    unread: Arc<Epoll>,
    armed: Option<Watched<Nested>>,
    descriptor_store: Arc<dyn DescriptorStore>,
}

/// A pipe's number in the epoll.
fn token(id: u64, stderr: bool) -> u64 {
    id.wrapping_shl(1) | u64::from(stderr)
}

impl Held {
    pub fn new(descriptor_store: Arc<dyn DescriptorStore>) -> io::Result<Held> {
        let unread = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        Ok(Held { runs: BTreeMap::new(), unread, armed: None, descriptor_store })
    }

    /// Takes over the pipes that an earlier incarnation of PID 1 held.
    pub fn inherit(&mut self, pipes: impl IntoIterator<Item = InheritedLog>) {
        for InheritedLog { what, descriptor } in pipes {
            let KeptLog::Pipe { id, service, run, options, stderr } = what else { continue };
            let _ = self.unread.add(&descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token(id, stderr)));
            let run = self.runs.entry(id).or_insert_with(|| Run {
                service: service.into(),
                run,
                options,
                ends: [None, None],
                interrupted: false,
                // As a rule; and if that logd is gone, something may be.
                handed: true,
                lost: Lost::default(),
            });
            let [out, err] = &mut run.ends;
            *(if stderr { err } else { out }) = Some(descriptor);
        }
    }

    pub fn descriptor_store(&self) -> &dyn DescriptorStore {
        &*self.descriptor_store
    }

    pub fn let_go(&self, descriptor: &impl AsFd) {
        self.descriptor_store.let_go(descriptor.as_fd());
    }

    /// Takes a run's pipes over and gives their id.
    pub fn add(&mut self, new: NewRun) -> u64 {
        let id = new.id;
        for (end, stderr) in [(&new.stdout, false), (&new.stderr, true)] {
            // Without it (no memory) only the watch over this pipe is missing; logd reads it all the same.
            let _ = self.unread.add(end, EpollEvent::new(EpollFlags::EPOLLIN, token(id, stderr)));
        }
        let run = Run {
            service: new.service,
            run: new.run,
            options: new.options,
            ends: [Some(new.stdout), Some(new.stderr)],
            interrupted: false,
            handed: false,
            lost: Lost::default(),
        };
        self.runs.insert(id, run);
        id
    }

    /// Ids of all runs, oldest first.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.runs.keys().copied()
    }

    /// The message that hands a run over, and its descriptors; absent if the run has ended.
    pub fn message(&self, id: u64) -> Option<(v1::LogdRun, Vec<BorrowedFd<'_>>)> {
        let run = self.runs.get(&id)?;
        let [stdout, stderr] = &run.ends;
        let (copied, named) = run.options.copy.bits();
        let message = v1::LogdRun {
            id,
            service: run.service.to_string(),
            run: run.run,
            stdout: stdout.is_some(),
            stderr: stderr.is_some(),
            max_size: run.options.max_size,
            max_files: run.options.max_files,
            rate_limit: run.options.rate_limit,
            console: run.options.console,
            copied,
            named,
            interrupted: run.interrupted,
            lost_lines: run.lost.lines,
            lost_bytes: run.lost.bytes,
        };
        Some((message, run.ends.iter().flatten().map(|end| end.as_fd()).collect()))
    }

    /// The run was handed over: logd knows now what was lost before.
    pub fn handed(&mut self, id: u64) {
        if let Some(run) = self.runs.get_mut(&id) {
            run.handed = true;
            run.interrupted = false;
            run.lost = Lost::default();
        }
    }

    /// logd has ended; unless `in_order`, what it held of these runs is lost.
    pub fn taken_back(&mut self, in_order: bool) {
        for run in self.runs.values_mut() {
            run.interrupted |= run.handed && !in_order;
            run.handed = false;
        }
    }

    /// The pipe was read to its end.
    pub fn ended(&mut self, id: u64, stderr: bool) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let [out, err] = &mut run.ends;
        if let Some(end) = if stderr { err.take() } else { out.take() } {
            // By hand: logd may still hold the same pipe, and then closing does not remove it.
            let _ = self.unread.delete(&end);
            // What is written of it stays until its number is kept again: the next incarnation finds that its inode is
            // not open there, and passes it over.
        }
        if run.ends.iter().all(Option::is_none) {
            self.runs.remove(&id);
        }
    }

    /// Whether anything can be read now, an end included.
    pub fn any_unread(&self) -> bool {
        let mut events = [EpollEvent::empty(); 1];
        self.unread.wait(&mut events, EpollTimeout::ZERO).is_ok_and(|found| found > 0)
    }

    /// Whether somebody may soon have to wait for the reader of a pipe.
    pub fn any_filling(&self) -> bool {
        self.runs.values().flat_map(|run| run.ends.iter().flatten()).any(filling)
    }

    /// Watches for the first byte; must be called on the runtime.
    pub fn arm(&mut self) {
        if self.armed.is_none() {
            let nested = Nested(self.unread.clone());
            self.armed = Watched::reading(nested).ok();
        }
    }

    /// No further wake-ups, whatever is written.
    pub fn disarm(&mut self) {
        self.armed = None;
    }

    /// Ends once something can be read while armed.
    pub async fn readable(&self) {
        match &self.armed {
            Some(armed) if armed.readable().await.is_ok() => {}
            _ => std::future::pending().await,
        }
    }

    /// Drops the oldest lines of pipes that fill up, and closes those of older runs that have ended. The
    /// contents of the others stay there for the next logd. Gives what was lost, by service.
    pub fn relieve_full(&mut self) -> HashMap<Arc<str>, Lost> {
        let mut losses: HashMap<Arc<str>, Lost> = HashMap::new();
        let mut newest: HashMap<Arc<str>, u64> = HashMap::new();
        for (id, run) in &self.runs {
            newest.insert(run.service.clone(), *id);
        }
        let mut buffer = vec![0; 64 * 1024];
        let mut events = [EpollEvent::empty(); BATCH];
        // Level-triggered: the kernel turns the list, so that this number of turns has seen each pipe.
        let turns = self.runs.len().saturating_mul(2).div_ceil(BATCH);
        for _ in 0..turns {
            let found = self.unread.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
            for event in events.get(..found).unwrap_or_default() {
                let (id, stderr) = (event.data().wrapping_shr(1), event.data() & 1 == 1);
                let Some(run) = self.runs.get_mut(&id) else { continue };
                let [out, err] = &run.ends;
                let Some(end) = (if stderr { err } else { out }).as_ref() else { continue };
                let over = event.events().contains(EpollFlags::EPOLLHUP)
                    && newest.get(&run.service).is_some_and(|newest| *newest != id);
                let (size, unread) = fill(end);
                let count = match over {
                    true => ALL,
                    false if unread < size / FULL => continue,
                    false => unread.saturating_sub(size / NEWEST),
                };
                let (lost, end_seen) = drop_oldest(end, count, &mut buffer);
                run.lost.add(lost);
                if lost != Lost::default() {
                    losses.entry(run.service.clone()).or_default().add(lost);
                }
                if end_seen {
                    self.ended(id, stderr);
                }
            }
            if found < BATCH {
                break;
            }
        }
        losses
    }
}

/// Whether a writer may soon have to wait.
fn filling(pipe: &OwnedFd) -> bool {
    let (size, unread) = fill(pipe);
    unread >= size / FULL
}

/// The size of a pipe, and the bytes in it.
fn fill(pipe: &OwnedFd) -> (usize, usize) {
    let size =
        fcntl(pipe, FcntlArg::F_GETPIPE_SZ).ok().and_then(|size| usize::try_from(size).ok()).unwrap_or(65536);
    let mut unread: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int to the place it is given, which lives until the call returns.
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut unread) };
    (size, if result == 0 { usize::try_from(unread).unwrap_or(0) } else { 0 })
}

/// Reads `count` bytes and on to the end of a line; tells whether the end of the pipe came.
fn drop_oldest(pipe: &OwnedFd, count: usize, buffer: &mut [u8]) -> (Lost, bool) {
    let (mut lost, mut left, mut last) = (Lost::default(), count, b'\n');
    // Byte by byte to the end of the line: what is read of the next one could not be put back.
    let mut over = 0..LINE;
    while left > 0 || (last != b'\n' && over.next().is_some()) {
        let most = left.clamp(1, buffer.len());
        match nix::unistd::read(pipe, buffer.get_mut(..most).unwrap_or_default()) {
            Ok(0) => {
                // Its last line had no end.
                lost.lines = lost.lines.saturating_add(u64::from(last != b'\n'));
                return (lost, true);
            }
            Ok(read) => {
                let bytes = buffer.get(..read).unwrap_or_default();
                let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
                lost.add(Lost { lines: lines as u64, bytes: read as u64 });
                last = bytes.last().copied().unwrap_or(last);
                left = left.saturating_sub(read);
            }
            Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    (lost, false)
}
