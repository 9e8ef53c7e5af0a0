//! A host in a fleet, against a real etcd: what it registers there, and what changes nothing for those who watch.

mod checks;
mod consul;
mod deregistration;
mod registered;
mod required;
mod templates;

use std::fs;
use std::time::{Duration, SystemTime};

use kelson_tests::{Etcd, Host, HostBuilder, eventually};

const HOST: &str = "/kelson/v1/hosts/edge-1";
const WEB: &str = "/kelson/v1/services/web/edge-1/web";

/// A host of this name in the fleet of that store.
fn member(name: &str, endpoint: &str) -> HostBuilder {
    Host::builder()
        .machine(&format!("fleet: {{endpoints: ['{endpoint}'], name: {name}, labels: {{role: edge}}}}"))
}

fn registry(host: &Host) -> Vec<(String, String, String)> {
    let list: serde_json::Value = host.ctl(&["registry", "-o", "json"]).json();
    let text = |one: &serde_json::Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let all = list.as_array().expect("a list").iter();
    all.map(|one| (text(one, "service"), text(one, "state"), text(one, "problem"))).collect()
}

fn is_registered(host: &Host, service: &str) -> bool {
    registry(host).iter().any(|(name, state, _)| name == service && state == "registered")
}

/// The lease that the host has, by what it reports itself.
fn status(host: &Host) -> serde_json::Value {
    host.ctl(&["fleet", "status", "-o", "json"]).json()
}

#[test]
fn a_service_is_registered_while_it_is_up_and_healthy() {
    let Some(etcd) = Etcd::start() else { return };
    let health = "register: {port: 80, tags: [primary], meta: {url: 'http://${host.name}:${port}', on: '${fact.architecture}'}}\n\
                  health: [{exec: {command: [$PROGRAM, 'cat=$DIR/sound']}, interval: 50ms, timeout: 5s}]";
    let mut host =
        member("edge-1", &etcd.endpoint()).runs_with("web", "serve", health).runs("other", "serve").start();
    eventually("the host to be registered", || etcd.keys("/") == [HOST]);
    fs::write(host.path("sound"), "yes").expect("a file");
    eventually("the healthy service to be registered", || etcd.keys("/") == [HOST, WEB]);
    let value: serde_json::Value = serde_json::from_str(&etcd.value(WEB)).expect("JSON");
    assert_eq!(
        (&value["port"], &value["tags"][0], &value["address"]),
        (&80.into(), &"primary".into(), &"127.0.0.1".into())
    );
    let (url, on) = (&value["meta"]["url"], &value["meta"]["on"]);
    assert_eq!((url, on), (&"http://edge-1:80".into(), &std::env::consts::ARCH.into()));

    fs::remove_file(host.path("sound")).expect("it is there");
    eventually("the sick service to be removed", || etcd.keys("/") == [HOST]);
    assert!(host.service("web").pid.is_some(), "it runs still");
    fs::write(host.path("sound"), "yes").expect("a file");
    eventually("the service to be registered again", || etcd.keys("/") == [HOST, WEB]);
    eventually("the host to know it", || is_registered(&host, "web"));

    let metrics = host.ctl(&["metrics"]).ok().stdout;
    for sample in ["kelson_fleet_connected 1", "kelson_registered{service=\"web\"} 1"] {
        assert!(metrics.contains(sample), "{metrics}");
    }
    assert!(metrics.contains("kelson_fleet_last_confirmed_seconds 1"), "{metrics}");

    // What the host says of the fleet is what the store says.
    let hosts: serde_json::Value = host.ctl(&["fleet", "hosts", "-o", "json"]).json();
    assert_eq!(
        (&hosts[0]["name"], &hosts[0]["labels"]["role"]),
        (&"edge-1".into(), &"edge".into()),
        "{hosts}"
    );
    let services: serde_json::Value = host.ctl(&["fleet", "services", "-o", "json"]).json();
    assert_eq!((&services[0]["name"], &services[0]["host"]), (&"web".into(), &"edge-1".into()), "{services}");
    host.poweroff();
    assert_eq!(etcd.keys("/"), [""; 0], "a host that stops leaves nothing");
}

/// F2
#[test]
fn f2_neither_a_new_pid_1_nor_a_new_helper_changes_a_registration() {
    replaced(3, 3);
}

/// F2
#[test]
fn long_f2_100_times_a_new_pid_1_and_100_times_a_new_helper_change_no_registration() {
    replaced(100, 1);
}

/// Replaces PID 1 so often, lets it crash now and then, and kills the helper so often after each.
fn replaced(times: u32, helpers: u32) {
    let Some(etcd) = Etcd::start() else { return };
    let mut host = member("edge-1", &etcd.endpoint())
        .crash_limit("100/1m")
        .runs_with("web", "serve", "register: {port: 80}")
        .start();
    eventually("the service to be registered", || {
        etcd.keys("/") == [HOST, WEB] && is_registered(&host, "web")
    });
    settled(&host);
    let (before, lease) = (etcd.revision(), status(&host)["lease"].clone());
    for number in 0..times {
        host.ctl(&["reexec"]).ok();
        registered_again(&host);
        if number % 10 < 3 {
            host.crash(|| host.signal(libc::SIGSEGV));
            registered_again(&host);
        }
        for _ in 0..helpers {
            let helper = host.pid_of("fleet");
            host.kill(helper, libc::SIGKILL);
            host.wait_for("fleet", "another helper", |now| {
                now.up && now.pid.is_some_and(|pid| pid != helper)
            });
            registered_again(&host);
        }
    }
    assert_eq!((etcd.revision(), &status(&host)["lease"]), (before, &lease));
    host.poweroff();
}

/// The host knows that the store knows it.
fn registered_again(host: &Host) {
    eventually("the service to be known as registered", || {
        status(host)["connected"] == true && is_registered(host, "web")
    });
}

/// The health of the host is part of its entry, and changes once more after the boot.
fn settled(host: &Host) {
    host.ctl(&["health", "--wait"]).ok();
    eventually("the facts to be in the store", || {
        let hosts: serde_json::Value = host.ctl(&["fleet", "hosts", "-o", "json"]).json();
        hosts[0]["facts"]["architecture"] == std::env::consts::ARCH
    });
}

#[test]
fn a_store_that_is_away_holds_up_nothing_and_is_found_when_it_comes() {
    let Some(mut etcd) = Etcd::start() else { return };
    etcd.stop();
    let mut host =
        member("edge-1", &etcd.endpoint()).runs_with("web", "serve", "register: {port: 80}").up(&["web"]);
    eventually("the problem", || {
        status(&host)["problem"].as_str().is_some_and(|problem| problem.contains("refused"))
    });
    let [(_, state, problem)] = &registry(&host)[..] else { panic!("one service registers") };
    assert_eq!(state, "registering");
    assert!(problem.contains("refused"), "{problem}");
    // What was never in the store is not waited for.
    let began = std::time::Instant::now();
    host.ctl(&["restart", "web", "--wait"]).ok();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());

    etcd.restart();
    eventually("the service to be registered", || etcd.keys("/") == [HOST, WEB]);
    registered_again(&host);
    host.poweroff();
}

#[test]
fn the_second_of_two_hosts_with_one_name_is_refused_and_says_so() {
    let Some(etcd) = Etcd::start() else { return };
    let mut first = member("edge-1", &etcd.endpoint()).runs_with("web", "serve", "register: {}").start();
    eventually("the first to be registered", || etcd.keys("/") == [HOST, WEB]);
    settled(&first);
    let before = etcd.revision();
    let mut second = member("edge-1", &etcd.endpoint()).runs_with("db", "serve", "register: {}").up(&["db"]);
    let problem = || status(&second)["problem"].as_str().unwrap_or_default().to_owned();
    eventually("the second to be refused", || problem().contains("taken by another host"));
    assert!(second.events_of("fleet").iter().any(|event| event.message.contains("edge-1")));
    assert_eq!((etcd.keys("/"), etcd.revision()), (vec![HOST.to_owned(), WEB.to_owned()], before));
    second.poweroff();
    assert_eq!(etcd.keys("/"), [HOST, WEB]);
    first.poweroff();
}

#[test]
fn without_a_fleet_the_host_has_a_table_of_its_own() {
    let mut host = Host::builder().runs_with("web", "serve", "register: {name: www, port: 80}").up(&["web"]);
    assert_eq!(registry(&host), [("web".to_owned(), "registered".to_owned(), String::new())]);
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert_eq!(registry(&host), [("web".to_owned(), "absent".to_owned(), String::new())]);
    assert!(!host.services().iter().any(|service| service.name == "fleet"));
    let refused = host.ctl(&["fleet", "hosts"]).expect(1);
    assert!(refused.stderr.contains("no `fleet`"), "{}", refused.stderr);
    host.poweroff();
}

/// The times of the events with which services stopped because the host is cut off.
fn cut_off(host: &Host) -> Vec<Duration> {
    let events = host.events();
    let stops = events.iter().filter(|event| {
        event.state == "stopping"
            && event.message.contains("the store of the fleet has not confirmed the registration")
    });
    stops.map(kelson_tests::Event::at).collect()
}

/// F4
#[test]
fn f4_services_stop_without_the_store_and_start_with_its_first_answer() {
    let Some(mut etcd) = Etcd::start() else { return };
    etcd.stop();
    let names: Vec<String> = (0..20).map(|number| format!("web-{number}")).collect();
    let mut builder = member("edge-1", &etcd.endpoint()).runs("free", "serve");
    for name in &names {
        builder = builder.runs_with(name, "serve", "disconnect: {stopAfter: 30s, startupGrace: 2s}");
    }
    let stays = "disconnect: {stopAfter: 30s, startupGrace: 2s, onReconnect: leave}";
    let mut host = builder.runs_with("stays", "serve", stays).start();
    eventually("all of them to be stopped", || cut_off(&host).len() == names.len() + 1);
    names.iter().for_each(|name| _ = host.wait_state(name, "stopped"));
    assert!(host.service("free").up);
    let message =
        "stopped: the store of the fleet has not confirmed the registration within 2 s of the start";
    assert_eq!(host.service("web-0").message, message);

    // Who starts one nevertheless is obeyed, and so is who stops one.
    host.ctl(&["start", "web-1", "--wait"]).ok();
    host.ctl(&["stop", "web-2", "--wait"]).ok();
    host.ctl(&["reexec"]).ok();
    assert_eq!(host.service("web-0").state, "stopped");
    etcd.restart();
    for name in names.iter().filter(|name| *name != "web-2") {
        host.wait_up(name);
    }
    assert_eq!(host.service("web-2").message, "stopped: asked by an operator");
    assert_eq!(
        (host.service("web-2").state.as_str(), host.service("stays").state.as_str()),
        ("stopped", "stopped")
    );
    host.poweroff();
}

/// F4
#[test]
fn long_f4_an_answer_in_time_stops_nothing_and_none_stops_all_at_once() {
    let Some(etcd) = Etcd::start() else { return };
    let mut builder = member("edge-1", &etcd.endpoint());
    for number in 0..50 {
        builder = builder.runs_with(&format!("web-{number}"), "serve", "disconnect: {stopAfter: 30s}");
    }
    let mut host = builder.start();
    eventually("the host to be registered", || etcd.keys("/") == [HOST]);
    for _ in 0..3 {
        etcd.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_secs(12));
        let before = status(&host);
        assert_eq!(before["connected"], true);
        etcd.signal(libc::SIGCONT);
        eventually("contact", || status(&host)["lastConfirmed"] != before["lastConfirmed"]);
    }
    assert!(cut_off(&host).is_empty());
    let before = SystemTime::now();
    etcd.signal(libc::SIGSTOP);
    host.ctl(&["reexec"]).ok();
    kelson_tests::until("all to be stopped", Duration::from_secs(60), || {
        (cut_off(&host).len() == 50).then_some(())
    });
    host.crash(|| host.signal(libc::SIGSEGV));
    let stops = cut_off(&host);
    let (first, last) = (stops.iter().min().expect("50"), stops.iter().max().expect("50"));
    assert!(*last - *first < Duration::from_secs(1), "{first:?} to {last:?}");
    // The last answer was at most a third of the TTL before.
    let since = before.elapsed().expect("a later time");
    assert!(since >= Duration::from_secs(19), "{since:?}");
    etcd.signal(libc::SIGCONT);
    for number in 0..50 {
        host.wait_up(&format!("web-{number}"));
    }
    host.poweroff();
}
