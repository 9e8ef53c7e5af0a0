//! G1: a gate asks whether all hold *now*, never whether each held once.

use std::fs;

use kelson_tests::{Event, Host};

/// The number of the event after this one that says that `c` waits for these alone of `a` and `b`, named with this before.
#[track_caller]
fn waits_for(host: &Host, after: u64, before: &str, what: &[&str]) -> u64 {
    let is_named = |event: &Event, name: &str| event.message.contains(&format!("{before}{name}\""));
    let is_so = |event: &Event| {
        event.service == "c"
            && event.state == "waiting"
            && ["a", "b"].iter().all(|name| is_named(event, name) == what.contains(name))
    };
    host.wait_event(after, &format!("of c waiting for {what:?} alone"), is_so).seq
}

#[test]
fn g1_a_gate_asks_whether_all_services_are_up_now() {
    let mut host = Host::builder()
        .runs_with("a", "serve", "start: manual")
        .runs_with("b", "serve", "start: manual")
        .runs_with("c", "serve", "depends: [{service: a}, {service: b}]")
        .start();
    let waits_for = |after, what: &[&str]| waits_for(&host, after, "\"", what);
    let both = waits_for(0, &["a", "b"]);
    host.ctl(&["start", "a", "--wait"]).ok();
    let for_b = waits_for(both, &["b"]);
    host.ctl(&["stop", "a", "--wait"]).ok();
    let both_again = waits_for(for_b, &["a", "b"]);
    host.ctl(&["start", "b", "--wait"]).ok();
    // It has seen that b is up, and still waits.
    waits_for(both_again, &["a"]);
    let c = host.service("c");
    assert_eq!((c.state.as_str(), c.waiting_for.len(), c.pid), ("waiting", 1, None), "{c:?}");
    assert_eq!(host.states_of("c"), ["waiting"]);

    host.ctl(&["start", "a", "--wait"]).ok();
    host.wait_up("c");
    host.poweroff();
}

#[test]
fn g1_a_gate_asks_whether_all_paths_exist_now() {
    let mut host = Host::builder()
        .runs_with("c", "serve", "depends: [{path: $DIR/flag-a}, {path: $DIR/flag-b}]")
        .start();
    let waits_for = |after, what: &[&str]| waits_for(&host, after, "flag-", what);
    let both = waits_for(0, &["a", "b"]);
    host.touch("flag-a");
    let for_b = waits_for(both, &["b"]);
    fs::remove_file(host.path("flag-a")).unwrap();
    let both_again = waits_for(for_b, &["a", "b"]);
    host.touch("flag-b");
    waits_for(both_again, &["a"]);
    assert_eq!(host.states_of("c"), ["waiting"]);

    host.touch("flag-a");
    host.wait_up("c");
    host.poweroff();
}

#[test]
fn g1_a_service_that_is_ready_no_longer_shuts_the_gate() {
    let db = "process: {command: [$PROGRAM, notify=READY=1, await=USR1, notify=RELOADING=1, await=USR2, notify=READY=1, serve]}
readiness: notify";
    let mut host = Host::builder()
        .service("db", db)
        .runs_with("late", "serve", "start: manual")
        .runs_with("web", "serve", "depends: [{service: db}, {service: late}]")
        .up(&["db"]);
    let pid = host.pid_of("db");
    host.kill(pid, libc::SIGUSR1);
    let reloading = host.wait_event(0, "of web that misses db again", |event| {
        event.service == "web" && event.message == "waiting for service \"db\" to be up, service \"late\" to be up (nothing starts it; its start is manual)"
            && event.seq > 0
            && host.service("db").state == "running"
            && !host.service("db").up
    });
    host.ctl(&["start", "late", "--wait"]).ok();
    host.wait_event(reloading.seq, "of web waiting for db alone", |event| {
        event.service == "web" && event.message == "waiting for service \"db\" to be up"
    });
    host.kill(pid, libc::SIGUSR2);
    host.wait_up("web");
    assert_eq!(host.pid_of("db"), pid);
    host.poweroff();
}
