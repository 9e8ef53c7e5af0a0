//! Questions: services, status, why, graph, boot, version.

use kelson_proto::v1::missing::{Kind, Problem};
use kelson_proto::v1::{
    BootPhase, BootService, BootTask, Check, CheckResult, Missing, Reason, State as ServiceState,
    StatusResponse, check,
};
use serde_json::json;

use crate::fake::{Fake, State};
use crate::samples::{at, edge, node, wire};
use crate::{event, service, two};

#[test]
fn services_in_a_table() {
    let fake = Fake::start(two());
    let done = fake.run("services").silent(0);
    let lines: Vec<Vec<&str>> = done.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0].join(" "), "NAME STATE UP HEALTH SINCE RESTARTS WAITING FOR / WHY");
    assert_eq!(lines[1][..4], ["db", "running", "yes", "-"]);
    assert_eq!(lines[2][..4], ["web", "waiting", "no", "-"]);
    assert!(done.out.trim_end().ends_with("path \"/run/x\" to exist"));
    assert!(!done.out.contains('\x1b'), "no colour where no terminal is");
}

#[test]
fn without_headings_there_are_only_rows() {
    let fake = Fake::start(two());
    let (with, without) = (fake.run("services").out, fake.run("services --no-headers").out);
    assert_eq!((with.lines().count(), without.lines().count()), (3, 2));
    assert!(without.starts_with("db   running  yes  -"), "columns are as wide as what is there: {without}");
    assert_eq!(fake.run("--no-headers -o json services").out, fake.run("-o json services").out);
    let status = fake.run("--no-headers status db").out;
    assert_eq!(status, fake.run("status db").out, "a page is no table");
}

#[test]
fn services_in_json_and_yaml_are_the_contract() {
    let fake = Fake::start(two());
    assert_eq!(
        fake.json("services"),
        json!([
            {"name": "db", "state": "running", "up": true, "healthy": null, "restarts": 1, "pid": 812,
             "since": "2026-11-21T09:48:05.123Z", "waitingFor": [], "message": "", "builtin": false, "stopped": false},
            {"name": "web", "state": "waiting", "up": false, "healthy": null, "restarts": 0, "pid": null,
             "since": "2026-11-21T09:48:05.123Z", "waitingFor": ["path \"/run/x\" to exist"], "message": "",
             "builtin": false, "stopped": false},
        ])
    );
    let done = fake.run("services --output yaml");
    assert!(done.out.starts_with("- name: db\n  state: running\n  up: true\n  healthy: null\n"), "{done:?}");
}

#[test]
fn status_of_one_service() {
    let status = StatusResponse {
        service: two().services.into_iter().next(),
        spec: "name: db\nprocess: {command: [/bin/db]}\n".to_owned(),
        events: vec![event(4, "db", "ready")],
        memory_bytes: Some(2 << 20),
        needed_by: vec!["web".to_owned()],
        ..StatusResponse::default()
    };
    let fake = Fake::start(State { status, ..two() });
    let done = fake.run("status db");
    assert_eq!(done.status, 0);
    for part in
        ["● db\n", "needed by:   web", "memory:      2.0 MiB", "4  2026-11-21T09:48:05.000Z  running  ready"]
    {
        assert!(done.out.contains(part), "{part:?} is in {done:?}");
    }
    let json = fake.json("status db");
    assert_eq!(
        (&json["pid"], &json["memoryBytes"], &json["cpuMs"]),
        (&json!(812), &json!(2_097_152), &json!(null))
    );
    assert_eq!(json["spec"]["process"]["command"], json!(["/bin/db"]));
    assert_eq!(json["events"][0]["seq"], 4);
}

#[test]
fn an_unknown_name_suggests_a_known_one() {
    let fake = Fake::start(two());
    let all = "status wbe, why wbe, start wbe, stop wbe, restart wbe, start --wait db wbe, \
        stop --cascade --wait wbe, restart --wait wbe, wait wbe --for up, \
        wait db wbe --for down --timeout 5s, events wbe, events -f wbe, events --timeline wbe, \
        exec wbe -- ls, metrics wbe, logs wbe, logs -f wbe";
    for words in all.split(", ") {
        let done = fake.run(words).refused(1);
        assert_eq!(done.err, "kelsonctl: no service \"wbe\"; did you mean \"web\"?\n", "{words}");
    }
}

#[test]
fn why_leads_to_the_cause() {
    let reason = |subject: &str, state: ServiceState, text: &str, causes| Reason {
        subject: subject.to_owned(),
        text: text.to_owned(),
        state: state.into(),
        causes,
        ..Reason::default()
    };
    let mut missing = Missing { name: "/run/x".to_owned(), ..Missing::default() };
    missing.set_kind(Kind::Path);
    missing.set_problem(Problem::NoHelper);
    let cause = Reason {
        missing: Some(missing),
        ..reason("path \"/run/x\"", ServiceState::Unspecified, "does not exist", vec![])
    };
    let why = reason("service \"web\"", ServiceState::Waiting, "", vec![cause]);
    let fake = Fake::start(State { why, ..two() });
    assert_eq!(fake.run("why web").out, "service \"web\": waiting\n└─ path \"/run/x\": does not exist\n");
    assert_eq!(
        fake.json("why web"),
        json!({"subject": "service \"web\"", "text": "", "state": "waiting", "holds": false, "missing": null,
               "faultyFile": null, "retry": null, "causes": [
            {"subject": "path \"/run/x\"", "text": "does not exist", "state": "", "holds": false, "causes": [],
             "faultyFile": null, "retry": null,
             "missing": {"kind": "path", "name": "/run/x", "event": null, "problem": "no-helper"}}]})
    );
}

fn graph() -> kelson_proto::v1::GraphResponse {
    kelson_proto::v1::GraphResponse {
        nodes: vec![node("db", ServiceState::Running), node("web", ServiceState::Waiting)],
        edges: vec![edge("web", "db", "up", true)],
    }
}

#[test]
fn graph_in_each_language() {
    let fake = Fake::start(State { graph: graph(), ..two() });
    assert_eq!(fake.run("graph").out, "web  waiting\n└─ db  running\n");
    assert_eq!(fake.run("graph --format text").out, fake.run("graph").out);
    assert!(fake.run("graph --format dot").out.contains("\"web\" -> \"db\" [label=\"up\"];"));
    assert!(fake.run("graph --format mermaid").out.contains("n1 -->|up| n0"));
    let svg = fake.run("graph --format svg").out;
    assert!(svg.starts_with("<svg ") && svg.contains("prefers-color-scheme:dark"), "{svg}");
    for part in [
        ">db<",
        ">running<",
        ">web<",
        ">waits for path &quot;/run/x&quot; to exist<",
        "1 of 2 services are up",
    ] {
        assert!(svg.contains(part), "{part} is in {svg}");
    }
    assert_eq!(
        fake.json("graph"),
        json!({"nodes": [{"id": "db", "service": true, "state": "running", "up": true},
                         {"id": "web", "service": true, "state": "waiting", "up": false}],
               "edges": [{"from": "web", "to": "db", "event": "up", "holds": true, "alternative": false}]})
    );
}

#[test]
fn boot_in_each_view() {
    let boot = kelson_proto::v1::BootResponse {
        kernel: wire(900),
        total: wire(400),
        phases: vec![BootPhase {
            name: "mounts".to_owned(),
            start: wire(5),
            duration: wire(20),
            tasks: vec![BootTask {
                name: "/proc".to_owned(),
                start: wire(6),
                duration: wire(1),
                error: String::new(),
                message: "was there".to_owned(),
            }],
        }],
        services: vec![BootService {
            name: "db".to_owned(),
            spawned: wire(30),
            up: wire(400),
            after: vec![],
        }],
    };
    let events = vec![event(1, "db", "ready")];
    let fake = Fake::start(State { boot, events, ..two() });
    let table = fake.run("boot").out;
    assert!(
        table.contains("  /proc") && table.contains("was there") && table.contains("kernel 900 ms"),
        "{table}"
    );
    assert_eq!(
        fake.run("boot blame").out,
        "DURATION  WHAT            NAME\n  370 ms  service         db\n 1.00 ms  task of mounts  /proc\n"
    );
    assert!(
        fake.run("boot critical-chain")
            .out
            .contains("└─ db @400 ms +370 ms\n   └─ phase mounts @25 ms +20 ms\n")
    );
    let svg = fake.run("boot plot").out;
    for part in [">db<", ">370 ms<", "say-critical", "bar-stays", "</svg>"] {
        assert!(svg.contains(part), "{part} is in {svg}");
    }
    assert_eq!(
        fake.json("boot"),
        json!({"kernelMs": 900.0, "totalMs": 400.0, "phases": [{"name": "mounts", "startMs": 5.0, "durationMs": 20.0,
            "tasks": [{"name": "/proc", "startMs": 6.0, "durationMs": 1.0, "error": "", "message": "was there"}]}],
            "services": [{"name": "db", "spawnedMs": 30.0, "upMs": 400.0, "after": []}]})
    );
    assert_eq!(
        fake.json("boot blame")[0],
        json!({"durationMs": 370.0, "kind": "service", "name": "db", "phase": ""})
    );
    assert_eq!(
        fake.json("boot critical-chain")[1],
        json!({"kind": "phase", "name": "mounts", "startMs": 5.0, "durationMs": 20.0})
    );
}

#[test]
fn version_of_both_sides() {
    let fake = Fake::start(two());
    let own = env!("CARGO_PKG_VERSION");
    assert!(
        fake.run("version").out.starts_with(&format!("kelsonctl  {own}\nkelson     9.8.7 (machine mode)\n"))
    );
    assert_eq!(
        fake.json("version"),
        json!({"client": own, "server": {"version": "9.8.7", "mode": "machine", "hostname": "edge-1",
            "kernel": "6.1.0", "started": "2026-11-21T09:48:05.000Z", "reexecs": 0, "crashes": 0}})
    );
}

#[test]
fn a_thousand_services_are_shown() {
    let services = (0..1000).map(|n| service(&format!("s{n}"), ServiceState::Running)).collect();
    let fake = Fake::start(State { services, ..State::default() });
    assert_eq!(fake.run("services").out.lines().count(), 1001);
    assert_eq!(fake.json("services").as_array().unwrap().len(), 1000);
}

#[test]
fn status_shows_the_checks_of_a_service() {
    let result = |passed, output: &str| CheckResult {
        time: None,
        duration: wire(1000),
        passed,
        output: output.to_owned(),
        ago: None,
    };
    let check = Check {
        name: "ping".to_owned(),
        kind: "exec".to_owned(),
        standing: check::Standing::Failing.into(),
        since: at(1000),
        results: vec![result(true, "PONG"), result(false, "asking\nno answer within 1 s")],
        late: wire(4000),
        startup: true,
        lasts: None,
    };
    let service = two().services.into_iter().next();
    let status = StatusResponse { service, checks: vec![check], ..StatusResponse::default() };
    let fake = Fake::start(State { status, ..two() });
    let done = fake.run("status db");
    for part in [
        "Checks\n  ping (exec, startup): failing for ",
        ", late by 4s\n",
        "      asking\n      no answer within 1 s\n",
    ] {
        assert!(done.out.contains(part), "{part:?} is in {done:?}");
    }
    let json = fake.json("status db");
    assert_eq!(
        json["checks"],
        json!([{
            "name": "ping", "kind": "exec", "startup": true, "state": "failing",
            "since": "1970-01-01T00:16:40.000Z", "lastsMs": null, "lateMs": 4000.0, "results": [
                {"time": null, "durationMs": 1000.0, "passed": true, "output": "PONG"},
                {"time": null, "durationMs": 1000.0, "passed": false, "output": "asking\nno answer within 1 s"},
            ],
        }])
    );
}

#[test]
fn ages_are_those_of_the_host_whatever_the_clocks_show() {
    // The clock of the host stood at 1970 when it began, and was set since.
    let since = at(3);
    let mut state = two();
    for service in &mut state.services {
        (service.since, service.lasts) = (since, wire(192_000));
    }
    state.status = StatusResponse { service: state.services.first().cloned(), ..StatusResponse::default() };
    let culprit = kelson_proto::v1::Culprit {
        service: "web".to_owned(),
        since,
        lasts: wire(61_000),
        ..kelson_proto::v1::Culprit::default()
    };
    state.health.optional = vec![culprit.clone()];
    state.health.culprits = vec![culprit];
    let fake = Fake::start(state);
    assert_eq!(fake.run("services").out.matches("  3m12s  ").count(), 2, "{}", fake.run("services").out);
    let status = fake.run("status db").out;
    assert!(status.contains("running for 3m12s, since 1970-01-01T00:00:03.000Z\n"), "{status}");
    assert_eq!(fake.json("status db")["lastsMs"], 192_000.0);
    let health = fake.run("health").out;
    assert_eq!(health.matches(" 1m1s").count(), 2, "{health}");
    // A host that is not healthy ends it with status 1.
    let json: serde_json::Value = serde_json::from_str(&fake.run("health -o json").out).unwrap();
    assert_eq!(
        (&json["culprits"][0]["lastsMs"], &json["optional"][0]["lastsMs"]),
        (&json!(61_000.0), &json!(61_000.0))
    );
}

#[test]
fn what_is_tried_again_counts_down() {
    let retry = kelson_proto::v1::Retry {
        ended: "exited with status 3 after 1.2 s".to_owned(),
        restart_in: Some(prost_types::Duration { seconds: 3, nanos: 1 }),
        budget: "(2 of 5 in 5m)".to_owned(),
    };
    let said = "exited with status 3 after 1.2 s, restarting in 10 s (2 of 5 in 5m)";
    let left = "exited with status 3 after 1.2 s, restarting in 4 s (2 of 5 in 5m)";
    let mut state = two();
    let db = &mut state.services[0];
    db.set_state(ServiceState::Backoff);
    (db.up, db.message, db.retry) = (false, said.to_owned(), Some(retry.clone()));
    state.status = StatusResponse { service: Some(db.clone()), ..StatusResponse::default() };
    state.why = Reason {
        subject: "service \"db\"".to_owned(),
        text: said.to_owned(),
        state: ServiceState::Backoff.into(),
        retry: Some(retry),
        ..Reason::default()
    };
    let fake = Fake::start(state);
    for words in ["services", "status db", "why db"] {
        let out = fake.run(words).out;
        assert!(out.contains(left) && !out.contains(said), "{words}: {out}");
    }
    assert_eq!(fake.json("services")[0]["message"], said);
    for words in ["status db", "why db"] {
        assert_eq!(
            fake.json(words)["retry"],
            json!({"ended": "exited with status 3 after 1.2 s", "restartInMs": 3000.0, "budget": "(2 of 5 in 5m)"})
        );
    }
}
