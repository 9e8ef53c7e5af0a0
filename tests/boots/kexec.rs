//! A reboot that executes another kernel, without the firmware.

use std::process::Command;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, paths, until};

use super::{Disk, assert_order};

/// A disk with the kernel and the initramfs of the demo, as `/boot` of an installed machine.
fn boot_disk(name: &str) -> Disk {
    let disk = Disk::new(name);
    let files = paths::test_logs().join(format!("{name}.files"));
    let _ = std::fs::remove_dir_all(&files);
    std::fs::create_dir_all(&files).expect("the folder of the test is writable");
    for (from, to) in [("out/vmlinuz", "vmlinuz"), ("out/initramfs.zst", "initramfs")] {
        std::fs::copy(paths::top().join(from), files.join(to)).expect("make image has made it");
    }
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-t", "ext4", "-L", "BOOT", "-d"]).arg(&files).arg(&disk.0).arg("200M");
    assert!(make.status().expect("mke2fs is installed").success());
    std::fs::remove_dir_all(&files).expect("they are ours");
    disk
}

#[test]
fn d1_a_reboot_by_kexec_executes_the_kernel_of_the_machine_file() {
    let disk = boot_disk("kexec");
    let mut vm = Vm::builder("kexec")
        .second_disk(&disk.0.display().to_string())
        .machine(
            "mounts: [{source: LABEL=BOOT, target: /boot, type: ext4, options: [ro]}]\n\
             kexec: {kernel: /boot/vmlinuz, initramfs: /boot/initramfs, commandLine: \
             'console=ttyS0 no_timer_check ip=dhcp second'}\n",
        )
        .runs("web", "serve")
        .boot();
    vm.wait_up(&["web"]);
    vm.ctl(&["reboot", "--kexec", "--yes"]).ok();
    // The demo answers with the same certificates. A reset would have ended QEMU.
    until("the kernel of the disk to boot the demo", BOOT_PATIENCE, || {
        vm.ctl(&["services"]).stdout.contains("nginx").then_some(())
    });
    let console = vm.console();
    assert_order(
        &console,
        &[
            "/boot/vmlinuz is loaded, to be executed with: console=ttyS0 no_timer_check ip=dhcp second",
            "reboot by kexec: asked for by",
            "web: stopping",
            "shutdown: all file systems are unmounted",
            "executing the new kernel",
            "Command line: console=ttyS0 no_timer_check ip=dhcp second",
            "machine mode",
        ],
    );
    super::assert_clean(&disk.0);
    vm.poweroff();
}

/// The ACPI table that describes the watchdog of QEMU's chipset (the TCO timer, of which the firmware puts the registers at
/// 0x660), without what QEMU puts before it. Debian's cloud kernel drives a watchdog by such a table only.
fn watchdog_table() -> Vec<u8> {
    const READ: u8 = 0;
    const READ_COUNTDOWN: u8 = 1;
    const WRITE: u8 = 2;
    const WRITE_COUNTDOWN: u8 = 3;
    /// Keeps the other bits of the register.
    const PRESERVE: u8 = 0x80;
    const RELOAD: u64 = 0x660;
    const CONTROL: u64 = 0x668;
    const TIMER: u64 = 0x672;
    /// The register that keeps the timer from resetting the machine, in the memory that the firmware gives the chipset.
    const NO_REBOOT: u64 = 0xfed1_f410;
    /// Action, instruction, register, the first bit there, value, and the mask of its bits.
    const ENTRIES: [(u8, u8, u64, u8, u32, u32); 9] = [
        (0x01, WRITE, RELOAD, 0, 1, 0x3ff),
        (0x04, READ_COUNTDOWN, RELOAD, 0, 0, 0x3ff),
        (0x05, READ_COUNTDOWN, TIMER, 0, 0, 0x3ff),
        (0x06, WRITE_COUNTDOWN | PRESERVE, TIMER, 0, 0, 0x3ff),
        (0x08, READ, CONTROL, 11, 0, 1),
        (0x09, WRITE | PRESERVE, CONTROL, 11, 0, 1),
        (0x0a, READ, CONTROL, 11, 1, 1),
        (0x0b, WRITE | PRESERVE, CONTROL, 11, 1, 1),
        (0x11, WRITE | PRESERVE, NO_REBOOT, 5, 0, 1),
    ];
    let mut table = Vec::new();
    // The length of this header, and that it is no device of PCI.
    table.extend(32_u32.to_le_bytes());
    table.extend([0xff, 0, 0xff, 0xff, 0xff, 0, 0, 0]);
    // The timer counts down to zero twice, by steps of 600 ms: 1,200 ms a step. Most and fewest steps; enabled.
    for word in [1200_u32, 1023, 4, 1, u32::try_from(ENTRIES.len()).expect("a few")] {
        table.extend(word.to_le_bytes());
    }
    for (action, instruction, register, bit, value, mask) in ENTRIES {
        // In memory one of 32 bits, in the space of ports one of 16.
        let (space, bits, width) = if register == NO_REBOOT { (0, 32, 3) } else { (1, 16, 2) };
        table.extend([action, instruction, 0, 0, space, bits, bit, width]);
        table.extend(register.to_le_bytes());
        table.extend(value.to_le_bytes());
        table.extend(mask.to_le_bytes());
    }
    table
}

#[test]
fn d1_a_kernel_that_hangs_after_kexec_is_reset_by_the_watchdog() {
    let disk = boot_disk("kexec-hangs");
    let table = paths::test_logs().join("kexec-hangs.wdat");
    std::fs::write(&table, watchdog_table()).expect("the folder of the test is writable");
    let mut vm = Vm::builder("kexec-hangs")
        .second_disk(&disk.0.display().to_string())
        .qemu(&format!("-acpitable sig=WDAT,data={} -global ICH9-LPC.noreboot=false", table.display()))
        .append("watchdog.stop_on_reboot=0")
        .reboots()
        .machine(
            "modules: [wdat_wdt]\n\
             watchdog: {timeout: 20s}\n\
             mounts: [{source: LABEL=BOOT, target: /boot, type: ext4, options: [ro]}]\n\
             kexec: {kernel: /boot/vmlinuz, initramfs: /boot/initramfs, commandLine: \
             'console=ttyS0 no_timer_check rdinit=/none root=/dev/none rootwait'}\n",
        )
        .runs("web", "serve")
        .boot();
    vm.wait_up(&["web"]);
    vm.ctl(&["reboot", "--kexec", "--yes"]).ok();
    until("the firmware to boot the first kernel again", BOOT_PATIENCE, || {
        vm.ctl(&["services"]).stdout.contains("web").then_some(())
    });
    let console = vm.console();
    assert_order(
        &console,
        &[
            "the hardware watchdog is armed: 20 s, \"wdat_wdt\"",
            "executing the new kernel",
            "Command line: console=ttyS0 no_timer_check rdinit=/none root=/dev/none rootwait",
            "machine mode",
            "the hardware watchdog is armed: 20 s, \"wdat_wdt\"",
        ],
    );
    assert!(!console.contains("the hardware watchdog may stop"), "{console}");
    vm.poweroff();
}
