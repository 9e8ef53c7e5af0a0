//! G1: a gate asks whether all hold *now*, never whether each held once.

use std::fs;

use kelson_tests::Host;

#[test]
fn g1_a_gate_asks_whether_all_services_are_up_now() {
    let mut host = Host::builder()
        .service("a", "process: {command: [$PROGRAM, serve]}\nstart: manual")
        .service("b", "process: {command: [$PROGRAM, serve]}\nstart: manual")
        .service("c", "process: {command: [$PROGRAM, serve]}\ndepends: [{service: a}, {service: b}]")
        .start();
    let waits_for = |after: u64, what: &[&str]| {
        host.wait_event(after, &format!("of c waiting for {what:?} alone"), |event| {
            event.service == "c"
                && event.state == "waiting"
                && ["a", "b"].iter().all(|n| event.message.contains(&format!("\"{n}\"")) == what.contains(n))
        })
        .seq
    };
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
        .service(
            "c",
            "process: {command: [$PROGRAM, serve]}\ndepends: [{path: $DIR/flag-a}, {path: $DIR/flag-b}]",
        )
        .start();
    let waits_for = |after: u64, what: &[&str]| {
        host.wait_event(after, &format!("of c waiting for {what:?} alone"), |event| {
            event.service == "c"
                && event.state == "waiting"
                && ["a", "b"]
                    .iter()
                    .all(|n| event.message.contains(&format!("flag-{n}\"")) == what.contains(n))
        })
        .seq
    };
    let both = waits_for(0, &["a", "b"]);
    fs::write(host.path("flag-a"), "").unwrap();
    let for_b = waits_for(both, &["b"]);
    fs::remove_file(host.path("flag-a")).unwrap();
    let both_again = waits_for(for_b, &["a", "b"]);
    fs::write(host.path("flag-b"), "").unwrap();
    waits_for(both_again, &["a"]);
    assert_eq!(host.states_of("c"), ["waiting"]);

    fs::write(host.path("flag-a"), "").unwrap();
    host.wait_up("c");
    host.poweroff();
}

#[test]
fn g1_a_service_that_is_ready_no_longer_shuts_the_gate() {
    let db = "process: {command: [$PROGRAM, notify=READY=1, await=USR1, notify=RELOADING=1, await=USR2, notify=READY=1, serve]}
readiness: notify";
    let mut host = Host::builder()
        .service("db", db)
        .service("late", "process: {command: [$PROGRAM, serve]}\nstart: manual")
        .service("web", "process: {command: [$PROGRAM, serve]}\ndepends: [{service: db}, {service: late}]")
        .start();
    host.wait_up("db");
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
