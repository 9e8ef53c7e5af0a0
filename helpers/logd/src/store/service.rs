//! One service in the store: its lines for the file, what of them was lost, where its file stands.

use std::path::PathBuf;
use std::sync::Arc;

use super::pending::{Chunk, Lost, Pending};
use crate::line::{self, Clock, Line};
use crate::run::Run;

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

/// A service as far as its lines are on their way.
pub struct Service {
    pub(super) limits: Limits,
    /// Its youngest run.
    pub(super) run: Run,
    /// Number of the next line.
    pub(super) next: u64,
    pub(super) pending: Pending,
    /// The writer will come to it by itself.
    pub(super) ready: bool,
    /// Lines up to this one are in the file, or lost and reported there.
    pub(super) written: u64,
    pub(super) mark: Option<Mark>,
    /// Lost and not yet reported to PID 1, and why.
    pub(super) unreported: Lost,
    pub(super) reason: Arc<str>,
    /// The lines that the writer has taken and not answered for.
    pub(super) writing: Lost,
    /// Why its last batch could not be written. `None`: it was, or there was none.
    pub(super) failing: Option<Arc<str>>,
}

/// Work for the writer.
#[derive(Debug)]
pub enum Job {
    Write(Batch),
    Directory(PathBuf),
    Close(Arc<str>),
    End,
}

/// A batch for the writer: whole lines of one service, behind a note where some were lost before them.
#[derive(Debug)]
pub struct Batch {
    pub service: Arc<str>,
    pub limits: Limits,
    pub bytes: Vec<u8>,
    /// Bytes of the note.
    pub(super) note: usize,
    /// The losses that the note reports, and their reason.
    pub(super) lost: Lost,
    pub(super) reason: Arc<str>,
    pub(super) last: u64,
}

impl Batch {
    pub(super) fn new(service: Arc<str>, limits: Limits, chunk: Chunk) -> Batch {
        let Chunk { lost, reason, mut bytes, last } = chunk;
        let mut note = Vec::new();
        if lost != Lost::default() {
            let text = format!("{} lines ({} bytes) were lost here: {reason}", lost.lines, lost.bytes);
            // As old as the first line behind it: several logs are merged by time.
            let time = line::parse_stamp(&bytes).unwrap_or_else(line::now);
            Clock::default().append(&mut note, Line { time, ..Line::note(text.as_bytes()) });
            bytes.splice(..0, note.iter().copied());
        }
        Batch { service, limits, bytes, note: note.len(), lost, reason, last }
    }

    /// Bytes of its lines.
    pub(super) fn size(&self) -> usize {
        self.bytes.len().saturating_sub(self.note)
    }
}

impl Service {
    pub(super) fn new(limits: Limits) -> Service {
        Service {
            limits,
            run: Run::default(),
            next: 1,
            pending: Pending::default(),
            ready: false,
            written: 0,
            mark: None,
            unreported: Lost::default(),
            reason: "".into(),
            writing: Lost::default(),
            failing: None,
        }
    }

    /// The number of the last line.
    pub(super) fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Counts lines that will not be in the file, for PID 1.
    pub(super) fn lose(&mut self, lost: Lost, reason: &str) {
        self.unreported.add(lost.lines, lost.bytes);
        if *self.reason != *reason {
            self.reason = reason.into();
        }
    }
}
