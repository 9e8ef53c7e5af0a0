//! S3: stopped, frozen and deaf processes do not keep a host from its end, and it says whom it killed or gave up on.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::cgroup::Freezer;
use kelson_tests::{Host, PATIENCE, eventually, process, until};

const DEADLINE: &str = "shutdown: {timeout: 3s}";

#[track_caller]
fn wait_frozen(folder: &std::path::Path) {
    fs::write(folder.join("cgroup.freeze"), "1").expect("its cgroup can be frozen");
    until("its cgroup to be frozen", PATIENCE, || {
        fs::read_to_string(folder.join("cgroup.events")).ok()?.contains("frozen 1").then_some(())
    });
}

#[track_caller]
fn wait_stopped(host: &Host, word: &str) {
    eventually("it to be stopped", || host.processes_with(word).iter().any(|process| process.state == 'T'));
}

#[test]
fn s3_a_stopped_process_ends_by_its_stop_signal() {
    let mut host = Host::builder().runs("asleep", "stop-self, hang").start();
    wait_stopped(&host, "stop-self");
    let begun = Instant::now();
    host.ctl(&["stop", "asleep", "--wait"]).ok();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}, half of its timeout", begun.elapsed());
    host.assert_nothing_left("asleep", "stop-self");
    let said = host.events_of("asleep");
    assert!(!said.iter().any(|event| event.message.contains("killed by SIGKILL")), "{said:#?}");
    host.poweroff();
}

#[test]
fn s3_a_frozen_cgroup_is_thawed_to_stop() {
    let mut host = Host::builder().runs("ice", "await=TERM, touch=$DIR/obeyed").up(&["ice"]);
    wait_frozen(&host.cgroup_of("ice"));
    let begun = Instant::now();
    host.ctl(&["stop", "ice", "--wait"]).ok();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}, half of its timeout", begun.elapsed());
    assert!(host.path("obeyed").exists(), "it could not act on its stop signal");
    host.assert_nothing_left("ice", "await=TERM");
    host.poweroff();
}

#[test]
fn s3_the_total_deadline_ends_all_and_says_whom_it_killed() {
    let mut host = Host::builder()
        .machine(DEADLINE)
        .runs_deaf("deaf", "stop: {timeout: 5m}")
        .runs_deaf("delayed", "stop: {timeout: 5m, delay: 5m}")
        .runs_deaf("ice", "stop: {timeout: 5m}")
        // It comes to no stop of its own: what needs it does not end.
        .runs("below", "serve")
        .runs_with(
            "asleep",
            "ignore=TERM, stop-self, stop-self, hang",
            "stop: {timeout: 5m}\ndepends: [{service: below}]",
        )
        .runs("good", "serve")
        .start();
    host.wait_all_up(&["deaf", "delayed", "ice", "good"]);
    wait_stopped(&host, "stop-self");
    wait_frozen(&host.cgroup_of("ice"));
    let events = super::following(&host);
    let begun = Instant::now();
    host.ctl(&["poweroff"]).ok();
    assert_eq!(host.wait_exit_within(Duration::from_secs(12)), 0);
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(3), "they have the time that the machine file gives: {took:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
    let (events, _) = events.rest();
    let passed = events
        .iter()
        .find(|event| event.service.is_empty() && event.message.contains("total deadline"))
        .unwrap_or_else(|| panic!("nobody said whom it killed: {events:#?}"));
    let (_, names) = passed.message.split_once("killing ").expect("whom");
    assert_eq!(names, "asleep, below, deaf, delayed, ice", "{passed:?}");
    for name in ["asleep", "deaf", "delayed", "ice"] {
        let said = "the total deadline has passed: killed";
        let told = events.iter().any(|event| event.service == name && event.message.contains(said));
        assert!(told, "{name}: {events:#?}");
    }
}

#[test]
fn s3_a_process_that_not_even_sigkill_ends_is_given_up_on_by_name() {
    let mut host = Host::builder()
        .machine(DEADLINE)
        .runs_with("stuck", "hang", "stop: {timeout: 200ms}")
        .runs("good", "serve")
        .up(&["stuck", "good"]);
    let Some(freezer) = Freezer::new() else { return };
    let outer = host.outer_pid(host.pid_of("stuck"));
    freezer.freeze(outer);
    let events = super::following(&host);
    host.ctl(&["poweroff"]).ok();
    let console = until("PID 1 to give up on it", Duration::from_secs(25), || {
        Some(host.console()).filter(|console| console.contains("gave up on kelson-test-"))
    });
    assert!(console.contains("not even SIGKILL ended them"), "{console}");
    // The kernel itself waits for it in a PID namespace, where a machine would be off by now.
    assert!(process::of_namespace(host.init_pid()).iter().any(|process| process.outer_pid == outer));
    freezer.thaw();
    assert_eq!(host.wait_exit(), 0);
    let (events, _) = events.rest();
    let named = "gave up on stuck: its processes cannot be killed";
    assert!(events.iter().any(|event| event.message == named), "{events:#?}");
    assert_eq!(super::first(&events, "good", "stopped").service, "good");
}

#[test]
fn s3_a_stop_in_a_container_takes_8_seconds_at_most() {
    let mut host = Host::builder().runs_deaf("web", "stop: {timeout: 5m}").up(&["web"]);
    let asked = Instant::now();
    host.signal(libc::SIGTERM);
    assert_eq!(host.wait_exit(), 0);
    let took = asked.elapsed();
    // On a busy computer, too; without the default it would be 60 s.
    assert!(took >= Duration::from_secs(8) && took < Duration::from_secs(20), "{took:?}: {}", host.console());
    assert!(host.console().contains("the total deadline of the stop has passed"), "{}", host.console());
}
