//! Whose children are reaped: set anew when the boot has mounted what the services need.

use std::sync::{Arc, Mutex, PoisonError};

use kelson_runner::Processes;
use kelson_services::state_store::StateStore;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Reaper(Arc<Mutex<Option<Whose>>>);

#[derive(Clone)]
struct Whose {
    processes: Processes,
    store: Option<StateStore>,
}

impl Reaper {
    /// From now on; each exit is written down before the kernel forgets it.
    pub fn set(&self, processes: &Processes, store: Option<&StateStore>) {
        let whose = Whose { processes: processes.clone(), store: store.cloned() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(whose);
    }

    /// Reaps all that has ended, in batches, and lets others have a turn in between.
    pub async fn reap(&self) {
        loop {
            let whose = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(Whose { processes, store }) = whose else { return };
            let report = processes.reap_recording(&mut |pid, exit| {
                if let Some(store) = &store {
                    store.exit(pid, exit);
                }
            });
            if !report.more {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}
