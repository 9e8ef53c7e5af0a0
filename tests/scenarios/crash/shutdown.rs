//! V4: a power off that was under way when PID 1 crashed goes on to its end.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kelson_tests::{Host, PATIENCE, until};

#[test]
fn v4_a_power_off_goes_on_over_a_crash() {
    let mut host = Host::builder()
        .service("slow", "process: {command: [$PROGRAM, ignore=SIGTERM, hang]}\nstop: {timeout: 5s}")
        .service("later", "process: {command: [$PROGRAM, serve]}\ndepends: [{path: $DIR/never}]")
        .start();
    host.wait_up("slow");
    host.ctl(&["poweroff", "--no-wait"]).ok();
    host.wait_state("slow", "stopping");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 0);
    assert!(host.console().contains("PID 1 crashed and goes on"), "{}", host.console());
}

#[test]
fn v4_the_total_deadline_counts_over_a_crash() {
    let deaf = |timeout: &str| {
        format!("process: {{command: [$PROGRAM, ignore=SIGTERM, hang]}}\nstop: {{timeout: {timeout}}}")
    };
    let mut host = Host::builder()
        .machine("shutdown: {timeout: 12s}")
        .service("first", &deaf("8s"))
        .service("last", &deaf("5m"))
        .start();
    host.wait_up("first");
    host.wait_up("last");
    let asked = Instant::now();
    host.ctl(&["poweroff", "--no-wait"]).ok();
    // Most of the 12 s are over then. If they began anew the host would end after 20.
    host.wait_state("first", "finished");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 0);
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(18), "{took:?}: {}", host.console());
    assert!(host.console().contains("PID 1 crashed and goes on"), "{}", host.console());
}

#[test]
fn a_crash_after_the_services_does_not_begin_the_host_anew() {
    let mut host = Host::builder().service("web", "process: {command: [$PROGRAM, serve]}").start();
    host.wait_up("web");
    // A stranger in the namespace that does not end by SIGTERM: the end waits for it.
    let init = host.init_pid().to_string();
    let mut stranger = Command::new("nsenter")
        .args(["--target", &init, "--pid", "sh", "-c", "trap '' TERM; echo ready; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("nsenter(1) can be started");
    let mut ready = [0; 5];
    std::io::Read::read_exact(stranger.stdout.as_mut().expect("it is piped"), &mut ready)
        .expect("it says so");
    host.ctl(&["poweroff", "--no-wait"]).ok();
    until("the services to be past", PATIENCE, || {
        host.console().contains("services and logd have stopped").then_some(())
    });
    until("the socket to be gone", PATIENCE, || (!host.path("run/init.sock").exists()).then_some(()));
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 0);
    let console = host.console();
    assert!(console.contains("PID 1 crashed on its way to the power off"), "{console}");
    assert_eq!(console.matches("web: running").count(), 1, "{console}");
    stranger.wait().expect("it is our child");
}
