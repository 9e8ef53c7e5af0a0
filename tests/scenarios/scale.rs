//! Many services: 1,000 without dependencies, a chain of 200 of which each waits for the one before to be ready,
//! 1,000 with a check a second, and 10,000.

mod checks;
mod many;

use std::collections::BTreeSet;
use std::time::Duration;

use kelson_tests::{Host, until};

const LONG: Duration = Duration::from_secs(120);

#[test]
fn scale_a_thousand_services_start_show_and_stop() {
    const COUNT: usize = 1000;
    let mut builder = Host::builder();
    for n in 0..COUNT {
        builder = builder.runs(&format!("n-{n:04}"), "await=TERM, append=$DIR/stopped");
    }
    let mut host = builder.start();
    let services = until("all to be up", LONG, || {
        let services: Vec<_> = host.services().into_iter().filter(|service| !service.builtin).collect();
        services.iter().all(|service| service.up).then_some(services)
    });
    assert_eq!(services.len(), COUNT);
    let names: BTreeSet<&str> = services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names.len(), COUNT);
    let shown: BTreeSet<i32> = services.iter().filter_map(|service| service.pid).collect();
    let real: BTreeSet<i32> = host.processes_with("stopped").iter().map(|process| process.pid).collect();
    assert_eq!((shown.len(), &shown), (COUNT, &real), "each has its own process");
    assert!(services.iter().all(|service| service.state == "running" && service.restarts == 0));
    let table = host.ctl(&["services"]).ok().stdout;
    assert!(table.lines().count() > COUNT, "{table}");
    host.ctl(&["status", "n-0999"]).ok();
    host.ctl(&["poweroff"]).ok();
    assert_eq!(host.wait_exit_within(LONG), 0);
    assert_eq!(host.wait_file("stopped").lines().count(), COUNT, "each has had its signal");
}

#[test]
fn scale_a_chain_of_two_hundred_starts_and_stops_in_order() {
    const COUNT: usize = 200;
    let name = |n: usize| format!("n-{n:03}");
    let mut builder = Host::builder();
    for n in 0..COUNT {
        let depends = if n == 0 { String::new() } else { format!("depends: [{{service: {}}}]", name(n - 1)) };
        builder =
            builder.runs_with(&name(n), "notify=READY=1, serve", &format!("readiness: notify\n{depends}"));
    }
    let mut host = builder.start();
    until("the end of the chain to be up", LONG, || host.service(&name(COUNT - 1)).up.then_some(()));
    assert!(host.services().iter().all(|service| service.up), "{:?}", host.services());
    let events = host.events();
    let order: Vec<&str> = events
        .iter()
        .filter(|e| e.state == "running" && e.service.starts_with("n-"))
        .map(|e| &*e.service)
        .collect();
    assert_eq!(order, (0..COUNT).map(name).collect::<Vec<_>>());
    for n in 1..COUNT {
        let seq = |name: &str, state: &str| {
            events.iter().find(|e| e.service == name && e.state == state).map(|e| e.seq)
        };
        assert!(seq(&name(n - 1), "running") < seq(&name(n), "starting"), "{} did not wait", name(n));
    }
    let mut stopping = host.follow_events(host.newest_event());
    stopping.next(LONG).expect("the newest event");
    host.ctl(&["poweroff"]).ok();
    assert_eq!(host.wait_exit_within(LONG), 0);
    let (events, _) = stopping.rest();
    let order: Vec<String> = events
        .iter()
        .filter(|e| e.state == "stopped" && e.service.starts_with("n-"))
        .map(|e| e.service.clone())
        .collect();
    assert_eq!(order, (0..COUNT).rev().map(name).collect::<Vec<_>>());
}
