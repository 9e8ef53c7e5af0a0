//! Command lines of users who come from another tool: no name, another word, no dashes.

use kelson_proto::v1::State::{Backoff, Failed, Finished, Running};
use kelson_proto::v1::health_report;
use kelson_proto::v1::{HealthReport, Service, StatusResponse};

use crate::fake::{Fake, Seen, State};
use crate::samples::{line, wire};
use crate::{Done, at, service, two};

/// A host on which one service is up, two have failed in a way, and one waits.
fn troubled() -> State {
    let mut state = two();
    state.services.push(Service { message: "exited with status 3".to_owned(), ..service("job", Failed) });
    state.services.push(Service { message: "restarting in 2 s".to_owned(), ..service("mail", Backoff) });
    state.services.push(Service { healthy: Some(false), pid: Some(9), ..service("shop", Running) });
    state.services.iter_mut().for_each(|service| service.lasts = wire(192_000));
    (state.hostname, state.crashes) = (Some("edge-1\x1b"), 1);
    state.health = HealthReport {
        state: health_report::State::Unhealthy.into(),
        lasts: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        message: "4 of 5 services are not up".to_owned(),
        ..HealthReport::default()
    };
    state
}

#[test]
fn a_host_at_a_glance_aliases_and_words_of_other_tools() {
    Fake::start(troubled()).transcript("familiar");
}

#[test]
fn logs_without_a_name_are_those_of_all_services() {
    let mut fake = Fake::start(State { lines: vec![line("db", b"one"), line("web", b"two")], ..two() });
    assert_eq!(fake.run("logs").out, "db  | one\nweb | two\n");
    assert_eq!(fake.run("logs --tail 1").out, "web | two\n");
    fake.change(|state| state.services.extend((0..300).map(|n| service(&format!("s{n}"), Running))));
    let told = fake.run("logs").refused(2);
    assert!(told.err.contains("302 services") && told.err.contains("name those to read"), "{told:?}");
    fake.cut();
}

#[test]
fn cat_prints_the_file_of_a_service() {
    let status = |file: &str, changed| StatusResponse {
        service: Some(Service { changed, ..service("db", Running) }),
        file: file.to_owned(),
        ..StatusResponse::default()
    };
    let content = vec![b"name: db\nproc".to_vec(), b"ess: {}\n".to_vec()];
    let seen = Seen { content, ..Seen::default() };
    let fake = Fake::start(State { status: status("/etc/kelson/services/db.yaml", false), seen, ..two() });
    assert_eq!(
        fake.run("cat db"),
        Done { status: 0, out: "name: db\nprocess: {}\n".to_owned(), err: String::new() }
    );
    assert!(fake.asked().contains(&"read /etc/kelson/services/db.yaml".to_owned()), "{:?}", fake.asked());
    fake.change(|state| state.status = status("/etc/kelson/services/db.yaml", true));
    let told = fake.run("cat db");
    assert_eq!((told.status, told.out.as_str()), (0, "name: db\nprocess: {}\n"));
    assert!(told.err.contains("changed since db was started"), "{told:?}");
    fake.change(|state| state.status = status("", false));
    let told = fake.run("cat db").refused(1);
    assert!(told.err.contains("db is built in and has no file"), "{told:?}");
    assert!(fake.run("cat dbb").err.contains("did you mean \"db\"?"));
}

#[test]
fn a_wait_for_an_exit_ends_with_the_run() {
    let fake = Fake::start(two());
    fake.change(|state| state.services[0].run = 3);
    let waiting =
        at(&fake.socket(), "wait db web --for exit").stdout(std::process::Stdio::piped()).spawn().unwrap();
    fake.until_asked("events", 1);
    let early = fake.run("wait db --for exit --timeout 200ms");
    assert_eq!(early.status, 5);
    assert!(
        early.err.ends_with("db not exited within 200ms; `kelsonctl why db` tells what it waits for\n"),
        "{early:?}"
    );
    fake.change(|state| {
        // It was restarted before anybody looked.
        state.services[0].run = 4;
        state.events.push(crate::event(1, "db", "running"));
    });
    assert_eq!(waiting.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn a_wait_tells_stopped_from_down_and_healthy_is_up() {
    let mut state = two();
    state.services[1].set_state(Finished);
    state.services[1].down = true;
    let fake = Fake::start(state);
    assert_eq!(fake.run("wait db --for healthy").status, 0);
    assert!(fake.asked().contains(&"wait db Up".to_owned()), "{:?}", fake.asked());
    assert_eq!(fake.run("wait web --for down").status, 0);
    assert_eq!(fake.run("wait web --for stopped --timeout 100ms").status, 5);
    fake.change(|state| state.services[1].stopped = true);
    assert_eq!(fake.run("wait web --for stopped").status, 0);
    assert_eq!(fake.run("wait wbe --for stopped").status, 1, "there is no such service");
}
