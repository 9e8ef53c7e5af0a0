//! An error comes with advice for the operator.

use kelson_tests::{Host, HostBuilder};

fn forks_into_the_background(host: HostBuilder) {
    let mut host = host
        .runs_with("daemon", "orphan=hang, exit=0", "restart: {policy: once}")
        .runs_with("plain", "exit=0", "restart: {policy: once}")
        .start();
    let daemon = host.wait_state("daemon", "finished").message;
    let hint = " and left 1 process, which was killed: does it fork into the background?";
    assert!(daemon.starts_with("exited with status 0 after ") && daemon.contains(hint), "{daemon}");
    let plain = host.wait_state("plain", "finished").message;
    assert!(!plain.contains("left"), "{plain}");
    let left = host.processes_with("orphan=hang");
    assert!(left.is_empty(), "{left:?}");
    host.poweroff();
}

#[test]
fn a_program_that_forks_into_the_background_is_told_so() {
    forks_into_the_background(Host::builder());
}

#[test]
fn a_program_that_forks_into_the_background_is_told_so_without_a_cgroup() {
    forks_into_the_background(Host::builder().without_cgroup());
}

#[test]
fn a_limit_that_is_too_high_is_told_with_the_highest_that_can_be() {
    let text = "process: {command: [$PROGRAM, serve]}\nlimits: {nofile: 2000000000}\nrestart: {policy: once}";
    let mut host = Host::builder().service("web", text).start();
    let message = host.wait_state("web", "failed").message;
    assert!(
        message.contains("cannot set limit nofile to 2000000000, fs.nr_open of the host is "),
        "{message}"
    );
    host.poweroff();
}
