//! S7: the stop of a service that others need is refused and names them, or stops them first (`--cascade`).

use kelson_tests::Host;

use super::first;

const SLOW: &str =
    "process: {command: [$PROGRAM, notify=READY=1, await=TERM, sleep=50ms]}\nreadiness: notify\n";

#[track_caller]
fn host() -> Host {
    let host = Host::builder()
        .service("db", SLOW)
        .service("web", &format!("{SLOW}depends: [{{service: db}}]"))
        .service("shop", &format!("{SLOW}depends: [{{service: db}}]"))
        .service("edge", &format!("{SLOW}depends: [{{service: web}}]"))
        .service("apart", SLOW)
        // It waits, and misses nothing.
        .service("idle", &format!("{SLOW}depends: [{{service: db}}, {{path: $DIR/never}}]"))
        .start();
    host.wait_all_up(&["edge", "shop", "apart"]);
    host
}

#[test]
fn s7_the_stop_of_a_needed_service_is_refused_and_says_by_whom() {
    let mut host = host();
    let before = host.newest_event();
    host.ctl(&["stop", "db"]).expect(1);
    let stop = host.client().act(&["stop", "db", "--wait"]);
    assert_eq!((stop.outcome.as_str(), stop.up), ("refused", true), "{stop:?}");
    for named in ["\"web\"", "\"shop\"", "--cascade"] {
        assert!(stop.message.contains(named), "{named}: {stop:?}");
    }
    for unnamed in ["edge", "idle", "apart"] {
        assert!(!stop.message.contains(unnamed), "{unnamed} does not need it now: {stop:?}");
    }
    assert_eq!(host.newest_event(), before, "something happened");
    // Nobody needs these.
    host.ctl(&["stop", "apart", "--wait"]).ok();
    host.ctl(&["stop", "edge", "--wait"]).ok();
    host.ctl(&["stop", "web", "shop", "--wait"]).ok();
    host.ctl(&["stop", "db", "--wait"]).ok();
    host.poweroff();
}

#[test]
fn s7_cascade_stops_in_order_who_needs_it() {
    let mut host = host();
    let before = host.newest_event();
    host.ctl(&["stop", "db", "--cascade", "--wait"]).ok();
    let events: Vec<_> = host.events().into_iter().filter(|event| event.seq > before).collect();
    for (user, needed) in [("edge", "web"), ("web", "db"), ("shop", "db")] {
        let (down, told) = (first(&events, user, "stopped"), first(&events, needed, "stopping"));
        assert!(down.seq < told.seq, "{user} was to be down before {needed} is told: {events:#?}");
    }
    let web = first(&events, "web", "stopping");
    assert!(web.message.contains("\"db\", which it needs, is to be stopped"), "{web:?}");
    assert!(host.service("apart").up);
    let idle = host.service("idle");
    assert_eq!(idle.state, "waiting", "{idle:?}");
    assert!(idle.waiting_for.iter().any(|text| text.contains("\"db\"")), "{idle:?}");
    host.poweroff();
}

#[test]
fn s7_named_together_they_stop_in_order_without_cascade() {
    let mut host = host();
    let before = host.newest_event();
    host.ctl(&["stop", "db", "edge", "web", "shop", "--wait"]).ok();
    let events: Vec<_> = host.events().into_iter().filter(|event| event.seq > before).collect();
    for (user, needed) in [("edge", "web"), ("web", "db"), ("shop", "db")] {
        assert!(first(&events, user, "stopped").seq < first(&events, needed, "stopping").seq, "{events:#?}");
    }
    host.poweroff();
}
