//! Measurements of the host and its services, for metrics.
//!
//! A reading is taken at once of all, at most once a second however many ask, and in small portions: the files of a
//! thousand cgroups take some ten milliseconds to read, and PID 1 has other things to do meanwhile. Nothing that is read
//! lies on a disk. Between two readings nothing of them is kept.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::manager::Manager;

mod figures;
mod init;

pub use figures::{Dropped, Reading, ServiceFigures, Usage};
pub use init::InitFigures;

/// So long a reading serves all who ask.
const FRESH: Duration = Duration::from_secs(1);

/// Takes readings of a host. Cheap to clone.
#[derive(Clone)]
pub struct Readings {
    inner: Arc<Inner>,
}

struct Inner {
    manager: Manager,
    /// Dropped when it is no longer fresh: a thousand services are worth some memory.
    latest: Mutex<Option<Taken>>,
    /// One takes a reading, the others wait for it.
    turn: Semaphore,
}

struct Taken {
    at: Instant,
    reading: Arc<Reading>,
}

impl Readings {
    pub fn new(manager: Manager) -> Readings {
        Readings {
            inner: Arc::new(Inner { manager, latest: Mutex::default(), turn: Semaphore::const_new(1) }),
        }
    }

    /// A reading that is at most a second old. Cancelled by dropping.
    pub async fn latest(&self) -> Arc<Reading> {
        // Nobody closes it.
        let _turn = self.inner.turn.acquire().await;
        if let Some(reading) = self.inner.fresh() {
            return reading;
        }
        let reading = Arc::new(self.inner.manager.measure().await);
        self.inner.keep(Taken { at: Instant::now(), reading: Arc::clone(&reading) });
        let inner = Arc::downgrade(&self.inner);
        kelson_sys::spawn(async move {
            tokio::time::sleep(FRESH).await;
            if let Some(inner) = Weak::upgrade(&inner) {
                inner.forget();
            }
        });
        reading
    }
}

impl Inner {
    fn latest(&self) -> std::sync::MutexGuard<'_, Option<Taken>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self) -> Option<Arc<Reading>> {
        let latest = self.latest();
        latest.as_ref().filter(|taken| taken.at.elapsed() < FRESH).map(|taken| Arc::clone(&taken.reading))
    }

    fn keep(&self, taken: Taken) {
        *self.latest() = Some(taken);
    }

    /// Drops what is no longer fresh.
    fn forget(&self) {
        let _ = self.latest().take_if(|taken| taken.at.elapsed() >= FRESH);
    }
}
