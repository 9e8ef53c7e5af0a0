//! Writes that failed because the file system was full: kept, and repeated as soon as there is room.
//!
//! Of each place only the newest is kept, so it is never more than the files themselves would hold. Until all of it is
//! written a crash would lose it, and the host does not re-execute itself by intention.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::file::SlotFile;
use super::paper::Paper;
use super::part::Part;

/// How often it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Kept {
    slots: BTreeMap<(Part, u64), Vec<u8>>,
    records_folder: BTreeMap<PathBuf, Vec<u8>>,
    /// The last error of the file system.
    why: String,
}

impl Kept {
    fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.records_folder.is_empty()
    }
}

/// The files of slots, and what could not be written to them and to papers.
#[derive(Default)]
pub struct Writer {
    files: BTreeMap<Part, SlotFile>,
    kept: Mutex<Kept>,
    /// Something is kept. Looked at before the lock is taken.
    any: AtomicBool,
    news: Notify,
}

impl Writer {
    pub fn new(files: BTreeMap<Part, SlotFile>) -> Writer {
        Writer { files, ..Writer::default() }
    }

    fn write_slot(&self, part: Part, index: u64, bytes: &[u8]) -> io::Result<()> {
        self.files.get(&part).ok_or(io::ErrorKind::NotFound)?.write(index, bytes)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one thing; what was kept of it before is out of date then.
    fn write(
        &self,
        write: impl FnOnce() -> io::Result<()>,
        keep: impl FnOnce(&mut Kept),
        forget: impl FnOnce(&mut Kept),
    ) {
        // Under the lock where an older one may be about to be written.
        let behind = self.any.load(Ordering::SeqCst).then(|| self.kept());
        match write() {
            Ok(()) => {
                if let Some(mut kept) = behind {
                    forget(&mut kept);
                }
            }
            Err(error) => {
                let mut kept = behind.unwrap_or_else(|| self.kept());
                keep(&mut kept);
                kept.why = error.to_string();
                self.any.store(true, Ordering::SeqCst);
                self.news.notify_one();
            }
        }
    }

    pub fn forget_paper(&self, path: &Path) {
        if self.any.load(Ordering::SeqCst) {
            self.kept().records_folder.remove(path);
        }
    }

    /// Writes a slot, now or when there is room.
    pub fn put(&self, part: Part, index: u64, bytes: &[u8]) {
        self.write(
            || self.write_slot(part, index, bytes),
            |kept| drop(kept.slots.insert((part, index), bytes.to_vec())),
            |kept| drop(kept.slots.remove(&(part, index))),
        );
    }

    /// As [`Writer::put`], of a paper.
    pub fn put_paper(&self, paper: &Paper, payload: &[u8]) {
        self.write(
            || paper.write(payload),
            |kept| drop(kept.records_folder.insert(paper.0.clone(), payload.to_vec())),
            |kept| drop(kept.records_folder.remove(&paper.0)),
        );
    }

    /// Writes what was not written yet. Returns why there is still no room for all of it.
    fn catch_up(&self) -> Option<String> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        let mut kept = self.kept();
        let mut why = None;
        let mut fails =
            |written: io::Result<()>| written.map_err(|error| why = Some(error.to_string())).is_err();
        kept.slots.retain(|(part, index), bytes| fails(self.write_slot(*part, *index, bytes)));
        kept.records_folder.retain(|path, payload| fails(Paper(path.clone()).write(payload)));
        if let Some(why) = why {
            kept.why = why;
        }
        self.any.store(!kept.is_empty(), Ordering::SeqCst);
        (!kept.is_empty()).then(|| format!("the state of the services cannot be written: {}", kept.why))
    }

    /// Why another incarnation could not go on with what is written; `None`: it could.
    pub fn trouble(&self) -> Option<String> {
        self.catch_up().or_else(|| self.files.values().find_map(SlotFile::harm))
    }

    /// Looks after what could not be written, for as long as the host runs; `tell` is called when
    /// that begins and when it is over.
    pub async fn keep_up(&self, tell: impl Fn(&str)) {
        loop {
            self.news.notified().await;
            // A record that only just did not fit, or was reported already.
            let Some(why) = self.catch_up() else { continue };
            tell(&format!("{why}; until it can, a crash of PID 1 would lose it"));
            while self.catch_up().is_some() {
                tokio::time::sleep(AGAIN).await;
            }
            tell("the state of the services is written again");
        }
    }
}
