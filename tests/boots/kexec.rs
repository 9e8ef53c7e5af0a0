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
