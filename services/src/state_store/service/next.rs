//! The step after a run and the run's end, in a record.

use std::time::Duration;

use kelson_proto::state::v1 as stored;
use kelson_runner::ErrorKind;
use kelson_sys::text::start_of;

use super::{kind, outcome, refusal};
use crate::model::RestartReason;
use crate::service_runner::table::{After, Ended, Hold, Outcome};
use crate::state_store::numbers::{Numbered as _, exit_of_stored, exit_to_stored, nanos};

impl After {
    pub(super) fn to_stored(&self, hold: Hold) -> stored::Next {
        use stored::next::{End, Refused, What};
        let what = match self {
            After::Decide(ended) => What::Decide(ended.to_stored()),
            After::Again(reason) => What::Again(reason.number()),
            After::Gate => What::Gate(true),
            After::Rest { outcome: Outcome::Refused(kind), text } => {
                What::Refused(Refused { refusal: refusal(*kind), text: text.clone() })
            }
            After::Rest { outcome, text } => What::End(End {
                state: outcome.state().number(),
                finished: *outcome == Outcome::Finished && matches!(hold, Hold::Free | Hold::Somebody),
                stopped: *outcome == (Outcome::Stopped { asked: true }),
                wanted: matches!(outcome, Outcome::Stopped { .. }),
                text: text.clone(),
            }),
        };
        stored::Next { what: Some(what) }
    }

    pub(super) fn of_stored(next: &stored::Next) -> After {
        use stored::next::What;
        match &next.what {
            Some(What::Decide(ended)) => After::Decide(Ended::of_stored(ended)),
            Some(What::Again(reason)) => {
                After::Again(RestartReason::of_number(*reason).unwrap_or(RestartReason::Operator))
            }
            Some(What::Gate(_)) => After::Gate,
            Some(What::End(end)) => {
                let stopped = Outcome::Stopped { asked: end.stopped };
                let outcome = outcome(end.state, end.stopped).unwrap_or(stopped);
                After::Rest { outcome, text: end.text.clone() }
            }
            Some(What::Refused(refused)) => {
                let outcome = Outcome::Refused(kind(refused.refusal.as_ref()));
                After::Rest { outcome, text: refused.text.clone() }
            }
            None => After::Decide(Ended::unknown()),
        }
    }
}

impl Ended {
    fn unknown() -> Ended {
        Ended::NotStarted {
            text: "ended in a way that this version of Kelson does not know".to_owned(),
            kind: ErrorKind::Retryable,
        }
    }

    pub(super) fn shorten(&mut self, most: usize) {
        if let Ended::GivenUp { text, .. } | Ended::NotStarted { text, .. } = self {
            *text = start_of(text, most).to_owned();
        }
    }

    pub(super) fn to_stored(&self) -> stored::Ended {
        use stored::ended::{Exited, GivenUp, How};
        let mut refused = None;
        let how = match self {
            Ended::Exited { exit, ran, before_ready, out_of_memory, outlived } => How::Exited(Exited {
                exit: Some(exit_to_stored(*exit)),
                ran: nanos(*ran),
                before_ready: *before_ready,
                out_of_memory: *out_of_memory,
                outlived: *outlived,
            }),
            Ended::GivenUp { ran, reason, text } => {
                How::GivenUp(GivenUp { ran: nanos(*ran), reason: reason.number(), text: text.clone() })
            }
            Ended::NotStarted { text, kind } => {
                refused = refusal(*kind);
                How::NotStarted(text.clone())
            }
        };
        stored::Ended { how: Some(how), refusal: refused }
    }

    pub(super) fn of_stored(ended: &stored::Ended) -> Ended {
        use stored::ended::How;
        match &ended.how {
            Some(How::Exited(exited)) => Ended::Exited {
                exit: exited.exit.as_ref().map_or(kelson_runner::Exit::Lost, exit_of_stored),
                ran: Duration::from_nanos(exited.ran),
                before_ready: exited.before_ready,
                out_of_memory: exited.out_of_memory,
                outlived: exited.outlived,
            },
            Some(How::GivenUp(given_up)) => Ended::GivenUp {
                ran: Duration::from_nanos(given_up.ran),
                reason: RestartReason::of_number(given_up.reason).unwrap_or(RestartReason::Check),
                text: given_up.text.clone(),
            },
            Some(How::NotStarted(text)) => {
                Ended::NotStarted { text: text.clone(), kind: kind(ended.refusal.as_ref()) }
            }
            None => Ended::unknown(),
        }
    }
}
