//! reboot, poweroff, halt; reexec, after which the host goes on.

use std::process::Stdio;

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
fn a_reexec_after_which_nobody_answers_ends_with_status_1() {
    let mut fake = Fake::start(State { reexec: Reexec::GoesOnAsItWas, ..two() });
    let child = at(&fake.socket(), "reexec").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    fake.until_asked("reexec", 1);
    fake.cut();
    let done = done(child.wait_with_output().unwrap()).refused(1);
    assert!(done.err.contains("no connection for 30 s"), "{done:?}");
}

#[test]
fn the_stop_order_is_shown_until_the_end() {
    for words in ["reboot", "poweroff", "halt", "reboot-no-wait", "poweroff-json"] {
        Fake::start(last_words()).transcript(words);
    }
}

#[test]
fn a_reexec_is_over_once_pid_1_answers_from_its_next_life() {
    Fake::start(two()).transcript("reexec");
}

#[test]
fn a_reexec_that_is_not_what_was_asked_for_ends_with_status_1() {
    for (reexec, name) in [
        (Reexec::GoesOnAsItWas, "goes-on"),
        (Reexec::Crashes, "crashes"),
        (Reexec::OtherVersion, "other-version"),
        (Reexec::BeginsAnew, "begins-anew"),
    ] {
        Fake::start(State { reexec, reexecs: 3, ..two() }).transcript(&format!("reexec-{name}"));
    }
}
