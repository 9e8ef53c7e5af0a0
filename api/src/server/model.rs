//! The words of `kelson-services` in the form of the protocol.

use std::time::Duration;

use kelson_proto::v1;
use kelson_services::conditions::{Missing, Reason as Unmet, Subject};
use kelson_services::manager::{ActionResult, FaultyFile, GraphView, Outcome, Reason};
use kelson_services::model::{CheckReport, Event, Snapshot, Standing, State};
use tokio::time::Instant;

/// A span that the protocol cannot hold (290 billion years) is shown as its longest.
pub fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration)
        .unwrap_or(prost_types::Duration { seconds: i64::MAX, nanos: 999_999_999 })
}

pub fn state(state: State) -> v1::State {
    match state {
        State::Initialized => v1::State::Initialized,
        State::Waiting => v1::State::Waiting,
        State::Preparing => v1::State::Preparing,
        State::Starting => v1::State::Starting,
        State::Running => v1::State::Running,
        State::Stopping => v1::State::Stopping,
        State::Finished => v1::State::Finished,
        State::Failed => v1::State::Failed,
        State::Skipped => v1::State::Skipped,
        State::Backoff => v1::State::Backoff,
        State::Stopped => v1::State::Stopped,
    }
}

fn optional(known: Option<State>) -> i32 {
    known.map_or(v1::State::Unspecified, state).into()
}

/// `description` and `file` come from the files and are not part of a snapshot.
pub fn service(snapshot: &Snapshot, description: String, file: Option<FaultyFile>) -> v1::Service {
    v1::Service {
        name: snapshot.name.to_string(),
        state: state(snapshot.state).into(),
        up: snapshot.up,
        healthy: snapshot.healthy,
        restarts: snapshot.restarts,
        pid: snapshot.pid,
        since: Some(snapshot.since.into()),
        waiting_for: snapshot.waiting_for(),
        missing: snapshot.missing.iter().map(missing).collect(),
        message: snapshot.message.to_string(),
        builtin: snapshot.builtin,
        stopped: snapshot.stopped,
        status_text: snapshot.status_text.as_deref().unwrap_or_default().to_owned(),
        run: snapshot.run,
        oneshot: snapshot.oneshot,
        changed: snapshot.changed,
        description,
        down: snapshot.down,
        restarts_by: snapshot
            .restarts_by
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| v1::RestartCount { reason: reason.name().into(), count })
            .collect(),
        group: snapshot.group.as_deref().unwrap_or_default().to_owned(),
        required: snapshot.required,
        faulty_file: file.map(faulty_file),
        lasts: Some(duration(snapshot.entered.elapsed())),
        retry: retry(snapshot),
    }
}

fn retry(snapshot: &Snapshot) -> Option<v1::Retry> {
    let left = |at: Instant| duration(at.saturating_duration_since(Instant::now()));
    snapshot.retry.as_ref().map(|retry| v1::Retry {
        ended: retry.ended.clone(),
        restart_in: snapshot.restart_at.map(left),
        budget: retry.budget.clone(),
    })
}

pub fn faulty_file(file: FaultyFile) -> v1::FaultyFile {
    let mistakes = file.mistakes.into_iter().map(|mistake| v1::FileMistake {
        file: mistake.file.display().to_string(),
        line: mistake.line,
        column: mistake.column,
        message: mistake.message,
    });
    v1::FaultyFile {
        mistakes: mistakes.collect(),
        earlier_in_use: file.earlier_in_use,
        earlier_read: file.earlier_read.map(Into::into),
    }
}

pub fn event(event: &Event) -> v1::Event {
    v1::Event {
        seq: event.seq,
        time: Some(event.time.into()),
        service: event.service.to_string(),
        state: state(event.state).into(),
        message: event.message.to_string(),
        run: event.run,
    }
}

pub fn check(report: CheckReport) -> v1::Check {
    let standing = match report.standing {
        Standing::Pending => v1::check::Standing::Pending,
        Standing::Passing => v1::check::Standing::Passing,
        Standing::Failing => v1::check::Standing::Failing,
    };
    let results = report.results.into_iter().map(|result| v1::CheckResult {
        time: Some(result.at.into()),
        duration: Some(duration(result.took)),
        passed: result.passed,
        output: result.output,
        ago: result.ago.map(duration),
    });
    v1::Check {
        name: report.name.to_string(),
        kind: report.kind.to_owned(),
        standing: standing.into(),
        since: report.since.map(Into::into),
        results: results.collect(),
        late: report.late.map(duration),
        startup: report.startup,
        lasts: report.lasts.map(duration),
    }
}

/// `service` puts a snapshot into the form of the protocol.
pub fn action(result: ActionResult, service: impl Fn(&Snapshot) -> v1::Service) -> v1::ActionResult {
    use v1::action_result::Outcome as Told;
    let outcome = match result.outcome {
        Outcome::Done => Told::Done,
        Outcome::NothingToDo => Told::NothingToDo,
        Outcome::Superseded => Told::Superseded,
        Outcome::Refused => Told::Refused,
        Outcome::Failed => Told::Failed,
    };
    v1::ActionResult {
        outcome: outcome.into(),
        message: result.message,
        service: result.snapshot.as_ref().map(service),
        name: result.name,
    }
}

pub fn missing(missing: &Missing) -> v1::Missing {
    use v1::missing::{Kind, Problem};
    let Missing { subject, reason } = missing;
    let (kind, name) = subject.name();
    let kind = Kind::from_str_name(&format!("KIND_{}", kind.to_ascii_uppercase())).unwrap_or_default();
    let problem = match reason {
        None => Problem::Unspecified,
        Some(Unmet::UnknownService) => Problem::UnknownService,
        Some(Unmet::Failed(_)) => Problem::Failed,
        Some(Unmet::Skipped) => Problem::Skipped,
        Some(Unmet::Stopped) => Problem::Stopped,
        Some(Unmet::Manual) => Problem::Manual,
        Some(Unmet::Silent) => Problem::Silent,
        Some(Unmet::NoHelper(_)) => Problem::NoHelper,
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

pub fn reason(reason: Reason) -> v1::Reason {
    let Reason { missing, service, faulty_file, causes } = reason;
    let (subject, text) = match (&missing, &service) {
        (None, Some(service)) => (format!("service \"{}\"", service.name), service.message.to_string()),
        (Some(Missing { subject: Subject::Any(_), .. }), _) => {
            ("any of these".to_owned(), "none holds".to_owned())
        }
        (Some(missing), Some(service)) => (missing.subject.to_string(), service.message.to_string()),
        (Some(Missing { subject, reason }), None) => {
            (subject.to_string(), reason.as_ref().map_or_else(|| "not yet".into(), ToString::to_string))
        }
        (None, None) => (String::new(), String::new()),
    };
    v1::Reason {
        subject,
        text,
        state: optional(service.as_ref().map(|service| service.state)),
        holds: missing.is_none() && service.as_ref().is_some_and(|service| service.up),
        causes: causes.into_iter().map(self::reason).collect(),
        missing: missing.as_ref().map(self::missing),
        faulty_file: faulty_file.map(self::faulty_file),
        retry: service.as_ref().and_then(retry),
    }
}

pub fn graph(graph: GraphView) -> v1::GraphResponse {
    let nodes = graph.nodes.into_iter().map(|node| v1::GraphNode {
        id: node.id,
        is_service: node.is_service,
        state: optional(node.state),
        up: node.up,
    });
    let edges = graph.edges.into_iter().map(|edge| v1::GraphEdge {
        from: edge.from,
        to: edge.to,
        event: edge.event,
        holds: edge.holds,
        alternative: edge.alternative,
    });
    v1::GraphResponse { nodes: nodes.collect(), edges: edges.collect() }
}
