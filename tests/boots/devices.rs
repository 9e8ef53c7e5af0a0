//! The devices of a machine: drivers and names of those that are plugged in, the power button and ctrl-alt-del.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, paths, until};

use super::{Disk, assert_order};

const SECTOR: u64 = 512;
/// Of the disk that is plugged in.
const SECTORS: u64 = 2048;
/// Its only partition.
const FIRST: u64 = 64;
const LAST: u64 = 71;
const TEXT: &[u8] = b"written to the partition\n";

/// CRC-32 of a table of partitions.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 },
        )
    })
}

/// Writes a GPT with a partition of this name.
fn partition(disk: &Path, name: &str) {
    let mut entries = vec![0; 128 * 128];
    entries[..16].copy_from_slice(&[0xA2; 16]);
    entries[16..32].copy_from_slice(&[7; 16]);
    entries[32..40].copy_from_slice(&FIRST.to_le_bytes());
    entries[40..48].copy_from_slice(&LAST.to_le_bytes());
    for (place, unit) in name.encode_utf16().enumerate() {
        entries[56 + 2 * place..][..2].copy_from_slice(&unit.to_le_bytes());
    }
    let mut header = vec![0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[8..16].copy_from_slice(&[0, 0, 1, 0, 92, 0, 0, 0]);
    for (at, number) in [(24, 1), (32, SECTORS - 1), (40, 34), (48, SECTORS - 34), (72, 2)] {
        header[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
    }
    header[56..72].copy_from_slice(&[9; 16]);
    for (at, number) in [(80, 128), (84, 128), (88, checksum(&entries))] {
        header[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
    }
    let sum = checksum(&header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    let mut protective = vec![0; 512];
    // A partition of the kind GPT over the whole disk.
    protective[446..462].copy_from_slice(&[0, 0, 2, 0, 0xEE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0xFF, 7, 0, 0]);
    protective[510..].copy_from_slice(&[0x55, 0xAA]);
    let file = File::create(disk).expect("the folder of the test is writable");
    file.set_len(SECTORS * SECTOR).expect("there is room");
    for (sector, bytes) in [(0, &protective[..]), (1, &header), (2, &entries), (FIRST, TEXT)] {
        file.write_all_at(bytes, sector * SECTOR).expect("the disk is written");
    }
}

fn monitor(name: &str) -> PathBuf {
    paths::test_logs().join(format!("{name}.monitor"))
}

#[test]
fn d1_devices_are_followed_and_the_power_button_ends_the_machine_in_order() {
    let (monitor, disk) = (monitor("devices"), Disk::new("devices"));
    partition(&disk.0, "DATA");
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
