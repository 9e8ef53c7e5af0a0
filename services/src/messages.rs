//! Facts about a host in the form of the API, where more than one message has them.

use std::time::Duration;

use kelson_conditions::{Missing, Reason as Unmet, Subject};
use kelson_proto::v1;
use tokio::time::Instant;

use crate::model::Snapshot;

/// A span that the protocol cannot hold (290 billion years) is shown as its longest.
pub fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration)
        .unwrap_or(prost_types::Duration { seconds: i64::MAX, nanos: 999_999_999 })
}

pub fn retry(snapshot: &Snapshot) -> Option<v1::Retry> {
    let left = |at: Instant| duration(at.saturating_duration_since(Instant::now()));
    snapshot.retry.as_ref().map(|retry| v1::Retry {
        ended: retry.ended.clone(),
        restart_in: snapshot.restart_at.map(left),
        budget: retry.budget.clone(),
    })
}

pub fn missing(missing: &Missing) -> v1::Missing {
    use v1::missing::{Kind, Problem};
    let Missing { subject, reason } = missing;
    let (kind, name) = subject.name();
    let kind = Kind::from_str_name(&format!("KIND_{}", kind.to_ascii_uppercase())).unwrap_or_default();
    let problem = match reason {
        // It may become so; nothing is wrong.
        None
        | Some(
            Unmet::Unset(_)
            | Unmet::Value(_)
            | Unmet::NoFact
            | Unmet::Unanswered
            | Unmet::TooFew { .. }
            | Unmet::NotRendered
            | Unmet::Template(_),
        ) => Problem::Unspecified,
        Some(Unmet::UnknownService) => Problem::UnknownService,
        Some(Unmet::Failed(_)) => Problem::Failed,
        Some(Unmet::Skipped) => Problem::Skipped,
        Some(Unmet::Stopped) => Problem::Stopped,
        Some(Unmet::Manual) => Problem::Manual,
        Some(Unmet::Silent | Unmet::SilentRegistry(_)) => Problem::Silent,
        Some(Unmet::NoHelper(_) | Unmet::NotRead(_)) => Problem::NoHelper,
        Some(Unmet::NoFleet) => Problem::NoFleet,
        Some(Unmet::NoDevice) => Problem::NoDevice,
    };
    let (event, alternatives) = match subject {
        Subject::Service { event, .. } => (event.name(), Vec::new()),
        Subject::Any(alternatives) => {
            let alternative =
                |parts: &Vec<Missing>| v1::Alternative { missing: parts.iter().map(self::missing).collect() };
            ("", alternatives.iter().map(alternative).collect())
        }
        _ => ("", Vec::new()),
    };
    v1::Missing {
        kind: kind.into(),
        name,
        event: event.into(),
        problem: problem.into(),
        text: missing.to_string(),
        alternatives,
    }
}
