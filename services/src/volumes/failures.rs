//! How often steps of volumes failed, for metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// By plugin and step. Without a failure it has no memory.
type Counts = BTreeMap<(String, String), u64>;

/// Counts since this incarnation of PID 1 began. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Failures(Arc<Mutex<Counts>>);

impl Failures {
    /// `plugin`: empty where it is not known.
    pub fn add(&self, plugin: &str, step: &str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((plugin.to_owned(), step.to_owned())).or_default();
        *count = count.saturating_add(1);
    }

    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
