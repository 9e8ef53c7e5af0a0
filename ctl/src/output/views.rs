//! What programs read: the stable shape of JSON and YAML. `docs/kelsonctl.md` describes each.
//!
//! A field is never renamed and never changes its type; new ones may be added, except to `services` and `events`,
//! whose fields are a contract of their own.

mod boot;
pub mod certificates;
pub mod clock;
pub mod faulty;
pub mod files;
mod graph;
pub mod health;
mod images;
mod lines;
pub mod load;
mod machine;
mod metrics;
pub mod processes;
pub mod storage;
mod timeline;

use std::collections::BTreeMap;

use kelson_proto::v1;
use serde::Serialize;

use super::style::state_name;
use super::time;
pub use boot::{Blame, Boot, Link};
use faulty::FaultyFile;
pub use graph::{Graph, Reason};
pub use images::{Image, Prune, PrunedImage};
pub use lines::{KernelMessage, LogLine};
pub use machine::{Host, Reexec, ServerVersion, Shutdown, Version};
pub use metrics::MetricFamily;
pub use timeline::Timeline;

/// Milliseconds of a duration off the wire.
fn millis(wire: &Option<prost_types::Duration>) -> Option<f64> {
    wire.as_ref().map(|wire| time::millis(time::duration(wire)))
}

/// Null in place of an empty text.
fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// One line of `services`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    pub name: String,
    pub state: &'static str,
    pub up: bool,
    pub healthy: Option<bool>,
    pub restarts: u32,
    pub pid: Option<i32>,
    /// Null before the first state was entered.
    pub since: Option<String>,
    pub waiting_for: Vec<String>,
    pub message: String,
    pub builtin: bool,
    pub stopped: bool,
}

impl From<&v1::Service> for Service {
    fn from(service: &v1::Service) -> Service {
        Service {
            name: service.name.clone(),
            state: state_name(service.state()),
            up: service.up,
            healthy: service.healthy,
            restarts: service.restarts,
            pid: service.pid,
            since: service.since.as_ref().map(time::rfc3339),
            waiting_for: service.waiting_for.clone(),
            message: service.message.clone(),
            builtin: service.builtin,
            stopped: service.stopped,
        }
    }
}

/// All services of a list.
pub fn services(services: &[v1::Service]) -> Vec<Service> {
    services.iter().map(Service::from).collect()
}

/// What `reload` did.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reload {
    pub added: Vec<String>,
    pub started: Vec<String>,
    pub stopped: Vec<String>,
    pub changed: Vec<String>,
    /// Those of `changed` that nobody has to restart.
    pub next_run: Vec<String>,
    pub faulty: Vec<String>,
    /// Groups whose files changed.
    pub groups: Vec<String>,
    /// Keys of machine.yaml.
    pub applied: Vec<String>,
    pub waiting: Vec<String>,
    pub errors: Vec<String>,
}

impl From<&v1::ReloadResponse> for Reload {
    fn from(report: &v1::ReloadResponse) -> Reload {
        let v1::ReloadResponse {
            started,
            stopped,
            changed,
            errors,
            added,
            faulty,
            applied,
            waiting,
            groups,
            next_run,
        } = report.clone();
        Reload { added, started, stopped, changed, next_run, faulty, groups, applied, waiting, errors }
    }
}

/// What `signal` did.
#[derive(Debug, Clone, Serialize)]
pub struct Signal {
    pub name: String,
    pub signal: String,
    pub pid: i32,
}

/// One line of `events`.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    pub seq: u64,
    pub time: Option<String>,
    /// Empty: the host itself.
    pub service: String,
    /// Empty where no service is meant.
    pub state: &'static str,
    pub message: String,
}

impl From<&v1::Event> for Event {
    fn from(event: &v1::Event) -> Event {
        Event {
            seq: event.seq,
            time: event.time.as_ref().map(time::rfc3339),
            service: event.service.clone(),
            state: if event.service.is_empty() { "" } else { state_name(event.state()) },
            message: event.message.clone(),
        }
    }
}

/// The whole of `status`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[serde(flatten)]
    pub service: Service,
    pub description: String,
    pub oneshot: bool,
    pub down: bool,
    pub changed: bool,
    pub status_text: String,
    pub run: u64,
    /// How often for each reason, in this life of the host.
    pub restarts_by: BTreeMap<String, u32>,
    /// Null: it is a member of none.
    pub group: Option<String>,
    pub required: bool,
    /// Null: the last reading of the files found no mistake in its file.
    pub faulty_file: Option<FaultyFile>,
    /// How long it has been in its state, on a clock that nobody sets; null: an earlier release does not tell.
    pub lasts_ms: Option<f64>,
    /// Null unless it is on its way to another run after one that ended.
    pub retry: Option<Retry>,
    pub memory_bytes: Option<u64>,
    pub cpu_ms: Option<f64>,
    pub processes: Option<u32>,
    pub needed_by: Vec<String>,
    pub file: String,
    pub checks: Vec<Check>,
    pub events: Vec<Event>,
    /// The spec as PID 1 holds it.
    pub spec: serde_yaml::Value,
}

impl From<&v1::StatusResponse> for Status {
    fn from(status: &v1::StatusResponse) -> Status {
        let service = status.service.clone().unwrap_or_default();
        Status {
            service: Service::from(&service),
            description: service.description,
            oneshot: service.oneshot,
            down: service.down,
            changed: service.changed,
            status_text: service.status_text,
            run: service.run,
            restarts_by: service.restarts_by.into_iter().map(|by| (by.reason, by.count)).collect(),
            group: Some(service.group).filter(|group| !group.is_empty()),
            required: service.required,
            faulty_file: service.faulty_file.as_ref().map(FaultyFile::from),
            lasts_ms: millis(&service.lasts),
            retry: service.retry.as_ref().map(Retry::from),
            memory_bytes: status.memory_bytes,
            cpu_ms: millis(&status.cpu),
            processes: status.processes,
            needed_by: status.needed_by.clone(),
            file: status.file.clone(),
            checks: status.checks.iter().map(Check::from).collect(),
            events: status.events.iter().map(Event::from).collect(),
            spec: serde_yaml::from_str(&status.spec)
                .unwrap_or_else(|_| serde_yaml::Value::String(status.spec.clone())),
        }
    }
}

/// Another try to run a service.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// What ended the last run.
    pub ended: String,
    /// How long until it is started again; null unless its state is backoff.
    pub restart_in_ms: Option<f64>,
    /// How far its restart budget is used; empty where that does not count.
    pub budget: String,
}

impl From<&v1::Retry> for Retry {
    fn from(retry: &v1::Retry) -> Retry {
        Retry {
            ended: retry.ended.clone(),
            restart_in_ms: millis(&retry.restart_in),
            budget: retry.budget.clone(),
        }
    }
}

/// One health check of `status`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub name: String,
    pub kind: String,
    /// It only gates the start.
    pub startup: bool,
    /// `pending`, `passing`, `failing`.
    pub state: &'static str,
    /// Null while nobody asks it.
    pub since: Option<String>,
    pub lasts_ms: Option<f64>,
    /// How long its next result is overdue; null while it is not.
    pub late_ms: Option<f64>,
    /// Oldest first; at most ten.
    pub results: Vec<CheckResult>,
}

/// What came of a check once.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    pub time: Option<String>,
    pub duration_ms: f64,
    pub passed: bool,
    /// Of all results but the last, one line.
    pub output: String,
}

/// The word for how a check stands.
pub fn standing_name(standing: v1::check::Standing) -> &'static str {
    use v1::check::Standing;
    match standing {
        Standing::Unspecified | Standing::Pending => "pending",
        Standing::Passing => "passing",
        Standing::Failing => "failing",
    }
}

impl From<&v1::Check> for Check {
    fn from(check: &v1::Check) -> Check {
        let results = check.results.iter().map(|result| CheckResult {
            time: result.time.as_ref().map(time::rfc3339),
            duration_ms: result
                .duration
                .as_ref()
                .map(|took| time::millis(time::duration(took)))
                .unwrap_or_default(),
            passed: result.passed,
            output: result.output.clone(),
        });
        Check {
            name: check.name.clone(),
            kind: check.kind.clone(),
            startup: check.startup,
            state: standing_name(check.standing()),
            since: check.since.as_ref().map(time::rfc3339),
            lasts_ms: millis(&check.lasts),
            late_ms: check.late.as_ref().map(|late| time::millis(time::duration(late))),
            results: results.collect(),
        }
    }
}

/// What became of one name of `start`, `stop`, `restart`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    pub name: String,
    /// `done`, `nothing-to-do`, `superseded`, `refused`, `failed`.
    pub outcome: &'static str,
    pub message: String,
    /// Empty where there is no such service.
    pub state: &'static str,
    pub up: bool,
    /// Null: the last reading of the files found no mistake in its file.
    pub faulty_file: Option<FaultyFile>,
}

/// The word for an outcome.
pub fn outcome_name(outcome: v1::action_result::Outcome) -> &'static str {
    use v1::action_result::Outcome;
    match outcome {
        Outcome::Unspecified => "",
        Outcome::Done => "done",
        Outcome::NothingToDo => "nothing-to-do",
        Outcome::Superseded => "superseded",
        Outcome::Refused => "refused",
        Outcome::Failed => "failed",
    }
}

impl From<&v1::ActionResult> for Action {
    fn from(result: &v1::ActionResult) -> Action {
        Action {
            name: result.name.clone(),
            outcome: outcome_name(result.outcome()),
            message: result.message.clone(),
            state: result.service.as_ref().map_or("", |service| state_name(service.state())),
            up: result.service.as_ref().is_some_and(|service| service.up),
            faulty_file: result
                .service
                .as_ref()
                .and_then(|service| Some(service.faulty_file.as_ref()?.into())),
        }
    }
}

/// The result of `wait`.
#[derive(Debug, Clone, Serialize)]
pub struct Wait {
    pub reached: bool,
    pub services: Vec<Service>,
}

/// One mistake that `validate` found.
#[derive(Debug, Clone, Serialize)]
pub struct Mistake {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub service: Option<String>,
    pub message: String,
    /// It is no mistake and hardly meant.
    pub warning: bool,
}

impl Mistake {
    pub fn warning(diagnostic: &kelson_spec::Diagnostic) -> Mistake {
        Mistake { warning: true, ..diagnostic.into() }
    }
}

impl From<&kelson_spec::Diagnostic> for Mistake {
    fn from(diagnostic: &kelson_spec::Diagnostic) -> Mistake {
        Mistake {
            file: diagnostic.file.display().to_string(),
            line: diagnostic.line,
            column: diagnostic.column,
            service: diagnostic.service.clone(),
            message: diagnostic.message.clone(),
            warning: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_exactly_the_fields_of_the_contract() {
        let mut service = v1::Service {
            name: "web".to_owned(),
            since: Some(prost_types::Timestamp { seconds: 1_795_254_485, nanos: 123_456_789 }),
            waiting_for: vec!["service \"db\" to be up".to_owned()],
            description: "not in the contract".to_owned(),
            ..v1::Service::default()
        };
        service.set_state(v1::State::Waiting);
        assert_eq!(
            serde_json::to_string(&Service::from(&service)).unwrap(),
            "{\"name\":\"web\",\"state\":\"waiting\",\"up\":false,\"healthy\":null,\"restarts\":0,\"pid\":null,\
             \"since\":\"2026-11-21T09:48:05.123Z\",\"waitingFor\":[\"service \\\"db\\\" to be up\"],\"message\":\"\",\
             \"builtin\":false,\"stopped\":false}"
        );
    }

    #[test]
    fn an_event_has_exactly_the_fields_of_the_contract() {
        let mut event = v1::Event {
            seq: 7,
            time: Some(prost_types::Timestamp { seconds: 0, nanos: 0 }),
            message: "boot is done".to_owned(),
            run: 3,
            ..v1::Event::default()
        };
        event.set_state(v1::State::Initialized);
        assert_eq!(
            serde_json::to_string(&Event::from(&event)).unwrap(),
            "{\"seq\":7,\"time\":\"1970-01-01T00:00:00.000Z\",\"service\":\"\",\"state\":\"\",\
             \"message\":\"boot is done\"}",
            "an event of the host has no state"
        );
    }

    #[test]
    fn a_spec_is_data_where_it_can_be_read() {
        let status = |spec: &str| {
            Status::from(&v1::StatusResponse { spec: spec.to_owned(), ..v1::StatusResponse::default() })
        };
        let json = serde_json::to_value(status("stop: {timeout: 10s}\n")).unwrap();
        assert_eq!(json["spec"]["stop"]["timeout"], "10s");
        assert_eq!(json["name"], "", "the service's own fields stand at the top");
        let json = serde_json::to_value(status("a: [")).unwrap();
        assert_eq!(json["spec"], "a: [");
    }
}
