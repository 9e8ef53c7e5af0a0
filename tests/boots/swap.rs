//! A machine whose swap is on a disk that stops answering. PID 1 never needs a page from it: it answers,
//! survives its own crash and ends the run.

use std::time::{Duration, Instant};

use kelson_tests::{HangingDisk, PATIENCE, Vm, eventually, until};

use crate::assert_order;

/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";
/// A power off with one service that cannot be killed and a swap that cannot be turned off: the sum of their bounds in
/// docs/shutdown.md, and what a busy computer adds.
const END: Duration = Duration::from_secs(150);
/// `PF_MEMALLOC_NOIO` of the kernel's `sched.h`.
const WITHOUT_IO: u64 = 0x0008_0000;

#[test]
fn long_v1_s3_swap_on_a_disk_that_hangs_stops_neither_pid_1_nor_its_crash_nor_the_end() {
    let disk = HangingDisk::swap("swap");
    let mut vm = Vm::builder("swap")
        .second_disk(&disk.source())
        // The image is in memory that is never swapped: the machine's programs are not what is tested.
        .append("mem=768M rootfstype=ramfs")
        .machine("shutdown: {timeout: 8s}")
        .runs_with("look", "serve", "security: {seccomp: unconfined}")
        .runs_with("web", "serve", "stop: {timeout: 1s}")
        .runs_with("hog", "hog=640, hang", "start: manual\nstop: {timeout: 1s}")
        // It needs more memory than it may have, and so it needs the swap.
        .runs_with(
            "press",
            "hog=200, hang",
            "start: manual\nstop: {timeout: 1s}\nresources: {memoryMax: 32Mi}",
        )
        .boot();
    vm.wait_up(&["look", "web"]);
    let state = look(&vm, "cat=/proc/1/mountinfo");
    let state = state.lines().find(|line| line.contains(" /run/kelson/state ")).expect("it is mounted");
    assert!(state.contains("size=65536k"), "{state}");
    assert_eq!(flags(&vm, "1") & WITHOUT_IO, 0);
    let before = memory(&vm);
    look(&vm, "swapon=/dev/vda");
    vm.wait_console("KiB of PID 1's program are locked");
    println!("PID 1 without swap: {before:?}; with swap: {:?}", memory(&vm));
    assert_ne!(flags(&vm, "1") & WITHOUT_IO, 0);
    assert_eq!(flags(&vm, "self") & WITHOUT_IO, 0, "a service has it from PID 1");

    // The helpers of the test stay in memory. Of all other memory, what is not in use goes to the disk.
    for name in ["look", "apid", "logd"] {
        look(&vm, &format!("put=/sys/fs/cgroup/kelson/{name}/memory.swap.max:0"));
    }
    vm.ctl(&["start", "hog"]).ok();
    eventually("the machine to swap", || swapped(&vm) > 64 << 10);
    vm.ctl(&["stop", "hog", "--wait"]).ok();
    let pids = pids(&vm);
    disk.hang();
    vm.ctl(&["start", "press"]).ok();
    answers(&vm);
    // It crashes, and goes on. The answer would come by PID 1, which may be gone before.
    vm.ctl(&["exec", "look", "--", STEPS, "kill=SEGV:1"]);
    until("the next incarnation", PATIENCE, || {
        let version: serde_json::Value = Some(vm.ctl(&["-o", "json", "version"]))
            .filter(|told| told.status == 0)
            .map(|told| told.json())?;
        (version["server"]["crashes"] == 1).then_some(())
    });
    answers(&vm);
    assert_eq!(self::pids(&vm), pids);
    assert_ne!(flags(&vm, "1") & WITHOUT_IO, 0);

    let begun = Instant::now();
    vm.ctl(&["poweroff"]);
    // The steps that follow have nothing to write to the disk.
    let last = "shutdown: all file systems are unmounted";
    until("all that waits for the swap to be given up", END, || vm.console().contains(last).then_some(()));
    println!("power off: {:?}", begun.elapsed());
    // The kernel resets its devices on the way down, and QEMU lets none go whose requests are under way.
    disk.answer();
    assert!(vm.wait_end(), "{}", vm.said());
    assert_order(
        &vm.console(),
        &["power off: asked for by", "kelson-task swapoff did not answer", last, "kelson: powering off"],
    );
}

/// In time, and no thread of PID 1 waits for a disk.
#[track_caller]
fn answers(vm: &Vm) {
    let begun = Instant::now();
    vm.services();
    vm.ctl(&["restart", "web", "--wait"]).ok();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    for _ in 0..5 {
        let threads = look(vm, "threads=1");
        assert!(!threads.contains('D') && !threads.is_empty(), "{threads}");
    }
}

#[track_caller]
fn pids(vm: &Vm) -> Vec<(String, Option<i32>)> {
    let kept = vm.services().into_iter().filter(|service| ["look", "apid", "logd"].contains(&&*service.name));
    kept.map(|service| (service.name, service.pid)).collect()
}

#[track_caller]
fn look(vm: &Vm, step: &str) -> String {
    vm.ctl(&["exec", "look", "--", STEPS, step]).ok().stdout.trim().to_owned()
}

/// The flags of a process, as the kernel has them.
#[track_caller]
fn flags(vm: &Vm, pid: &str) -> u64 {
    let stat = look(vm, &format!("cat=/proc/{pid}/stat"));
    let rest = stat.rsplit_once(") ").expect("the name ends there").1;
    rest.split(' ').nth(6).and_then(|word| word.parse().ok()).expect("the flags")
}

/// How much is swapped, in KiB.
#[track_caller]
fn swapped(vm: &Vm) -> u64 {
    let swaps = look(vm, "cat=/proc/swaps");
    let used = swaps.lines().nth(1).and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    used.unwrap_or_else(|| panic!("no swap: {swaps}"))
}

/// Of PID 1: what it has in memory, its share of that, and what is locked.
#[track_caller]
fn memory(vm: &Vm) -> Vec<String> {
    let text = look(vm, "cat=/proc/1/smaps_rollup");
    let is_wanted =
        |line: &&str| ["Rss:", "Pss:", "Locked:", "Swap:"].iter().any(|name| line.starts_with(name));
    text.lines().filter(is_wanted).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
