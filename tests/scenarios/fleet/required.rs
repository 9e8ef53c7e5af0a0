//! Services that are up only once their registration is confirmed.

use kelson_tests::{Etcd, eventually};

use super::{is_registered, member, status};

#[test]
fn a_service_that_requires_its_registration_is_up_once_it_is_confirmed() {
    let Some(mut etcd) = Etcd::start() else { return };
    etcd.stop();
    let mut host = member("edge-1", &etcd.endpoint())
        .crash_limit("100/1m")
        .runs_with("db", "serve", "register: {port: 5432, required: true}")
        .runs_with("app", "serve", "depends: [{service: db}]")
        .runs_with("cache", "serve", "register: {port: 6379}")
        .start();
    host.wait_up("cache");
    let waits = "its registration is not confirmed: ";
    host.wait_for("db", waits, |now| now.message.contains(waits) && now.message.contains("refused"));
    let (db, app) = (host.service("db"), host.service("app"));
    assert_eq!((db.up, db.state.as_str(), app.state.as_str()), (false, "running", "waiting"));
    let pid = host.pid_of("db");
    // PID 1 remembers that it was not confirmed.
    host.ctl(&["reexec"]).ok();
    host.wait_for("db", waits, |now| now.message.contains(waits) && !now.up);

    etcd.restart();
    host.wait_all_up(&["db", "app"]);
    eventually("the host to know it", || is_registered(&host, "db"));
    assert_eq!(host.pid_of("db"), pid);

    // One confirmation is enough for a run.
    etcd.stop();
    eventually("the store to be lost", || {
        status(&host)["problem"].as_str().is_some_and(|problem| problem.contains("refused"))
    });
    host.ctl(&["reexec"]).ok();
    host.wait_up("fleet");
    host.crash(|| host.signal(libc::SIGSEGV));
    host.wait_up("fleet");
    let (db, app) = (host.service("db"), host.service("app"));
    assert!(db.up && app.up, "{db:?} {app:?}");
    let events = host.events_of("db");
    assert!(
        events.iter().any(|event| event.message == "its registration is confirmed, so it is up"),
        "{events:?}"
    );
    host.poweroff();
}
