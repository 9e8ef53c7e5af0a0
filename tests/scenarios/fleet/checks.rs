//! Services that are registered only while checks of their registration pass.

use std::fs;
use std::time::Duration;

use kelson_tests::{Etcd, Host, HostBuilder, eventually};

use super::{HOST, WEB, is_registered, member, registry, settled};

/// The registration has a check that passes while there is a file `fit`, and the health one that passes always.
fn web(host: HostBuilder, more: &str) -> HostBuilder {
    let page = "{name: page, exec: {command: [$PROGRAM, 'cat=$DIR/fit']}, interval: 50ms, timeout: 5s}";
    let health = "health: [{exec: {command: [$PROGRAM]}, interval: 1s, timeout: 5s}]";
    host.runs_with("web", "serve", &format!("register: {{port: 80{more}, checks: [{page}]}}\n{health}"))
}

fn set_fit(host: &Host, is_fit: bool) {
    match is_fit {
        true => fs::write(host.path("fit"), "yes").expect("a file"),
        false => fs::remove_file(host.path("fit")).expect("it is there"),
    }
}

/// The service is up and healthy, and not registered for this check.
fn is_withheld(host: &Host) -> bool {
    let (state, problem) = registration(host);
    state == "absent" && problem.starts_with("check page: ")
}

/// State and problem of the registration of a service that is up and healthy.
fn registration(host: &Host) -> (String, String) {
    let web = host.service("web");
    assert!(web.up && web.healthy == Some(true) && web.restarts == 0, "{web:?}");
    let [(_, state, problem)] = &registry(host)[..] else { panic!("one service registers") };
    (state.clone(), problem.clone())
}

/// When the check was last asked.
fn last_asked(host: &Host) -> serde_json::Value {
    let web: serde_json::Value = host.ctl(&["status", "web", "-o", "json"]).json();
    let checks = web["checks"].as_array().expect("a list");
    let page = checks.iter().find(|check| check["name"] == "page").expect("it is listed");
    page["results"].as_array().expect("a list").last().map(|last| last["time"].clone()).unwrap_or_default()
}

#[test]
fn a_check_of_a_registration_removes_the_key_while_the_service_stays_up() {
    let Some(etcd) = Etcd::start() else { return };
    let mut host = web(member("edge-1", &etcd.endpoint()).crash_limit("100/1m"), "").start();
    host.wait_up("web");
    eventually("the check to fail", || is_withheld(&host));
    eventually("the host alone to be registered", || etcd.keys("/") == [HOST]);
    for _ in 0..2 {
        set_fit(&host, true);
        eventually("the fit service to be registered", || etcd.keys("/") == [HOST, WEB]);
        eventually("the host to know it", || registration(&host) == ("registered".into(), String::new()));
        set_fit(&host, false);
        eventually("the unfit service to be removed", || etcd.keys("/") == [HOST]);
        eventually("the host to know it", || is_withheld(&host));
    }
    let events = host.events_of("web");
    assert!(events.iter().any(|event| event.message.starts_with("check page fails: ")), "{events:?}");

    // Neither one that passes nor one that fails is another one for the next PID 1.
    for is_fit in [false, true] {
        if is_fit {
            set_fit(&host, true);
            eventually("the fit service to be registered", || is_registered(&host, "web"));
        }
        settled(&host);
        let before = etcd.revision();
        for _ in 0..3 {
            host.ctl(&["reexec"]).ok();
            std::thread::sleep(Duration::from_millis(100));
        }
        host.crash(|| host.signal(libc::SIGSEGV));
        eventually("the host to know it again", || {
            host.service("web").up && is_registered(&host, "web") == is_fit
        });
        let known = last_asked(&host);
        eventually("the check to be asked by the new PID 1", || last_asked(&host) != known);
        settled(&host);
        assert_eq!(etcd.revision(), before, "a watcher has seen something");
    }
    host.poweroff();
    assert_eq!(etcd.keys("/"), [""; 0]);
}

#[test]
fn a_required_registration_waits_for_its_checks_once() {
    let Some(etcd) = Etcd::start() else { return };
    let mut host = web(member("edge-1", &etcd.endpoint()), ", required: true").start();
    let waits = "its registration is not confirmed: check page: ";
    host.wait_for("web", waits, |now| !now.up && now.message.contains(waits));
    assert_eq!(etcd.keys("/kelson/v1/services/"), [""; 0]);
    set_fit(&host, true);
    host.wait_up("web");
    assert_eq!(etcd.keys("/kelson/v1/services/"), [WEB]);
    set_fit(&host, false);
    eventually("the service to be removed", || etcd.keys("/kelson/v1/services/").is_empty());
    assert!(host.service("web").up, "it stays up");
    host.poweroff();
}

#[test]
fn without_a_fleet_the_table_of_the_host_has_the_checks_of_registrations() {
    let mut host = web(Host::builder(), "").up(&["web"]);
    eventually("the check to fail", || is_withheld(&host));
    set_fit(&host, true);
    eventually("the service to be fit", || registration(&host) == ("registered".into(), String::new()));
    host.poweroff();
}
