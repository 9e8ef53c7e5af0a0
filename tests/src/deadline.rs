//! Waiting for a level that nobody announces.

use std::time::{Duration, Instant};

/// How long a test waits for what should happen at once, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait before the next look, after one that took so long: looking takes at most a fifth of the time, since
/// other tests, and often the machine that is looked at, need the same processors.
pub fn pause_after(look: Duration) -> Duration {
    (look * 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
}

/// Asks until there is an answer; panics with `what` when there is none by the deadline.
#[track_caller]
pub fn until<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        let asked = Instant::now();
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(pause_after(asked.elapsed()));
    }
}

/// Asks until it is so; panics with `what` when it is not within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, PATIENCE, || is_so().then_some(()));
}
