//! R6: a service that is tried again says what ended its last run until it is up, and counts down to its restart; also
//! after a re-exec and a crash of PID 1.

use std::time::Duration;

use kelson_tests::{Host, PATIENCE, eventually};
use serde_json::Value;

use crate::recovery::{Fault, each_fault};

const ENDED: &str = "exited with status 1 before it was ready after ";

fn status(host: &Host, name: &str) -> Value {
    host.ctl(&["status", name, "-o", "json"]).ok().json()
}

fn left(host: &Host) -> Duration {
    let status = status(host, "pauses");
    let left = status["retry"]["restartInMs"].as_f64().unwrap_or_else(|| panic!("{status:#}"));
    Duration::from_secs_f64(left / 1000.0)
}

/// The row of a service in `services`.
fn row(host: &Host, name: &str) -> String {
    let table = host.ctl(&["services"]).ok().stdout;
    let row = table.lines().find(|row| row.starts_with(&format!("{name} ")));
    row.unwrap_or_else(|| panic!("{table}")).to_owned()
}

#[test]
fn r6_a_service_that_is_tried_again_says_what_ended_its_last_run() {
    each_fault(strikes);
}

fn strikes(fault: Fault) {
    let mut host = Host::builder()
        .runs_with("pauses", "exit=1", "readiness: notify\nrestart: {delay: 10m, maxDelay: 10m}")
        .runs_with(
            "again",
            "'fail-until=2:$DIR/tries', 'wait-path=$DIR/go', notify=READY=1, serve",
            "readiness: notify\nstartTimeout: 10m\nrestart: {delay: 100ms}",
        )
        .start();
    host.wait_state("pauses", "backoff");
    host.wait_for("again", "to be tried again", |again| again.message.contains("; the last run: "));

    let said = |host: &Host| {
        let again = host.wait_state("again", "starting");
        let (_, last) =
            again.message.split_once("; the last run: ").expect("it says what ended its last run");
        assert!(last.starts_with(ENDED), "{again:?}");
        for shown in
            [row(host, "again"), host.ctl(&["status", "again"]).ok().stdout, host.client().why("again").text]
        {
            assert!(shown.contains(&format!("; the last run: {ENDED}")), "{shown}");
        }
        assert_eq!(status(host, "again")["retry"]["restartInMs"], Value::Null, "it is in no backoff");
        status(host, "again")["retry"]["ended"].clone()
    };
    let ended = said(&host);
    let before = left(&host);
    assert!(before > Duration::from_secs(500) && before <= Duration::from_secs(750), "{before:?}");
    fault.strike(&host);

    assert_eq!(said(&host), ended, "the next incarnation says the same");
    let after = left(&host);
    assert!(after < before && after > before.saturating_sub(PATIENCE), "{before:?} became {after:?}");
    // The text counts too, and all of them are the same.
    let shown = |text: &str| {
        let (_, rest) = text.split_once(", restarting in ").unwrap_or_else(|| panic!("{text}"));
        rest.split_whitespace().next().unwrap_or_default().to_owned()
    };
    let first = shown(&row(&host, "pauses"));
    eventually("the next second", || shown(&row(&host, "pauses")) != first);
    for shown in [host.ctl(&["status", "pauses"]).ok().stdout, host.ctl(&["why", "pauses"]).ok().stdout] {
        assert!(shown.contains(ENDED) && shown.contains(", restarting in "), "{shown}");
    }

    // Once it is up, what was is over.
    host.touch("go");
    let up = host.wait_for("again", "to be up", |again| again.up);
    assert!(!up.message.contains("the last run"), "{up:?}");
    assert_eq!(status(&host, "again")["retry"], Value::Null);
    host.poweroff();
}
