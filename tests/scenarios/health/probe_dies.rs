//! `kelson-probe` is killed or frozen while it asks: same PIDs, no restart, every service as healthy as it
//! was; checks are late, Kelson reports it, and it is replaced.

use std::collections::BTreeMap;

use kelson_tests::{Host, PATIENCE, eventually, free_port, until};

use super::{check, probe};

const COUNT: usize = 10;

fn name(n: usize) -> String {
    format!("s-{n}")
}

/// Services that would be restarted by their first failure.
#[track_caller]
fn checked() -> Host {
    let mut builder = Host::builder();
    for n in 0..COUNT {
        let port = free_port();
        builder = builder.runs_with(&name(n), &format!("tcp={port}"), &format!("health:\n\
                 - {{tcp: {{port: {port}}}, initialDelay: 0s, interval: 100ms, timeout: 500ms, failureThreshold: 1, restartAfter: 1, grace: 3s}}"));
    }
    let host = builder.start();
    for n in 0..COUNT {
        host.wait_up(&name(n));
    }
    host
}

type Seen = BTreeMap<String, (Option<i32>, u32, bool, Option<bool>)>;

#[track_caller]
fn services(host: &Host) -> Seen {
    let services = host.services().into_iter().filter(|service| !service.builtin);
    services.map(|one| (one.name, (one.pid, one.restarts, one.up, one.healthy))).collect()
}

fn results(host: &Host) -> Vec<String> {
    let check = check(host, &name(0), "tcp");
    let results = check["results"].as_array().cloned().unwrap_or_default();
    results.iter().map(|result| result["time"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns once the checks are asked again.
#[track_caller]
fn asked_again(host: &Host) {
    let before = results(host).pop().unwrap_or_default();
    until("a newer result", PATIENCE, || results(host).pop().filter(|last| *last > before));
}

/// No service has heard of it.
#[track_caller]
fn nobody_noticed(host: &Host, before: &Seen, since: u64) {
    assert_eq!(&services(host), before);
    let told: Vec<_> = host
        .events()
        .into_iter()
        .filter(|event| event.seq > since && event.service.starts_with("s-"))
        .collect();
    assert!(told.is_empty(), "{told:#?}");
}

#[test]
fn h1_a_killed_probe_costs_no_service_its_health() {
    let mut host = checked();
    let (before, since) = (services(&host), host.newest_event());
    for restarts in 1..=3 {
        let old = probe(&host);
        host.kill(old, libc::SIGKILL);
        host.wait_for("probe", "to be replaced", |probe| {
            probe.up && probe.pid != Some(old) && probe.restarts == restarts
        });
        asked_again(&host);
    }
    host.wait_event(since, "the replacement to be told", |event| {
        event.service == "probe" && event.message.starts_with("replaced: killed by SIGKILL; ")
    });
    nobody_noticed(&host, &before, since);
    host.poweroff();
}

#[test]
fn h1_a_frozen_probe_is_replaced_and_its_checks_are_late() {
    let mut host = checked();
    let (before, since) = (services(&host), host.newest_event());
    let mut frozen = Vec::new();
    // Each next one is frozen as well, until it shows.
    let late = until("checks to be late", PATIENCE, || {
        if let Some(pid) = host.service("probe").pid.filter(|pid| !frozen.contains(pid)) {
            frozen.push(pid);
            if let Some(process) = host.processes().into_iter().find(|process| process.pid == pid) {
                // SAFETY: kill(2) has no preconditions.
                unsafe { libc::kill(process.outer_pid, libc::SIGSTOP) };
            }
        }
        check(&host, &name(0), "tcp")["lateMs"].as_f64()
    });
    assert!(late >= 3000.0, "{late}");
    let table = host.ctl(&["status", &name(0)]).ok().stdout;
    assert!(table.contains("tcp (tcp): passing for") && table.contains(", late by "), "{table}");
    assert_eq!(services(&host), before, "late is no failure");

    host.wait_for("probe", "to be replaced", |probe| probe.up && !frozen.contains(&probe.pid.unwrap_or(0)));
    asked_again(&host);
    let told = host.wait_event(since, "the replacement to be told", |event| {
        event.service == "probe" && event.message.starts_with("replaced: ")
    });
    assert!(told.message.contains("late"), "{told:?}");
    assert!(check(&host, &name(0), "tcp")["lateMs"].is_null());
    eventually("the frozen ones to be gone", || {
        host.processes().iter().all(|process| !frozen.contains(&process.pid))
    });
    nobody_noticed(&host, &before, since);
    host.poweroff();
}
