//! Waiting for a level that nobody announces.

use std::time::{Duration, Instant};

/// How long a test waits for what should happen at once, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until there is an answer; panics with `what` when there is none by the deadline.
#[track_caller]
pub fn until<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks until it is so; panics with `what` when it is not within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, PATIENCE, || is_so().then_some(()));
}
