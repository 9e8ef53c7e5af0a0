//! S2: a service that ignores SIGTERM is killed after its own timeout with all its children, those in sessions of their
//! own too.

use std::time::Duration;

use kelson_tests::{Host, HostBuilder, eventually};

const DEAF: &str = "process: {command: [$PROGRAM, ignore=TERM, 'spawn=ignore=TERM,print=brood,hang', \
'spawn=setsid,ignore=TERM,print=brood,hang', 'orphan=setsid,ignore=TERM,print=brood,hang', notify=READY=1, hang]}
readiness: notify
stop: {timeout: 400ms}";

#[track_caller]
fn kills_all(builder: HostBuilder) {
    let mut host = builder.service("deaf", DEAF).runs("other", "serve").up(&["deaf", "other"]);
    eventually("the whole brood", || host.processes_with("spawn=setsid").len() == 4);
    let before = host.newest_event();
    host.ctl(&["stop", "deaf", "--wait"]).ok();
    assert!(host.processes_with("spawn=setsid").is_empty(), "{:?}", host.processes());
    let events: Vec<_> = host.events_of("deaf").into_iter().filter(|event| event.seq > before).collect();
    let took = events.last().expect("its end").at() - events[0].at();
    assert!(took >= Duration::from_millis(400), "it has its own timeout: {events:#?}");
    assert!(took < Duration::from_secs(3), "not the default of 10 s: {events:#?}");
    let killed = "did not end within 400 ms of its stop signal, killed: it ignores SIGTERM";
    assert!(events.iter().any(|event| event.message.contains(killed)), "{events:#?}");
    let deaf = host.service("deaf");
    assert!(deaf.message.contains("killed after 400 ms: it ignores SIGTERM"), "{deaf:?}");
    assert_eq!((deaf.state.as_str(), deaf.stopped, deaf.up), ("stopped", true, false), "{deaf:?}");
    assert!(host.service("other").up);
    host.poweroff();
}

#[test]
fn s2_a_service_that_ignores_sigterm_is_killed_with_all_its_children() {
    kills_all(Host::builder());
}

#[test]
fn s2_without_a_cgroup_too() {
    kills_all(Host::builder().without_cgroup());
}
