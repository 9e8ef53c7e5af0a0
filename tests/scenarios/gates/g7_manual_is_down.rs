//! G7: a service with `start: manual` that was never started is down; one that the boot has yet to start is not.

use std::time::{Duration, Instant};

use kelson_tests::{Host, PATIENCE};

#[test]
fn g7_a_manual_service_that_was_never_started_is_down() {
    let mut host = Host::builder()
        .runs_with("spare", "ignore=TERM, hang", "start: manual\nstop: {timeout: 60s}")
        .runs_with("needs-spare", "serve", "start: manual\ndepends: [{service: spare}]")
        .runs_with("standby", "'append=$DIR/standby', serve", "depends: [{service: spare, event: down}]")
        .start();
    // `event: down` holds for it, for the waiting operator as well.
    host.wait_up("standby");
    host.ctl(&["wait", "spare", "--for", "down", "--timeout", "1ms"]).ok();
    let spare = host.service("spare");
    assert_eq!((spare.state.as_str(), spare.up, spare.stopped), ("initialized", false, false), "{spare:?}");
    assert!(host.events_of("spare").is_empty());

    // Nothing waits for it at shutdown, nor is it told to stop.
    let mut events = host.follow_events(0);
    // It is connected before the host ends.
    events.find("an event", PATIENCE, |_| true);
    let asked = Instant::now();
    host.poweroff();
    assert!(asked.elapsed() < Duration::from_secs(10), "the shutdown took {:?}", asked.elapsed());
    let (events, _) = events.rest();
    assert!(events.iter().any(|event| event.service == "standby" && event.state == "stopped"), "{events:?}");
    assert!(!events.iter().any(|event| event.service.contains("spare")), "{events:?}");
}

#[test]
fn g7_down_does_not_fire_for_a_service_that_the_boot_has_yet_to_start() {
    // The watchers come first in every order of names; `later` itself waits.
    let mut host = Host::builder()
        .runs_with("a-watcher", "serve", "depends: [{service: later, event: down}]")
        .runs_with("b-watcher", "serve", "depends: [{service: migrate, event: down}]")
        .runs_with("later", "serve", "depends: [{path: $DIR/flag}]")
        .service("migrate", "process: {command: [$PROGRAM]}\ntype: oneshot\ndepends: [{service: later}]")
        .start();
    host.wait_state("later", "waiting");
    host.touch("flag");
    host.wait_up("later");
    host.wait_finished("migrate");
    for name in ["a-watcher", "b-watcher"] {
        // Neither before it was begun, nor while it waited, nor while it ran; a successful one-shot is not down.
        assert_eq!(host.states_of(name), ["waiting"], "{name}");
    }
    host.ctl(&["stop", "later", "--wait"]).ok();
    host.wait_up("a-watcher");
    assert_eq!(host.states_of("b-watcher"), ["waiting"]);
    host.poweroff();
}

#[test]
fn g7_down_does_not_fire_while_a_manual_service_runs() {
    let mut host = Host::builder()
        .runs_with("spare", "serve", "start: manual")
        .runs_with("standby", "serve", "start: manual\ndepends: [{service: spare, event: down}]")
        .start();
    host.ctl(&["start", "spare", "--wait"]).ok();
    let start = host.client().act(&["start", "standby"]);
    assert_eq!((start.state.as_str(), start.up), ("waiting", false), "{start:?}");
    assert_eq!(host.service("standby").waiting_for, ["service \"spare\" to be down"]);
    host.ctl(&["stop", "spare", "--wait"]).ok();
    host.wait_up("standby");
    host.poweroff();
}
