//! P2: orphans of services are reaped; a service that double-forks leaves no process behind.

use kelson_tests::{Host, HostBuilder, PATIENCE, eventually, until};

#[test]
fn p2_orphans_are_reaped_while_their_service_runs() {
    let mut host = Host::builder()
        .runs_with("parent", "'orphan=wait-path=$DIR/go', notify=READY=1, serve", "readiness: notify")
        .up(&["parent"]);
    let main = host.pid_of("parent");
    let orphan = until("the orphan to be PID 1's", PATIENCE, || {
        host.processes_with("orphan=").into_iter().find(|process| process.pid != main && process.parent == 1)
    });
    host.touch("go");
    eventually("the orphan to be reaped", || {
        host.processes().iter().all(|process| process.pid != orphan.pid)
    });
    let parent = host.service("parent");
    assert_eq!((parent.pid, parent.up, parent.restarts), (Some(main), true, 0), "{parent:?}");
    host.poweroff();
}

const DAEMON: &str = "'orphan=setsid,ignore=TERM,ignore=HUP,close-output,hang'";

#[track_caller]
fn leaves_nothing(builder: HostBuilder, cgroup: bool) {
    let mut host = builder
        // Its main process goes on.
        .runs_with("stays", &format!("{DAEMON}, notify=READY=1, serve"), "readiness: notify")
        // Its main process ends by itself, in order or not.
        .runs_with("goes", &format!("{DAEMON}, exit=0"), "restart: {policy: once}")
        .runs_with("fails", &format!("{DAEMON}, exit=3"), "restart: {policy: once}")
        .runs_with("job", DAEMON, "type: oneshot")
        .up(&["stays"]);
    host.wait_state("goes", "finished");
    host.wait_state("fails", "failed");
    host.wait_finished("job");
    let main = host.pid_of("stays");
    let left = host.processes_with("orphan=");
    assert!(left.len() == 2 && left.iter().any(|process| process.pid == main), "{left:?}");
    let mut all = vec!["stays"];
    host.ctl(&["stop", "stays", "--wait"]).ok();
    assert!(host.processes_with("orphan=").is_empty(), "{:?}", host.processes());
    all.extend(["goes", "fails", "job"]);
    for name in all.into_iter().filter(|_| cgroup) {
        host.assert_nothing_left(name, "orphan=");
    }
    host.poweroff();
}

#[test]
fn p2_a_double_fork_leaves_nothing_behind() {
    leaves_nothing(Host::builder(), true);
}

#[test]
fn p2_a_double_fork_leaves_nothing_behind_without_a_cgroup() {
    leaves_nothing(Host::builder().without_cgroup(), false);
}
