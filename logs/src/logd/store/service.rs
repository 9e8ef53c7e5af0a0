//! One service in the store: its lines for the file, what of them was lost, where its file stands.

use std::path::PathBuf;
use std::sync::Arc;

/// Lines that were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    pub lines: u64,
    pub bytes: u64,
}

impl Lost {
    pub(super) fn add(&mut self, lines: u64, bytes: u64) {
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

/// A service as far as its lines are on their way.
pub struct Service {
    pub(super) limits: Limits,
    /// Number of the next line.
    pub(super) next: u64,
    /// Text for the file, whole lines.
    pub(super) pending: Vec<u8>,
    pub(super) pending_lines: u64,
    /// What the notes in `pending` tell of, to be told again if they are not written.
    pub(super) pending_said: Lost,
    /// Lines up to this one are in the file, or lost and said.
    pub(super) written: u64,
    pub(super) mark: Option<Mark>,
    /// Lost and not yet noted in the log, or not yet told to PID 1.
    pub(super) unsaid: Lost,
    pub(super) untold: Lost,
    pub(super) reason: Arc<str>,
    /// To be written before the next line.
    pub(super) notes: Vec<String>,
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
    pub(super) lines: u64,
    pub(super) last: u64,
    pub(super) said: Lost,
}

impl Service {
    pub(super) fn new(limits: Limits) -> Service {
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

    /// Counts lines that will not be in the file.
    pub(super) fn lose(&mut self, lines: u64, bytes: u64, reason: &str) {
        self.unsaid.add(lines, bytes);
        self.untold.add(lines, bytes);
        if *self.reason != *reason {
            self.reason = reason.into();
        }
    }
}
