//! V1: the health of the host and of its groups is over `reexec` and a crash what it was, with all its times.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kelson_tests::{Host, PATIENCE, eventually, free_port, time_of, until};
use serde_json::Value;

use super::{Fault, each_fault};

/// Runs `kelsonctl health`, and returns the health of the host and of its groups.
#[track_caller]
fn health(host: &Host) -> Value {
    serde_json::from_str(&host.ctl(&["health", "-o", "json"]).stdout).expect("JSON")
}

/// The wall clock has a precision of milliseconds, and may be slewed.
#[track_caller]
fn assert_same_time(before: &Value, now: &Value, what: &str) {
    if before.is_null() || now.is_null() {
        assert_eq!(before, now, "{what}");
    } else {
        let apart = time_of(before).abs_diff(time_of(now));
        assert!(apart < Duration::from_millis(20), "{what}: {before} became {now}");
    }
}

/// The next incarnation reports the same as this one, but for the time that passes.
#[track_caller]
fn assert_same(before: &Value, now: &Value) {
    for key in ["group", "state", "healthy", "services", "minimumMs", "deadlineMs"] {
        assert_eq!(before[key], now[key], "{key} of {before:#} became {now:#}");
    }
    assert_same_time(&before["since"], &now["since"], "since");
    let named = |health: &Value| -> Vec<Value> {
        let culprits = health["culprits"].as_array().expect("a list").iter();
        culprits.chain(Some(&health["lastBreak"]).filter(|last| !last.is_null())).cloned().collect()
    };
    let (old, new) = (named(before), named(now));
    assert_eq!(old.len(), new.len(), "{before:#} became {now:#}");
    for (one, other) in old.iter().zip(&new) {
        for key in ["service", "check", "reason"] {
            assert_eq!(one[key], other[key], "{key} of {before:#} became {now:#}");
        }
        assert_same_time(&one["since"], &other["since"], "since of a culprit or of the last break");
    }
    // A time that grows goes on growing, and one that runs out goes on running out.
    match (before["steadyMs"].as_f64(), now["steadyMs"].as_f64()) {
        (Some(one), Some(other)) => assert!(other >= one, "{before:#} became {now:#}"),
        (one, other) => assert_eq!(one, other, "{before:#} became {now:#}"),
    }
    match (before["leftMs"].as_f64(), now["leftMs"].as_f64()) {
        (Some(one), Some(other)) => assert!(other <= one, "{before:#} became {now:#}"),
        (one, other) => assert_eq!(one, other, "{before:#} became {now:#}"),
    }
    let groups = |health: &Value| health["groups"].as_array().cloned().unwrap_or_default();
    let (old, new) = (groups(before), groups(now));
    assert_eq!(old.len(), new.len(), "{before:#} became {now:#}");
    for (one, other) in old.iter().zip(&new) {
        assert_same(one, other);
    }
}

/// Events of the host that name a state of its health or of a group's.
fn told(host: &Host) -> Vec<String> {
    // A long text is cut where it is written down.
    let events = host.events_of("").into_iter().map(|event| event.message.chars().take(100).collect());
    let of_health = |text: &String| {
        ["the host is ", "the host has ", "group "].iter().any(|begin| text.starts_with(begin))
    };
    events.filter(of_health).collect()
}

/// Ends this incarnation while clients ask all the time: none of them sees another state.
#[track_caller]
fn strike(fault: Fault, host: &Host) -> Value {
    let (before, said) = (health(host), told(host));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut states = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                // One that is overtaken by the end of PID 1 has no answer.
                let answer = host.client().run(&["health", "-o", "json"]).stdout;
                states.extend(serde_json::from_str::<Value>(&answer).ok());
            }
            states
        });
        fault.strike(host);
        let now = health(host);
        stop.store(true, Ordering::Relaxed);
        let states = asking.join().expect("it asks");
        assert!(!states.is_empty(), "somebody was answered");
        states.iter().chain([&now]).for_each(|now| assert_same(&before, now));
    });
    assert_eq!(told(host), said, "no event tells of what has not changed");
    before
}

const HEALTH: &str = "health: {minimum: 500ms, deadline: 5m}";

fn a_healthy_host_with_groups_stays_healthy(fault: Fault) {
    let mut host = Host::builder()
        .machine(HEALTH)
        .runs_with("db", "serve", "group: shop\nrestart: {delay: 100ms}")
        .runs_with("web", "serve", "group: shop")
        .runs_with("lone", "serve", "group: other")
        .service("job", "process: {command: [$PROGRAM]}\ntype: oneshot")
        .service("wrong", "process: {command: }\nrequired: false")
        .runs_with("checked", "serve", "health: [{name: a, exec: {command: [$PROGRAM]}, interval: 100ms}]")
        .start();
    // A file with mistakes is a culprit: it is put right.
    host.write_service("wrong", "process: {command: [$PROGRAM, serve]}\nstart: manual");
    host.ctl(&["reload"]).ok();
    host.ctl(&["health", "--wait", "--timeout", "30s"]).ok();
    host.kill(host.pid_of("db"), libc::SIGKILL);
    eventually("the break to be seen", || !health(&host)["lastBreak"].is_null());
    host.ctl(&["health", "--wait", "--timeout", "30s"]).ok();
    host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok();
    let known = strike(fault, &host);
    assert_eq!(
        (&known["state"], &known["lastBreak"]["service"]),
        (&"healthy".into(), &"db".into()),
        "{known:#}"
    );
    assert_eq!(known["groups"].as_array().map(Vec::len), Some(2), "{known:#}");
    let shop = host.ctl(&["health", "shop", "-o", "json"]).ok().json::<Value>();
    assert_same(&known["groups"][1], &shop);
    // Another one, and it is judged as before.
    strike(fault, &host);
    host.kill(host.pid_of("web"), libc::SIGKILL);
    host.wait_event(0, "of the break", |event| {
        event.service.is_empty()
            && event.message.starts_with("group shop is unhealthy: ")
            && event.message.contains("web")
    });
    host.poweroff();
}

#[test]
fn v1_a_healthy_host_with_groups_stays_healthy() {
    each_fault(a_healthy_host_with_groups_stays_healthy);
}

fn a_failed_host_stays_failed_and_a_deadline_goes_on(fault: Fault) {
    let mut host = Host::builder()
        .machine("health: {minimum: 200ms, deadline: 1s}")
        .runs_with("db", "serve", "group: shop")
        .runs_with("web", "serve", "group: shop\ndepends: [{path: $DIR/flag}]")
        .service("broken", "process: {command: }")
        .start();
    assert_eq!(host.ctl(&["health", "--wait", "-o", "json"]).expect(1).json::<Value>()["state"], "failed");
    host.ctl(&["health", "shop", "--wait"]).expect(1);
    let known = strike(fault, &host);
    let culprits = known["culprits"].as_array().map(Vec::len);
    assert_eq!((&known["state"], culprits), (&"failed".into(), Some(2)), "{known:#}");
    // It is judged on.
    host.touch("flag");
    eventually("the group to be healthy", || host.ctl(&["health", "shop"]).status == 0);
    host.poweroff();
}

#[test]
fn v1_a_failed_host_stays_failed_with_the_same_culprits() {
    each_fault(a_failed_host_stays_failed_and_a_deadline_goes_on);
}

fn the_minimum_that_runs_is_not_begun_again(fault: Fault) {
    let mut host = Host::builder()
        .machine("health: {minimum: 1m, deadline: 10m}")
        .runs_with("db", "serve", "group: shop")
        .up(&["db"]);
    let steady = until("all to be up", PATIENCE, || health(&host)["steadyMs"].as_f64());
    let known = strike(fault, &host);
    assert_eq!(known["state"], "pending", "{known:#}");
    assert!(known["steadyMs"].as_f64() >= Some(steady) && known["leftMs"].is_number(), "{known:#}");
    host.poweroff();
}

#[test]
fn v1_the_minimum_that_runs_is_not_begun_again() {
    each_fault(the_minimum_that_runs_is_not_begun_again);
}

fn the_checks_of_a_group_go_on(fault: Fault) {
    let port = free_port();
    let check = format!("{{http: {{port: {port}}}, initialDelay: 0s, interval: 100ms, failureThreshold: 2}}");
    let mut host = Host::builder()
        .machine("health: {minimum: 300ms}")
        .group("shop", &format!("health: [{check}]"))
        .runs_with("db", "serve", "group: shop")
        .runs_with("web", &format!("'http={port}:$DIR/answer'"), "group: shop")
        .start();
    host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok();
    host.ctl(&["health", "--wait", "--timeout", "30s"]).ok();
    let known = strike(fault, &host);
    assert_eq!((&known["state"], &known["groups"][0]["state"]), (&"healthy".into(), &"healthy".into()));
    // It is asked still, and what fails is no less failing in the next incarnation.
    fs::write(host.path("answer"), "500 broken").expect("it is written");
    eventually("the group to be unhealthy", || host.ctl(&["health", "shop"]).status == 1);
    let known = strike(fault, &host);
    let shop = &known["groups"][0];
    assert_eq!((&known["state"], &shop["state"]), (&"healthy".into(), &"unhealthy".into()));
    assert_eq!(shop["culprits"][0]["check"], "http", "{shop:#}");
    fs::remove_file(host.path("answer")).expect("it is there");
    host.ctl(&["health", "shop", "--wait", "--timeout", "30s"]).ok();
    host.poweroff();
}

#[test]
fn v1_the_checks_of_a_group_go_on() {
    each_fault(the_checks_of_a_group_go_on);
}
