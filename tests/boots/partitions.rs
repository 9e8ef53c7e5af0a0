//! Partitions that the machine file asks for.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, VmBuilder, paths, until};

use super::disks::{blank, error_of, failure, look};
use super::{Disk, assert_clean, gpt};

const MIB: u64 = 1 << 20;

fn plug(vm: VmBuilder, serial: &str, disk: &Disk, options: &str) -> VmBuilder {
    let name = disk.0.file_stem().expect("a file").to_string_lossy();
    let drive = format!("-drive if=none,format=raw,id={name},file={}", disk.0.display());
    vm.qemu(&format!("{drive} -device virtio-blk-pci,drive={name},serial={serial}{options}"))
}

/// Both ends of a disk, where its table and the copy are.
fn ends(disk: &Disk) -> Vec<u8> {
    let file = File::open(&disk.0).expect("the disk is there");
    let last = file.metadata().expect("it is a file").len() - MIB;
    let mut ends = vec![0; usize::try_from(2 * MIB).expect("it fits")];
    let (first, copy) = ends.split_at_mut(1 << 20);
    file.read_exact_at(first, 0).expect("the disk is as large as that");
    file.read_exact_at(copy, last).expect("the disk is as large as that");
    ends
}

/// The labels of partitions with their MiB.
fn parts(disk: &Disk, sector: u64) -> Vec<(String, u64, u64)> {
    let mib = |sectors: u64| sectors * sector / MIB;
    let parts = gpt::read(&disk.0, sector).into_iter();
    parts.map(|(label, first, last)| (label, mib(first), mib(last + 1))).collect()
}

/// What another program says of the table, if this computer has it.
#[track_caller]
fn assert_sound(disk: &Disk) {
    match Command::new("sfdisk").arg("--verify").arg(&disk.0).env("LC_ALL", "C").output() {
        Ok(ended) => {
            let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
            assert!(ended.status.success() && said.contains("No errors detected"), "{said}");
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
}

#[test]
fn long_a_blank_disk_gets_its_partitions_once_and_later_only_those_that_it_lacks() {
    let root = Disk::new("parts-root");
    let (small, large) = (blank("parts-512", 96), blank("parts-4096", 96));
    let machine = |more: &str| {
        format!(
            "devices: {{}}
partitions:
  - {{disk: SERIAL=SMALL, create: [{{label: DATA, size: 24Mi}}, {{label: PAGES, size: 8Mi, type: swap}}{more}]}}
  - {{disk: SERIAL=LARGE, create: [{{label: MY LOGS}}]}}
mounts:
  - {{source: PARTLABEL=DATA, target: /mnt/data, type: ext4, format: ifBlank}}
  - {{source: PARTLABEL=MY LOGS, target: /mnt/logs, type: ext4, format: ifBlank}}
swap:
  - {{source: PARTLABEL=PAGES, format: ifBlank}}
"
        )
    };
    let mut before = Vec::new();
    for boot in 1..=3 {
        let machine = machine(if boot == 3 { ", {label: MORE}" } else { "" });
        let vm = Vm::builder("parts").root_disk(&root.0).machine(&machine).runs("look", "serve").runs_with(
            "by-link",
            "serve",
            "depends: [{device: /dev/disk/by-partlabel/DATA}]",
        );
        let vm = plug(vm, "SMALL", &small, "");
        let mut vm = plug(vm, "LARGE", &large, ",logical_block_size=4096,physical_block_size=4096").boot();
        vm.wait_up(&["look", "by-link"]);
        for (task, new) in [
            ("partitions SERIAL=SMALL", ["was blank; new: DATA, PAGES", "has them all", "; new: MORE"]),
            ("partitions SERIAL=LARGE", ["was blank; new: MY LOGS", "has them all", "has them all"]),
        ] {
            assert_eq!(error_of(&vm, task), "");
            let said = vm.ctl(&["boot"]).ok().stdout;
            let line = said.lines().find(|line| line.contains(task)).expect("it is reported");
            assert!(line.contains(new[boot - 1]), "boot {boot}: {line}");
        }
        for target in ["/mnt/data", "/mnt/logs"] {
            assert_eq!(failure(&vm, target), "", "boot {boot}");
            look(&vm, &format!("append={target}/boot"));
            assert_eq!(look(&vm, &format!("cat={target}/boot")).lines().count(), boot, "{target}");
        }
        assert_eq!(error_of(&vm, "swap PARTLABEL=PAGES"), "");
        vm.poweroff();
        let now = [ends(&small), ends(&large)];
        match boot {
            1 => {
                let small = parts(&small, 512);
                assert_eq!(small, [("DATA".to_owned(), 1, 25), ("PAGES".to_owned(), 25, 33)]);
                assert_eq!(parts(&large, 4096), [("MY LOGS".to_owned(), 1, 95)]);
            }
            2 => assert!(now == before[..], "the second boot wrote to a table"),
            _ => {
                let all =
                    [("DATA".to_owned(), 1, 25), ("PAGES".to_owned(), 25, 33), ("MORE".to_owned(), 33, 95)];
                assert_eq!(parts(&small, 512), all);
                assert!(now[1] == before[1], "a table that had all partitions was written");
            }
        }
        assert_sound(&small);
        before = now.to_vec();
    }
}

#[test]
fn a_disk_in_use_gets_another_partition() {
    let disk = blank("parts-in-use", 96);
    let inner = blank("parts-inner", 64);
    let made = Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(&inner.0).status();
    assert!(made.expect("mke2fs is installed").success());
    let file = gpt::write(&disk.0, 96 * MIB, 2048..=2048 + 64 * 2048 - 1, "STATE");
    let contents = std::fs::read(&inner.0).expect("the disk is there");
    file.write_all_at(&contents, MIB).expect("there is room");
    let vm = Vm::builder("parts-in-use")
        .append("kelson.disk=PARTLABEL=STATE")
        .machine(
            "partitions: [{disk: SERIAL=USED, create: [{label: STATE, size: 64Mi}, {label: PAGES, type: swap}]}]
swap: [{source: PARTLABEL=PAGES, format: ifBlank}]
",
        )
        .runs("look", "'append=/var/lib/boots', serve");
    let mut vm = plug(vm, "USED", &disk, "").boot();
    vm.wait_up(&["look"]);
    assert_eq!(error_of(&vm, "partitions SERIAL=USED"), "");
    assert_eq!(error_of(&vm, "swap PARTLABEL=PAGES"), "");
    assert!(look(&vm, "cat=/proc/swaps").contains("/dev/vda2"), "the partition is no swap");
    vm.poweroff();
    assert_eq!(parts(&disk, 512), [("STATE".to_owned(), 1, 65), ("PAGES".to_owned(), 65, 95)]);
    assert_sound(&disk);
    let mut contents = vec![0; usize::try_from(64 * MIB).expect("it fits")];
    let file = File::open(&disk.0).expect("the disk is there");
    file.read_exact_at(&mut contents, MIB).expect("the disk is as large as that");
    std::fs::write(&inner.0, contents).expect("the folder of the test is writable");
    assert_clean(&inner.0);
}

/// The disks that get no partitions, each with the reason.
const REFUSED: [(&str, &str); 7] = [
    ("EIO", "it cannot be read at byte"),
    ("BYTE", "it is not blank: byte 67031087 is not zero"),
    ("RAW", "it is not blank: byte 5 is not zero"),
    ("USED", "a ext4 is on it; Kelson makes no partitions there"),
    ("MBR", "it has an MBR; Kelson makes partitions in a GPT alone"),
    ("TWIN", "have this name: give each another one"),
    ("TABLEEIO", "its table of partitions cannot be read: "),
];

/// The disk with this serial number; one of `EIO` has a sector that cannot be read.
fn odd(vm: VmBuilder, serial: &str, disk: &Disk) -> VmBuilder {
    let bad = match serial {
        "EIO" => 64 * MIB / gpt::SECTOR - 100,
        "TABLEEIO" => 20,
        _ => return plug(vm, serial, disk, ""),
    };
    let file = disk.0.display();
    vm.qemu(&format!(
        "-blockdev driver=raw,node-name={serial},file.driver=blkdebug,file.image.driver=file,file.image.filename={file},\
         file.inject-error.0.event=read_aio,file.inject-error.0.errno=5,file.inject-error.0.sector={bad} \
         -device virtio-blk-pci,drive={serial},serial={serial}"
    ))
}

#[test]
fn k1_no_byte_is_written_to_a_disk_that_is_neither_blank_nor_has_a_sound_table() {
    let names = ["EIO", "BYTE", "RAW", "USED", "MBR", "TWIN", "TABLEEIO"];
    let mut disks: Vec<(&str, Disk)> =
        names.into_iter().map(|name| (name, blank(&format!("parts-{name}"), 64))).collect();
    disks.push(("TWIN", blank("parts-TWIN2", 64)));
    let file = |serial: &str| {
        let (_, disk) = disks.iter().find(|(known, _)| *known == serial).expect("a disk of the test");
        File::options().write(true).open(&disk.0).expect("the disk is there")
    };
    file("BYTE").write_all_at(b"x", 64 * MIB - 77_777).expect("the disk is written");
    file("RAW").write_all_at(b"x", 5).expect("the disk is written");
    file("MBR").write_all_at(&[0x55, 0xAA], 510).expect("the disk is written");
    for (serial, disk) in &disks {
        if *serial == "USED" {
            let made = Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(&disk.0).status();
            assert!(made.expect("mke2fs is installed").success());
        } else if *serial == "TABLEEIO" {
            gpt::write(&disk.0, 64 * MIB, 2048..=8191, "OTHER");
        }
    }
    // A table without a file system: it gets what it lacks, and nothing else changes.
    let table = blank("parts-TABLE", 64);
    gpt::write(&table.0, 64 * MIB, 2048..=8191, "OTHER");
    let read = |disk: &Disk| std::fs::read(&disk.0).expect("the disk is there");
    let before: Vec<Vec<u8>> = disks.iter().map(|(_, disk)| read(disk)).collect();
    let mut machine = "partitions:\n".to_owned();
    for name in names.iter().chain(&["TABLE"]) {
        machine +=
            &format!("  - {{disk: SERIAL={name}, create: [{{label: OF-{name}, size: 4Mi}}], wait: 5s}}\n");
    }
    let mut written = Vec::new();
    for boot in [1, 2] {
        let vm = Vm::builder("parts-refused").machine(&machine).runs("look", "serve");
        // The second time each disk has another name.
        let mut order: Vec<&(&str, Disk)> = disks.iter().collect();
        if boot == 2 {
            order.reverse();
        }
        let vm = order.into_iter().fold(vm, |vm, (serial, disk)| odd(vm, serial, disk));
        let mut vm = plug(vm, "TABLE", &table, "").boot();
        vm.wait_up(&["look"]);
        for (serial, why) in REFUSED {
            let error = error_of(&vm, &format!("partitions SERIAL={serial}"));
            assert!(error.contains(why), "boot {boot}: {serial}: {error}");
        }
        assert_eq!(error_of(&vm, "partitions SERIAL=TABLE"), "");
        vm.poweroff();
        for ((serial, disk), before) in disks.iter().zip(&before) {
            assert!(read(disk) == *before, "boot {boot}: {serial} was written to");
        }
        assert_eq!(parts(&table, 512), [("OTHER".to_owned(), 1, 4), ("OF-TABLE".to_owned(), 4, 8)]);
        if boot == 2 {
            assert!(written == read(&table), "the second boot wrote to it");
        }
        written = read(&table);
        assert!(written[1 << 20..63 << 20].iter().all(|byte| *byte == 0), "more than the table was written");
    }
}

/// In the place of blkid: it takes one disk out of the machine between the look at it and the write.
const BLKID: &str = "#!/bin/sh
disk=/sys/class/block/$(basename \"$(readlink /proc/self/fd/0)\")
test \"$(cat \"$disk/serial\" 2>/dev/null)\" = VANISHED && echo 1 >\"$disk/device/../remove\"
exit 2
";

#[test]
fn long_a_disk_that_is_plugged_in_gets_its_partitions_and_one_that_vanishes_none() {
    let root = Disk::new("parts-late-root");
    let (late, vanished) = (blank("parts-late", 64), blank("parts-vanished", 64));
    let monitor = paths::test_logs().join("parts-late.monitor");
    let mut vm = Vm::builder("parts-late")
        .root_disk(&root.0)
        .monitor(&monitor)
        .qemu("-device pcie-root-port,id=port1,chassis=1 -device pcie-root-port,id=port2,chassis=2")
        .machine(
            "partitions:
  - {disk: SERIAL=LATE, create: [{label: LATE}], wait: 0s}
  - {disk: SERIAL=VANISHED, create: [{label: GONE}], wait: 0s}
mounts:
  - {source: PARTLABEL=LATE, target: /srv, type: ext4, format: ifBlank, wait: 0s}
",
        )
        .file("blkid", 0o755, BLKID)
        .runs("look", "serve")
        .runs_with("data", "'append=/srv/written', serve", "depends: [{mount: /srv}]")
        .boot();
    vm.wait_up(&["look"]);
    let error = error_of(&vm, "partitions SERIAL=LATE");
    assert!(error.ends_with("; it gets its partitions when it comes"), "{error}");
    vm.ctl(&["exec", "look", "--", "cp", "/etc/kelson/blkid", "/usr/sbin/blkid"]).ok();
    // A later incarnation of PID 1 waits for it too.
    vm.ctl(&["reexec"]).ok();
    vm.wait_up(&["look"]);
    for (serial, disk, port) in [("VANISHED", &vanished, 1), ("LATE", &late, 2)] {
        vm.tell(&monitor, &format!("drive_add 0 if=none,format=raw,id={serial},file={}", disk.0.display()));
        vm.tell(
            &monitor,
            &format!("device_add virtio-blk-pci,drive={serial},bus=port{port},serial={serial}"),
        );
    }
    vm.wait_up(&["data"]);
    let gone = until("the other disk to be reported", BOOT_PATIENCE, || {
        let error = error_of(&vm, "partitions SERIAL=VANISHED");
        (!error.contains("when it comes")).then_some(error)
    });
    assert!(gone.contains("there is no such disk"), "{gone}");
    assert_eq!(error_of(&vm, "partitions SERIAL=LATE"), "");
    vm.poweroff();
    let is_blank = std::fs::read(&vanished.0).expect("the disk is there").iter().all(|byte| *byte == 0);
    assert!(is_blank, "a disk that was gone was written to");
    assert_eq!(parts(&late, 512), [("LATE".to_owned(), 1, 63)]);
}
