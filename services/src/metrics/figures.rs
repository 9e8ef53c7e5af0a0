//! The contents of a reading.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use kelson_runner::Usage;

use super::init::InitFigures;
use crate::health::Totals;
use crate::model::Snapshot;

/// All that was measured at one time.
#[derive(Debug, Default)]
pub struct Reading {
    /// Sorted by name.
    pub services: Vec<ServiceFigures>,
    pub init: InitFigures,
    /// Since the host's start.
    pub events: u64,
    /// Groups that were restarted, and how often.
    pub group_restarts: BTreeMap<Arc<str>, u64>,
    /// Absent where nobody collects logs.
    pub dropped: Option<Dropped>,
}

/// The measurements of one service.
#[derive(Debug)]
pub struct ServiceFigures {
    pub now: Snapshot,
    /// The last reading found mistakes in its file.
    pub faulty_file: bool,
    pub usage: Usage,
    /// Absent where no ServiceRunner runs it. Goes on counting after the reading.
    pub totals: Option<Arc<Totals>>,
}

/// The losses of the logs of all services, since PID 1's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    pub lines: u64,
    pub bytes: u64,
}
