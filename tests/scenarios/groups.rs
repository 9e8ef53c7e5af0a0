//! Groups: the order of their members, and the restart of all of them together.

mod file;

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
        let stopped = |name: &str| came(&host, before, name, "stopped");
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

/// A member of `pair` whose check fails in each run, and one beside it.
fn pair(restart: &str) -> Host {
    let check = "health: [{name: never, exec: {command: [$PROGRAM, exit=1]}, interval: 50ms, grace: 0s, restartAfter: 1}]";
    Host::builder()
        .runs_with("bad", "serve", &format!("group: pair\n{check}\nrestart: {restart}"))
        .runs_with("good", "serve", "group: pair")
        .start()
}

#[track_caller]
fn restarts_of(host: &Host, group: &str) -> Vec<Event> {
    let begun = format!("group {group} restarts: ");
    host.events().into_iter().filter(|e| e.service.is_empty() && e.message.starts_with(&begun)).collect()
}

#[test]
fn a_check_restarts_the_group_as_often_as_the_budget_permits() {
    let mut host = pair("{delay: 10ms, maxDelay: 10ms, attempts: 2, interval: 5m, scope: group}");
    let bad = host.wait_state("bad", "failed");
    assert!(bad.message.ends_with("; gave up after 3 failures in 5m"), "{bad:?}");
    assert_eq!((bad.restarts, bad.stopped), (2, false), "{bad:?}");
    let asked = restarts_of(&host, "pair");
    assert_eq!(asked.len(), 2, "{asked:#?}");
    for (number, event) in (1..).zip(&asked) {
        assert!(event.message.ends_with(&format!("({number} of 2 in 5m)")), "{event:?}");
    }
    // The last one ended itself alone.
    host.wait_down("bad");
    let good = host.wait_state("good", "running");
    assert_eq!(
        host.events_of("good").iter().filter(|event| event.state == "starting").count(),
        3,
        "{good:?}"
    );
    // Neither does it come back when PID 1 does.
    host.ctl(&["reexec"]).ok();
    assert_eq!((host.service("bad").state.as_str(), restarts_of(&host, "pair").len()), ("failed", 2));
    assert_eq!(host.service("good").pid, good.pid);
    // An operator gives it a whole budget.
    let before = host.newest_event();
    host.ctl(&["start", "bad"]).ok();
    came(&host, before, "bad", "failed");
    assert_eq!(restarts_of(&host, "pair").len(), 4);
    host.poweroff();
}

#[test]
fn a_check_restarts_no_group_where_the_policy_is_once() {
    let mut host = pair("{policy: once, scope: group}");
    let bad = host.wait_state("bad", "failed");
    assert!(bad.message.ends_with("; restart.policy is once"), "{bad:?}");
    host.wait_down("bad");
    assert_eq!(restarts_of(&host, "pair").len(), 0);
    assert_eq!(host.events_of("good").iter().filter(|event| event.state == "starting").count(), 1);
    host.poweroff();
}

#[test]
fn a_budget_that_is_used_up_stays_so_after_the_group_was_restarted() {
    let mut host = Host::builder()
        .runs_with(
            "bad",
            "exit=3",
            "group: pair
restart: {delay: 10ms, maxDelay: 10ms, attempts: 1, interval: 5m, scope: group}",
        )
        .runs_with("good", "serve", "group: pair")
        .start();
    // Once by itself, once with its group, then no more.
    let begins = |event: &Event| event.service == "bad" && event.message == "run 3";
    let third = host.wait_event(0, "that begins its third run", begins).seq;
    came(&host, third, "bad", "failed");
    host.wait_down("bad");
    host.wait_up("good");
    assert_eq!(restarts_of(&host, "pair").len(), 1);
    assert_eq!(host.service("bad").restarts, 2);
    host.poweroff();
}

#[test]
fn a_change_and_a_restart_renew_the_deadline_of_a_group() {
    let waits = "process: {command: [$PROGRAM, serve]}\ngroup: late\ndepends: [{path: $DIR/flag}]";
    let mut host =
        Host::builder().machine("health: {minimum: 100ms, deadline: 1s}").service("web", waits).start();
    let state = || {
        let health: serde_json::Value = host.ctl(&["health", "-o", "json", "late"]).expect(1).json();
        health["state"].as_str().expect("a word").to_owned()
    };
    let said =
        |text: &'static str| move |event: &Event| event.service.is_empty() && event.message.starts_with(text);
    let failed = host.wait_event(0, "of the failure", said("group late has failed: ")).seq;
    assert_eq!(state(), "failed");
    host.write_service("web", &format!("{waits}\nenvironment: {{NEW: '1'}}"));
    host.read_again();
    host.ctl(&["restart", "web"]).ok();
    let pending = host.wait_event(failed, "of its new deadline", said("group late is pending: ")).seq;
    host.wait_event(pending, "of the next failure", said("group late has failed: "));
    // The host has its own deadline.
    assert_eq!(host.events().into_iter().filter(said("the host is pending")).count(), 0);
    host.poweroff();
}
