//! V1: all deadlines count on one clock, which does not count the time that a machine is suspended. `tests/boots/suspend.rs`
//! suspends a machine; here the two clocks of the kernel are apart from the beginning, as after a suspend.

use std::time::{Duration, Instant};

use kelson_tests::{Host, PATIENCE, Service, eventually};

use super::{Fault, each_fault};

/// How far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC. No deadline below has as much left.
const SUSPENDED: Duration = Duration::from_secs(7200);
/// From the stop signal to SIGKILL.
const STOP: Duration = Duration::from_secs(8);

#[test]
fn v1_time_suspended_ages_no_deadline_and_delays_none() {
    each_fault(strikes);
}

fn strikes(fault: Fault) {
    let mut host = Host::builder()
        .suspended(SUSPENDED)
        .runs_with("pauses", "exit=3", "restart: {delay: 10m, maxDelay: 10m}")
        .runs_with("starts", "hang", "readiness: notify\nstartTimeout: 10m")
        .runs_with("late", "hang", "readiness: notify\nstartTimeout: 8s\nrestart: {policy: once}")
        .runs_with("stubborn", "ignore=TERM, touch=$DIR/ready, hang", "stop: {timeout: 8s}")
        .start();
    host.wait_state("late", "starting");
    let begun = Instant::now();
    host.wait_state("pauses", "backoff");
    host.wait_state("starts", "starting");
    host.wait_file("ready");
    let (version, boot) = (started(&host), boot(&host));
    let first = host.events().first().expect("the host tells of its boot").at();
    assert!(
        first.abs_diff(version) < PATIENCE,
        "PID 1 began {:?} from its first event",
        first.abs_diff(version)
    );
    let before = ["pauses", "starts"].map(|name| seen(&host, name));
    host.ctl(&["stop", "stubborn"]).ok();
    let stopping = Instant::now();
    fault.strike(&host);
    assert!(begun.elapsed() < STOP, "this computer is too slow for this test: {:?}", begun.elapsed());

    // Aged by the suspend, the timeouts of the start and of the stop would be over, and so would the backoff.
    assert_eq!(host.service("late").state, "starting");
    assert_eq!(host.service("stubborn").state, "stopping");
    assert_eq!(["pauses", "starts"].map(|name| seen(&host, name)), before);
    assert_eq!(self::boot(&host), boot);
    let off = started(&host).abs_diff(version);
    assert!(off < Duration::from_secs(2), "PID 1 began {off:?} from where it did");

    // Delayed by it, they would not end today.
    host.wait_state("late", "failed");
    assert!(begun.elapsed() > STOP.mul_f64(0.8), "{:?}", begun.elapsed());
    eventually("the stop to end", || host.service("stubborn").stopped);
    assert!(stopping.elapsed() > STOP.mul_f64(0.8), "{:?}", stopping.elapsed());
    assert_eq!(["pauses", "starts"].map(|name| seen(&host, name)), before);
    host.poweroff();
}

/// The values that change with a run, and the start of the state.
fn seen(host: &Host, name: &str) -> (Option<i32>, u32, String, String) {
    let Service { pid, restarts, state, since, .. } = host.service(name);
    (pid, restarts, state, since.to_string())
}

fn boot(host: &Host) -> String {
    host.ctl(&["-o", "json", "boot"]).ok().stdout
}

/// When PID 1 began, as the wall clock has it.
fn started(host: &Host) -> Duration {
    let version: serde_json::Value = host.ctl(&["-o", "json", "version"]).ok().json();
    kelson_tests::time_of(&version["server"]["started"])
}
