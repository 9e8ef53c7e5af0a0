//! The outcome of a request to one service.

use tokio::sync::{oneshot, watch};

use super::{ActionResult, Outcome};
use crate::model::{Snapshot, State};
use crate::service_runner::table::Answer;

/// For a request that a later one takes the place of.
pub const REPLACED: &str = "a later request replaced this one";

/// The state that completes a request whose sender waits for it.
#[derive(Clone, Copy)]
pub enum Goal {
    Started,
    Stopped,
}

/// A request that a service has got.
pub enum Asked {
    Live { request_id: u64, answer: oneshot::Receiver<Answer>, snapshot: watch::Receiver<Snapshot> },
    Helper(watch::Receiver<Snapshot>),
}

impl Asked {
    /// Its outcome; with `wait`, once that is certain.
    pub async fn outcome(self, name: String, wait: bool, goal: Goal) -> ActionResult {
        let (request_id, answer, mut snapshot) = match self {
            Asked::Live { request_id, answer, snapshot } => (request_id, answer.await, snapshot),
            Asked::Helper(snapshot) => {
                let now = snapshot.borrow().clone();
                let message = now.message.to_string();
                return ActionResult { name, outcome: Outcome::Done, message, snapshot: Some(now) };
            }
        };
        let result = |outcome, message: String, now: Snapshot| ActionResult {
            name: name.clone(),
            outcome,
            message,
            snapshot: Some(now),
        };
        let mut last = snapshot.borrow_and_update().clone();
        match answer {
            Err(_) => return result(Outcome::Failed, "it was removed".into(), last),
            Ok(Answer::Refused(text)) => return result(Outcome::Refused, text, last),
            Ok(Answer::NothingToDo(text)) if !wait => return result(Outcome::NothingToDo, text, last),
            Ok(Answer::NothingToDo(text)) => match reached(&last, request_id, goal) {
                Some((Outcome::Done, _)) => return result(Outcome::NothingToDo, text, last),
                Some((outcome, message)) => return result(outcome, message, last),
                None => {}
            },
            Ok(Answer::Done) if !wait => {
                let message = format!("{}: {}", last.state.name(), last.message);
                return result(Outcome::Done, message, last);
            }
            Ok(Answer::Done) => {}
        }
        loop {
            if let Some((outcome, message)) = reached(&last, request_id, goal) {
                return result(outcome, message, last);
            }
            if snapshot.changed().await.is_err() {
                return result(Outcome::Failed, "it was removed".into(), last);
            }
            last = snapshot.borrow_and_update().clone();
        }
    }
}

/// Returns the outcome of a request, once that is certain.
fn reached(snapshot: &Snapshot, request_id: u64, goal: Goal) -> Option<(Outcome, String)> {
    if snapshot.request_id > request_id {
        return Some((Outcome::Superseded, REPLACED.into()));
    }
    let message = || snapshot.message.to_string();
    let at_rest = snapshot.state.at_rest() && snapshot.state != State::Initialized;
    match goal {
        Goal::Started if snapshot.up || snapshot.finished => Some((Outcome::Done, message())),
        Goal::Started if at_rest => Some((Outcome::Failed, message())),
        Goal::Stopped if at_rest || snapshot.down => Some((Outcome::Done, message())),
        _ => None,
    }
}
