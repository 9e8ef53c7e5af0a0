//! Questions: services, status, why, graph, boot, health, version.

use kelson_proto::v1::missing::{Kind, Problem};
use kelson_proto::v1::{
    BootPhase, BootResponse, BootService, BootTask, Check, CheckResult, Culprit, GraphResponse, Missing,
    Reason, Retry, State as ServiceState, StatusResponse, check,
};

use crate::fake::{Fake, State};
use crate::samples::{at, edge, node, wire};
use crate::{event, service, two};

fn reason(subject: &str, state: ServiceState, text: &str) -> Reason {
    let (subject, text) = (subject.to_owned(), text.to_owned());
    Reason { subject, text, state: state.into(), ..Reason::default() }
}

/// A check that fails, and one that is not asked yet.
fn checks() -> Vec<Check> {
    let result = |passed, output: &str| {
        let (duration, output) = (wire(1000), output.to_owned());
        CheckResult { time: None, duration, passed, output, ago: None }
    };
    let check = Check { name: "ping".to_owned(), kind: "exec".to_owned(), ..Check::default() };
    let failing = Check {
        standing: check::Standing::Failing.into(),
        since: at(1000),
        results: vec![result(true, "PONG"), result(false, "asking\nno answer within 1 s")],
        late: wire(4000),
        startup: true,
        lasts: wire(5000),
        ..check.clone()
    };
    vec![failing, check]
}

fn boot() -> BootResponse {
    let (name, message) = ("/proc".to_owned(), "was there".to_owned());
    let task = BootTask { name, start: wire(6), duration: wire(1), error: String::new(), message };
    let (name, tasks) = ("mounts".to_owned(), vec![task]);
    let phase = BootPhase { name, start: wire(5), duration: wire(20), tasks };
    let service = BootService { name: "db".to_owned(), spawned: wire(30), up: wire(400), after: vec![] };
    BootResponse { kernel: wire(900), total: wire(400), phases: vec![phase], services: vec![service] }
}

/// [`two`], and all that can be asked of them. The clock of the host was set since: what it tells of ages counts.
fn host() -> State {
    let mut state = two();
    state.services.iter_mut().for_each(|service| service.lasts = wire(192_000));
    let mut missing = Missing { name: "/run/x".to_owned(), ..Missing::default() };
    missing.set_kind(Kind::Path);
    missing.set_problem(Problem::NoHelper);
    let cause = reason("path \"/run/x\"", ServiceState::Unspecified, "does not exist");
    let causes = vec![Reason { missing: Some(missing), ..cause }];
    state.why = Reason { causes, ..reason("service \"web\"", ServiceState::Waiting, "") };
    let (service, since, lasts) = ("web".to_owned(), at(3), wire(61_000));
    state.health.culprits = vec![Culprit { service, since, lasts, ..Culprit::default() }];
    state.health.optional = state.health.culprits.clone();
    state.status = StatusResponse {
        service: state.services.first().cloned(),
        spec: "name: db\nprocess: {command: [/bin/db]}\n".to_owned(),
        events: vec![event(4, "db", "ready")],
        memory_bytes: Some(2 << 20),
        needed_by: vec!["web".to_owned()],
        checks: checks(),
        ..StatusResponse::default()
    };
    state.graph = GraphResponse {
        nodes: vec![node("db", ServiceState::Running), node("web", ServiceState::Waiting)],
        edges: vec![edge("web", "db", "up", true)],
    };
    State { boot: boot(), events: vec![event(1, "db", "ready")], ..state }
}

#[test]
fn questions_in_each_form() {
    Fake::start(host()).transcript("reading");
}

#[test]
fn drawings_tell_what_the_text_tells() {
    let fake = Fake::start(host());
    for (words, parts) in [
        (
            "graph --format svg",
            ">db<; >running<; >web<; >waits for path &quot;/run/x&quot; to exist<; 1 of 2 services are up; prefers-color-scheme:dark",
        ),
        ("boot plot", ">db<; >370 ms<; say-critical; bar-stays; </svg>"),
    ] {
        let svg = fake.run(words).silent(0).out;
        assert!(svg.starts_with("<svg "), "{svg}");
        for part in parts.split("; ") {
            assert!(svg.contains(part), "{part} is in {svg}");
        }
    }
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
fn a_thousand_services_are_shown() {
    let services = (0..1000).map(|n| service(&format!("s{n}"), ServiceState::Running)).collect();
    let fake = Fake::start(State { services, ..State::default() });
    assert_eq!(fake.run("services").out.lines().count(), 1001);
    assert_eq!(fake.json("services").as_array().unwrap().len(), 1000);
}

#[test]
fn what_is_tried_again_counts_down() {
    let retry = Retry {
        ended: "exited with status 3 after 1.2 s".to_owned(),
        restart_in: Some(prost_types::Duration { seconds: 3, nanos: 1 }),
        budget: "(2 of 5 in 5m)".to_owned(),
    };
    let said = "exited with status 3 after 1.2 s, restarting in 10 s (2 of 5 in 5m)";
    let mut state = host();
    let db = &mut state.services[0];
    db.set_state(ServiceState::Backoff);
    (db.up, db.message, db.retry) = (false, said.to_owned(), Some(retry.clone()));
    state.status = StatusResponse { service: Some(db.clone()), ..StatusResponse::default() };
    state.why = Reason { retry: Some(retry), ..reason("service \"db\"", ServiceState::Backoff, said) };
    Fake::start(state).transcript("retry");
}
