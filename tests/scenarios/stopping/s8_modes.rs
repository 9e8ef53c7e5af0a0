//! S8: which processes get the stop signal, and what comes after it.

use kelson_tests::{Host, eventually};

/// Ends at once, and has a child that takes its time.
const SLOW_CHILD: &str = "process: {command: [$PROGRAM, 'spawn=await=TERM,sleep=300ms,touch=$DIR/NAME,exit=0', print=ready, await=TERM]}\n";

fn killed(host: &Host, name: &str) -> bool {
    host.events_of(name).iter().any(|event| event.message.contains("of its stop signal, killed"))
}

#[test]
fn s8_the_signal_goes_to_all_processes_if_the_file_says_so() {
    let slow = |name: &str, stop: &str| {
        format!("{}stop: {{timeout: 20s, {stop}}}", SLOW_CHILD.replace("NAME", name))
    };
    let mut host = Host::builder()
        .service("main", &slow("main", "mode: main"))
        .service("all", &slow("all", "mode: cgroup"))
        .up(&["main", "all"]);
    for name in ["main", "all"] {
        host.wait_log(name, "ready");
        eventually("its child", || host.processes_with(&format!("/{name},exit=0")).len() == 2);
        host.ctl(&["stop", name, "--wait"]).ok();
        assert!(host.processes_with(&format!("/{name},exit=0")).is_empty(), "{:?}", host.processes());
        assert!(!killed(&host, name), "{:?}", host.events_of(name));
    }
    assert_eq!((host.path("main").exists(), host.path("all").exists()), (false, true));
    host.poweroff();
}

#[test]
fn s8_the_timeout_is_for_all_of_them() {
    let deaf = "process: {command: [$PROGRAM, 'spawn=ignore=TERM,print=deaf,hang', await=TERM]}\nstop: {mode: control-group, timeout: 400ms}";
    let mut host = Host::builder().service("web", deaf).up(&["web"]);
    host.wait_log("web", "deaf");
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(killed(&host, "web"), "{:?}", host.events_of("web"));
    assert!(host.processes_with("ignore=TERM").is_empty(), "{:?}", host.processes());
    host.poweroff();
}

#[test]
fn s8_other_signals_follow_if_the_file_says_so() {
    let mut host = Host::builder()
        .runs_with(
            "shell",
            "ignore=TERM, 'notify=READY=1', await=HUP, touch=$DIR/hung-up, exit=0",
            "readiness: notify\nstop: {hangUp: true, timeout: 20s}",
        )
        .runs_with(
            "last",
            "ignore=TERM, 'notify=READY=1', await=ABRT, touch=$DIR/aborted, exit=0",
            "readiness: notify\nstop: {finalSignal: SIGABRT, timeout: 300ms}",
        )
        .up(&["shell", "last"]);
    for name in ["shell", "last"] {
        host.ctl(&["stop", name, "--wait"]).ok();
    }
    assert!(host.path("hung-up").exists() && host.path("aborted").exists());
    assert_eq!((killed(&host, "shell"), killed(&host, "last")), (false, true));
    host.poweroff();
}
