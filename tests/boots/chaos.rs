//! Faults in the PID 1 of a machine, again and again under load.
//!
//! `hack/chaos` runs the tests that take minutes, or that need a PID 1 with faults built into it.

use std::fs;
use std::time::Duration;

use kelson_tests::chaos::{JUDGE, Load, Plan, Verdict};
use kelson_tests::vm::{BOOT_PATIENCE, VmBuilder};
use kelson_tests::{Vm, paths};

/// A hundred services that write a thousand lines a second, and what else there can be on a machine.
const LOAD: Load =
    Load { writers: 100, every: "100ms", restless: 5, rest: "2s", port: 8080, image: Some("chaos:1") };

fn with_load(name: &str, load: &Load, plan: &Plan) -> VmBuilder {
    let mut builder = Vm::builder(name);
    for (name, yaml) in load.services(plan) {
        builder = builder.service(&name, &yaml);
    }
    match load.image {
        Some(image) => builder.program_image(image).machine("builtins: {containerd: {enabled: true}}\n"),
        None => builder,
    }
}

/// Boots the machine, has the faults injected, and returns what came of it once the machine is off.
#[track_caller]
fn judged(builder: VmBuilder, plan: &Plan) -> Verdict {
    // That nobody hangs the judge sees to, with bounds of its own; this is for a computer that has little time.
    let patience = 5 * BOOT_PATIENCE + plan.times * Duration::from_secs(20);
    let mut vm = builder
        .binary("kelson-chaos")
        .append("kelson.crashLimit=100000/1m")
        .longest(patience + 4 * BOOT_PATIENCE)
        .boot();
    let from = vm.client().events().last().map_or(1, |event| event.seq);
    let mut events = vm.client().follow_events(from);
    events.each_once(from..=from, BOOT_PATIENCE);
    vm.ctl(&["start", JUDGE]).ok();
    let verdict = Verdict::wait(vm.client(), patience);
    // A client at the other end of TLS has had each event once.
    let last = vm.client().events().last().map_or(1, |event| event.seq);
    events.each_once(from + 1..=last, BOOT_PATIENCE);
    vm.poweroff();
    verdict
}

#[test]
fn long_v1_a_machine_goes_on_six_times_under_load() {
    let plan = Plan::of_machine("segv,reexec", 6, "200ms");
    let load = Load { writers: 20, every: "200ms", restless: 2, image: None, ..LOAD };
    judged(with_load("chaos", &load, &plan), &plan).tell();
}

/// Two hundred times in a machine of its own.
#[track_caller]
fn two_hundred(fault: &'static str) {
    let plan = Plan::of_machine(fault, 200, "500ms");
    judged(with_load(&format!("chaos-{fault}"), &LOAD, &plan), &plan).tell();
}

#[test]
#[ignore = "minutes: hack/chaos runs it"]
fn long_two_hundred_reexecs_under_load_cost_nobody_anything() {
    two_hundred("reexec");
}

#[test]
#[ignore = "minutes: hack/chaos runs it"]
fn long_two_hundred_crashes_under_load_cost_nobody_anything() {
    two_hundred("segv");
}

#[test]
#[ignore = "minutes: hack/chaos runs it"]
fn long_two_hundred_panics_under_load_cost_nobody_anything() {
    two_hundred("panic");
}

/// The demo as it is, and one service more, which injects.
fn demo(plan: &Plan) -> VmBuilder {
    let config = paths::top().join("hack/demo/config");
    let machine = fs::read_to_string(config.join("machine.yaml")).expect("the demo's machine file");
    let mut builder = Vm::builder("chaos-demo")
        .without_containerd()
        .machine(&machine)
        .images(&paths::top().join("out/image/images"));
    for entry in fs::read_dir(config.join("services")).expect("the demo's services") {
        let path = entry.expect("the demo's services").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        builder = builder.service(name, &fs::read_to_string(&path).expect("a service file"));
    }
    let (name, judge) = plan.judge();
    builder.service(&name, &judge)
}

/// Its clock counts instructions, so this is the time that the work takes, and not that of the emulation.
#[test]
#[ignore = "a quarter of an hour: hack/chaos runs it"]
fn long_the_idle_demo_answers_at_once() {
    let plan = Plan::of_machine("segv", 20, "5s");
    let mut verdict = judged(demo(&plan).instructions(), &plan);
    verdict.fault.push_str("-idle");
    verdict.tell();
}
