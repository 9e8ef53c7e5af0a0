//! Disks that became larger between two boots.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use kelson_tests::Vm;

use super::disks::{blank, error_of, failure, look};
use super::{Disk, assert_clean, gpt};

const MIB: u64 = 1 << 20;
const MACHINE: &str = "modules: [xfs]
mounts:
  - {source: PARTLABEL=PARTED, target: /mnt/part, type: ext4, format: ifBlank, grow: true}
  - {source: SERIAL=WHOLE, target: /mnt/whole, type: xfs, format: ifBlank, grow: true}
  - {source: SERIAL=FIXED, target: /mnt/fixed, type: ext4, format: ifBlank}
";

/// The size of a mounted file system in MiB.
#[track_caller]
fn size_of(vm: &Vm, target: &str) -> u64 {
    let mounts: serde_json::Value = vm.ctl(&["mounts", "-o", "json"]).ok().json();
    let mut all = mounts.as_array().into_iter().flatten();
    let mount = all.find(|mount| mount["target"] == target);
    let size = mount.and_then(|mount| mount["size"].as_u64());
    size.unwrap_or_else(|| panic!("no size of {target} in {mounts:#}")) / MIB
}

#[test]
fn long_a_partition_and_its_file_system_grow_with_their_disk() {
    let root = Disk::new("grow-root");
    let disks = [
        ("PARTED", blank("grow-part", 64)),
        ("WHOLE", blank("grow-whole", 320)),
        ("FIXED", blank("grow-fixed", 64)),
    ];
    // It ends where it would end if it had grown.
    gpt::write(&disks[0].1.0, 64 * MIB, 2048..=129_023, "PARTED");
    let mut sizes = Vec::new();
    for boot in 1..=3 {
        if boot == 2 {
            for ((_, disk), size) in disks.iter().zip([128, 384, 128]) {
                let file = File::options().write(true).open(&disk.0).expect("the disk is there");
                file.set_len(size * MIB).expect("there is room");
            }
        }
        let vm = Vm::builder("grow").root_disk(&root.0).machine(MACHINE).runs("look", "serve");
        let mut vm = disks
            .iter()
            .fold(vm, |vm, (serial, disk)| {
                let drive = format!("-drive if=none,format=raw,id={serial},file={}", disk.0.display());
                vm.qemu(&format!("{drive} -device virtio-blk-pci,drive={serial},serial={serial}"))
            })
            .boot();
        vm.wait_up(&["look"]);
        let targets = ["/mnt/part", "/mnt/whole", "/mnt/fixed"];
        for target in targets {
            assert_eq!(failure(&vm, target), "", "boot {boot}");
            look(&vm, &format!("append={target}/boot"));
            assert_eq!(look(&vm, &format!("cat={target}/boot")).lines().count(), boot, "{target}");
        }
        assert_eq!(error_of(&vm, "mount /mnt/part"), "");
        sizes.push(targets.map(|target| size_of(&vm, target)));
        let said = vm.ctl(&["boot"]).ok().stdout;
        assert_eq!(said.contains("1 has grown by 64 MiB"), boot == 2, "boot {boot}: {said}");
        vm.poweroff();
    }
    let [[part, whole, fixed], grown, again] = sizes[..] else { panic!("{sizes:?}") };
    assert!(grown[0] >= part + 55 && grown[1] >= whole + 60 && grown[2] == fixed, "{sizes:?}");
    assert_eq!(grown, again, "there is nothing more to grow into");
    // The partition alone.
    let (disk, part) = (File::open(&disks[0].1.0).expect("the disk is there"), Disk::new("grow-contents"));
    let mut contents = vec![0; usize::try_from(126 * MIB).expect("it fits")];
    disk.read_exact_at(&mut contents, MIB).expect("the disk is as large as that");
    std::fs::write(&part.0, contents).expect("the folder of the test is writable");
    assert_clean(&part.0);
}
