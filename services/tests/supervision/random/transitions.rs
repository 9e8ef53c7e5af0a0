//! Which state may follow which, as events tell them: the one place where a test says so.

use kelson_services::model::State;

use State::{
    Backoff, Failed, Finished, Initialized, Preparing, Running, Skipped, Starting, Stopping, Waiting,
};

/// An event that changes nothing bears the state that there is, so each state may follow itself.
const ALLOWED: [(State, &[State]); 10] = [
    (Initialized, &[Waiting, Preparing, Finished]),
    (Waiting, &[Preparing, Starting, Skipped, Stopping, Finished]),
    (Preparing, &[Waiting, Starting, Stopping, Backoff, Failed, Finished]),
    // Its end may be followed by another start without a pause between.
    (Starting, &[Running, Stopping, Backoff, Finished, Failed, Waiting, Preparing]),
    (Running, &[Stopping, Backoff, Finished, Failed, Waiting, Preparing, Starting]),
    (Stopping, &[Finished, Failed, Backoff, Waiting, Preparing, Starting]),
    (Backoff, &[Waiting, Preparing, Starting, Stopping, Finished]),
    (Finished, &[Waiting, Preparing]),
    // With its group: it is stopped before that starts again.
    (Failed, &[Waiting, Preparing, Finished]),
    (Skipped, &[Waiting, Preparing, Finished]),
];

pub fn allowed(from: State, to: State) -> bool {
    from == to || ALLOWED.iter().any(|(state, next)| *state == from && next.contains(&to))
}
