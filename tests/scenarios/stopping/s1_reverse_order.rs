//! S1: the stop order by the events is the reverse of the graph; independent branches overlap in time.

use kelson_tests::{Event, Host};

use super::{first, following};

/// Takes its time to end, so that a stop that does not wait for it shows.
const SLOW: &str =
    "process: {command: [$PROGRAM, notify=READY=1, await=TERM, sleep=100ms]}\nreadiness: notify\n";

/// Powers off and gives the events of the stop.
#[track_caller]
fn stop(host: &mut Host) -> Vec<Event> {
    let events = following(host);
    host.poweroff();
    events.rest().0
}

/// `later` is not told to stop before `earlier` is down.
#[track_caller]
fn assert_after(events: &[Event], earlier: &str, later: &str) {
    let (down, told) = (first(events, earlier, "stopped"), first(events, later, "stopping"));
    assert!(down.seq < told.seq, "{earlier} was down after {later} was told to stop: {events:#?}");
    assert!(down.at() <= told.at(), "{down:?} {told:?}");
}

#[test]
fn s1_a_chain_stops_from_its_end() {
    let mut host = Host::builder()
        .service("a", SLOW)
        .service("b", &format!("{SLOW}depends: [{{service: a}}]"))
        .service("c", &format!("{SLOW}depends: [{{service: b}}]"))
        .up(&["c"]);
    let events = stop(&mut host);
    assert_after(&events, "c", "b");
    assert_after(&events, "b", "a");
}

#[test]
fn s1_what_starts_after_another_stops_before_it() {
    let mut host = Host::builder()
        .service("a", SLOW)
        .service("b", &format!("{SLOW}after: [a]"))
        .service("c", &format!("{SLOW}after: [b]"))
        .up(&["a", "b", "c"]);
    let events = stop(&mut host);
    assert_after(&events, "c", "b");
    assert_after(&events, "b", "a");
}

#[test]
fn s1_the_branches_of_a_diamond_stop_side_by_side() {
    // Each branch ends only once the other one has had its signal: one after the other, they would be killed.
    let branch = |own: &str, other: &str| {
        format!(
            "process: {{command: [$PROGRAM, notify=READY=1, await=TERM, touch=$DIR/{own}, wait-path=$DIR/{other}, sleep=100ms]}}
readiness: notify
depends: [{{service: bottom}}]"
        )
    };
    let mut host = Host::builder()
        .service("bottom", SLOW)
        .service("left", &branch("left", "right"))
        .service("right", &branch("right", "left"))
        .service("top", &format!("{SLOW}depends: [{{service: left}}, {{service: right}}]"))
        .up(&["top"]);
    let events = stop(&mut host);
    for side in ["left", "right"] {
        assert_after(&events, "top", side);
        assert_after(&events, side, "bottom");
        let end = first(&events, side, "stopped");
        for other in ["left", "right"] {
            assert!(
                first(&events, other, "stopping").seq < end.seq,
                "{other} waited for {side}: {events:#?}"
            );
        }
    }
    assert!(!events.iter().any(|event| event.message.contains("killed")), "{events:#?}");
}
