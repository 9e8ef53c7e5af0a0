//! Questions: services, status, why, graph, boot, health, version.

use kelson_proto::v1::health_report::State as HealthState;
use kelson_proto::v1::missing::{Kind, Problem};
use kelson_proto::v1::{
    BootPhase, BootResponse, BootService, BootTask, Check, CheckResult, Culprit, Event, FaultyFile,
    FileMistake, FileWarning, GraphEdge, GraphResponse, HealthReport, Line, Missing, Reason, RestartCount,
    Retry, Service, State as ServiceState, StatusResponse, check,
};

use crate::fake::{Fake, State};
use crate::samples::{at, edge, line, node, wire};
use crate::{event, service, two};

fn faulty() -> Option<FaultyFile> {
    let (file, message) = ("/etc/kelson/services/db.yaml".to_owned(), "unknown key".to_owned());
    let mistakes = vec![FileMistake { file, line: 2, column: 1, message }];
    Some(FaultyFile { mistakes, earlier_in_use: true, earlier_read: None })
}

/// The clock of the host was set since: what it tells of ages counts.
fn services() -> Vec<Service> {
    let [db, web] = two().services.try_into().unwrap();
    let said = "\x1b[2K\rdb running\n".to_owned();
    let all = vec![
        Service { builtin: true, up: true, changed: true, ..service("apid", ServiceState::Running) },
        Service { healthy: Some(true), faulty_file: faulty(), ..db },
        Service { up: true, status_text: said, ..service("evil", ServiceState::Running) },
        Service {
            message: "exited with status 3 after 1.2 s".to_owned(),
            faulty_file: Some(FaultyFile::default()),
            ..service("job", ServiceState::Failed)
        },
        Service {
            stopped: true,
            message: "stopped as asked".to_owned(),
            ..service("old", ServiceState::Stopped)
        },
        web,
    ];
    all.into_iter().map(|service| Service { lasts: wire(192_000), ..service }).collect()
}

/// A service with checks that fail, are late, and are not asked yet.
fn status() -> StatusResponse {
    let result = |passed, output: &str| {
        let (duration, output) = (wire(12), output.to_owned());
        CheckResult { time: None, duration, passed, output, ago: wire(2000) }
    };
    let check = |name: &str, kind: &str| {
        let (name, kind) = (name.to_owned(), kind.to_owned());
        Check { name, kind, ..Check::default() }
    };
    let ping = Check {
        standing: check::Standing::Failing.into(),
        since: at(1000),
        lasts: wire(2000),
        results: vec![result(true, "PONG"), result(false, "asking\x1b[2J\nconnection refused")],
        ..check("ping", "exec")
    };
    let page = Check {
        standing: check::Standing::Passing.into(),
        since: at(1003),
        lasts: wire(2000),
        late: wire(4000),
        startup: true,
        results: vec![result(true, "200 OK")],
        ..check("page", "http")
    };
    let shop = Check {
        standing: check::Standing::Passing.into(),
        since: at(1003),
        lasts: wire(2000),
        registration: true,
        results: vec![result(true, "200 OK")],
        ..check("shop", "http")
    };
    let count = |reason: &str, count| RestartCount { reason: reason.to_owned(), count };
    let service = Service {
        description: "the database".to_owned(),
        restarts_by: vec![count("check", 1), count("operator", 2)],
        group: "shop".to_owned(),
        run: 4,
        message: "ready".to_owned(),
        healthy: None,
        ..services().swap_remove(1)
    };
    StatusResponse {
        service: Some(service),
        spec: "name: db\nprocess: {command: [/bin/db]}\n".to_owned(),
        events: vec![event(4, "db", "ready\x1b[2J")],
        memory_bytes: Some(2 << 20),
        cpu: wire(1234),
        processes: Some(3),
        needed_by: vec!["web".to_owned(), "job".to_owned()],
        file: "/etc/kelson/services/db.yaml".to_owned(),
        checks: vec![ping, page, shop, check("disk", "exec")],
    }
}

fn reason(subject: &str, state: ServiceState, text: &str) -> Reason {
    let (subject, text) = (subject.to_owned(), text.to_owned());
    Reason { subject, text, state: state.into(), ..Reason::default() }
}

/// Two causes, and a mistake in the file.
fn why() -> Reason {
    let missing = |kind: Kind, name: &str, problem: Problem| {
        let (kind, problem) = (kind.into(), problem.into());
        Some(Missing { kind, name: name.to_owned(), problem, ..Missing::default() })
    };
    let db = Reason {
        missing: missing(Kind::Service, "db", Problem::Unspecified),
        ..reason("service \"db\"", ServiceState::Backoff, "exited with status 3, restarting in 2 s")
    };
    let path = Reason {
        missing: missing(Kind::Path, "/run/x", Problem::NoHelper),
        ..reason("path \"/run/x\"", ServiceState::Unspecified, "does not exist")
    };
    Reason {
        causes: vec![db, path],
        faulty_file: faulty(),
        ..reason("service \"web\"", ServiceState::Waiting, "waiting for service \"db\" to be up")
    }
}

fn graph() -> GraphResponse {
    GraphResponse {
        nodes: vec![
            node("cron", ServiceState::Running),
            node("db", ServiceState::Running),
            node("migrate", ServiceState::Failed),
            node("web", ServiceState::Waiting),
            node("path \"/run/x\" to exist", ServiceState::Unspecified),
        ],
        edges: vec![
            edge("migrate", "db", "up", true),
            edge("web", "migrate", "finished", false),
            GraphEdge { alternative: true, ..edge("web", "path \"/run/x\" to exist", "", false) },
            edge("web", "db", "up", true),
            edge("cron", "migrate", "", false),
        ],
    }
}

fn boot() -> BootResponse {
    let task = |name: &str, start, took, error: &str, message: &str| {
        let (name, error, message) = (name.to_owned(), error.to_owned(), message.to_owned());
        BootTask { name, start: wire(start), duration: wire(took), error, message }
    };
    let phase = |name: &str, start, duration: Option<u64>, tasks| {
        let (name, start) = (name.to_owned(), wire(start));
        BootPhase { name, start, duration: duration.and_then(wire), tasks }
    };
    let service = |name: &str, spawned, up: Option<u64>, after: &[&str]| {
        let (name, after) = (name.to_owned(), after.iter().map(|name| (*name).to_owned()).collect());
        BootService { name, spawned: wire(spawned), up: up.and_then(wire), after }
    };
    let mounts =
        vec![task("proc", 5, 1, "", "was mounted"), task("/var", 6, 54, "LABEL=STATE: no such disk", "")];
    BootResponse {
        kernel: wire(900),
        total: wire(700),
        phases: vec![
            phase("mounts", 5, Some(55), mounts),
            phase("system", 60, Some(30), vec![task("hostname", 61, 28, "", "edge-1")]),
            phase("services", 90, None, vec![]),
        ],
        services: vec![
            service("cron", 95, Some(96), &[]),
            service("db", 95, Some(400), &[]),
            service("web", 401, Some(700), &["cron", "db"]),
            service("mail", 401, None, &["db"]),
        ],
    }
}

fn culprit(service: &str, state: ServiceState, reason: &str) -> Culprit {
    let (service, reason) = (service.to_owned(), reason.to_owned());
    Culprit { service, state: state.into(), reason, since: at(3), lasts: wire(61_000), ..Culprit::default() }
}

fn report(group: &str, state: HealthState, message: &str) -> HealthReport {
    let (group, message) = (group.to_owned(), message.to_owned());
    HealthReport { group, state: state.into(), message, lasts: wire(192_000), ..HealthReport::default() }
}

fn health() -> HealthReport {
    let waits = "waiting for service \"db\" to be up";
    HealthReport {
        culprits: vec![
            culprit("db", ServiceState::Failed, "exited with status 3"),
            culprit("web", ServiceState::Waiting, waits),
        ],
        optional: vec![culprit("mail", ServiceState::Waiting, waits)],
        warnings: vec![FileWarning { service: "web".to_owned(), file: faulty() }],
        ..report("", HealthState::Unhealthy, "2 of 12 services are not up")
    }
}

/// All that can be asked of a host.
fn host() -> State {
    State {
        services: services(),
        status: status(),
        why: why(),
        lines: vec![Line { run: 4, ..line("db", b"the last word\x1b[2J") }],
        graph: graph(),
        boot: boot(),
        health: health(),
        groups: vec![report("shop", HealthState::Healthy, "all 3 services are up for 3m12s")],
        events: vec![Event { time: at(1), ..event(1, "db", "ready") }],
        reexecs: 2,
        crashes: 1,
        ..State::default()
    }
}

#[test]
fn questions_in_each_form() {
    Fake::start(host()).transcript("reading");
}

#[test]
fn schedules() {
    Fake::start(two()).transcript("timers");
}

#[test]
fn the_health_of_a_group() {
    let status = culprit("", ServiceState::Unspecified, "status 500, wanted 200-399");
    let culprits = vec![Culprit { check: "front".to_owned(), ..status }];
    let health =
        HealthReport { culprits, ..report("shop", HealthState::Unhealthy, "1 of 1 check does not pass") };
    Fake::start(State { health, ..two() }).transcript("health-check");
    let said = "all 3 services are up, for 1 s of the 10 s";
    let last_break = Some(culprit("web", ServiceState::Running, "killed by SIGKILL"));
    let health = HealthReport { last_break, ..report("shop", HealthState::Pending, said) };
    let fake = Fake::start(State { health, ..two() });
    fake.transcript("health-break");
    fake.change(|state| state.health.set_state(HealthState::Healthy));
    fake.transcript("health-no-break");
}

#[test]
fn drawings_tell_what_the_text_tells() {
    let fake = Fake::start(host());
    let graph = ">db<; >running<; >web<; >waits for path &quot;/run/x&quot; to exist<; 2 of 4 services are up; \
        prefers-color-scheme:dark";
    let boot = ">db<; >305 ms<; say-critical; bar-stays; </svg>";
    for (words, parts) in [("graph --format svg", graph), ("boot plot", boot)] {
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
    let mut state = two();
    state.services.iter_mut().for_each(|service| service.lasts = wire(192_000));
    let db = &mut state.services[0];
    db.set_state(ServiceState::Backoff);
    (db.up, db.message, db.retry) = (false, said.to_owned(), Some(retry.clone()));
    state.status = StatusResponse { service: Some(db.clone()), ..StatusResponse::default() };
    state.why = Reason { retry: Some(retry), ..reason("service \"db\"", ServiceState::Backoff, said) };
    Fake::start(state).transcript("retry");
}
