//! R5: every restart starts from the pre stage's results that still hold, and asks the whole gate again.

use kelson_tests::{Event, Host};

const DB: &str = "process: {command: [$PROGRAM, notify=READY=1, serve]}\nreadiness: notify
restart: {delay: 5m, maxDelay: 5m}";

fn states_after(host: &Host, name: &str, after: u64) -> Vec<String> {
    let mut states: Vec<String> =
        host.events_of(name).into_iter().filter(|event| event.seq > after).map(|event| event.state).collect();
    states.dedup();
    states
}

#[test]
fn r5_a_restart_waits_for_a_dependency_that_is_in_backoff() {
    let mut host = Host::builder()
        .service("db", DB)
        .runs_with(
            "web",
            "serve",
            "depends: [{service: db}]
restart: {delay: 10ms, maxDelay: 10ms}",
        )
        .up(&["web"]);
    let boot = host.newest_event();
    host.kill(host.pid_of("db"), libc::SIGKILL);
    host.wait_state("db", "backoff");
    host.kill(host.pid_of("web"), libc::SIGKILL);
    let waiting = host.wait_event(boot, "of web waiting again", |event: &Event| {
        event.service == "web" && event.state == "waiting"
    });
    assert_eq!(waiting.message, "waiting for service \"db\" to be up");
    let web = host.service("web");
    assert_eq!((web.state.as_str(), web.up, web.pid, web.restarts), ("waiting", false, None, 1), "{web:?}");
    let why = host.client().why("web");
    assert_eq!((why.causes.len(), why.causes[0].state.as_str()), (1, "backoff"), "{why:?}");

    host.ctl(&["restart", "db", "--wait"]).ok();
    host.wait_up("web");
    // The preparations still held: they were not made again.
    assert_eq!(states_after(&host, "web", boot), ["backoff", "waiting", "starting", "running"]);
    assert_eq!(host.service("web").restarts, 1);
    host.poweroff();
}

#[test]
fn r5_an_operators_restart_asks_the_gate_again() {
    let mut host = Host::builder()
        .service("db", DB)
        .runs_with("web", "serve", "depends: [{service: db}, {path: $DIR/flag}]")
        .start();
    host.touch("flag");
    host.wait_up("web");
    let boot = host.newest_event();
    host.kill(host.pid_of("db"), libc::SIGKILL);
    host.wait_state("db", "backoff");
    std::fs::remove_file(host.path("flag")).unwrap();
    host.ctl(&["restart", "web"]).ok();
    let flag = format!("path \"{}\" to exist", host.path("flag").display());
    host.wait_for("web", "to wait for both", |web| {
        web.waiting_for == ["service \"db\" to be up".to_owned(), flag.clone()]
    });
    host.ctl(&["start", "db", "--wait"]).ok();
    host.wait_for("web", "to wait for the path alone", |web| web.waiting_for == [flag.clone()]);
    host.touch("flag");
    host.wait_up("web");
    assert_eq!(states_after(&host, "web", boot), ["stopping", "waiting", "starting", "running"]);
    assert_eq!(host.service("web").restarts, 0);
    host.poweroff();
}
