//! C4: containerd dies or is restarted: containers and their shims go on running; when it is back they are attached
//! again, with the same PID and no restart counted. A call that was lost is no exit.

use kelson_tests::{Host, eventually};

use super::{host, steps, test_image};

fn running() -> Host {
    host(&[test_image()])
        .service(
            "web",
            &format!(
                "{}restart: {{policy: forever, delay: 10ms}}\nstop: {{timeout: 200ms}}",
                steps("print=begun, ticker=20ms")
            ),
        )
        .service("other", &steps("serve"))
        .up(&["web", "other"])
}

/// The host's containerd was replaced, and nothing of its containers changed.
#[track_caller]
fn unchanged(host: &Host, was: i32, pids: [i32; 2]) {
    host.wait_for("containerd", "to be another and up", |now| {
        now.up && now.pid.is_some_and(|pid| pid != was)
    });
    goes_on(host, &[("web", pids[0]), ("other", pids[1])]);
    assert!(!host.processes_with("/program").is_empty());
    // Its output goes on.
    let ticks = host.log_text("web").lines().count();
    eventually("more of its output", || host.log_text("web").lines().count() > ticks + 3);
    // An end is seen again, and acted upon.
    host.kill(pids[0], libc::SIGKILL);
    let again =
        host.wait_for("web", "to run again", |web| web.up && web.pid.is_some_and(|pid| pid != pids[0]));
    assert_eq!(again.restarts, 1, "{again:?}");
    host.ctl(&["stop", "other", "--wait"]).ok();
    assert_eq!(host.containers(), ["web"]);
}

/// The same processes, and no restart counted.
#[track_caller]
fn goes_on(host: &Host, all: &[(&str, i32)]) {
    for (name, pid) in all {
        let now = host.service(name);
        assert_eq!((now.pid, now.restarts, now.up), (Some(*pid), 0, true), "{now:?}");
    }
}

/// Ends the host's containerd in this way, of which its containers notice nothing.
#[track_caller]
fn without_notice(end: impl FnOnce(&Host, i32, [i32; 2])) {
    let mut host = running();
    let pids = [host.pid_of("web"), host.pid_of("other")];
    let was = host.pid_of("containerd");
    end(&host, was, pids);
    unchanged(&host, was, pids);
    host.poweroff();
}

#[test]
fn c4_containerd_is_killed() {
    without_notice(|host, was, _| host.kill(was, libc::SIGKILL));
}

#[test]
fn c4_containerd_is_restarted_by_an_operator() {
    without_notice(|host, _, _| drop(host.ctl(&["restart", "containerd", "--wait"]).ok()));
}

#[test]
fn c4_pid_1_is_executed_anew() {
    without_notice(|host, was, [web, other]| {
        for _ in 0..3 {
            host.ctl(&["reexec"]).ok();
            goes_on(host, &[("web", web), ("other", other), ("containerd", was)]);
        }
        host.kill(was, libc::SIGKILL);
    });
}

#[test]
fn c4_pid_1_is_executed_anew_while_containerd_is_away() {
    without_notice(|host, was, [web, other]| {
        host.kill(was, libc::SIGSTOP);
        host.ctl(&["reexec"]).ok();
        goes_on(host, &[("web", web), ("other", other)]);
        host.kill(was, libc::SIGKILL);
    });
}

#[test]
fn c4_an_exit_while_containerd_is_away_is_seen_when_it_is_back() {
    let mut host = running();
    let (pid, was) = (host.pid_of("web"), host.pid_of("containerd"));
    host.kill(was, libc::SIGSTOP);
    host.kill(pid, libc::SIGKILL);
    host.kill(was, libc::SIGKILL);
    let again = host.wait_for("web", "to run again", |web| web.up && web.pid.is_some_and(|new| new != pid));
    assert_eq!(again.restarts, 1, "{again:?}");
    host.poweroff();
}
