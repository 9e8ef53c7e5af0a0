//! The batches that the writer takes from the store, and its reports.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::pending::{Chunk, lines_in};
use super::{AGAIN, Batch, GATHER, Inner, Job, Lost, MUCH, Mark, Store, Waiting};

impl Store {
    /// The next thing to do; waits for it. `busy`: something was written just now, so lines may gather a little.
    pub fn next_job(&self, mut busy: bool) -> Job {
        let mut inner = self.lock();
        loop {
            inner.try_again(Instant::now());
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
            inner = match inner.again {
                Some(again) => {
                    let rest = again.saturating_duration_since(Instant::now());
                    self.work.wait_timeout(inner, rest).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.work.wait(inner).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// The batch is in the file.
    pub fn written(&self, batch: &Batch, mark: Mark) {
        let mut inner = self.lock();
        inner.queued = inner.queued.saturating_sub(batch.size());
        if let Some(service) = inner.services.get_mut(&batch.service) {
            service.written = service.written.max(batch.last);
            service.mark = Some(mark);
            (service.writing, service.failing) = (Lost::default(), None);
        }
        drop(inner);
        self.tell();
    }

    /// The last lines of the batch could not be written; `kept` bytes were, into the file of `mark`. The others wait again
    /// and are the first to be dropped; once the store is closed they are lost.
    pub fn not_written(&self, batch: &Batch, kept: usize, mark: Option<Mark>, reason: &str) {
        let mut inner = self.lock();
        let Inner { services, unreported, failed, again, queued, closed, .. } = &mut *inner;
        let rest = batch.bytes.get(kept.max(batch.note)..).unwrap_or_default();
        *queued = queued.saturating_sub(batch.size().saturating_sub(rest.len()));
        if let Some(service) = services.get_mut(&batch.service) {
            let left = lines_in(rest);
            (service.mark, service.writing) = (mark, Lost::default());
            if kept > 0 {
                service.written = service.written.max(batch.last.saturating_sub(left.lines));
            }
            if *closed {
                *queued = queued.saturating_sub(rest.len());
                if left != Lost::default() {
                    service.lose(left, reason);
                    unreported.insert(batch.service.clone());
                }
            } else {
                let (lost, of) = match kept < batch.note {
                    true => (batch.lost, batch.reason.clone()),
                    false => (Lost::default(), "".into()),
                };
                service.pending.put_back(Chunk { lost, reason: of, bytes: rest.to_vec(), last: batch.last });
                service.failing = Some(reason.into());
                failed.insert(batch.service.clone());
                again.get_or_insert_with(|| Instant::now().checked_add(AGAIN).unwrap_or_else(Instant::now));
            }
        }
        inner.bound(&batch.service);
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
}
