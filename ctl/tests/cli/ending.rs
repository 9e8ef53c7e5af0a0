//! reboot, poweroff, halt; reexec, after which the host goes on.

use std::process::Stdio;

use serde_json::json;

use crate::fake::{Fake, Reexec, State};
use crate::{at, done, event, two};

fn last_words() -> State {
    State {
        events: vec![event(1, "db", "old")],
        last_words: vec![event(2, "web", "stopped"), event(3, "db", "stopped")],
        ..two()
    }
}

#[test]
fn the_stop_order_is_shown_until_the_end() {
    for (words, action) in [("reboot", "Reboot"), ("poweroff", "Poweroff"), ("halt", "Halt")] {
        let fake = Fake::start(last_words());
        let done = fake.run(words).silent(0);
        let lines: Vec<&str> = done.out.lines().collect();
        assert_eq!(lines[0], "everything stops, then the host reboots");
        assert!(lines[1].contains("web") && lines[2].contains("db"), "{done:?}");
        assert_eq!(lines.len(), 3, "nothing older than the shutdown: {done:?}");
        let asked = fake.asked();
        assert_eq!(asked.last().unwrap(), &format!("shutdown {action} kelsonctl"));
    }
}

#[test]
fn without_staying_only_the_answer_is_shown() {
    let fake = Fake::start(last_words());
    let done = fake.run("reboot --no-wait --reason maintenance");
    assert_eq!((done.status, done.out.as_str()), (0, "everything stops, then the host reboots\n"));
    assert_eq!(fake.asked(), ["shutdown Reboot maintenance, by kelsonctl"]);
}

#[test]
fn a_shutdown_in_json_is_a_line_each() {
    let fake = Fake::start(last_words());
    let done = fake.run("-o json poweroff");
    let lines: Vec<serde_json::Value> =
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({"message": "everything stops, then the host reboots"}));
    assert_eq!((&lines[1]["seq"], &lines[2]["seq"]), (&json!(2), &json!(3)));
}

#[test]
fn a_reexec_that_is_not_what_was_asked_for_ends_with_status_1() {
    for (reexec, words) in [
        (Reexec::GoesOnAsItWas, "PID 1 goes on as it was, and runs version 9.8.7"),
        (Reexec::Crashes, "PID 1 crashed meanwhile, and runs version 9.8.7"),
        (Reexec::OtherVersion, "PID 1 runs version 9.8.7, and not 9.9.0"),
        (Reexec::BeginsAnew, "started without it; it runs version 9.8.7"),
    ] {
        let fake = Fake::start(State { reexec, reexecs: 3, ..two() });
        let done = fake.run("-o json reexec").refused(1);
        assert!(done.err.contains(words) && done.err.contains("`kelsonctl events`"), "{reexec:?}: {done:?}");
    }
}

#[test]
fn a_reexec_after_which_nobody_answers_ends_with_status_1() {
    let mut fake = Fake::start(State { reexec: Reexec::GoesOnAsItWas, ..two() });
    let child = at(&fake.socket(), "reexec").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    fake.until_asked("reexec", 1);
    fake.cut();
    let done = done(child.wait_with_output().unwrap()).refused(1);
    assert!(done.err.contains("no connection for 30 s"), "{done:?}");
}

#[test]
fn a_reexec_is_over_once_pid_1_answers_from_its_next_life() {
    let fake = Fake::start(two());
    let done = fake.run("reexec --reason upgrade").silent(0);
    assert_eq!(done.out, "PID 1 runs version 9.8.7 (before: 9.8.7), from /sbin/init (kelson 0.2.0)\n");
    assert!(fake.asked().contains(&"reexec upgrade, by kelsonctl".to_owned()), "{:?}", fake.asked());
    assert_eq!(
        fake.json("reexec"),
        json!({
            "program": "/sbin/init (kelson 0.2.0)", "oldVersion": "9.8.7", "version": "9.8.7", "reexecs": 2
        })
    );
}
