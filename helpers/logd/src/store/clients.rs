//! The clients' view of the store: the seam between file and memory, then live lines.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;

use super::service::Mark;
use super::{RECENT, RECENT_FOLLOWED, Store};
use crate::line::{self, Source};
pub use crate::ring::OwnedLine;
use crate::run::Run;

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
    /// The youngest run that this logd knows of.
    pub run: Run,
}

impl Store {
    pub fn directory(&self) -> PathBuf {
        self.lock().directory.clone()
    }

    /// Where file and memory of a service meet now.
    pub fn seam(&self, name: &Arc<str>) -> Seam {
        let inner = self.lock();
        let (mark, written, next, run) =
            inner.services.get(name).map_or((None, 0, 1, Run::default()), |service| {
                (service.mark, service.written, service.next, service.run)
            });
        let mut seam = Seam { mark, unwritten: Vec::new(), written: Vec::new(), missed: 0, next, run };
        for (_, entry) in inner.ring.from(0).filter(|(_, entry)| entry.service == *name) {
            let lines = if entry.seq > written { &mut seam.unwritten } else { &mut seam.written };
            lines.push(inner.ring.line(entry));
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
        let next = |name: &Arc<str>| inner.services.get(name).map_or(1, |service| service.next);
        names.iter().map(|name| (name.clone(), next(name))).collect()
    }

    /// Lines of the services in `expected` from `position` on, at most `limit`, as far as they are wanted; moves both on.
    /// A gap in the numbers becomes a note.
    pub fn live(
        &self,
        position: &mut u64,
        expected: &mut HashMap<Arc<str>, u64>,
        limit: usize,
        wanted: impl Fn(&OwnedLine) -> bool,
    ) -> Vec<OwnedLine> {
        let inner = self.lock();
        let mut lines = Vec::new();
        for (behind, entry) in inner.ring.from(*position) {
            *position = behind;
            let Some(next) = expected.get_mut(&entry.service).filter(|next| entry.seq >= **next) else {
                continue;
            };
            missed(&mut lines, &entry.service, entry.seq.saturating_sub(*next), entry.time);
            *next = entry.seq.saturating_add(1);
            lines.push(inner.ring.line(entry));
            lines.pop_if(|line| !wanted(line));
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

/// A note to a client.
pub fn client_note(service: &Arc<str>, time: i64, text: String) -> OwnedLine {
    OwnedLine {
        service: service.clone(),
        time,
        source: Source::Note,
        run: Run::default(),
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
