//! A disk under `/var` that does not answer any more, with all on it that there can be: logs, containers, an image that
//! is just unpacked, a service that writes. All else goes on.
//!
//! The disk itself hangs: QEMU has it from a process that is stopped ([`HangingDisk`]).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kelson_tests::chaos::Toll;
use kelson_tests::image::noise;
use kelson_tests::{HangingDisk, Image, PATIENCE, Service, Tar, Vm, VmBuilder, archive, eventually, until};

use crate::ticks::{self, log, missing};
use crate::{assert_clean, assert_order};

/// One question, on a busy computer that emulates another. The disk would take for ever.
const BOUND: Duration = PATIENCE;
/// A power off in which nothing that touches the disk comes to an end: the sum of the bounds in docs/shutdown.md, as far as
/// this machine comes to them, and what a busy computer adds.
const END: Duration = Duration::from_secs(180);
/// Its unpack takes so long that the hang meets it.
const LARGE: usize = 24 << 20;
/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";
/// They touch the disk, if at all, only by their logs.
const CLEAR: [&str; 2] = ["look", "talker"];
const ALL: [&str; 5] = ["look", "talker", "quiet", "writer", "boxed"];

/// The disk below `/var`, one service that writes to it and one that does not touch it.
fn small_machine(name: &str, disk: &HangingDisk, options: &str) -> VmBuilder {
    let machine = format!(
        "shutdown: {{timeout: 8s}}
mounts: [{{source: LABEL=VAR, target: /var, type: ext4, options: [{options}]}}]
"
    );
    Vm::builder(name).machine(&machine).second_disk(&disk.source()).runs("look", "serve").runs_with(
        "writer",
        "'scribble=/var/scribble:20ms'",
        "stop: {timeout: 1s}",
    )
}

fn machine(name: &str, disk: &HangingDisk, options: &str) -> VmBuilder {
    let boxed = "container: {image: 'boxed:1'}\nstop: {timeout: 1s}";
    let large = Image::new("large:1", &["serve"]).layer(Tar::new().file("large", 0o644, &noise(LARGE)));
    small_machine(name, disk, options)
        .runs("quiet", "serve")
        .service("talker", &format!("process: {{command: [$PROGRAM, {}]}}", ticks::steps()))
        .service("boxed", boxed)
        .service("late", "container: {image: 'large:1'}\nstart: manual")
        // Nobody has looked into that folder since the boot, so who looks has to read the disk.
        .service(
            "far",
            "process: {command: [/var/lost+found/program]}\nstart: manual\nrestart: {policy: once}",
        )
        .archive("boxed.tar", archive(&[Image::new("boxed:1", &["ticker=100ms"])]))
        .archive("large.tar", archive(&[large]))
}

#[test]
fn long_p5_v1_a_disk_that_hangs_stops_nothing_else() {
    let disk = HangingDisk::new("hung-disk", "VAR");
    let mut vm = machine("hung-disk", &disk, "").boot();
    vm.wait_up(&ALL);
    let pids = pids(&vm);
    begin_to_unpack(&vm);
    disk.hang();
    somebody_waits_for_the_disk(&vm);
    all_else_goes_on(&vm);
    a_stop_ends(&vm, "late");
    pid_1_executes_itself_anew(&vm);
    assert_eq!(self::pids(&vm), pids, "somebody was restarted");
    disk.answer();
    vm.wait_up(&ALL);
    let found = missing(&log(&vm, "talker", &[]));
    assert_eq!(found.lines, 0, "{:?}", found.told);
    vm.poweroff();
    assert_clean(disk.file());
}

/// The short form of the next test: no containers, no start that hangs.
#[test]
fn s3_a_disk_that_hangs_holds_up_no_power_off() {
    let disk = HangingDisk::new("hung-power-off", "VAR");
    let mut vm = small_machine("hung-power-off", &disk, "").boot();
    vm.wait_up(&["look", "writer"]);
    disk.hang();
    somebody_waits_for_the_disk(&vm);
    it_powers_off(&mut vm, &disk);
}

#[test]
fn long_s3_v1_a_disk_that_hangs_stops_no_stop_and_no_power_off() {
    let disk = HangingDisk::new("hung-at-the-end", "VAR");
    let mut vm = machine("hung-at-the-end", &disk, "").boot();
    vm.wait_up(&ALL);
    let pids = pids(&vm);
    disk.hang();
    somebody_waits_for_the_disk(&vm);
    all_else_goes_on(&vm);
    a_start_hangs(&vm);
    pid_1_executes_itself_anew(&vm);
    assert_eq!(self::pids(&vm), pids, "somebody was restarted");
    for name in ["far", "writer"] {
        a_stop_ends(&vm, name);
        vm.wait_console(&format!("kelson: {name}: stopping - 1 of its processes could not be killed"));
    }
    it_powers_off(&mut vm, &disk);
}

#[test]
#[ignore = "minutes: hack/chaos runs it"]
fn long_p5_s3_v1_twenty_hangs_of_a_disk_cost_nothing() {
    let disk = HangingDisk::new("hung-disks", "VAR");
    let mut vm = machine("hung-disks", &disk, "").boot();
    vm.wait_up(&ALL);
    let mut toll = Toll::of("hung-disk");
    while toll.times < 20 {
        toll.times += 1;
        let before = kept(&vm);
        let first = toll.times == 1;
        let stops = toll.times.is_multiple_of(2);
        let after = toll.attempt(|| {
            hang_once(&vm, &disk, first, stops);
            kept(&vm)
        });
        let Some(after) = after else { break };
        toll.compare(&before, &after);
    }
    disk.answer();
    if let Some(found) = toll.attempt(|| missing(&log(&vm, "talker", &[]))) {
        toll.count_lines(found.lines, || format!("{:?}", found.told));
    }
    if toll.hangs == 0 {
        toll.times += 1;
        disk.hang();
        toll.attempt(|| it_powers_off(&mut vm, &disk));
    }
    disk.answer();
    toll.tell();
}

/// The disk hangs while an image is unpacked or a container started, and answers again.
#[track_caller]
fn hang_once(vm: &Vm, disk: &HangingDisk, first: bool, stops: bool) {
    if first {
        begin_to_unpack(vm);
    } else {
        // An unpacked image stays so: from then on the disk meets a start.
        vm.ctl(&["start", "late"]).ok();
    }
    disk.hang();
    somebody_waits_for_the_disk(vm);
    all_else_goes_on(vm);
    if stops {
        a_stop_ends(vm, "late");
    }
    pid_1_executes_itself_anew(vm);
    disk.answer();
    // The hung calls return, and the disk that was given up on can be used again.
    vm.wait_up(&ALL);
    vm.ctl(&["start", "late", "--wait"]).ok();
    vm.ctl(&["stop", "late", "--wait"]).ok();
}

/// All that run and that nobody restarts.
#[track_caller]
fn kept(vm: &Vm) -> BTreeMap<String, Service> {
    let all = bounded("services", || vm.services()).into_iter();
    all.filter(is_kept).map(|service| (service.name.clone(), service)).collect()
}

fn is_kept(service: &Service) -> bool {
    ALL.contains(&service.name.as_str()) && service.name != "quiet"
}

/// The writer waits for nothing: what it writes fails. All others notice nothing, and the machine can be switched off.
#[track_caller]
fn goes_on_without_its_disk(vm: &mut Vm, pids: [Option<i32>; CLEAR.len()]) {
    vm.client().wait_for("writer", "to fail", PATIENCE, |writer| writer.restarts > 0);
    all_else_goes_on(vm);
    pid_1_executes_itself_anew(vm);
    assert_eq!(CLEAR.map(|name| vm.client().service(name).pid), pids, "somebody was restarted");
    let begun = Instant::now();
    vm.poweroff();
    assert!(begun.elapsed() < END, "{:?}", begun.elapsed());
}

#[test]
fn long_p5_a_disk_that_fails_stops_nothing_else_and_no_power_off() {
    let mut disk = HangingDisk::new("failed-disk", "VAR");
    let mut vm = machine("failed-disk", &disk, "errors=remount-ro").boot();
    vm.wait_up(&ALL);
    let pids = CLEAR.map(|name| vm.client().service(name).pid);
    disk.die();
    vm.wait_console("Remounting filesystem read-only");
    goes_on_without_its_disk(&mut vm, pids);
}

#[test]
fn long_p5_a_disk_that_is_unplugged_stops_nothing_else_and_no_power_off() {
    let disk = HangingDisk::new("unplugged-disk", "VAR");
    let mut vm = machine("unplugged-disk", &disk, "").boot();
    vm.wait_up(&ALL);
    let pids = CLEAR.map(|name| vm.client().service(name).pid);
    // The kernel does this when the device goes; this machine has one disk.
    let device = look(&vm, "list=/sys/bus/pci/drivers/virtio-pci");
    let own = device.lines().find(|name| {
        name.starts_with("0000:")
            && look(&vm, &format!("cat=/sys/bus/pci/devices/{name}/class")).starts_with("0x0100")
    });
    let own = own.unwrap_or_else(|| panic!("no disk in {device}"));
    look(&vm, &format!("put=/sys/bus/pci/devices/{own}/remove:1"));
    goes_on_without_its_disk(&mut vm, pids);
}

/// The disk below the root stops answering after the machine file was read and before the machine id is kept on it.
#[test]
fn long_k1_a_disk_that_hangs_for_a_minute_at_the_first_boot_holds_up_its_own_steps_alone() {
    let disk = HangingDisk::new("hung-first-boot", "ROOT");
    let mut vm = Vm::builder("hung-first-boot")
        .second_disk(&disk.source())
        .append("kelson.disk=LABEL=ROOT")
        // After the module is loaded, the missing disk keeps the boot in its phase `mounts` for ten seconds.
        .machine(
            "modules: [softdog]
watchdog: {timeout: 20s}
mounts: [{source: LABEL=MISSING, target: /mnt, type: ext4}]
",
        )
        .runs("look", "serve")
        .start();
    vm.wait_console("softdog: initialized");
    disk.hang();
    let hung = Instant::now();
    vm.wait_answer();
    vm.wait_up(&["look"]);
    let report: serde_json::Value = vm.ctl(&["boot", "-o", "json"]).ok().json();
    let steps = report["phases"].as_array().into_iter().flatten().flat_map(|phase| phase["tasks"].as_array());
    let late: Vec<&str> = steps
        .flatten()
        .filter(|task| task["error"].as_str().is_some_and(|error| error.contains("did not answer within")))
        .filter_map(|task| task["name"].as_str())
        .collect();
    println!("{:?}: late are {late:?}", hung.elapsed());
    assert!(late.contains(&"machine id"), "{report:#}");
    let told = "boot: machine id: kelson-task machine-id did not answer within 10 s and is left behind";
    assert!(vm.console().contains(told), "{}", vm.console());
    no_thread_of_pid_1_waits_for_a_disk(&vm);
    std::thread::sleep(Duration::from_secs(60).saturating_sub(hung.elapsed()));
    bounded("services", || vm.services());
    disk.answer();
    // The step that was left behind goes on with the disk.
    let id = until("the machine id", PATIENCE, || {
        let id = vm.ctl(&["exec", "look", "--", STEPS, "cat=/etc/machine-id"]);
        (id.status == 0).then(|| id.stdout.trim().to_owned()).filter(|id| id.len() == 32)
    });
    println!("machine id {id}");
    let version: serde_json::Value = vm.ctl(&["version", "-o", "json"]).ok().json();
    println!("{version}");
    vm.poweroff();
    assert_eq!(vm.console().matches("Linux version").count(), 1, "{}", vm.console());
    assert!(!vm.console().contains("crashed"), "{}", vm.console());
    assert_clean(disk.file());
}

/// The PIDs and counts of all that run and that nobody restarts, in the order of their names.
#[track_caller]
fn pids(vm: &Vm) -> Vec<(String, Option<i32>, u32)> {
    kept(vm).into_values().map(|service| (service.name, service.pid, service.restarts)).collect()
}

/// It is answered in time.
#[track_caller]
fn bounded<T>(what: &str, ask: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let answer = ask();
    let took = begun.elapsed();
    println!("{what}: {took:?}");
    assert!(took < BOUND, "{what} took {took:?}");
    answer
}

/// Returns in the middle of it.
#[track_caller]
fn begin_to_unpack(vm: &Vm) {
    let newest = vm.client().events().last().map_or(0, |event| event.seq);
    let mut events = vm.client().follow_events(newest + 1);
    vm.ctl(&["start", "late"]).ok();
    let half = events.find("of an unpack half way", PATIENCE, |event| {
        event.service == "late" && (event.message.starts_with("unpacking ") || event.state == "starting")
    });
    assert_eq!(half.state, "preparing", "the image is too small for this computer: {half:?}");
}

#[track_caller]
fn somebody_waits_for_the_disk(vm: &Vm) {
    until("somebody to wait for the disk", PATIENCE, || {
        let writer = vm.client().service("writer");
        let pid = writer.pid.filter(|_| writer.up)?;
        look(vm, &format!("threads={pid}")).contains('D').then_some(())
    });
}

/// The disk holds up only those that use it: the API, other services and the lines in memory wait for
/// nothing.
#[track_caller]
fn all_else_goes_on(vm: &Vm) {
    bounded("services", || vm.services());
    bounded("events", || vm.client().events());
    bounded("status", || vm.ctl(&["status", "writer"]).ok());
    let mut lines = bounded("logs -f", || {
        let mut lines = vm.client().follow(&["logs", "-f", "--tail", "0", "talker"]);
        lines.find("tick ", BOUND);
        lines
    });
    for _ in 0..20 {
        lines.find("tick ", BOUND);
    }
    let last = bounded("logs", || log(vm, "talker", &["--tail", "20"]));
    assert!(last.iter().any(|line| ticks::number(line).is_some()), "{last:?}");
    bounded("restart", || vm.ctl(&["restart", "quiet", "--wait"]).ok());
    no_thread_of_pid_1_waits_for_a_disk(vm);
}

/// `execve` would wait for it for ever.
#[track_caller]
fn no_thread_of_pid_1_waits_for_a_disk(vm: &Vm) {
    // One that has just made a process is in D as well, until the process has executed its program.
    eventually("no thread of PID 1 to wait", || {
        let threads = look(vm, "threads=1");
        assert!(!threads.is_empty());
        !threads.contains('D')
    });
}

/// Of a program on the disk. The thread of PID 1 that makes the process waits with it, and can be killed, as `execve`
/// does it.
#[track_caller]
fn a_start_hangs(vm: &Vm) {
    vm.ctl(&["start", "far"]).ok();
    eventually("the start to hang", || look(vm, "threads=1").contains('D'));
    bounded("services while it hangs", || vm.services());
}

/// Of a service that waits for the disk; the processes that could not be ended are reported.
#[track_caller]
fn a_stop_ends(vm: &Vm, name: &str) {
    let begun = Instant::now();
    let told = vm.ctl(&["stop", name, "--wait", "--timeout", "30s"]);
    println!("stop of {name}: {:?}: {told:?}", begun.elapsed());
    let now = vm.client().service(name);
    println!("{now:?}");
    assert_ne!(told.status, 5, "the stop of {name} does not end: {told:?}");
}

#[track_caller]
fn pid_1_executes_itself_anew(vm: &Vm) {
    let begun = Instant::now();
    vm.ctl(&["reexec"]).ok();
    println!("reexec: {:?}", begun.elapsed());
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    bounded("services after it", || vm.services());
    no_thread_of_pid_1_waits_for_a_disk(vm);
}

#[track_caller]
fn it_powers_off(vm: &mut Vm, disk: &HangingDisk) {
    let begun = Instant::now();
    vm.ctl(&["poweroff"]);
    // The last that can wait for a disk; only reboot(2) follows.
    let last = "kelson-task sync did not answer";
    until("all that waits for the disk to be given up", END, || vm.console().contains(last).then_some(()));
    println!("power off: {:?}", begun.elapsed());
    assert_order(
        &vm.console(),
        &["power off: asked for by", "the random seed was not saved", "gave up on /var", last],
    );
    // The kernel resets its devices on the way down, and QEMU lets none go whose requests are under way: the emulator
    // would wait for its disk there, where a real machine does not.
    disk.answer();
    assert!(vm.wait_end(), "{}", vm.said());
    assert!(vm.console().contains("kelson: powering off"), "{}", vm.console());
}

/// Performs steps on the machine, and returns their output.
#[track_caller]
fn look(vm: &Vm, step: &str) -> String {
    vm.ctl(&["exec", "look", "--", STEPS, step]).ok().stdout
}
