//! Many paths followed at once: one inotify instance, one watch a folder, one eye on the mounts.
//!
//! A path is looked at again whenever a name on its way comes, goes or is moved, whenever something is mounted or
//! unmounted over it, and, where the file system does not tell, every second while it is missing and every ten while it
//! exists.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use kelson_sys::descriptor::{Owned, Watched};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::Interest;
use tokio::time::{Instant, sleep_until};

use super::mounts::Mounts;
use super::walk::{Finding, Question, Type, Walk, through_proc, walk};

/// The mounts of the thread that asks: those that its own lookups meet.
const MOUNTINFO: &str = "/proc/thread-self/mountinfo";

const LOOK_FOR_MISSING: Duration = Duration::from_secs(1);
const LOOK_FOR_EXISTING: Duration = Duration::from_secs(10);

/// Reads of the inotify queue before others have their turn; each takes 4 KiB.
const READS_AT_ONCE: usize = 64;

/// The changes of a step.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) found: Vec<(u64, Finding)>,
    pub(super) mounts: bool,
}

pub(super) struct Tree {
    inotify: Option<Watched<Notifier>>,
    mountinfo: Option<Watched<File>>,
    mounts: Mounts,
    paths: HashMap<u64, Tracked>,
    /// For each watched folder the names that matter, and to which paths; without a name, to which it matters as a whole.
    watches: HashMap<WatchDescriptor, HashMap<OsString, HashSet<u64>>>,
    /// The paths of which inotify does not tell all.
    blind: HashSet<u64>,
    look_at: Option<Instant>,
    /// The inotify queue was not read to its end.
    more: bool,
}

struct Tracked {
    path: PathBuf,
    question: Question,
    /// Mounts that may be touched although they are no memory.
    allowed: Vec<u32>,
    seen: Walk,
    /// It has changed since it was first seen, as far as that is asked.
    changed: bool,
    was_seen: bool,
}

/// [`Inotify`] as [`Watched`] wants it.
struct Notifier(Inotify);

impl AsRawFd for Notifier {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

// SAFETY: an `Inotify` is one descriptor from its making to its drop.
unsafe impl Owned for Notifier {}

enum Cause {
    Inotify,
    Mounts,
    Time,
}

impl Tree {
    /// Opens what it needs. A look every second makes up for a part that cannot be opened.
    pub(super) fn new() -> Tree {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
            .map_err(io::Error::from)
            .and_then(|inotify| Watched::reading(Notifier(inotify)))
            .inspect_err(|error| tracing::warn!("paths are looked at every second, without inotify: {error}"))
            .ok();
        let mut tree = Tree {
            inotify,
            mountinfo: None,
            mounts: Mounts::default(),
            paths: HashMap::new(),
            watches: HashMap::new(),
            blind: HashSet::new(),
            look_at: None,
            more: false,
        };
        tree.read_mounts();
        tree
    }

    pub(super) fn mounts(&self) -> &Mounts {
        &self.mounts
    }

    /// Follows one more path; `id` is the caller's name for it.
    pub(super) fn want(&mut self, id: u64, path: PathBuf, question: Question, allowed: Vec<u32>) -> Finding {
        self.forget(id);
        let tracked =
            Tracked { path, question, allowed, seen: Walk::NOTHING, changed: false, was_seen: false };
        self.paths.insert(id, tracked);
        self.look(id);
        self.finding(id).unwrap_or(Finding::Missing)
    }

    /// Follows it no longer; watches that nobody else needs are taken away.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(tracked) = self.paths.remove(&id) {
            self.blind.remove(&id);
            self.release(id, &tracked.seen.steps, &[]);
            self.plan();
        }
    }

    pub(super) fn finding(&self, id: u64) -> Option<Finding> {
        self.paths.get(&id).map(|tracked| tracked.seen.finding)
    }

    /// Returns once a finding or the mounts have changed. Loses nothing when dropped.
    pub(super) async fn changes(&mut self) -> Changes {
        loop {
            let cause = tokio::select! {
                () = readable(self.inotify.as_ref(), self.more) => Cause::Inotify,
                () = urgent(self.mountinfo.as_ref()) => Cause::Mounts,
                () = until(self.look_at) => Cause::Time,
            };
            let mut changes = Changes::default();
            match cause {
                Cause::Inotify => {
                    let again = self.read_events();
                    self.look_again(again, &mut changes);
                }
                Cause::Mounts => changes = self.follow_mounts(),
                Cause::Time => {
                    self.look_at = None;
                    if self.mountinfo.is_none() {
                        changes = self.follow_mounts();
                    }
                    self.look_again(self.blind.clone(), &mut changes);
                }
            }
            self.plan();
            if changes.mounts || !changes.found.is_empty() {
                return changes;
            }
        }
    }

    /// Reads the table of mounts again, and looks again at the paths that its changes concern.
    pub(super) fn follow_mounts(&mut self) -> Changes {
        let places = self.read_mounts();
        let mut changes = Changes { found: Vec::new(), mounts: !places.is_empty() };
        let again = self.concerned(&places);
        self.look_again(again, &mut changes);
        changes
    }

    fn look_again(&mut self, ids: HashSet<u64>, changes: &mut Changes) {
        for id in ids {
            let before = self.finding(id);
            self.look(id);
            let now = self.finding(id);
            if let (true, Some(now)) = (before != now, now) {
                changes.found.push((id, now));
            }
        }
    }

    /// Reads the table of mounts again; returns the places where it differs from before.
    fn read_mounts(&mut self) -> Vec<PathBuf> {
        if self.mountinfo.is_none() {
            // Opened before it is read: the kernel reports a change in between.
            let file = File::open(MOUNTINFO);
            self.mountinfo = file.and_then(|file| Watched::new(file, Interest::PRIORITY)).ok();
        }
        let Ok(table) = std::fs::read(MOUNTINFO) else { return Vec::new() };
        let mounts = Mounts::parse(&table);
        let places = self.mounts.differences(&mounts);
        self.mounts = mounts;
        places
    }

    fn concerned(&self, places: &[PathBuf]) -> HashSet<u64> {
        if places.is_empty() {
            return HashSet::new();
        }
        let concerns = |tracked: &Tracked| {
            tracked.seen.wandered || places.iter().any(|place| tracked.path.starts_with(place))
        };
        self.paths.iter().filter(|(_, tracked)| concerns(tracked)).map(|(id, _)| *id).collect()
    }

    /// Takes what the kernel tells; returns the paths that it concerns.
    fn read_events(&mut self) -> HashSet<u64> {
        let mut again = HashSet::new();
        self.more = false;
        for _ in 0..READS_AT_ONCE {
            let Some(inotify) = &self.inotify else { break };
            match inotify.get_ref().0.read_events() {
                Ok(events) => {
                    for event in events {
                        self.take(event, &mut again);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return again,
                Err(error) => {
                    tracing::warn!("inotify ended, paths are looked at every second: {error}");
                    self.inotify = None;
                    self.watches.clear();
                    again.extend(self.paths.keys().copied());
                }
            }
        }
        self.more = self.inotify.is_some();
        again
    }

    fn take(&mut self, event: InotifyEvent, again: &mut HashSet<u64>) {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            again.extend(self.paths.keys().copied());
            // What was lost may have been a change.
            for tracked in self.paths.values_mut() {
                tracked.changed |= matches!(tracked.question, Question::Changed { .. });
            }
            return;
        }
        let Some(names) = self.watches.get(&event.wd) else { return };
        let whole = names.get(OsStr::new(""));
        match event.name {
            Some(name) => again.extend(names.get(&name).into_iter().chain(whole).flatten()),
            None => again.extend(names.values().flatten()),
        }
        for id in whole.into_iter().flatten() {
            if let Some(tracked) = self.paths.get_mut(id) {
                tracked.changed |= event.mask.intersects(tracked.question.news());
            }
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.watches.remove(&event.wd);
        }
    }

    fn look(&mut self, id: u64) {
        let Some(tracked) = self.paths.get_mut(&id) else { return };
        let inotify = self.inotify.as_ref();
        let mut seen = match tracked.changed {
            // That is all that was asked: it needs no watch any more.
            true => Walk::NOTHING,
            false => {
                walk(&tracked.path, &tracked.question, &self.mounts, &tracked.allowed, &|file, events| {
                    // Others may watch the same folder for something else.
                    let events = events | AddWatchFlags::from_bits_retain(libc::IN_MASK_ADD);
                    inotify?.get_ref().0.add_watch(&through_proc(file), events).ok()
                })
            }
        };
        let was_seen = std::mem::replace(&mut tracked.was_seen, true);
        tracked.changed |= was_seen && seen.identity != tracked.seen.identity;
        if tracked.changed {
            seen.finding = Finding::Exists(Type::Other);
        }
        for (descriptor, name) in &seen.steps {
            let names = self.watches.entry(*descriptor).or_default();
            names.entry(name.clone()).or_default().insert(id);
        }
        if seen.blind {
            self.blind.insert(id);
        } else {
            self.blind.remove(&id);
        }
        let before = std::mem::replace(&mut tracked.seen, seen);
        let steps = std::mem::take(&mut tracked.seen.steps);
        self.release(id, &before.steps, &steps);
        if let Some(tracked) = self.paths.get_mut(&id) {
            tracked.seen.steps = steps;
        }
        self.plan();
    }

    /// Takes a path off the watches that it no longer needs.
    fn release(
        &mut self,
        id: u64,
        before: &[(WatchDescriptor, OsString)],
        kept: &[(WatchDescriptor, OsString)],
    ) {
        for step in before.iter().filter(|step| !kept.contains(step)) {
            let (descriptor, name) = step;
            let Some(names) = self.watches.get_mut(descriptor) else { continue };
            if let Some(ids) = names.get_mut(name) {
                ids.remove(&id);
                if ids.is_empty() {
                    names.remove(name);
                }
            }
            if names.is_empty() {
                self.watches.remove(descriptor);
                if let Some(inotify) = &self.inotify {
                    // It fails where the folder is gone, and its watch with it.
                    let _ = inotify.get_ref().0.rm_watch(*descriptor);
                }
            }
        }
    }

    /// Sets the time of the next look at what inotify does not tell of.
    fn plan(&mut self) {
        if self.blind.is_empty() {
            self.look_at = None;
            return;
        }
        let missing = self.blind.iter().any(|id| self.finding(*id) == Some(Finding::Missing));
        let pause = if missing || self.mountinfo.is_none() { LOOK_FOR_MISSING } else { LOOK_FOR_EXISTING };
        let next = Instant::now().checked_add(pause);
        self.look_at = match (self.look_at, next) {
            (Some(planned), Some(next)) => Some(planned.min(next)),
            (planned, next) => planned.or(next),
        };
    }

    #[cfg(test)]
    pub(super) fn watched_folders(&self) -> usize {
        self.watches.len()
    }
}

/// Waits for inotify. Readiness is cleared here, since the queue is then read to its end, unless there is `more`.
async fn readable(inotify: Option<&Watched<Notifier>>, more: bool) {
    match inotify {
        Some(_) if more => tokio::task::yield_now().await,
        Some(inotify) => {
            if let Ok(mut ready) = inotify.readable().await {
                ready.clear_ready();
            }
        }
        None => pending().await,
    }
}

async fn urgent(file: Option<&Watched<File>>) {
    match file {
        Some(file) => {
            let _ = file.changed().await;
        }
        None => pending().await,
    }
}

/// Waits for a time; for ever where there is none.
pub(super) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
