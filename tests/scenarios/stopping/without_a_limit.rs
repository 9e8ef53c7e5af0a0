//! `stop.timeout: none` waits for as long as it takes, and `now` not at all.

use std::time::Duration;

use kelson_tests::Host;

const DEAF: &str = "process: {command: [$PROGRAM, ignore=SIGTERM, notify=READY=1, hang]}\nreadiness: notify\nrestart: {policy: always}\n";

#[test]
fn a_stop_by_force_kills_what_is_stopping_and_what_runs() {
    let text = format!(
        "{DEAF}stop: {{timeout: none, delay: 1h}}\nhooks: {{post: {{command: [$PROGRAM, touch=$DIR/post]}}}}"
    );
    let mut host = Host::builder()
        .service("endless", &format!("{DEAF}stop: {{timeout: none}}"))
        .service("delayed", &text)
        .start();
    for name in ["endless", "delayed"] {
        host.wait_up(name);
        host.ctl(&["stop", name]).ok();
        host.wait_state(name, "stopping");
        host.ctl(&["stop", "--force", name, "--wait"]).ok();
        let told = host.events_of(name);
        assert!(told.iter().any(|event| event.message == "killed: asked by an operator"), "{told:#?}");
        assert!(host.service(name).stopped);
    }
    host.wait_file("post");
    // At once, and only this time.
    host.ctl(&["start", "endless", "--wait"]).ok();
    host.ctl(&["stop", "--force", "endless", "--wait"]).ok();
    host.ctl(&["start", "endless", "--wait"]).ok();
    host.ctl(&["stop", "endless"]).ok();
    host.wait_state("endless", "stopping");
    host.ctl(&["reexec"]).ok();
    assert_eq!(host.service("endless").state, "stopping", "it is not killed again");
    host.ctl(&["stop", "--force", "endless", "--wait"]).ok();
    host.poweroff();
}

#[test]
fn a_stop_without_a_timeout_lasts_until_the_shutdown_bounds_it() {
    let mut host = Host::builder()
        .machine("shutdown: {timeout: 2s}")
        .service("endless", &format!("{DEAF}stop: {{timeout: none}}"))
        .service("hasty", &format!("{DEAF}stop: {{timeout: now}}"))
        .start();
    for name in ["endless", "hasty"] {
        host.wait_up(name);
    }
    host.ctl(&["stop", "hasty", "--wait"]).ok();
    let told = host.events_of("hasty");
    assert!(told.iter().any(|event| event.message == "killed at once: its stop.timeout is now"), "{told:#?}");

    let pid = host.pid_of("endless");
    host.ctl(&["stop", "endless"]).ok();
    host.wait_state("endless", "stopping");
    // A re-exec in between begins no other count.
    host.ctl(&["reexec"]).ok();
    let status = host.ctl(&["status", "endless"]).ok().stdout;
    assert!(status.contains("timeout: none"), "{status}");
    assert_eq!((host.service("endless").state.as_str(), host.pid_of("endless")), ("stopping", pid));
    host.ctl(&["poweroff"]).ok();
    assert_eq!(host.wait_exit_within(Duration::from_secs(60)), 0, "{}", host.console());
    assert!(
        host.console().contains("endless: stopping - the total deadline has passed: killed"),
        "{}",
        host.console()
    );
}
