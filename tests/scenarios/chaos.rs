//! V1 again and again: PID 1 re-executes itself because of faults and on request, under services that write,
//! are restarted, are checked and rest, and nothing of them is lost, doubled or miscounted.
//!
//! `hack/chaos` runs the tests that take minutes, or that need a PID 1 with faults built into it.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use kelson_tests::chaos::{JUDGE, Load, Plan, Toll, Verdict};
use kelson_tests::free_port;
use kelson_tests::{Host, PATIENCE};

/// Far more crashes than are injected.
const LIMIT: [&str; 2] = ["--crash-limit", "100000/1m"];

/// The host is healthy soon, so that faults can begin.
const HEALTH: &str = "health: {minimum: 1s}";

fn load() -> Load {
    Load { writers: 100, every: "100ms", restless: 5, rest: "200ms", port: free_port(), image: None }
}

/// Starts a host with this load, has the faults injected, and returns what came of it once the host is off.
#[track_caller]
fn judged(load: &Load, plan: &Plan) -> Verdict {
    let mut builder = Host::builder().argument(LIMIT[0]).argument(LIMIT[1]).machine(HEALTH);
    for (name, yaml) in load.services(plan) {
        builder = builder.service(&name, &yaml);
    }
    if plan.faulty {
        builder = builder.faulty();
    }
    let mut host = builder.start();
    let from = host.newest_event();
    let mut events = host.follow_events(from);
    events.each_once(from..=from, PATIENCE);
    host.ctl(&["start", JUDGE]).ok();
    let patience = Duration::from_secs(120) + plan.times * Duration::from_secs(2);
    let verdict = Verdict::wait(host.client(), patience);
    // A client outside has had each event once.
    events.each_once(from + 1..=host.newest_event(), PATIENCE);
    host.poweroff();
    verdict
}

#[test]
fn v1_twenty_reexecs_under_load_cost_nobody_anything() {
    judged(&load(), &Plan::of_host("reexec", 20, "100ms")).tell();
}

#[test]
fn v1_twenty_crashes_under_load_cost_nobody_anything() {
    judged(&load(), &Plan::of_host("segv", 20, "100ms")).tell();
}

#[test]
fn v1_twenty_panics_under_load_cost_nobody_anything() {
    judged(&load(), &Plan::of_faulty_host("panic", 20, "100ms")).tell();
}

/// The judge sees faults: a judge that finds nothing proves nothing otherwise.
#[test]
fn the_judge_counts_what_is_lost_doubled_and_miscounted() {
    let load = Load { writers: 1, every: "100ms", restless: 1, rest: "200ms", port: 0, image: None };
    let plan = Plan { bound: "8s", ..Plan::of_host("reexec", 6, "1s") };
    let mut builder = Host::builder().machine(HEALTH);
    for (name, yaml) in load.services(&plan) {
        builder = builder.service(&name, &yaml);
    }
    let mut host = builder
        .runs("n-1", "'print=beat 1 .', 'print=beat 4 .', 'print=beat 4 .', serve")
        .runs_with("mortal", "wait-path=$DIR/die, remove=$DIR/die, exit=1", "restart: {delay: 1ms}")
        .start();
    fs::write(host.path("n-1"), "4 0").expect("the test's folder is writable");
    host.wait_for("restless-0", "to be restarted", |now| now.restarts > 0);
    let mut runs = fs::File::options().append(true).open(host.path("restless-0.runs")).expect("it was run");
    runs.write_all(b"a run that nobody has seen\n").expect("it is writable");
    let from = host.newest_event();
    host.ctl(&["start", JUDGE]).ok();
    host.wait_event(from, "a life", |event| event.message.contains("re-executes itself"));
    host.touch("die");
    let verdict = Verdict::wait(host.client(), Duration::from_secs(120));
    assert_eq!((verdict.times, verdict.hangs), (6, 0), "{verdict:#?}");
    // Another PID, and its restart; and the host was not healthy.
    let health = verdict.problems.iter().filter(|problem| problem.contains("the health was")).count();
    assert!(health > 0, "{verdict:#?}");
    assert_eq!(verdict.lost, 1 + health as u64, "{verdict:#?}");
    // Two are missing, one is there again; and there is none of the run that never was.
    assert_eq!(verdict.lines, 4, "{verdict:#?}");
    assert_eq!(verdict.miscounted, 2, "{verdict:#?}");
    host.poweroff();
}

#[test]
#[ignore = "a minute: hack/chaos runs it"]
fn long_two_hundred_reexecs() {
    judged(&load(), &Plan::of_host("reexec", 200, "200ms")).tell();
}

#[test]
#[ignore = "a minute: hack/chaos runs it"]
fn long_two_hundred_crashes_by_sigsegv() {
    judged(&load(), &Plan::of_host("segv", 200, "200ms")).tell();
}

#[test]
#[ignore = "a minute: hack/chaos runs it"]
fn long_two_hundred_panics() {
    judged(&load(), &Plan::of_faulty_host("panic", 200, "200ms")).tell();
}

#[test]
#[ignore = "a minute: hack/chaos runs it"]
fn long_two_hundred_panics_of_another_thread() {
    judged(&load(), &Plan::of_faulty_host("panic-in-thread", 200, "200ms")).tell();
}

#[test]
#[ignore = "a minute: hack/chaos runs it"]
fn long_two_hundred_other_crashes() {
    let faults = "bus,ill,fpe,abrt,abort,null-write,stack-overflow";
    judged(&load(), &Plan::of_faulty_host(faults, 203, "200ms")).tell();
}

#[test]
#[ignore = "a minute: hack/chaos runs it"]
fn long_a_main_loop_that_does_not_turn() {
    judged(&load(), &Plan::of_faulty_host("spin,deadlock", 6, "200ms")).tell();
}

/// Each of these hosts reaches the crash limit at once, under load.
#[test]
#[ignore = "a minute: hack/chaos runs it"]
fn long_twenty_hosts_at_the_crash_limit_stop_in_order() {
    let mut toll = Toll::of("crash-limit");
    while toll.times < 20 {
        toll.times += 1;
        let Some(wrong) = toll.attempt(at_the_crash_limit) else { break };
        toll.count_lost(wrong.len() as u64, || wrong.join("; "));
    }
    toll.tell();
}

/// A chain of services under load, whose PID 1 crashes once too often: those that did not stop in their turn.
#[track_caller]
fn at_the_crash_limit() -> Vec<String> {
    const CHAIN: usize = 5;
    let mut builder = Host::builder().argument(LIMIT[0]).argument("1/1m");
    for (name, yaml) in load().services(&Plan::of_host("segv", 1, "0s")) {
        builder = builder.service(&name, &yaml);
    }
    for n in 0..CHAIN {
        let steps = format!("await=SIGTERM, sleep=20ms, 'touch=$DIR/chain-{n}'");
        let needs = n.checked_sub(1).map(|below| format!("\ndepends: [{{service: chain-{below}}}]"));
        let yaml = format!("process: {{command: [$PROGRAM, {steps}]}}{}", needs.unwrap_or_default());
        builder = builder.service(&format!("chain-{n}"), &yaml);
    }
    let mut host = builder.start();
    host.wait_up(&format!("chain-{}", CHAIN - 1));
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 10);
    let ended =
        |n: usize| fs::metadata(host.path(&format!("chain-{n}"))).and_then(|file| file.modified()).ok();
    let in_turn = |n: &usize| match (ended(*n), ended(n + 1)) {
        (Some(below), Some(above)) => below > above,
        _ => false,
    };
    (0..CHAIN - 1)
        .filter(|n| !in_turn(n))
        .map(|n| format!("chain-{n} stopped before chain-{}", n + 1))
        .collect()
}

/// The next fault comes as soon as the last one is answered.
#[test]
#[ignore = "a minute: hack/chaos runs it"]
fn long_two_hundred_of_all_without_a_pause() {
    judged(&load(), &Plan::of_faulty_host("segv,panic,reexec,panic-in-thread", 200, "0s")).tell();
}

/// A host with little to do answers at once: nobody would have noticed.
#[test]
#[ignore = "a minute: hack/chaos runs it, which lets nothing else run beside it"]
fn long_an_idle_host_answers_within_a_tenth_of_a_second() {
    let idle = Load { writers: 1, every: "1s", restless: 0, rest: "1s", port: 0, image: None };
    for fault in ["segv", "reexec"] {
        let mut verdict = judged(&idle, &Plan::of_host(fault, 100, "300ms"));
        verdict.fault.push_str("-idle");
        verdict.tell();
        // A reexec tries the new program before it goes on.
        let most = if fault == "segv" { 100.0 } else { 300.0 };
        assert!(verdict.worst <= most, "{verdict:?}");
    }
}
