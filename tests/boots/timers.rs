//! Schedules on a machine whose clock is set: over both changes of summer time, by ten years, over a reboot in the minute of
//! a start, and while the machine is suspended.
//!
//! The clock of the machine skips idle time, so its hours cost nothing. A service sets it; the services of the schedules
//! print the time at which they run.

use kelson_tests::{Vm, VmBuilder};

use super::Disk;
use super::sources::STEPS;

/// Two o'clock in the morning in Berlin is followed by three: 2026-03-29 01:00 UTC.
const SPRING: i64 = 1_774_746_000;
/// Three o'clock there is followed by two: 2026-10-25 01:00 UTC.
const AUTUMN: i64 = 1_792_890_000;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const YEARS: i64 = 3653 * DAY;
/// How long before a time the clock is set, and how long is waited then.
const BEFORE: i64 = 15;
const WAIT: i64 = 30;
/// The two services: at a local time that summer time leaves out and has twice, and half an hour later.
const TIMES: [(&str, &str); 2] = [("gap", "02:30"), ("three", "03:00")];

/// A machine in Berlin with both services, which does these steps and powers off. Its clock skips idle time.
fn machine(disk: &Disk, base: &str, steps: &str) -> VmBuilder {
    of_services(disk, steps).skip_idle().qemu(&format!("-rtc base={base},clock=vm"))
}

/// The same with the time of this computer.
fn of_services(disk: &Disk, steps: &str) -> VmBuilder {
    // Each test has files of its own.
    let name = disk.0.file_stem().expect("it has a name").to_string_lossy();
    let mut builder = Vm::builder(&name)
        .disk(&disk.0)
        .machine("main: driver\n")
        .binary("kelsonctl")
        .copy("zone", "/usr/share/zoneinfo/Europe/Berlin")
        .runs_with("here", "copy=/etc/kelson/zone:/etc/localtime", "type: oneshot")
        // The helper reads the zone when it learns of a schedule.
        .service("again", "process: {command: [/etc/kelson/kelsonctl, restart, timers, --wait]}\napi: admin\ntype: oneshot\ndepends: [{service: here, event: finished}]")
        .service(
            "driver",
            &format!(
                "process: {{command: [{STEPS}, {steps}]}}\nrestart: {{policy: once}}\nlogs: {{console: true}}\n\
                 depends: [{{service: again, event: finished}}]"
            ),
        );
    for (name, time) in TIMES {
        let more = format!("type: oneshot\nlogs: {{console: true}}\nschedule: '{time}'");
        builder = builder.runs_with(name, &format!("time=at-{name}"), &more);
    }
    builder
}

/// When each service ran, in the order of the console.
#[track_caller]
fn runs(builder: VmBuilder) -> Vec<(String, i64)> {
    let mut vm = builder.start();
    assert_eq!(vm.wait_status(), Some(0), "{}", vm.said());
    runs_on(&vm.console())
}

fn runs_on(console: &str) -> Vec<(String, i64)> {
    let run = |line: &str| {
        let (_, rest) = line.split_once("at-")?;
        let (name, time) = rest.split_once(' ')?;
        Some((name.to_owned(), time.trim().parse().ok()?))
    };
    console.lines().filter_map(run).collect()
}

/// The runs are these, each a few seconds after its time at most; those of one time in any order.
#[track_caller]
fn assert_runs(runs: &[(String, i64)], expected: &[(&str, i64)]) {
    let near = |(name, time): &(String, i64), (other, expected): &(&str, i64)| {
        name == other && (0..BEFORE).contains(&(time - expected))
    };
    assert_eq!(runs.len(), expected.len(), "{runs:?} instead of {expected:?}");
    for one in expected {
        assert!(runs.iter().any(|run| near(run, one)), "no {one:?} in {runs:?}");
    }
}

/// The steps that set the clock to each of these times and wait.
fn visit(times: &[i64]) -> String {
    let steps: Vec<String> = times.iter().map(|time| format!("'clock=@{time}', sleep={WAIT}s")).collect();
    steps.join(", ")
}

#[test]
fn t1_each_time_has_one_start_whatever_the_clock_does() {
    let disk = Disk::new("timers");
    let night = AUTUMN + DAY;
    let times = [
        // 02:30 does not come.
        SPRING - BEFORE,
        // One start makes up for all that lies between, and 02:30 comes for the first time.
        AUTUMN - HOUR / 2 - BEFORE,
        // It comes again, and is over.
        AUTUMN + HOUR / 2 - BEFORE,
        AUTUMN + HOUR - BEFORE,
        // A clock that is wrong by ten years, in both directions: one start for a leap ahead, none for the leap back.
        AUTUMN + 2 * HOUR + YEARS,
        AUTUMN + 2 * HOUR - YEARS,
        AUTUMN + 3 * HOUR,
        // The next night: one start for 02:30, which is leapt over, and that at 03:00.
        night + HOUR - BEFORE,
    ];
    let runs = runs(machine(&disk, "2026-03-28T12:00:00", &visit(&times)));
    println!("{runs:?}");
    let expected = [
        ("three", SPRING),
        ("gap", AUTUMN - HOUR / 2 - BEFORE),
        ("three", AUTUMN - HOUR / 2 - BEFORE),
        ("gap", AUTUMN - HOUR / 2),
        ("three", AUTUMN + HOUR),
        ("gap", AUTUMN + 2 * HOUR + YEARS),
        ("three", AUTUMN + 2 * HOUR + YEARS),
        ("gap", AUTUMN + 3 * HOUR),
        ("three", AUTUMN + 3 * HOUR),
        ("gap", night + HOUR - BEFORE),
        ("three", night + HOUR),
    ];
    assert_runs(&runs, &expected);
}

#[test]
fn long_t1_a_reboot_in_the_minute_of_a_start_makes_up_for_it_once() {
    let disk = Disk::new("timers-reboot");
    // Both services have run at their times; the machine is off at three o'clock of the next night, and comes back in the
    // same minute.
    let night = AUTUMN + DAY;
    let before = visit(&[night + HOUR / 2 - BEFORE, night + HOUR - 45]);
    let first = runs(machine(&disk, "2026-10-26T00:00:00", &before));
    let gap = ("gap", night + HOUR / 2);
    assert_runs(&first, &[gap]);
    let rest = format!("sleep={WAIT}s");
    let second = runs(machine(&disk, "2026-10-26T02:00:20", &rest));
    assert_runs(&second, &[("three", night + HOUR + 20)]);
    let third = runs(machine(&disk, "2026-10-26T02:01:30", &rest));
    assert_runs(&third, &[]);
}

#[test]
fn long_t1_a_time_that_passes_in_a_suspend_has_one_start_afterwards() {
    let disk = Disk::new("timers-suspend");
    let three = AUTUMN + DAY + HOUR;
    // The alarm counts by the hardware clock, which continues with that of this computer.
    let sleep = "put=/sys/class/rtc/rtc0/wakealarm:+20, put=/sys/power/state:mem";
    let steps = format!("'clock=@{}', {sleep}, sleep={BEFORE}s, time=at-end, serve", three - 5);
    let mut vm = of_services(&disk, &steps).start();
    let console = vm.wait_console("at-end");
    // QEMU does not power off a machine that it has resumed from memory.
    vm.cut();
    let (of_three, others): (Vec<_>, Vec<_>) = runs_on(&console)
        .into_iter()
        .filter(|(_, time)| *time > three - DAY / 2)
        .partition(|(name, _)| name == "three");
    // It wakes up with the alarm.
    assert!(matches!(&*of_three, [(_, one)] if (three + 10..three + 60).contains(one)), "{of_three:?}");
    assert!(others.iter().all(|(name, _)| name == "end"), "{others:?}");
}
