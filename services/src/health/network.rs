//! Checks over the network: `kelson-probe` asks, and what it hears is handed in here.

use std::sync::{Arc, Weak};

use crate::prober::{CheckAnswer, Schedule};

use super::engine::StatusTable;

/// Asks over the network that one run has.
pub trait Network: Send + Sync {
    /// Asks until what it gives is dropped. Never waits.
    fn watch(&self, schedule: Schedule, sink: Arc<dyn crate::prober::Sink>) -> Box<dyn Watched>;
}

/// A check that is asked elsewhere for as long as this is held.
pub trait Watched: Send {}

impl Watched for crate::prober::Watch {}

/// Where the answers to one check of one run go. What comes after the end of the run goes nowhere.
pub struct Sink {
    pub(super) table: Weak<StatusTable>,
    /// The check's place on the board.
    pub(super) place: usize,
}

impl crate::prober::Sink for Sink {
    fn take(&self, answer: CheckAnswer) {
        if let Some(table) = self.table.upgrade() {
            table.take(self.place, answer);
        }
    }
}
