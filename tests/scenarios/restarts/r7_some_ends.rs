//! R7: statuses and signals that count as success, that prevent a restart, and that force one.

use kelson_tests::Host;

const QUICK: &str = "delay: 20ms, maxDelay: 20ms";

#[test]
fn r7_some_ends_count_as_success() {
    let success = "success: [3, SIGTERM]";
    let mut host = Host::builder()
        .runs_with("migrate", "exit=3", &format!("type: oneshot\n{success}"))
        .runs_with("killed", "raise=TERM, hang", &format!("{success}\nrestart: {{policy: untilSuccess}}"))
        .runs_with("other", "exit=4", &format!("type: oneshot\n{success}"))
        // A status is no signal.
        .runs_with("status", "exit=15", &format!("type: oneshot\n{success}"))
        .runs_with("after", "hang", "depends: [{service: migrate}]")
        .start();
    let migrate = host.wait_state("migrate", "finished");
    assert!(migrate.message.starts_with("exited with status 3 (counts as success) after "), "{migrate:?}");
    let killed = host.wait_state("killed", "finished");
    assert!(killed.message.starts_with("killed by SIGTERM (counts as success) after "), "{killed:?}");
    assert_eq!(killed.restarts, 0);
    for name in ["other", "status"] {
        let failed = host.wait_state(name, "failed");
        assert!(!failed.message.contains("success"), "{failed:?}");
    }
    host.wait_up("after");
    host.poweroff();
}

#[test]
fn r7_the_exit_status_of_a_host_is_0_if_the_end_of_its_service_counts_as_success() {
    let mut host = Host::builder()
        .machine("main: job")
        .runs_with("job", "exit=3", "type: oneshot\nsuccess: [3]")
        .spawn();
    assert_eq!(host.wait_exit(), 0);
}

#[test]
fn r7_some_ends_prevent_a_restart_and_some_force_one() {
    let mut host = Host::builder()
        .runs_with(
            "prevented",
            "exit=4",
            &format!("restart: {{preventOn: [4, SIGSEGV], forceOn: [4], {QUICK}}}"),
        )
        .runs_with("segfault", "raise=SEGV, hang", &format!("restart: {{preventOn: [4, SIGSEGV], {QUICK}}}"))
        .runs_with("other", "exit=5", &format!("restart: {{preventOn: [4, SIGSEGV], {QUICK}}}"))
        .runs_with(
            "forced",
            "exit=0",
            &format!("type: oneshot\nrestart: {{policy: once, forceOn: [0], {QUICK}}}"),
        )
        .start();
    for (name, end) in [("prevented", "exited with status 4 after "), ("segfault", "killed by SIGSEGV")] {
        let failed = host.wait_state(name, "failed");
        assert!(failed.message.starts_with(end), "{failed:?}");
        assert!(failed.message.ends_with("; restart.preventOn has that"), "{failed:?}");
        assert_eq!(failed.restarts, 0);
    }
    for name in ["other", "forced"] {
        host.wait_for(name, "to have been started again three times", |service| service.restarts >= 3);
    }
    host.poweroff();
}

/// Its watchdog alone restarts it.
#[test]
fn r7_a_missed_watchdog_is_an_end_of_its_own() {
    let restart =
        format!("readiness: notify\nrestart: {{policy: onWatchdog, {QUICK}}}\nstop: {{timeout: 1s}}");
    let watched = format!("{restart}\nwatchdog: 50ms");
    let mut host = Host::builder()
        .runs_with("misses", "'notify=READY=1', 'notify=WATCHDOG_USEC=50000', hang", &restart)
        .runs_with("given", "'report-of=env.WATCHDOG_USEC', 'notify=READY=1', hang", &watched)
        .runs_with("fails", "'notify=READY=1', exit=1", &restart)
        .start();
    for name in ["misses", "given"] {
        host.wait_for(name, "to have been restarted twice", |service| service.restarts >= 2);
    }
    host.wait_log("given", "env.WATCHDOG_USEC 50000");
    let failed = host.wait_state("fails", "failed");
    assert!(failed.message.ends_with("; restart.policy is onWatchdog"), "{failed:?}");
    assert_eq!(failed.restarts, 0);
    host.poweroff();
}
