//! Groups: the order of their members, and the restart of all of them together.

use kelson_tests::{Event, Host};

/// migrate before, proxy beside, db and web, warm once they are up, sweep once they are down.
fn shop() -> Host {
    let one_shot = "process: {command: [$PROGRAM]}\ntype: oneshot\ngroup: shop\n";
    let serves = "process: {command: [$PROGRAM, serve]}\ngroup: shop\n";
    let restart = "restart: {delay: 100ms, attempts: 1, scope: group}\n";
    Host::builder()
        .service("migrate", &format!("{one_shot}lifecycle: {{hook: prestart}}"))
        .service("proxy", &format!("{serves}lifecycle: {{sidecar: true}}"))
        .service("db", &format!("{serves}{restart}"))
        .service("web", &format!("{serves}{restart}depends: [{{service: db}}]"))
        .service("warm", &format!("{one_shot}lifecycle: {{hook: poststart}}"))
        .service("sweep", &format!("{one_shot}lifecycle: {{hook: poststop}}"))
        .start()
}

/// The number of the event with which a service came to a state after another event.
#[track_caller]
fn came(host: &Host, after: u64, service: &str, state: &str) -> u64 {
    let is_so = |event: &Event| event.service == service && event.state == state;
    host.wait_event(after, &format!("{service} {state}"), is_so).seq
}

#[test]
fn members_start_and_stop_in_order_and_poststop_comes_each_time() {
    let mut host = shop();
    host.wait_finished("warm");
    let running = |name: &str| came(&host, 0, name, "running");
    assert!(came(&host, 0, "migrate", "finished") < running("db"));
    assert!(running("proxy") < running("db"));
    assert!(running("db") < running("web"));
    assert!(running("web") < running("warm"));
    assert_eq!(host.service("sweep").state, "waiting");
    for _ in 0..2 {
        let before = host.newest_event();
        host.ctl(&["stop", "web", "db", "proxy", "--wait"]).ok();
        let swept = came(&host, before, "sweep", "finished");
        let stopped = |name: &str| came(&host, before, name, "finished");
        assert!(stopped("web") < came(&host, before, "db", "stopping"));
        assert!(stopped("db") < came(&host, before, "proxy", "stopping"));
        assert!(stopped("db") < swept);
        // It waits for the next end of the mains.
        host.ctl(&["start", "proxy", "db", "web", "--wait"]).ok();
        host.wait_state("sweep", "waiting");
    }
    host.poweroff();
}

#[test]
fn a_used_up_budget_restarts_the_group_in_order() {
    let mut host = shop();
    host.wait_finished("warm");
    let first = host.pid_of("web");
    host.kill(first, libc::SIGKILL);
    host.wait_for("web", "to run again", |web| web.up && web.pid != Some(first));
    let before = host.newest_event();
    let proxy = host.pid_of("proxy");
    host.kill(host.pid_of("web"), libc::SIGKILL);
    let warm = came(&host, before, "warm", "running");
    let stopping = |name: &str| came(&host, before, name, "stopping");
    let running = |name: &str| came(&host, before, name, "running");
    assert!(stopping("db") < stopping("proxy"));
    assert!(stopping("proxy") < running("proxy"));
    assert!(running("migrate") < running("db"));
    assert!(running("proxy") < running("db") && running("db") < running("web"));
    assert!(running("web") < warm);
    assert_ne!(host.pid_of("proxy"), proxy);
    let asked =
        |event: &&Event| event.service.is_empty() && event.message.starts_with("group shop restarts: ");
    let asked: Vec<Event> = host.events().iter().filter(asked).cloned().collect();
    assert_eq!(asked.len(), 1, "{asked:#?}");
    assert!(asked[0].message.contains("web: killed by SIGKILL"), "{asked:#?}");
    assert_eq!(host.service("sweep").state, "waiting", "the mains were never down for good");
    assert_eq!(host.states_of("sweep"), ["waiting"]);
    host.poweroff();
}
