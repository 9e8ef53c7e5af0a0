//! PID 1 crashes between the end of its main service and its own: the exit status stays.

use kelson_tests::Host;

use super::with_main;
use crate::crash::shutdown::Stranger;

/// The main service has ended with status 3, and PID 1 crashes once the file `at` is there.
#[track_caller]
fn crashes(mut host: Host, at: &str) {
    host.touch("go");
    host.wait_file(at);
    host.signal(libc::SIGSEGV);
    host.touch("on");
    assert_eq!(host.wait_exit(), 3, "{}", host.console());
    assert!(host.console().contains("PID 1 crashed and goes on"), "{}", host.console());
}

const ENDS: &str = "wait-path=$DIR/go, exit=3";

#[test]
fn before_the_run_is_cleared_away() {
    let post = "restart: {policy: once}
hooks: {post: {command: [$PROGRAM, touch=$DIR/post, wait-path=$DIR/on]}}";
    let host = with_main(ENDS, post).runs("db", "serve").up(&["web", "db"]);
    crashes(host, "post");
}

#[test]
fn while_the_others_stop() {
    let host = with_main(ENDS, "restart: {policy: once}")
        .runs_with(
            "db",
            "notify=READY=1, await=TERM, touch=$DIR/told, wait-path=$DIR/on",
            "readiness: notify",
        )
        .up(&["web", "db"]);
    crashes(host, "told");
}

#[test]
fn after_the_services() {
    let mut host = with_main(ENDS, "restart: {policy: once}").up(&["web"]);
    let mut stranger = Stranger::of(&host);
    host.touch("go");
    stranger.wait("asked");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 3, "{}", host.console());
    assert!(host.console().contains("PID 1 crashed on its way to the power off"), "{}", host.console());
}

#[test]
fn at_the_crash_limit() {
    let mut host = with_main(ENDS, "restart: {policy: once}")
        .crash_limit("1/1m")
        .runs_with(
            "db",
            "notify=READY=1, await=TERM, touch=$DIR/told, wait-path=$DIR/on",
            "readiness: notify",
        )
        .up(&["web", "db"]);
    host.touch("go");
    host.wait_file("told");
    host.signal(libc::SIGSEGV);
    host.touch("on");
    assert_eq!(host.wait_exit(), 3, "{}", host.console());
}

#[test]
fn a_re_execution_keeps_the_main_service() {
    let mut host = with_main(ENDS, "restart: {policy: once}").own_binary().up(&["web"]);
    host.ctl(&["reexec"]).ok();
    host.touch("go");
    assert_eq!(host.wait_exit(), 3, "{}", host.console());
}
