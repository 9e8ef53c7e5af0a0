//! Targets: services without a process. They take part in every order, and continue after a re-exec and a crash of PID 1.

use kelson_tests::{Host, HostBuilder, PATIENCE};
use serde_json::Value;

use super::{Fault, each_fault};

/// `web` needs the target `storage`, which needs `db` and the file `mounted`.
fn builder() -> HostBuilder {
    Host::builder()
        .runs_with("db", "notify=READY=1, serve", "readiness: notify")
        .service("storage", "target: {}\ndepends: [{service: db}, {path: $DIR/mounted}]")
        .runs_with("web", "serve", "depends: [{service: storage, whenDown: restart}]")
}

/// Starts it, and completes the target.
fn started() -> Host {
    let host = builder().start();
    host.touch("mounted");
    host.wait_up("web");
    host
}

/// The states of `storage` and of those around it, in the order of the events since `seq`.
fn order(host: &Host, seq: u64, states: &[&str]) -> Vec<String> {
    let events = host.events().into_iter().filter(|event| event.seq > seq);
    let told = events.filter(|event| ["db", "storage", "web"].contains(&event.service.as_str()));
    told.filter(|event| states.contains(&event.state.as_str()))
        .map(|event| format!("{} {}", event.service, event.state))
        .collect()
}

#[test]
fn what_a_target_waits_for_is_started_before_what_waits_for_the_target() {
    let mut host = builder().start();
    let missing = format!("path \"{}\" to exist", host.path("mounted").display());
    host.wait_up("db");
    let waiting =
        host.wait_for("storage", "to lack the path alone", |now| now.waiting_for == [missing.as_str()]);
    assert!(!waiting.up && waiting.state == "waiting", "{waiting:?}");
    let why = host.client().why("web");
    assert_eq!(why.causes[0].subject, "service \"storage\" to be up", "{why:#?}");
    assert_eq!(why.causes[0].causes[0].subject, missing, "{why:#?}");
    host.touch("mounted");
    host.wait_up("web");
    assert_eq!(order(&host, 0, &["running"]), ["db running", "storage running", "web running"]);
    let storage = host.service("storage");
    assert_eq!((storage.state.as_str(), storage.up, storage.pid), ("running", true, None), "{storage:?}");
    assert_eq!(storage.message, "running");
    let graph: Value = host.ctl(&["-o", "json", "graph"]).ok().json();
    let edges = graph["edges"].as_array().expect("edges");
    assert!(
        edges.iter().any(|edge| edge["from"] == "web" && edge["to"] == "storage" && edge["holds"] == true)
    );
    // Its file is shown as it was written.
    let status: Value = host.ctl(&["-o", "json", "status", "storage"]).ok().json();
    assert_eq!(status["spec"]["target"], serde_json::json!({}), "{status:#}");
    // There is nothing to send a signal to, and nothing to run a command beside.
    for asked in [&["signal", "storage", "HUP"][..], &["exec", "storage", "--", "/bin/true"]] {
        let refused = host.ctl(asked).expect(1).stderr;
        assert!(refused.contains("service \"storage\" has no process"), "{refused}");
    }
    host.poweroff();
}

#[test]
fn a_target_is_stopped_and_started_as_any_other_service() {
    let mut host = started();
    // Dependants count as for any other.
    host.ctl(&["stop", "storage", "--wait"]).expect(1);
    let newest = host.newest_event();
    let pid = host.pid_of("web");
    host.ctl(&["restart", "storage", "--wait"]).ok();
    host.wait_for("web", "to run again", |web| web.up && web.pid.is_some_and(|now| now != pid));
    host.ctl(&["stop", "storage", "--cascade", "--wait"]).ok();
    let order = order(&host, newest, &["stopped"]);
    assert_eq!(order.last().map(String::as_str), Some("storage stopped"), "{order:?}");
    let storage = host.service("storage");
    assert!(storage.stopped && !storage.up && storage.restarts == 0, "{storage:?}");
    assert_eq!(storage.message, "stopped: asked by an operator");
    host.ctl(&["start", "storage", "web", "--wait"]).ok();
    host.wait_all_up(&["storage", "web"]);
    host.poweroff();
}

fn a_target_continues(fault: Fault) {
    let mut host = started();
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.ctl(&["start", "web", "--wait"]).ok();
    let seen = |name: &str| {
        let now = host.service(name);
        (now.state, now.up, now.pid, now.restarts, now.since)
    };
    let before = ["db", "storage", "web"].map(seen);
    let newest = host.newest_event();
    fault.strike(&host);
    assert_eq!(["db", "storage", "web"].map(seen), before);
    assert_eq!(order(&host, newest, &["running", "stopping", "failed"]), [""; 0]);
    // It stops in its turn when the host does.
    let mut events = host.follow_events(host.newest_event());
    events.next(PATIENCE).expect("the newest event");
    host.poweroff();
    let stopped = events.rest().0.into_iter().filter(|event| event.state == "stopped");
    let names: Vec<String> = stopped.map(|event| event.service).collect();
    let turn = ["web", "storage", "db"].map(|name| names.iter().position(|stopped| stopped == name));
    assert!(turn.iter().all(Option::is_some) && turn.is_sorted(), "{names:?}");
}

#[test]
fn a_target_continues_after_a_re_exec_and_a_crash_and_stops_in_reverse_order() {
    each_fault(a_target_continues);
}
