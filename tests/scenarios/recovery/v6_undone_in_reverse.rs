//! V6: preparing fails at its third step: the first two are undone, in reverse order, and each failure on the
//! way is reported.

use kelson_tests::Host;

use super::{Fault, each_fault};

/// The third of the `pre` hooks fails, and so does the first of those that undo. In between PID 1 ends: before the third,
/// and while it is undone.
fn undone_in_reverse(fault: Fault) {
    let mut host = Host::builder()
        .crash_limit("1000/1m")
        .runs_with(
            "web",
            "append=$DIR/main, serve",
            "restart: {policy: once}\n\
             hooks:\n\
             \x20 pre:\n\
             \x20   - {command: [$PROGRAM, print=first-done]}\n\
             \x20   - {command: [$PROGRAM, print=second-done]}\n\
             \x20   - {command: [$PROGRAM, print=third-begun, wait-path=$DIR/fail, exit=3]}\n\
             \x20 post:\n\
             \x20   - {command: [$PROGRAM, print=second-undone, wait-path=$DIR/go-on, exit=4]}\n\
             \x20   - {command: [$PROGRAM, print=first-undone]}",
        )
        .start();
    host.wait_log("web", "third-begun");
    let newest = host.newest_event();
    host.touch("fail");
    host.wait_log("web", "second-undone");
    fault.strike(&host);
    host.touch("go-on");
    let failed = host.wait_state("web", "failed");
    assert!(
        failed.message.contains("pre hook") && failed.message.contains("exited with status 3"),
        "{failed:?}"
    );
    host.wait_event(newest, "the failure of the undoing", |event| {
        event.service == "web" && event.message.contains("post hook") && event.message.contains("status 4")
    });
    host.wait_log("web", "first-undone");
    let log = host.log_text("web");
    let words = ["first-done", "second-done", "third-begun", "second-undone", "first-undone"];
    let mut said: Vec<&str> =
        log.lines().filter_map(|line| words.into_iter().find(|word| line.ends_with(word))).collect();
    // Steps that were cut off were begun again; no other is done twice.
    said.dedup();
    assert_eq!(said, words, "{log}");
    assert!(!host.path("main").exists(), "its main process ran");
    host.assert_nothing_left("web", "third-begun");
    host.poweroff();
}

#[test]
fn v6_what_was_prepared_is_undone_in_reverse_and_no_failure_hides_another() {
    each_fault(undone_in_reverse);
}

/// PID 1 ends in the middle of preparing: what the hooks of that start did is undone before another start begins.
fn a_start_that_was_cut_off_is_undone(fault: Fault) {
    let mut host = Host::builder()
        .crash_limit("1000/1m")
        .runs_with(
            "web",
            "print=main, serve",
            "hooks:\n\
             \x20 pre: [{command: [$PROGRAM, print=done, wait-path=$DIR/go]}]\n\
             \x20 post: [{command: [$PROGRAM, print=undone]}]",
        )
        .start();
    host.wait_log("web", "done");
    fault.strike(&host);
    host.touch("go");
    host.wait_up("web");
    host.wait_log("web", "main");
    let log = host.log_text("web");
    let words = ["undone", "done", "main"];
    let said: Vec<&str> =
        log.lines().filter_map(|line| words.into_iter().find(|word| line.ends_with(word))).collect();
    assert_eq!(said, ["done", "undone", "done", "main"], "{log}");
    assert_eq!(host.service("web").restarts, 0);
    host.poweroff();
}

#[test]
fn v6_a_start_that_was_cut_off_is_undone_before_the_next() {
    each_fault(a_start_that_was_cut_off_is_undone);
}
