//! The pace of a long loop in PID 1.

use std::time::{Duration, Instant};

/// How long a loop has the one thread of PID 1 for itself.
const SLICE: Duration = Duration::from_millis(5);

/// Gives the other tasks their turns during a loop over all services: a host may have ten thousand of them.
pub struct Pace {
    begun: Instant,
}

impl Pace {
    pub fn new() -> Pace {
        Pace { begun: Instant::now() }
    }

    /// After each step of the loop. Cancelled by dropping.
    pub async fn step(&mut self) {
        if self.begun.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            self.begun = Instant::now();
        }
    }
}
