//! Checks over the network: `kelson-probe` asks, and its answers come in here.

use std::sync::Arc;

use crate::prober::Schedule;

/// Asks over the network that one run has.
pub trait Network: Send + Sync {
    /// Asks until what it gives is dropped. Never waits.
    fn watch(&self, schedule: Schedule, sink: Arc<dyn crate::prober::Sink>) -> Box<dyn Watched>;
}

/// A check that is asked elsewhere for as long as this is held.
pub trait Watched: Send {}

impl Watched for crate::prober::Watch {}
