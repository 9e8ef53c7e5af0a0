//! How long to wait between tries, and when to give up.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Pauses that double from a tenth of a second to two seconds.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
}

impl Pauses {
    const FIRST: Duration = Duration::from_millis(100);
    pub(super) const LONGEST: Duration = Duration::from_secs(2);

    pub(super) fn new() -> Pauses {
        Pauses { next: Pauses::FIRST }
    }

    pub(super) async fn next(&mut self) {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(Pauses::LONGEST);
        sleep(pause).await;
    }
}

/// How long calls to a containerd that is away are repeated.
#[derive(Debug)]
pub(super) struct RetryWindow {
    until: Instant,
    pauses: Pauses,
}

impl RetryWindow {
    pub(super) fn new(window: Duration) -> RetryWindow {
        let now = Instant::now();
        RetryWindow { until: now.checked_add(window).unwrap_or(now), pauses: Pauses::new() }
    }

    /// Waits before another try. Returns false, at once, when there is to be none.
    pub(super) async fn lasts(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        self.pauses.next().await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let begun = Instant::now();
        let mut window = RetryWindow::new(Duration::from_secs(60));
        let mut tries = 0;
        while window.lasts().await {
            tries += 1;
        }
        assert!(tries > 30 && begun.elapsed() < Duration::from_secs(62), "{tries}");
        assert!(!window.lasts().await);
    }
}
