//! S4: with `stop.delay` a service is no longer up at once, gets its signal after the delay, and the delay ends early
//! when it exits; for an operator's stop and restart alike.

use std::time::Duration;

use kelson_tests::{Host, PATIENCE, eventually};

const DELAYED: &str =
    "process: {command: [$PROGRAM, append=$DIR/started, notify=READY=1, await=TERM, append=$DIR/signalled]}
readiness: notify
stop: {delay: 2s}";

/// Asks for it while a client looks on; returns once the service has had its signal.
#[track_caller]
fn asked(host: &Host, verb: &str) {
    let mut events = host.follow_events(host.newest_event() + 1);
    host.ctl(&[verb, "web"]).ok();
    let stopping = events.find("of web stopping", PATIENCE, |e| e.service == "web" && e.state == "stopping");
    let said = match verb {
        "restart" => "restarting: asked by an operator; its stop signal comes in 2 s",
        _ => "stopped: asked by an operator; its stop signal comes in 2 s",
    };
    assert_eq!(stopping.message, said);
    // In the middle of the delay: nobody new is sent there, and it serves on whom it has.
    let web = host.service("web");
    assert!(!host.path("signalled").exists(), "the signal came before the delay was over");
    assert_eq!((web.state.as_str(), web.up), ("stopping", false), "{web:?}");
    assert!(web.pid.is_some(), "{web:?}");
    let end = events.find("after the signal", PATIENCE, |e| e.service == "web" && e.state != "stopping");
    assert!(host.path("signalled").exists());
    let took = end.at() - stopping.at();
    assert!(took >= Duration::from_millis(1990), "{took:?} instead of the delay: {stopping:?} {end:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn s4_a_stop_is_not_up_at_once_and_signals_after_the_delay() {
    let mut host = Host::builder().service("web", DELAYED).up(&["web"]);
    asked(&host, "stop");
    host.wait_state("web", "stopped");
    host.poweroff();
}

#[test]
fn s4_a_restart_keeps_to_the_delay_too() {
    let mut host = Host::builder().service("web", DELAYED).up(&["web"]);
    let old = host.pid_of("web");
    asked(&host, "restart");
    host.wait_up("web");
    assert_ne!(host.pid_of("web"), old);
    let runs = host.wait_file("started");
    assert_eq!(runs.lines().count(), 2, "{runs}");
    // As does the end of the host.
    host.poweroff();
}

#[test]
fn s4_the_delay_ends_when_the_process_exits() {
    for verb in ["stop", "restart"] {
        let mut host = Host::builder()
            .runs_with(
                "web",
                "append=$DIR/started, notify=READY=1, await=USR1",
                "readiness: notify
stop: {delay: 5m}
restart: {policy: once}",
            )
            .up(&["web"]);
        let pid = host.pid_of("web");
        host.ctl(&[verb, "web"]).ok();
        host.wait_state("web", "stopping");
        host.kill(pid, libc::SIGUSR1);
        match verb {
            "stop" => {
                let web = host.wait_state("web", "stopped");
                assert!(web.stopped, "{web:?}");
            }
            _ => {
                eventually("its second run", || host.wait_file("started").lines().count() == 2);
                host.wait_up("web");
                // Not with a delay of five minutes in the way.
                host.kill(host.pid_of("web"), libc::SIGUSR1);
                host.wait_state("web", "finished");
            }
        }
        host.poweroff();
    }
}
