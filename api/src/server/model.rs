//! The words of `kelson-services` in the form of the protocol.

use kelson_proto::v1;
use kelson_services::images::ImagesError;
use kelson_services::inspect::InspectError;
use kelson_services::manager::ActionResult;
pub use kelson_services::messages::duration;
use kelson_services::messages::{missing, retry};
use kelson_services::model::{CheckReport, Event, Numbered as _, Snapshot};
use kelson_services::{ErrorKind, ServicesError};
use tonic::{Code, Status};

/// The status of an error of `kelson-services`. Here alone is settled which kind has which.
pub fn status(error: ServicesError) -> Status {
    let code = match (&error, error.kind()) {
        (ServicesError::Unknown(_), _) => Code::NotFound,
        (_, ErrorKind::Denied) => Code::PermissionDenied,
        (_, ErrorKind::Retryable | ErrorKind::Permanent) => Code::FailedPrecondition,
    };
    Status::new(code, error.to_string())
}

/// As [`status`], of images.
pub fn status_of_images(error: ImagesError) -> Status {
    match error {
        ImagesError::NotNow(why) => Status::failed_precondition(why),
        ImagesError::Failed(why) => Status::unavailable(why),
    }
}

/// As [`status`], of a question about the machine.
pub fn status_of_inspect(error: InspectError) -> Status {
    let code = match &error {
        InspectError::Busy => Code::ResourceExhausted,
        InspectError::Silent => Code::DeadlineExceeded,
        InspectError::Missing(_) => Code::NotFound,
        InspectError::Unfit(_) => Code::FailedPrecondition,
        InspectError::Start(_) | InspectError::Broken(_) | InspectError::Failed(_) => Code::Unavailable,
    };
    Status::new(code, error.to_string())
}

/// `description` and `faulty_file` come from the files and are not part of a snapshot.
pub fn service(snapshot: &Snapshot, description: String, faulty_file: Option<v1::FaultyFile>) -> v1::Service {
    v1::Service {
        name: snapshot.name.to_string(),
        state: snapshot.state.number(),
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
        faulty_file,
        lasts: Some(duration(snapshot.entered.elapsed())),
        retry: retry(snapshot),
        addresses: snapshot.addresses.iter().map(ToString::to_string).collect(),
    }
}

pub fn event(event: &Event) -> v1::Event {
    v1::Event {
        seq: event.seq,
        time: Some(event.time.into()),
        service: event.service.to_string(),
        state: event.state.number(),
        message: event.message.to_string(),
        run: event.run,
        details: event.details.iter().flat_map(|details| details.iter().cloned()).collect(),
    }
}

pub fn check(report: CheckReport) -> v1::Check {
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
        standing: report.standing.number(),
        since: report.since.map(Into::into),
        results: results.collect(),
        late: report.late.map(duration),
        startup: report.startup,
        registration: report.registration,
        lasts: report.lasts.map(duration),
    }
}

/// `service` puts a snapshot into the form of the protocol.
pub fn action(result: ActionResult, service: impl Fn(&Snapshot) -> v1::Service) -> v1::ActionResult {
    v1::ActionResult {
        outcome: result.outcome.into(),
        message: result.message,
        service: result.snapshot.as_ref().map(service),
        name: result.name,
    }
}
