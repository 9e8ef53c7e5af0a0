//! V4: a power off that was under way when PID 1 crashed goes on to its end.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use kelson_tests::Host;

#[test]
fn v4_a_power_off_goes_on_over_a_crash() {
    let mut host = Host::builder()
        .runs_deaf("slow", "stop: {timeout: 5s}")
        .runs_with("later", "serve", "depends: [{path: $DIR/never}]")
        .up(&["slow"]);
    host.ctl(&["poweroff", "--no-wait"]).ok();
    host.wait_state("slow", "stopping");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 0);
    assert!(host.console().contains("PID 1 crashed and goes on"), "{}", host.console());
}

fn the_total_deadline_counts(limit: &str, told: &str) {
    let mut host = Host::builder()
        .crash_limit(limit)
        .machine("shutdown: {timeout: 12s}")
        .runs_deaf("first", "stop: {timeout: 8s}")
        .runs_deaf("last", "stop: {timeout: 5m}")
        .up(&["first", "last"]);
    let asked = Instant::now();
    host.ctl(&["poweroff", "--no-wait"]).ok();
    // Most of the 12 s are over then. If they started again the host would end after 20.
    host.wait_state("first", "stopped");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 0);
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(18), "{took:?}: {}", host.console());
    assert!(host.console().contains(told), "{}", host.console());
}

#[test]
fn v4_the_total_deadline_counts_over_a_crash() {
    the_total_deadline_counts("3/1m", "PID 1 crashed and goes on");
}

#[test]
fn v4_the_total_deadline_counts_at_the_crash_limit() {
    the_total_deadline_counts("1/1m", "PID 1 crashed 1 times in 1m");
}

/// A process in the namespace of a host that says when it is asked to end, and does not.
pub struct Stranger {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Stranger {
    #[track_caller]
    pub fn of(host: &Host) -> Stranger {
        let script = "trap 'echo asked' TERM; echo ready; while :; do sleep 1000; done";
        let mut child = Command::new("nsenter")
            .args(["--target", &host.init_pid().to_string(), "--pid", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("nsenter(1) can be started");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut stranger = Stranger { child, lines };
        stranger.wait("ready");
        stranger
    }

    #[track_caller]
    pub fn wait(&mut self, word: &str) {
        let line = self.lines.next().expect("it lives").expect("its output can be read");
        assert_eq!(line, word);
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host on its way to a power off, past its services: it waits for a stranger.
fn past_its_services() -> (Host, Stranger) {
    let host = Host::builder().runs("web", "serve").up(&["web"]);
    let mut stranger = Stranger::of(&host);
    host.ctl(&["poweroff", "--no-wait"]).ok();
    stranger.wait("asked");
    (host, stranger)
}

const ON_ITS_WAY: &str = "PID 1 crashed on its way to the power off";

#[test]
fn a_crash_after_the_services_does_not_begin_the_host_anew() {
    let (mut host, _stranger) = past_its_services();
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 0);
    let console = host.console();
    assert!(console.contains(ON_ITS_WAY), "{console}");
    assert_eq!(console.matches("web: running").count(), 1, "{console}");
}

#[test]
fn a_second_crash_after_the_services_ends_the_run_at_once() {
    let (mut host, mut stranger) = past_its_services();
    host.signal(libc::SIGSEGV);
    // By the next incarnation.
    stranger.wait("asked");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 0, "{}", host.console());
    // No third incarnation, which would say so as well.
    assert_eq!(host.console().matches(ON_ITS_WAY).count(), 1, "{}", host.console());
}
