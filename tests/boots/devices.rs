//! The devices of a machine: drivers and names of those that are plugged in, the power button and ctrl-alt-del.

use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, paths, until};

use super::{Disk, assert_order, gpt};

/// The sectors of the only partition of the disk that is plugged in.
const PART: RangeInclusive<u64> = 64..=71;
const TEXT: &[u8] = b"written to the partition\n";

fn monitor(name: &str) -> PathBuf {
    paths::test_logs().join(format!("{name}.monitor"))
}

#[test]
fn d1_devices_are_followed_and_the_power_button_ends_the_machine_in_order() {
    let (monitor, disk) = (monitor("devices"), Disk::new("devices"));
    let file = gpt::write(&disk.0, 1 << 20, PART, "DATA");
    file.write_all_at(TEXT, PART.start() * gpt::SECTOR).expect("the disk is written");
    let label = "/dev/disk/by-partlabel/DATA";
    let mut vm = Vm::builder("devices")
        .monitor(&monitor)
        .qemu("-device pcie-root-port,id=port1,chassis=1 -device pcie-root-port,id=port2,chassis=2")
        .machine("devices: {rules: [{subsystem: block, name: \"vd*\", group: \"5\", mode: \"0640\"}]}\n")
        .runs("web", "serve")
        .runs_with(
            "backup",
            &format!("cat={label}, serve"),
            &format!("user: \"65534:5\"\ndepends: [{{device: {label}}}]"),
        )
        .boot();
    vm.wait_up(&["web", "devices"]);
    let boot = vm.ctl(&["boot"]).ok().stdout;
    let drivers = boot.lines().find(|line| line.trim_start().starts_with("drivers")).unwrap_or_default();
    assert!(drivers.contains("button") && drivers.contains("evdev"), "{boot}");
    let waits = || vm.ctl(&["why", "backup"]).stdout.contains(&format!("device \"{label}\" to exist"));
    assert!(waits());

    let file = disk.0.display();
    vm.tell(&monitor, &format!("drive_add 0 if=none,format=raw,id=hot,file={file}"));
    vm.tell(&monitor, "device_add virtio-blk-pci,drive=hot,id=disk,bus=port1,serial=HOT");
    vm.wait_up(&["backup"]);
    let log = vm.ctl(&["logs", "backup"]).ok().stdout;
    assert!(log.contains("written to the partition"), "{log}");

    // No driver of this one was loaded.
    vm.tell(&monitor, "device_add virtio-rng-pci,id=rng,bus=port2");
    until("the driver of a device that is plugged in", BOOT_PATIENCE, || {
        let log = vm.ctl(&["logs", "devices"]).ok().stdout;
        log.lines().any(|line| line.contains("loaded") && line.contains("virtio_rng")).then_some(())
    });

    vm.tell(&monitor, "device_del disk");
    until("the link to go", BOOT_PATIENCE, || {
        // The condition is asked before each start.
        vm.ctl(&["restart", "backup"]);
        waits().then_some(())
    });
    assert_eq!(vm.services().iter().find(|service| service.name == "backup").map(|one| one.up), Some(false));

    vm.tell(&monitor, "system_powerdown");
    assert!(vm.wait_end(), "{}", vm.said());
    assert_order(
        &vm.console(),
        &[
            "power off: asked for by SIGPWR from kelson-devices",
            "web: stopping",
            "shutdown: all file systems are unmounted",
        ],
    );
}

#[test]
fn d1_ctrl_alt_del_starts_the_machine_again_in_order() {
    let monitor = monitor("ctrl-alt-del");
    let mut vm = Vm::builder("ctrl-alt-del").monitor(&monitor).runs("web", "serve").boot();
    vm.wait_up(&["web"]);
    vm.tell(&monitor, "sendkey ctrl-alt-delete");
    assert!(!vm.wait_end(), "it powered off instead of starting again: {}", vm.said());
    assert_order(
        &vm.console(),
        &[
            "reboot: asked for by SIGINT from the kernel",
            "web: stopping",
            "shutdown: all file systems are unmounted",
            "reboot: Restarting system",
        ],
    );
}
