//! R2: `attempts` failures in an `interval` are restarted; the next one ends as failed, or waits for the window's end.

use std::time::Duration;

use kelson_tests::{Event, Host};

#[track_caller]
fn runs(host: &Host, file: &str) -> usize {
    host.wait_file(file).lines().count()
}

#[test]
fn r2_the_third_failure_of_two_attempts_ends_as_failed() {
    let mut host = Host::builder()
        .runs_with(
            "web",
            "'append=$DIR/runs', exit=3",
            "restart: {attempts: 2, interval: 5m, exhausted: fail, delay: 10ms, maxDelay: 10ms}",
        )
        // A spawn that fails is an attempt as well.
        .service(
            "missing",
            "process: {command: [/no-such-program]}
restart: {attempts: 2, interval: 5m, delay: 10ms, maxDelay: 10ms}",
        )
        .runs_with("needs", "serve", "depends: [{service: missing}]")
        .start();
    for name in ["web", "missing"] {
        let service = host.wait_state(name, "failed");
        assert_eq!((service.restarts, service.stopped, service.pid), (2, false, None), "{service:?}");
        assert!(service.message.ends_with("; gave up after 3 failures in 5m"), "{service:?}");
        let backoffs: Vec<String> = host
            .events_of(name)
            .into_iter()
            .filter(|event| event.state == "backoff")
            .map(|event| event.message)
            .collect();
        assert_eq!(backoffs.len(), 2, "{backoffs:?}");
        assert!(
            backoffs[0].ends_with(" (1 of 2 in 5m)") && backoffs[1].ends_with(" (2 of 2 in 5m)"),
            "{backoffs:?}"
        );
        host.wait_down(name);
        assert!(!host.cgroup_of(name).exists(), "its cleanup has run");
    }
    assert_eq!(runs(&host, "runs"), 3);
    host.wait_for("needs", "to say why it waits", |needs| {
        needs.message.contains("gave up after 3 failures in 5m")
    });

    // An operator's start has the whole budget again.
    let after = host.newest_event();
    host.ctl(&["start", "web"]).ok();
    host.wait_event(after, "that says that web gave up again", |event| {
        event.service == "web" && event.state == "failed"
    });
    assert_eq!(runs(&host, "runs"), 6);
    host.poweroff();
}

#[test]
fn r2_exhausted_delay_waits_for_the_end_of_the_window_and_has_a_fresh_budget() {
    const WINDOW: Duration = Duration::from_secs(2);
    let mut host = Host::builder()
        .runs_with(
            "web",
            "'append=$DIR/runs', exit=3",
            "restart: {attempts: 2, interval: 2s, exhausted: delay, delay: 10ms, maxDelay: 10ms}",
        )
        .start();
    let mut events = host.follow_events(0);
    let mut failed = |what: &str| -> Event {
        events.find(what, Duration::from_secs(30), |event| event.service == "web" && event.state == "backoff")
    };
    for window in ["first", "second"] {
        let first = failed("the first failure of the budget");
        assert!(first.message.ends_with(" (1 of 2 in 2s)"), "{window}: {first:?}");
        let second = failed("the second failure");
        assert!(second.message.ends_with(" (2 of 2 in 2s)"), "{window}: {second:?}");
        let third = failed("the third failure");
        assert!(
            third.message.contains(", restarting in ") && third.message.ends_with(" after 3 failures in 2s"),
            "{third:?}"
        );
        let next = host.wait_event(third.seq, "of the next start", |event| {
            event.service == "web" && event.state == "starting"
        });
        // Event times are whole milliseconds.
        assert!(next.at() + Duration::from_millis(2) >= first.at() + WINDOW, "{window}: {first:?}, {next:?}");
        assert!(next.at() <= first.at() + WINDOW * 3, "{window}: {first:?}, {next:?}");
    }
    let web = host.service("web");
    assert!(web.restarts >= 6 && web.state != "failed", "{web:?}");
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.poweroff();
}

#[test]
fn r2_failures_outside_the_window_do_not_count() {
    let mut host = Host::builder()
        .runs_with(
            "web",
            "exit=3",
            "restart: {attempts: 2, interval: 150ms, exhausted: fail, delay: 100ms, maxDelay: 100ms}",
        )
        // A success is no failure.
        .runs_with(
            "calm",
            "exit=0",
            "restart: {attempts: 2, interval: 5m, exhausted: fail, delay: 10ms, maxDelay: 10ms}",
        )
        .start();
    for name in ["web", "calm"] {
        let service =
            host.wait_for(name, "to have been started again", |s| s.restarts >= 8 || s.state == "failed");
        assert_ne!(service.state, "failed", "{service:?}");
    }
    host.poweroff();
}
