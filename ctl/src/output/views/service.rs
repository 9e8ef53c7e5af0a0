//! Services, their states, and why they are in them, as programs read them.

use std::collections::BTreeMap;

use kelson_proto::v1;
use serde_yaml::Value;

use super::value::{View, joined, object, some, views, word};
use crate::output::style::{health_name, standing_name, state_name};
use crate::output::timeline;

impl View for v1::State {
    fn view(&self) -> Value {
        Value::from(state_name(*self))
    }
}

views! {
    // `since`: null before the first state was entered.
    v1::Service: service {
        name, state: service.state(), up, healthy, restarts, pid, since, waiting_for, message, builtin, stopped,
    }
    // `next_run`: those of `changed` that nobody has to restart. `groups`: those whose files changed. `applied`: keys of
    // machine.yaml.
    v1::ReloadResponse: report {
        added, started, stopped, changed, next_run, faulty, groups, applied, waiting, errors,
    }
    // `service`: empty for the host itself. `state`: empty where no service is meant. `details`: what the message says, for
    // programs; null where it has none.
    v1::Event: event {
        seq, time, service, state: if event.service.is_empty() { "" } else { state_name(event.state()) }, message,
        details: (!event.details.is_empty()).then(|| event.details.iter().collect::<BTreeMap<_, _>>()),
    }
    // Another try to run a service. `restart_in_ms`: null unless its state is backoff. `budget`: empty where that does
    // not count.
    v1::Retry: retry { ended, restart_in_ms: retry.restart_in, budget }
    // `startup`: it only gates the start. `registration`: it decides about the registration alone. `since`: null while nobody asks it. `late_ms`: how long its next result is
    // overdue, null while it is not. `results`: oldest first, at most ten.
    v1::Check: check {
        name, kind, startup, registration, state: standing_name(check.standing()), since, lasts_ms: check.lasts,
        late_ms: check.late, results,
    }
    // `output`: of all results but the last, one line.
    v1::CheckResult: result { time, duration_ms: result.duration.unwrap_or_default(), passed, output }
    // `state`: empty where there is no such service. `outcome`: done, nothing-to-do, superseded, refused, failed.
    v1::ActionResult: result {
        name, outcome: word(result.outcome().as_str_name(), "OUTCOME_"), message,
        state: result.service.as_ref().map_or("", |service| state_name(service.state())),
        up: result.service.as_ref().is_some_and(|service| service.up),
        faulty_file: result.service.as_ref().and_then(|service| service.faulty_file.clone()),
    }
    // `earlier_in_use`: false where there is no earlier version, and the service has failed. `earlier_read`: null where
    // it is not known when that version was read last.
    v1::FaultyFile: file { mistakes, earlier_in_use, earlier_read }
    // `line`: counted from 1; 0 where the whole file is meant.
    v1::FileMistake: mistake { file, line, column, message }
    // A service that is not up and should be, or a check of the group that does not pass, which has no state.
    v1::Culprit: culprit {
        service: some(&culprit.service), check: some(&culprit.check),
        state: culprit.check.is_empty().then(|| culprit.state()), reason, since, lasts_ms: culprit.lasts,
    }
    // `group`: null for the host. `services`: how many are asked. `steady_ms`: how long all have been up, and all checks
    // of the group have passed, without a break; null: not all do. `left_ms`: what is left of the deadline while it is
    // pending. `optional`: services with `required: false` that are not up and are meant to be. `warnings`: files with
    // mistakes that change nothing of the state.
    v1::HealthReport: report {
        group: some(&report.group), state: health_name(report.state()),
        healthy: report.state() == v1::health_report::State::Healthy, since, message, services,
        steady_ms: report.steady, minimum_ms: report.minimum.unwrap_or_default(),
        deadline_ms: report.deadline.unwrap_or_default(), left_ms: report.left, culprits, last_break, optional,
        warnings,
    }
    // One link of `why`. `state`: empty where it is no service. `missing`: null at the head of the chain. `retry`: of a
    // service that is tried again.
    v1::Reason: reason { subject, text, state: reason.state(), holds, missing, faulty_file, retry, causes }
    // A condition that does not hold. `problem`: null where it may come by itself.
    v1::Missing: missing {
        kind: word(missing.kind().as_str_name(), "KIND_"), name: some(&missing.name), event: some(&missing.event),
        problem: some(&word(missing.problem().as_str_name(), "PROBLEM_")),
    }
    v1::GraphResponse: graph { nodes, edges }
    // `service`: false for another condition, such as a path.
    v1::GraphNode: node { id, service: node.is_service, state: node.state(), up }
    // `from` waits for `to`.
    v1::GraphEdge: edge { from, to, event, holds, alternative }
    // `begun`: when 0 was; null without any event.
    timeline::Timeline: timeline { begun, services: timeline.lanes }
    // `waited`: when it was to stop and waited for those that need it.
    timeline::Lane: lane { name, states: lane.spans, waited: lane.holds }
    // `to_ms`: null where it goes on.
    timeline::Span: span {
        state: span.state, from_ms: round(span.from), to_ms: span.to.is_finite().then(|| round(span.to)), message,
    }
    timeline::Hold: hold { from_ms: round(hold.from), to_ms: round(hold.to), r#for: hold.by }
}

/// A warning of `health`. `service`: null where the file is none's.
impl View for v1::FileWarning {
    fn view(&self) -> Value {
        joined(object!(service: some(&self.service)), self.file.clone().unwrap_or_default().view())
    }
}

/// The whole of `status`. `group`: null where it is a member of none. `lasts_ms`: how long it has been in its state, on a
/// clock that nobody sets; null: an earlier release does not tell. `addresses`: those of its own network. `retry`: null unless it is on its way to another run.
/// `spec`: as PID 1 holds it.
impl View for v1::StatusResponse {
    fn view(&self) -> Value {
        let service = self.service.clone().unwrap_or_default();
        let by: BTreeMap<String, u32> =
            service.restarts_by.iter().map(|by| (by.reason.clone(), by.count)).collect();
        let own = object!(service =>
            description, oneshot, down, changed, status_text, run, restarts_by: by, group: some(&service.group),
            required, faulty_file, lasts_ms: service.lasts, retry, addresses,
        );
        let spec = match written_spec(&self.spec) {
            Some(spec) => serde_yaml::to_value(spec).unwrap_or_default(),
            None => serde_yaml::from_str(&self.spec).unwrap_or_else(|_| self.spec.view()),
        };
        let rest = object!(self =>
            memory_bytes, cpu_ms: self.cpu, processes, needed_by, file, checks, events, spec: spec,
        );
        joined(service.view(), joined(own, rest))
    }
}

/// A spec of `status` as a service file would have it. `None`: it is of a release that writes it in another way.
pub fn written_spec(text: &str) -> Option<kelson_load::Json> {
    serde_json::from_str(text).ok().map(|spec| kelson_load::written(&spec))
}

/// Microseconds are as much as a clock tells.
fn round(millis: f64) -> f64 {
    (millis * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_data_where_it_can_be_read() {
        let status =
            |spec: &str| v1::StatusResponse { spec: spec.to_owned(), ..v1::StatusResponse::default() }.view();
        let json = serde_json::to_value(status("stop: {timeout: 10s}\n")).unwrap();
        assert_eq!(json["spec"]["stop"]["timeout"], "10s");
        assert_eq!(json["name"], "", "the service's own fields stand at the top");
        let spec = kelson_spec::ServiceSpec::process("db", ["/bin/db", "80"]);
        let json = serde_json::to_value(status(&serde_json::to_string(&spec).unwrap())).unwrap();
        let file = serde_json::json!({"name": "db", "process": {"command": ["/bin/db", "80"]}});
        assert_eq!(json["spec"], file);
        let json = serde_json::to_value(status("a: [")).unwrap();
        assert_eq!(json["spec"], "a: [");
    }
}
