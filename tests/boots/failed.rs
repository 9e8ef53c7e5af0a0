//! A boot that cannot succeed: the machine says why, and starts again.

use kelson_tests::Vm;

use crate::assert_order;

/// Nothing can be made below `/proc`, and there is no such disk.
const WORDS: &str = "kelson.disk=/dev/no-such-disk kelson.runtime-dir=/proc/none kelson.panic=1";

#[test]
fn a_disk_that_is_missing_is_replaced_by_memory_and_a_failed_boot_starts_again() {
    let mut vm = Vm::builder("failed").append(WORDS).runs("web", "serve").start();
    assert!(!vm.wait_end(), "it powered off instead of starting again: {}", vm.said());
    let console = vm.console();
    assert_order(
        &console,
        &[
            "initramfs: writable disk: ",
            "the boot task \"runtime folders\" failed, and nothing can work without it",
            "shutdown: all file systems are unmounted",
            "the boot has failed",
            "this machine starts again in 1 s (kelson.panic)",
        ],
    );
    assert!(!console.contains("web: starting"), "{console}");
}

#[test]
fn a_reboot_boots_the_machine_again_and_a_power_off_ends_it() {
    let mut vm = Vm::builder("reboots").reboots().runs("web", "serve").boot();
    vm.ctl(&["reboot", "--no-wait"]).ok();
    kelson_tests::until("the second boot", kelson_tests::vm::BOOT_PATIENCE, || {
        (vm.console().matches("Run /init as init process").count() == 2).then_some(())
    });
    vm.wait_answer();
    vm.wait_up(&["web"]);
    vm.poweroff();
    assert!(vm.said().contains("powered off"), "{}", vm.said());
}
