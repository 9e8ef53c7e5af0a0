//! Ten thousand services. What one of them costs does not grow with their number.
//!
//! The processor time of PID 1 counts, which means the same however busy the computer is.

use std::collections::BTreeSet;
use std::time::Duration;

use kelson_tests::{Host, HostBuilder, until};
use serde_json::Value;

use super::checks::cpu_of;

const MANY: usize = 10_000;
const FEW: usize = 1_000;
const LONG: Duration = Duration::from_secs(600);
/// Each service of which Kelson has the log takes two descriptors of PID 1, whose limit may be 20,000 here.
const WITH_LOG: usize = 5_000;
/// By how much a service may cost more among many: caches miss, and trees are deeper.
const MORE: u32 = 3;
/// How many services each one needs: those before it.
const NEEDED: usize = 10;

fn name(n: usize) -> String {
    format!("n-{n:05}")
}

/// Starts a host, and returns it once this number of services is up. Nobody asks PID 1 before.
fn start(builder: HostBuilder, count: usize) -> Host {
    // On a busy computer the stop of 10,000 services outlasts the usual deadline. A disk would cost PID 1 more than the
    // services.
    let host = builder.machine("shutdown: {timeout: 10m}").memory("run", "1g").spawn();
    until("the boot to be over", LONG, || host.console().contains("the boot is over").then_some(()));
    let services = host.services();
    let up = services.iter().filter(|service| service.up && !service.builtin).count();
    assert_eq!(up, count);
    host
}

/// Powers the host off, and returns the processor time that PID 1 had used at its end.
fn power_off(host: &mut Host) -> Duration {
    let init = host.init_pid();
    let mut used = Duration::ZERO;
    host.ctl(&["poweroff"]).ok();
    until("PID 1 to end", LONG, || {
        let now = cpu_of(init);
        used = now.unwrap_or(used);
        now.is_none().then_some(())
    });
    assert_eq!(host.wait_exit_within(LONG), 0);
    used
}

/// What each of these services costs PID 1: its start, and its stop.
fn cost(count: usize) -> (Duration, Duration) {
    let mut builder = Host::builder();
    for n in 0..count {
        let more = if n < WITH_LOG { "" } else { "logs: {stdout: only}" };
        builder = builder.runs_with(&name(n), "await=TERM, append=$DIR/stopped", more);
    }
    let mut host = start(builder, count);
    let used = cpu_of(host.init_pid()).expect("it runs");
    let services: Vec<_> = host.services().into_iter().filter(|service| !service.builtin).collect();
    let shown: BTreeSet<i32> = services.iter().filter_map(|service| service.pid).collect();
    let real: BTreeSet<i32> = host.processes_with("stopped").iter().map(|process| process.pid).collect();
    assert_eq!((shown.len(), &shown), (count, &real), "each has its own process");
    assert!(host.ctl(&["services"]).ok().stdout.lines().count() > count);
    let all = power_off(&mut host);
    assert_eq!(host.wait_file("stopped").lines().count(), count, "each has had its signal");
    let count = u32::try_from(count).expect("it is small");
    (used / count, all.saturating_sub(used) / count)
}

#[test]
fn long_ten_thousand_services_cost_each_what_one_of_a_thousand_costs() {
    let (few, many) = (cost(FEW), cost(MANY));
    println!("start and stop of one of {FEW}: {few:?}, of {MANY}: {many:?}");
    assert!(many.0 < few.0 * MORE && many.1 < few.1 * MORE, "of {FEW} {few:?}, of {MANY} {many:?}");
}

#[test]
fn long_a_graph_of_ten_thousand_and_a_hundred_thousand_edges_starts_and_stops() {
    let mut builder = Host::builder();
    for n in 0..MANY {
        let before: Vec<String> =
            (n.saturating_sub(NEEDED)..n).map(|n| format!("{{service: {}}}", name(n))).collect();
        builder = builder.service(&name(n), &format!("target: {{}}\ndepends: [{}]", before.join(", ")));
    }
    let mut host = start(builder, MANY);
    let graph: Value = host.ctl(&["-o", "json", "graph"]).ok().json();
    let count = |key: &str| graph[key].as_array().map_or(0, Vec::len);
    assert!(count("nodes") >= MANY, "{} nodes", count("nodes"));
    assert_eq!(count("edges"), MANY * NEEDED - (1..=NEEDED).sum::<usize>());
    assert!(host.ctl(&["graph"]).ok().stdout.lines().count() > MANY);
    host.ctl(&["reload"]).ok();
    let refused = host.ctl(&["stop", &name(0)]);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(refused.status != 0 && said.contains("needed by"), "{said}");
    let mut stopping = host.follow_events(host.newest_event());
    stopping.next(LONG).expect("the newest event");
    power_off(&mut host);
    // Those that a slow reader has missed are not there.
    let (events, _) = stopping.rest();
    let of_graph = events.iter().filter(|e| e.state == "stopped" && e.service.starts_with("n-"));
    let stopped: Vec<&str> = of_graph.map(|e| &*e.service).collect();
    assert!(stopped.windows(2).all(|pair| pair[0] > pair[1]), "one stopped before those that need it");
    assert_eq!(stopped.last(), Some(&&*name(0)), "all need it");
}
