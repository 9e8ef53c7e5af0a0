//! Which state may follow which, as events tell them: the one place where a test says so.

use kelson_services::model::State;

use State::{
    Backoff, Failed, Finished, Initialized, Preparing, Running, Skipped, Starting, Stopped, Stopping, Waiting,
};

/// An event that changes nothing bears the state that there is, so each state may follow itself.
const ALLOWED: [(State, &[State]); 11] = [
    (Initialized, &[Waiting, Preparing, Stopped]),
    (Waiting, &[Preparing, Starting, Skipped, Stopping, Stopped]),
    (Preparing, &[Waiting, Starting, Stopping, Backoff, Failed, Stopped]),
    // Its end may be followed by another start without a pause between.
    (Starting, &[Running, Stopping, Stopped, Backoff, Finished, Failed, Waiting, Preparing]),
    (Running, &[Stopping, Stopped, Backoff, Finished, Failed, Waiting, Preparing, Starting]),
    (Stopping, &[Stopped, Finished, Failed, Backoff, Waiting, Preparing, Starting]),
    (Backoff, &[Waiting, Preparing, Starting, Stopping, Stopped]),
    (Stopped, &[Waiting, Preparing]),
    // With its group: it is stopped before that starts again.
    (Finished, &[Waiting, Preparing, Stopped]),
    (Failed, &[Waiting, Preparing, Stopped]),
    (Skipped, &[Waiting, Preparing, Stopped]),
];

pub fn allowed(from: State, to: State) -> bool {
    from == to || ALLOWED.iter().any(|(state, next)| *state == from && next.contains(&to))
}
