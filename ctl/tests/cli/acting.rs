//! Actions: start, stop, restart, wait.

use std::process::Stdio;

use kelson_proto::v1::ReloadResponse;
use kelson_proto::v1::action_result::Outcome;

use crate::fake::{Fake, State};
use crate::samples::result;
use crate::{at, done, two};

#[test]
fn a_line_for_each_service() {
    Fake::start(two()).transcript("acting");
}

#[test]
fn what_is_refused_fails_the_command_and_superseded_is_no_failure() {
    let results = vec![
        result("db", Outcome::Refused, "\"web\" needs it; --cascade stops that first"),
        result("web", Outcome::NothingToDo, "it is down already"),
        result("job", Outcome::Failed, "exited with status 3\x1b[2J"),
    ];
    let fake = Fake::start(State { results, ..two() });
    fake.transcript("acting-refused");
    fake.change(|state| state.results = vec![result("db", Outcome::Superseded, "")]);
    fake.transcript("acting-superseded");
}

#[test]
fn a_reload_prints_what_changed_and_what_is_wrong() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let reload = ReloadResponse {
        added: names(&["mail", "tool"]),
        started: names(&["mail"]),
        stopped: names(&["old"]),
        changed: names(&["db", "web"]),
        next_run: names(&["web"]),
        faulty: names(&["cron"]),
        groups: names(&["shop"]),
        applied: names(&["health"]),
        waiting: names(&["mounts"]),
        errors: names(&[]),
    };
    let fake = Fake::start(State { reload, ..two() });
    fake.transcript("reload");
    let errors = names(&["web.yaml:3:1: unknown key"]);
    fake.change(|state| state.reload = ReloadResponse { errors, ..ReloadResponse::default() });
    fake.transcript("reload-mistake");
}

#[test]
fn wait_returns_when_it_holds() {
    let fake = Fake::start(two());
    let child =
        at(&fake.socket(), "wait db web --for up --timeout 30s").stdout(Stdio::piped()).spawn().unwrap();
    fake.until_asked("wait db web", 1);
    fake.change(|state| state.services[1].up = true);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn wait_outlives_a_broken_connection() {
    let mut fake = Fake::start(two());
    let child = at(&fake.socket(), "wait web --for up --timeout 30s").stderr(Stdio::piped()).spawn().unwrap();
    fake.until_asked("wait web", 1);
    fake.cut();
    fake.change(|state| state.services[1].up = true);
    fake.serve();
    let done = done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 0, "{done:?}");
    assert!(done.err.contains("connecting again"), "{done:?}");
}
