//! The disks of a machine: their names, those that come late, and those that are formatted.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, VmBuilder, paths, until};

use super::{Disk, assert_clean, gpt};

const STEPS: &str = "/etc/kelson/kelson-test-program";

/// A disk of `megabytes`, zero.
pub fn blank(name: &str, megabytes: u64) -> Disk {
    let disk = Disk::new(name);
    File::create(&disk.0).and_then(|file| file.set_len(megabytes << 20)).expect("a file for a disk");
    disk
}

/// A disk with an ext4.
pub fn ext4(name: &str, label: &str) -> Disk {
    let disk = blank(name, 64);
    let made = Command::new("mke2fs").args(["-q", "-t", "ext4", "-L", label]).arg(&disk.0).status();
    assert!(made.expect("mke2fs is installed").success());
    disk
}

/// The error of the mount at this place; empty: there was none.
pub fn failure(vm: &Vm, target: &str) -> String {
    error_of(vm, &format!("mount {target}"))
}

/// The error of a task of the boot; empty: there was none.
pub fn error_of(vm: &Vm, name: &str) -> String {
    let report: serde_json::Value = vm.ctl(&["boot", "-o", "json"]).ok().json();
    let phases = report["phases"].as_array().into_iter().flatten();
    let mut tasks = phases.flat_map(|phase| phase["tasks"].as_array().into_iter().flatten());
    let task = tasks.find(|task| task["name"] == name);
    let task = task.unwrap_or_else(|| panic!("no {name} in {report:#}"));
    task["error"].as_str().unwrap_or_default().to_owned()
}

fn monitor(name: &str) -> PathBuf {
    paths::test_logs().join(format!("{name}.monitor"))
}

#[test]
fn k2_a_disk_that_is_plugged_in_at_8_s_is_mounted_and_its_services_start() {
    let (monitor, disk) = (monitor("late-disk"), ext4("late-disk", "DATA"));
    let mut vm = Vm::builder("late-disk")
        .monitor(&monitor)
        .qemu("-device pcie-root-port,id=port1,chassis=1")
        .machine(
            "mounts:
  - {source: LABEL=DATA, target: /srv, type: ext4, wait: 1s}
  - {source: tmpfs, target: /srv/lost+found, type: tmpfs}
",
        )
        .runs("look", "serve")
        .runs_with("data", "'append=/srv/written', serve", "depends: [{mount: /srv}]")
        .boot();
    vm.wait_up(&["look"]);
    assert!(failure(&vm, "/srv").ends_with("; it is mounted when it comes"), "{}", failure(&vm, "/srv"));
    assert_eq!(failure(&vm, "/srv/lost+found"), "it waits for /srv, whose disk has not come");
    let why = vm.ctl(&["why", "data"]).stdout;
    assert!(why.contains("a file system to be mounted at \"/srv\""), "{why}");
    // A later incarnation of PID 1 waits for it too.
    vm.ctl(&["reexec"]).ok();
    std::thread::sleep(Duration::from_secs(8));
    vm.tell(&monitor, &format!("drive_add 0 if=none,format=raw,id=hot,file={}", disk.0.display()));
    vm.tell(&monitor, "device_add virtio-blk-pci,drive=hot,id=disk,bus=port1,serial=HOT");
    vm.wait_up(&["data"]);
    until("the report of the boot", BOOT_PATIENCE, || {
        failure(&vm, "/srv/lost+found").is_empty().then_some(())
    });
    assert_eq!(failure(&vm, "/srv"), "");
    let events = vm.client().events();
    assert!(
        events.iter().any(|event| event.message.starts_with("mount /srv: /dev/vda on /srv")),
        "{events:?}"
    );
    vm.poweroff();
    assert_clean(&disk.0);
    let written = Command::new("debugfs").args(["-R", "cat /written"]).arg(&disk.0).output();
    assert!(!written.expect("debugfs is installed").stdout.is_empty());
}

/// Where each disk is mounted, its serial number or its partition, and the type that it is to get.
const MOUNTS: [(&str, &str, &str); 11] = [
    ("/mnt/ext4", "SERIAL=EXT4", "ext4"),
    ("/mnt/xfs", "SERIAL=XFS", "xfs"),
    ("/mnt/vfat", "SERIAL=VFAT", "vfat"),
    ("/mnt/part", "SERIAL=PARTED-part1", "ext4"),
    ("/mnt/eio", "SERIAL=EIO", "ext4"),
    ("/mnt/byte", "SERIAL=BYTE", "ext4"),
    ("/mnt/table", "SERIAL=TABLE", "ext4"),
    ("/mnt/twin", "PARTLABEL=TWIN", "ext4"),
    ("/mnt/used", "SERIAL=USED", "xfs"),
    ("/mnt/raw", "SERIAL=RAW", "ext4"),
    ("/mnt/late/vanished", "SERIAL=VANISHED", "ext4"),
];

/// In the place of blkid: it takes one disk out of the machine between the look at it and its format, and is blkid for all
/// others.
const BLKID: &str = "#!/bin/sh
disk=/sys/class/block/$(basename \"$(readlink /proc/self/fd/0)\")
test \"$(cat \"$disk/serial\")\" = VANISHED || exec /mnt/sbin/blkid \"$@\"
echo 1 >\"$disk/device/../remove\"
exit 2
";

/// The disks of the test with their serial numbers; the first four are to be formatted, and no byte of the others may change.
struct Disks(Vec<(&'static str, Disk)>);

impl Disks {
    fn new() -> Disks {
        let named = |serial: &'static str, megabytes| (serial, blank(&format!("format-{serial}"), megabytes));
        let disks = Disks(vec![
            named("EXT4", 64),
            named("XFS", 320),
            named("VFAT", 64),
            named("PARTED", 64),
            named("EIO", 64),
            named("BYTE", 64),
            named("TABLE", 64),
            named("TWIN1", 64),
            named("TWIN2", 64),
            ("USED", ext4("format-USED", "USED")),
            named("RAW", 64),
            named("VANISHED", 64),
        ]);
        for (serial, label) in
            [("PARTED", "PARTED"), ("TABLE", "TABLE"), ("TWIN1", "TWIN"), ("TWIN2", "TWIN")]
        {
            gpt::write(disks.file(serial), 64 << 20, 2048..=126_975, label);
        }
        let set = |serial, at| {
            let file = File::options().write(true).open(disks.file(serial)).expect("the disk is there");
            file.write_all_at(b"x", at).expect("the disk is written");
        };
        set("BYTE", (64 << 20) - 77_777);
        set("RAW", 5);
        disks
    }

    fn file(&self, serial: &str) -> &Path {
        let found = self.0.iter().find(|(known, _)| *known == serial);
        &found.expect("a disk of the test").1.0
    }

    /// Adds them to a machine, in the order of the list or the other way round.
    fn plug_into(&self, mut vm: VmBuilder, reversed: bool) -> VmBuilder {
        let mut order: Vec<_> = self.0.iter().collect();
        if reversed {
            order.reverse();
        }
        for (serial, disk) in order {
            let file = disk.0.display();
            let drive = match *serial {
                // A sector of the last MiB cannot be read.
                "EIO" => format!(
                    "-blockdev driver=raw,node-name=EIO,file.driver=blkdebug,file.image.driver=file,file.image.filename={file},\
                     file.inject-error.0.event=read_aio,file.inject-error.0.errno=5,file.inject-error.0.sector={}",
                    (64 << 20) / gpt::SECTOR - 100
                ),
                _ => format!("-blockdev driver=file,node-name={serial},filename={file},cache.no-flush=on"),
            };
            vm = vm.qemu(&format!("{drive} -device virtio-blk-pci,drive={serial},serial={serial}"));
        }
        vm
    }

    /// The contents of those that must stay as they are.
    fn untouched(&self) -> Vec<(&'static str, Vec<u8>)> {
        let read = |(serial, disk): &(&'static str, Disk)| {
            (*serial, std::fs::read(&disk.0).expect("the disk is there"))
        };
        self.0.iter().skip(4).map(read).collect()
    }
}

#[test]
fn k1_no_byte_is_written_to_a_disk_that_is_not_known_to_be_blank() {
    let (root, disks) = (Disk::new("format-root"), Disks::new());
    let before = disks.untouched();
    // What lies in /mnt/late comes after it, and so after the other blkid is in place.
    let mut machine = "modules: [overlay, vfat, xfs]
mounts:
  - {source: /usr/sbin, target: /mnt/sbin, type: none, options: [bind]}
  - {source: /mnt/sbin, target: /usr/sbin, type: overlay, options: [\"lowerdir=/etc/kelson/sbin:/mnt/sbin\"]}
  - {source: /usr/sbin, target: /mnt/late, type: tmpfs}
"
    .to_owned();
    for (target, source, kind) in MOUNTS {
        machine +=
            &format!("  - {{source: {source}, target: {target}, type: {kind}, format: ifBlank, wait: 5s}}\n");
    }
    for boot in [1, 2] {
        // The second time each disk has another name.
        let vm = Vm::builder("format")
            .root_disk(&root.0)
            .machine(&machine)
            .file("sbin/blkid", 0o755, BLKID)
            .runs("look", "serve");
        let mut vm = disks.plug_into(vm, boot == 2).boot();
        vm.wait_up(&["look"]);
        for (target, ..) in &MOUNTS[..4] {
            assert_eq!(failure(&vm, target), "");
            let path = format!("{target}/boot");
            if boot == 1 {
                look(&vm, &format!("append={path}"));
            }
            assert!(!look(&vm, &format!("cat={path}")).is_empty(), "{target} lost its file");
        }
        for (target, why) in [
            ("/mnt/eio", "cannot be read"),
            ("/mnt/byte", "it is not blank: byte 67031087 is not zero"),
            ("/mnt/table", "it has partitions, such as vd"),
            ("/mnt/twin", "have this name: give each another one"),
            ("/mnt/used", "a ext4 is on it, and not a xfs; it is not formatted"),
            ("/mnt/raw", "it is not blank: byte 5 is not zero"),
            ("/mnt/late/vanished", "there is no such disk"),
        ] {
            let failure = failure(&vm, target);
            assert!(failure.contains(why), "boot {boot}: {target}: {failure}");
        }
        vm.poweroff();
        for ((serial, before), (_, now)) in before.iter().zip(disks.untouched()) {
            assert!(*before == now, "boot {boot}: {serial} was written to");
        }
    }
    assert_clean(disks.file("EXT4"));
}

/// Gives commands to debugfs, which changes a file system as a fault would.
#[track_caller]
fn break_by(disk: &Disk, commands: &[&str]) {
    for command in commands {
        let done = Command::new("debugfs").args(["-w", "-R", command]).arg(&disk.0).status();
        assert!(done.expect("debugfs is installed").success(), "{command}");
    }
}

#[test]
fn k3_a_dirty_ext4_is_repaired_and_one_that_needs_a_decision_is_read_only_and_reported() {
    let (root, dirty, broken) =
        (Disk::new("check-root"), ext4("check-dirty", "DIRTY"), ext4("check-broken", "BROKEN"));
    break_by(&dirty, &["set_super_value free_blocks_count 1", "set_super_value state 2"]);
    // Two files that lie on one block: whose it is, nobody but an operator can say.
    let made =
        Command::new("mke2fs").args(["-q", "-F", "-t", "ext2", "-L", "BROKEN"]).arg(&broken.0).status();
    assert!(made.expect("mke2fs is installed").success());
    break_by(&broken, &["write /etc/hostname a", "write /etc/hostname b"]);
    let block =
        Command::new("debugfs").args(["-R", "bmap a 0"]).arg(&broken.0).output().expect("debugfs is there");
    let block = String::from_utf8_lossy(&block.stdout).trim().to_owned();
    break_by(&broken, &[&format!("set_inode_field b block[0] {block}"), "set_super_value state 2"]);

    let vm = Vm::builder("check")
        .root_disk(&root.0)
        .machine(
            "mounts:
  - {source: LABEL=DIRTY, target: /mnt/dirty, type: ext4}
  - {source: LABEL=BROKEN, target: /mnt/broken, type: ext4}
",
        )
        .runs("look", "serve");
    let mut vm = [&dirty, &broken]
        .iter()
        .enumerate()
        .fold(vm, |vm, (number, disk)| {
            let file = disk.0.display();
            vm.qemu(&format!("-drive if=none,format=raw,id=disk{number},file={file} -device virtio-blk-pci,drive=disk{number}"))
        })
        .boot();
    vm.wait_up(&["look"]);
    assert_eq!(failure(&vm, "/mnt/dirty"), "");
    look(&vm, "append=/mnt/dirty/file");
    let failure = failure(&vm, "/mnt/broken");
    assert!(failure.contains("read-only, as it is not sound: "), "{failure}");
    let written = vm.ctl(&["exec", "look", "--", STEPS, "append=/mnt/broken/file"]);
    assert!(written.status != 0 && written.stderr.contains("Read-only file system"), "{written:?}");
    vm.poweroff();
    assert_clean(&dirty.0);
}

#[test]
fn swap_is_on_a_blank_disk_and_in_memory_and_on_no_other_disk() {
    let (root, swap, used) = (Disk::new("swap-root"), blank("swap-blank", 64), ext4("swap-used", "USED"));
    let before = std::fs::read(&used.0).expect("the disk is there");
    let vm = Vm::builder("swap-areas")
        .root_disk(&root.0)
        .machine(
            "swap:
  - {source: SERIAL=SWAP, format: ifBlank, priority: 7}
  - {source: SERIAL=USED, format: ifBlank}
  - {zram: 25}
",
        )
        .runs("look", "serve");
    let disks = [("SWAP", &swap), ("USED", &used)];
    let mut vm = disks
        .iter()
        .fold(vm, |vm, (serial, disk)| {
            let file = disk.0.display();
            let drive = format!("-drive if=none,format=raw,id={serial},file={file}");
            vm.qemu(&format!("{drive} -device virtio-blk-pci,drive={serial},serial={serial}"))
        })
        .boot();
    vm.wait_up(&["look"]);
    assert_eq!(error_of(&vm, "swap SERIAL=SWAP"), "");
    assert_eq!(error_of(&vm, "swap in 25% of the memory"), "");
    let error = error_of(&vm, "swap SERIAL=USED");
    assert_eq!(error, "/dev/vdc: there is a ext4, and no swap on it; make one with mkswap");
    let swaps = look(&vm, "cat=/proc/swaps");
    let swaps: Vec<Vec<&str>> = swaps.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let priority = |name: &str| swaps.iter().find(|swap| swap[0].starts_with(name)).map(|swap| swap[4]);
    assert_eq!((priority("/dev/vdb"), priority("/dev/zram")), (Some("7"), Some("100")), "{swaps:?}");
    assert_eq!(swaps.len(), 2, "{swaps:?}");
    vm.poweroff();
    assert!(!vm.console().contains("shutdown: swap on"), "{}", vm.console());
    assert!(std::fs::read(&used.0).expect("the disk is there") == before, "a disk in use was written to");
    let found = Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE"]).arg(&swap.0).output();
    assert_eq!(String::from_utf8_lossy(&found.expect("blkid is there").stdout).trim(), "swap");
}

/// Performs steps on the machine, and returns their output.
#[track_caller]
pub fn look(vm: &Vm, step: &str) -> String {
    vm.ctl(&["exec", "look", "--", STEPS, step]).ok().stdout
}
