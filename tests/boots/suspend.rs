//! A machine that is suspended to memory. No deadline of Kelson counts that time, before and after a re-exec, and what is
//! shown of the wall clock is right.

use std::time::{Duration, Instant};

use kelson_tests::{Event, PATIENCE, Service, Vm, time_of};

/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";
/// How long the machine is suspended, by its own hardware clock.
const SUSPENDED: Duration = Duration::from_secs(90);
/// The deadlines of the services: each would be over after the suspend.
const DEADLINE: Duration = Duration::from_secs(75);
/// How far two views of one clock may be apart: the hardware clock counts whole seconds.
const ROUNDING: Duration = Duration::from_secs(3);

#[test]
fn long_v1_a_suspend_before_a_reexec_ages_no_deadline() {
    let mut vm = Vm::builder("suspend")
        .runs("look", "serve")
        .runs_with("pauses", "exit=3", "restart: {delay: 75s, maxDelay: 75s}")
        .runs_with("starts", "hang", "readiness: notify\nstartTimeout: 75s\nrestart: {policy: once}")
        .boot();
    vm.wait_up(&["look"]);
    vm.client().wait_for("pauses", "to pause", PATIENCE, |now| now.state == "backoff");
    vm.client().wait_for("starts", "to start", PATIENCE, |now| now.state == "starting");
    let before = ["pauses", "starts"].map(|name| seen(&vm, name));
    let started = started(&vm);

    suspend(&vm);
    let suspended = suspended(&vm);
    assert!(suspended > SUSPENDED - ROUNDING, "the machine was suspended for {suspended:?} alone");
    vm.ctl(&["reexec"]).ok();
    assert_eq!(["pauses", "starts"].map(|name| seen(&vm, name)), before);
    let off = self::started(&vm).abs_diff(started);
    assert!(off < ROUNDING, "PID 1 began {off:?} from where it did");

    // By the wall clock the start took its deadline and the suspend.
    vm.client().wait_for("starts", "to fail", DEADLINE * 2, |now| now.state == "failed");
    let events = vm.client().events();
    let at = |state: &str| {
        let is = |event: &&Event| event.service == "starts" && event.state == state;
        events.iter().find(is).unwrap_or_else(|| panic!("no {state} in {events:?}")).at()
    };
    let took = at("failed") - at("starting");
    let expected = DEADLINE + SUSPENDED;
    println!("the start took {took:?} of {expected:?}");
    assert!(took > expected - ROUNDING && took < expected + PATIENCE, "{took:?}");
    // QEMU does not power off a machine that it has resumed from memory.
    vm.cut();
}

/// Returns once the machine answers again.
#[track_caller]
fn suspend(vm: &Vm) {
    let alarm = format!("put=/sys/class/rtc/rtc0/wakealarm:+{}", SUSPENDED.as_secs());
    look(vm, &alarm);
    let begun = Instant::now();
    // The machine sleeps before it can answer.
    vm.ctl(&["exec", "look", "--", STEPS, "put=/sys/power/state:mem"]);
    vm.wait_console("PM: suspend exit");
    println!("suspended for {:?}", begun.elapsed());
    vm.client().wait_for("look", "to answer", PATIENCE, |look| look.up);
}

/// How far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC on the machine.
#[track_caller]
fn suspended(vm: &Vm) -> Duration {
    let timers = look(vm, "cat=/proc/timer_list");
    let monotonic = timers.lines().find_map(|line| line.strip_prefix("now at ")?.strip_suffix(" nsecs"));
    let monotonic = monotonic.and_then(|text| text.parse().ok()).map(Duration::from_nanos);
    let uptime = look(vm, "cat=/proc/uptime");
    let uptime = uptime.split(' ').next().and_then(|text| text.parse().ok()).map(Duration::from_secs_f64);
    uptime.expect("/proc/uptime begins with it") - monotonic.expect("/proc/timer_list has it")
}

#[track_caller]
fn look(vm: &Vm, step: &str) -> String {
    vm.ctl(&["exec", "look", "--", STEPS, step]).ok().stdout.trim().to_owned()
}

/// The values that change with a run, and the start of the state.
#[track_caller]
fn seen(vm: &Vm, name: &str) -> (Option<i32>, u32, String, String) {
    let Service { pid, restarts, state, since, .. } = vm.client().service(name);
    (pid, restarts, state, since.to_string())
}

/// When PID 1 began, as the wall clock has it.
#[track_caller]
fn started(vm: &Vm) -> Duration {
    let version: serde_json::Value = vm.ctl(&["-o", "json", "version"]).ok().json();
    time_of(&version["server"]["started"])
}
