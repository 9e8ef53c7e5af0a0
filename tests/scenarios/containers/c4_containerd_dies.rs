//! C4: containerd dies or is restarted: containers and their shims go on running; when it is back they are attached
//! again, with the same PID and no restart counted. A call that was lost is no exit.

use kelson_tests::{Host, PATIENCE, until};

use super::{host, steps, test_image};

fn running() -> Host {
    let host = host(&[test_image()])
        .service(
            "web",
            &format!(
                "{}restart: {{policy: forever, delay: 10ms}}\nstop: {{timeout: 200ms}}",
                steps("print=begun, ticker=20ms")
            ),
        )
        .service("other", &steps("serve"))
        .start();
    host.wait_up("web");
    host.wait_up("other");
    host
}

/// The host's containerd was replaced, and nothing of its containers changed.
#[track_caller]
fn unchanged(host: &Host, was: i32, pids: [i32; 2]) {
    host.wait_for("containerd", "to be another and up", |now| {
        now.up && now.pid.is_some_and(|pid| pid != was)
    });
    for (name, pid) in ["web", "other"].into_iter().zip(pids) {
        let now = host.service(name);
        assert_eq!((now.pid, now.restarts, now.up), (Some(pid), 0, true), "{now:?}");
        assert!(!host.processes_with("/program").is_empty());
    }
    // Its output goes on.
    let ticks = host.log_text("web").lines().count();
    until("more of its output", PATIENCE, || {
        (host.log_text("web").lines().count() > ticks + 3).then_some(())
    });
    // An end is seen again, and acted upon.
    host.kill(pids[0], libc::SIGKILL);
    let again =
        host.wait_for("web", "to run again", |web| web.up && web.pid.is_some_and(|pid| pid != pids[0]));
    assert_eq!(again.restarts, 1, "{again:?}");
    host.ctl(&["stop", "other", "--wait"]).ok();
    assert_eq!(host.containers(), ["web"]);
}

#[test]
fn c4_containerd_is_killed() {
    let mut host = running();
    let pids = [host.pid_of("web"), host.pid_of("other")];
    let was = host.pid_of("containerd");
    host.kill(was, libc::SIGKILL);
    unchanged(&host, was, pids);
    host.poweroff();
}

#[test]
fn c4_containerd_is_restarted_by_an_operator() {
    let mut host = running();
    let pids = [host.pid_of("web"), host.pid_of("other")];
    let was = host.pid_of("containerd");
    host.ctl(&["restart", "containerd", "--wait"]).ok();
    unchanged(&host, was, pids);
    host.poweroff();
}

#[test]
fn c4_pid_1_is_executed_anew() {
    let mut host = running();
    let pids = [host.pid_of("web"), host.pid_of("other")];
    let was = host.pid_of("containerd");
    for _ in 0..3 {
        host.ctl(&["reexec"]).ok();
        for (name, pid) in ["web", "other", "containerd"].into_iter().zip([pids[0], pids[1], was]) {
            let now = host.service(name);
            assert_eq!((now.pid, now.restarts, now.up), (Some(pid), 0, true), "{now:?}");
        }
    }
    host.kill(was, libc::SIGKILL);
    unchanged(&host, was, pids);
    host.poweroff();
}

#[test]
fn c4_pid_1_is_executed_anew_while_containerd_is_away() {
    let mut host = running();
    let pids = [host.pid_of("web"), host.pid_of("other")];
    let was = host.pid_of("containerd");
    host.kill(was, libc::SIGSTOP);
    host.ctl(&["reexec"]).ok();
    for (name, pid) in ["web", "other"].into_iter().zip(pids) {
        let now = host.service(name);
        assert_eq!((now.pid, now.restarts, now.up), (Some(pid), 0, true), "{now:?}");
    }
    host.kill(was, libc::SIGKILL);
    unchanged(&host, was, pids);
    host.poweroff();
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
