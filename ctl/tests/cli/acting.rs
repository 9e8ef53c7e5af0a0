//! Actions: start, stop, restart, wait.

use std::process::Stdio;

use kelson_proto::v1::ReloadResponse;
use kelson_proto::v1::action_result::Outcome;
use serde_json::json;

use crate::fake::{Fake, State};
use crate::samples::result;
use crate::{at, done, two};

#[test]
fn a_line_for_each_service() {
    let fake = Fake::start(two());
    for (words, asked) in [
        ("start db web", "start db web wait=false"),
        ("start db web --wait", "start db web wait=true"),
        ("start db web --with-dependencies", "start db web wait=false with_dependencies"),
        ("stop db web", "stop db web wait=false cascade=false"),
        ("stop --cascade -w db web", "stop db web wait=true cascade=true"),
        ("stop --force db web", "stop db web wait=false cascade=false force=true"),
        ("restart --wait --timeout 20s db web", "restart db web wait=true"),
    ] {
        let done = fake.run(words).silent(0);
        assert_eq!(done.out, "db: done as asked\nweb: done as asked\n", "{words}");
        // Whoever stays asks meanwhile what is in the way.
        let all = fake.asked();
        assert_eq!(all.iter().rfind(|words| !words.starts_with("why")).unwrap(), asked);
    }
}

#[test]
fn one_that_is_refused_fails_the_command() {
    let results = vec![
        result("db", Outcome::Refused, "\"web\" needs it; --cascade stops that first"),
        result("web", Outcome::NothingToDo, "it is down already"),
        result("job", Outcome::Failed, "exited with status 3\x1b[2J"),
    ];
    let fake = Fake::start(State { results, ..two() });
    let done = fake.run("stop db web");
    assert_eq!(done.status, 1);
    assert_eq!(done.out, "web: it is down already\n");
    assert_eq!(
        done.err,
        "kelsonctl: db: refused: \"web\" needs it; --cascade stops that first\n\
         kelsonctl: job: failed: exited with status 3\\x1b[2J\n"
    );
    let done = fake.run("-o json stop db web").silent(1);
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        json[1],
        json!({"name": "web", "outcome": "nothing-to-do", "message": "it is down already", "state": "", "up": false,
               "faultyFile": null})
    );
}

#[test]
fn a_reload_prints_what_changed_and_what_is_wrong() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let reload = ReloadResponse { started: names(&["mail"]), changed: names(&["db"]), ..Default::default() };
    let fake = Fake::start(State { reload, ..two() });
    let done = fake.run("reload").silent(0);
    assert_eq!(done.out, "mail: new, started\ndb: changed; `kelsonctl restart db` applies it\n");
    assert_eq!(
        fake.json("reload"),
        json!({
            "added": [], "started": ["mail"], "stopped": [], "changed": ["db"], "nextRun": [], "faulty": [],
            "groups": [], "applied": [], "waiting": [], "errors": []
        })
    );
    fake.change(|state| state.reload.errors = names(&["web.yaml:3:1: unknown key"]));
    let done = fake.run("reload");
    assert_eq!((done.status, done.err.as_str()), (1, "kelsonctl: web.yaml:3:1: unknown key\n"));
    let done = fake.run("reload web").refused(2);
    assert!(done.err.contains("reload takes no name"), "{done:?}");
}

#[test]
fn a_signal_has_a_name_or_a_number() {
    let fake = Fake::start(two());
    for (words, number) in
        [("signal db SIGHUP", 1), ("signal db HUP", 1), ("signal db 1", 1), ("signal db 15", 15)]
    {
        let done = fake.run(words);
        let name = if number == 1 { "SIGHUP" } else { "SIGTERM" };
        assert_eq!(done.out, format!("db: {name} sent to PID 812\n"), "{words}: {done:?}");
        assert_eq!(*fake.asked().last().unwrap(), format!("signal db {number}"));
    }
    assert_eq!(fake.json("signal db HUP"), json!({"name": "db", "signal": "SIGHUP", "pid": 812}));
    let done = fake.run("signal db HUPP");
    assert_eq!(done.status, 2);
    assert!(done.err.contains("did you mean SIGHUP?"), "{done:?}");
}

#[test]
fn superseded_is_no_failure() {
    let results = vec![result("db", Outcome::Superseded, "")];
    let fake = Fake::start(State { results, ..two() });
    let done = fake.run("restart db");
    assert_eq!((done.status, done.out.as_str()), (0, "db: a later request took its place\n"));
}

#[test]
fn wait_returns_when_it_holds() {
    let fake = Fake::start(two());
    let done_now = fake.run("wait db --for up");
    assert_eq!((done_now.status, done_now.out.as_str(), done_now.err.as_str()), (0, "", ""));
    assert_eq!(fake.asked().last().unwrap(), "wait db Up");

    let child =
        at(&fake.socket(), "wait db web --for up --timeout 30s").stdout(Stdio::piped()).spawn().unwrap();
    fake.until_asked("wait db web", 1);
    fake.change(|state| state.services[1].up = true);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn wait_says_what_is_missing() {
    let fake = Fake::start(two());
    let done = fake.run("wait db web --for up --timeout 100ms").refused(5);
    assert_eq!(
        done.err,
        "kelsonctl: web is waiting: path \"/run/x\" to exist\n\
         kelsonctl: db and web not up within 100ms; `kelsonctl why web` tells what it waits for\n"
    );
    let done = fake.run("-o json wait web --for up --timeout 10ms");
    assert_eq!(done.status, 5);
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&json["reached"], &json["services"][0]["name"]), (&json!(false), &json!("web")));
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
