//! G5: a dependency restarts while a dependant runs: the dependant runs on.

mod when_down;

use kelson_tests::Host;

#[test]
fn g5_a_dependant_runs_on_when_its_dependency_restarts_dies_or_stops() {
    let mut host = Host::builder()
        .runs_with("db", "notify=READY=1, serve", "readiness: notify\nrestart: {delay: 1ms}")
        .runs_with("web", "serve", "depends: [{service: db}]")
        .runs_with(
            "tail",
            "notify=READY=1, serve",
            "readiness: notify
depends: [{service: db, event: running}, {service: web}]",
        )
        .up(&["tail"]);
    let pids = ["web", "tail"].map(|name| host.pid_of(name));
    let (db, boot) = (host.pid_of("db"), host.newest_event());

    host.ctl(&["restart", "db", "--wait"]).ok();
    let second = host.pid_of("db");
    assert_ne!(second, db);
    host.kill(second, libc::SIGKILL);
    host.wait_for("db", "to be up in its third run", |db| db.up && db.pid.is_some_and(|pid| pid != second));
    // Gone permanently: `stop` would refuse, but its program can end by a mistake of its own.
    host.ctl(&["stop", "db", "--wait"]).expect(1);
    host.ctl(&["restart", "db", "--wait"]).ok();

    assert_eq!(["web", "tail"].map(|name| host.pid_of(name)), pids);
    for name in ["web", "tail"] {
        let service = host.service(name);
        assert_eq!(
            (service.state.as_str(), service.up, service.restarts),
            ("running", true, 0),
            "{service:?}"
        );
        let since: Vec<_> = host.events_of(name).into_iter().filter(|event| event.seq > boot).collect();
        assert!(since.is_empty(), "{since:?}");
    }
    host.poweroff();
}

#[test]
fn g5_a_dependant_runs_on_when_its_dependency_has_failed_for_good() {
    let mut host = Host::builder()
        .runs_with("db", "await=USR1, exit=3", "restart: {policy: once}")
        .runs_with("web", "serve", "depends: [{service: db}]")
        .up(&["web"]);
    let (pid, boot) = (host.pid_of("web"), host.newest_event());
    host.kill(host.pid_of("db"), libc::SIGUSR1);
    host.wait_state("db", "failed");
    // The host has gone on since: the answer of another request comes after all that this failure set off.
    host.ctl(&["start", "web", "--wait"]).ok();
    assert_eq!(host.pid_of("web"), pid);
    assert!(host.service("web").up);
    let since: Vec<_> = host.events_of("web").into_iter().filter(|event| event.seq > boot).collect();
    assert!(since.is_empty(), "{since:?}");
    host.poweroff();
}
