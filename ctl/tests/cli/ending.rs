//! reboot, poweroff, halt; reexec, after which the host goes on.

use std::process::Stdio;

use kelson_proto::v1::ResumedStep;
use kelson_proto::v1::resumed_step::Outcome;

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

#[test]
fn each_step_after_a_resume_is_shown_and_one_that_failed_ends_with_status_1() {
    let step = |name: &str, is_service, outcome: Outcome, message: &str| ResumedStep {
        name: name.to_owned(),
        is_service,
        outcome: outcome.into(),
        message: message.to_owned(),
    };
    let mut resumed = vec![
        step("random generator", false, Outcome::Done, "64 bytes credited"),
        step("machine id", false, Outcome::Done, "a new one, kept"),
        step("db", true, Outcome::NotDeclared, ""),
        step("web", true, Outcome::Done, "SIGUSR1 sent, 1 hook succeeded"),
    ];
    answers(resumed.clone(), "resumed");
    resumed.push(step("x", true, Outcome::Late, "it had not ended at the deadline"));
    answers(resumed, "resumed-late");
}

#[track_caller]
fn answers(resumed: Vec<ResumedStep>, transcript: &str) {
    let fake = Fake::start(State { resumed, ..two() });
    std::fs::write(fake.folder().join("entropy"), [7; 40]).unwrap();
    fake.transcript(transcript);
}

#[test]
fn the_key_of_a_disk_comes_from_standard_input() {
    use std::io::Write as _;
    let fake = Fake::start(two());
    let unlock = |key: &[u8]| {
        let mut child = at(&fake.socket(), "disk unlock data");
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(key).unwrap();
        done(child.wait_with_output().unwrap())
    };
    let opened = unlock(b"cbde-fghi\n");
    assert_eq!((opened.status, opened.out.as_str()), (0, "/dev/vdb is open as /dev/mapper/data\n"));
    assert_eq!(unlock(b"a\n\n").status, 0, "one newline alone does not count");
    let refused = unlock(b"\n").refused(2);
    assert!(refused.err.contains("there is no key on standard input"), "{refused:?}");
    let refused = unlock(&[b'k'; 4097]).refused(2);
    assert!(refused.err.contains("the key is longer than 4096 bytes"), "{refused:?}");
    assert_eq!(fake.asked(), ["unlock data cbde-fghi", "unlock data a\n"]);
}

#[test]
fn a_recovery_key_is_forgotten_once_it_is_shown() {
    let fake = Fake::start(two());
    let shown = done(at(&fake.socket(), "disk recovery data").output().unwrap());
    assert_eq!((shown.status, shown.out.as_str()), (0, "cbdefghi-jklnrtuv\n"));
    let shown = done(at(&fake.socket(), "disk recovery --keep data").output().unwrap());
    assert_eq!(shown.status, 0);
    assert_eq!(fake.asked(), ["recovery data false", "recovery data true", "recovery data false"]);
}

#[test]
fn a_machine_does_not_send_its_own_random_bytes_to_itself() {
    Fake::start(two()).transcript("resumed-inside");
}
