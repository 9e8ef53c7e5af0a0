//! Real boots in QEMU, through our own initramfs and through Debian's. One test at a time; seconds each.
//! The consoles stay in `out/test-logs`.

mod apply;
mod chaos;
mod clones;
mod container_network;
mod containers;
mod crash_limit;
mod demo;
mod devices;
mod dhcp;
mod dhcp6;
mod disks;
mod encryption;
mod failed;
mod fleet;
mod gpt;
mod growth;
mod health;
mod hostile;
mod hung_disk;
mod iso;
mod kexec;
mod links;
mod login;
mod main_service;
mod other_programs;
mod partitions;
mod power_cut;
mod protection;
mod rescue;
mod secrets;
mod several;
mod sharing;
mod sources;
mod storage;
mod suspend;
mod swap;
mod ticks;
mod timers;
mod timesync;
mod user_namespace;
mod vsock;

use std::path::Path;
use std::process::Command;

use kelson_tests::{Disk, Vm};

/// The order in which these lines stand on the console.
#[track_caller]
fn assert_order(console: &str, texts: &[&str]) {
    let mut rest = console;
    for text in texts {
        let at = rest
            .find(text)
            .unwrap_or_else(|| panic!("\"{text}\" does not follow on the console:\n{console}"));
        rest = &rest[at + text.len()..];
    }
}

/// Runs e2fsck on a disk that nobody uses; panics unless it is clean.
#[track_caller]
fn assert_clean(disk: &Path) {
    let check = Command::new("e2fsck").arg("-fn").arg(disk).output().expect("e2fsck is installed");
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success(), "e2fsck -fn: {said}");
    // Without -f this is the line of a file system that was unmounted.
    let state = Command::new("dumpe2fs").arg("-h").arg(disk).output().expect("dumpe2fs is installed");
    let state = String::from_utf8_lossy(&state.stdout).into_owned();
    assert!(state.contains("Filesystem state:         clean"), "{state}");
    assert!(!state.contains("needs_recovery"), "the journal was not written back:\n{state}");
}

#[test]
fn a_disk_over_the_image_keeps_what_is_written_and_is_clean() {
    let disk = Disk::new("over-the-image");
    for boot in 1..=2 {
        let mut vm = Vm::builder("over-the-image")
            .disk(&disk.0)
            .runs_with(
                "writer",
                &format!("'append=/var/lib/boots', fail-until={boot}:/var/lib/count"),
                "type: oneshot\nrestart: {policy: once}",
            )
            .runs_with("web", "serve", "depends: [{path: /etc/kelson}]")
            .boot();
        // The count of the first boot is still there in the second one, or this fails.
        vm.wait_up(&["writer", "web"]);
        vm.poweroff();
        assert_clean(&disk.0);
    }
}

#[test]
fn an_ext4_disk_boots_through_debians_initramfs_and_is_clean() {
    let disk = Disk::new("debian");
    let mut vm = Vm::builder("debian")
        .root_disk(&disk.0)
        .runs_with("writer", "'append=/var/lib/boots'", "type: oneshot")
        .runs_with("web", "serve", "depends: [{service: writer}]")
        .boot();
    vm.wait_up(&["writer", "web"]);
    vm.poweroff();
    assert_clean(&disk.0);
    assert_order(&vm.console(), &["Begin: Mounting root file system", "reboot: Power down"]);
}
