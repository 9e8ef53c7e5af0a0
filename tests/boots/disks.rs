//! The disks of a machine: those that come late.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, paths, until};

use super::{Disk, assert_clean};

/// A disk of `megabytes`, zero.
fn blank(name: &str, megabytes: u64) -> Disk {
    let disk = Disk::new(name);
    File::create(&disk.0).and_then(|file| file.set_len(megabytes << 20)).expect("a file for a disk");
    disk
}

/// A disk with an ext4.
fn ext4(name: &str, label: &str) -> Disk {
    let disk = blank(name, 64);
    let made = Command::new("mke2fs").args(["-q", "-t", "ext4", "-L", label]).arg(&disk.0).status();
    assert!(made.expect("mke2fs is installed").success());
    disk
}

/// The error of the task of the boot that mounts at this place; empty: there was none.
fn failure(vm: &Vm, target: &str) -> String {
    let report: serde_json::Value = vm.ctl(&["boot", "-o", "json"]).ok().json();
    let phases = report["phases"].as_array().into_iter().flatten();
    let mut tasks = phases.flat_map(|phase| phase["tasks"].as_array().into_iter().flatten());
    let task = tasks.find(|task| task["name"] == format!("mount {target}"));
    let task = task.unwrap_or_else(|| panic!("no mount of {target} in {report:#}"));
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
