//! After the files were read again, both count in a stop: what the services run with, and what their files say now.

use kelson_tests::{Event, Host};

use super::{first, following};

/// Takes its time to end, so that a stop that does not wait for it shows.
const SLOW: &str = "process: {command: [$PROGRAM, await=TERM, sleep=300ms]}\n";

fn needs(other: &str) -> String {
    format!("{SLOW}depends: [{{service: {other}}}]")
}

#[track_caller]
fn read_again(host: &Host) {
    let before = host.newest_event();
    host.signal(libc::SIGHUP);
    host.wait_event(before, "of the files", |event| event.message.starts_with("the files were read again"));
}

/// `later` is not told to stop before `earlier` is down.
#[track_caller]
fn assert_after(events: &[Event], earlier: &str, later: &str) {
    let (down, told) = (first(events, earlier, "stopped"), first(events, later, "stopping"));
    assert!(down.seq < told.seq, "{earlier} was down after {later} was told to stop: {events:#?}");
}

/// `above` needs `below` by what it runs with, `top` needs `bottom` by what its file says now.
fn changed() -> Host {
    let host = Host::builder()
        .service("below", SLOW)
        .service("above", &needs("below"))
        .service("bottom", SLOW)
        .service("top", SLOW)
        .start();
    host.wait_all_up(&["above", "bottom", "top"]);
    host.write_service("above", SLOW);
    host.write_service("top", &needs("bottom"));
    read_again(&host);
    host
}

#[track_caller]
fn stops_in_order(host: &mut Host) {
    let events = following(host);
    host.poweroff();
    let (events, _) = events.rest();
    assert_after(&events, "above", "below");
    assert_after(&events, "top", "bottom");
}

#[test]
fn s1_a_reload_does_not_take_the_order_from_what_runs() {
    stops_in_order(&mut changed());
}

#[test]
fn s1_nor_does_a_reexec_after_a_reload() {
    let mut host = changed();
    host.ctl(&["reexec"]).ok();
    stops_in_order(&mut host);
}

#[test]
fn s7_what_runs_with_a_service_is_not_stopped_under() {
    let mut host = changed();
    for (other, user) in [("below", "above"), ("bottom", "top")] {
        let refused = host.ctl(&["stop", other]);
        assert_ne!(refused.status, 0, "{refused:?}");
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(&format!("needed by \"{user}\"")), "{said}");
    }
    // With its next start the new file counts alone.
    host.ctl(&["restart", "above", "--wait"]).ok();
    host.ctl(&["stop", "below", "--wait"]).ok();
    host.poweroff();
}

#[test]
fn s1_services_whose_files_are_removed_stop_in_reverse_order() {
    let mut host = Host::builder()
        .service("a", SLOW)
        .service("b", &needs("a"))
        .service("c", &needs("b"))
        .service("stays", SLOW)
        .up(&["c", "stays"]);
    let mut events = following(&host);
    for name in ["a", "b", "c"] {
        host.remove_service(name);
    }
    read_again(&host);
    // Also over a crash in the middle.
    host.crash(|| host.signal(libc::SIGSEGV));
    let mut told = Vec::new();
    kelson_tests::eventually("all three to be gone", || {
        host.services().iter().filter(|service| ["a", "b", "c"].contains(&service.name.as_str())).count() == 0
    });
    while let Some(event) = events.next(std::time::Duration::from_millis(500)) {
        told.push(event);
    }
    assert_after(&told, "c", "b");
    assert_after(&told, "b", "a");
    assert!(host.service("stays").up);
    host.poweroff();
}

#[test]
fn s1_a_circle_of_alternatives_waits_for_nobody_else() {
    let either =
        |other: &str| format!("{SLOW}depends: [{{any: [{{service: {other}}}, {{service: spare}}]}}]");
    let mut host = Host::builder()
        .service("spare", SLOW)
        .service("one", &either("other"))
        .service("other", &either("one"))
        .runs("lazy", "await=TERM, sleep=3s")
        .start();
    host.wait_all_up(&["one", "other", "lazy"]);
    let events = following(&host);
    host.poweroff();
    let (events, _) = events.rest();
    let rested = first(&events, "lazy", "stopped");
    for name in ["one", "other", "spare"] {
        let end = first(&events, name, "stopped");
        assert!(end.seq < rested.seq, "{name} waited for one that it has nothing to do with: {events:#?}");
    }
    // The services that both may need are below them.
    assert_after(&events, "one", "spare");
    assert_after(&events, "other", "spare");
}
