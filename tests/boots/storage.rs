//! A storage plugin that formats, mounts and grows file systems, on a machine with real disks, mounts and reboots.

mod crashes;
mod machine;
mod others;

use std::path::Path;
use std::process::Command;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Disk, Vm, until};

use self::machine::{FILES, mounts, shell, user};
use super::{assert_clean, assert_order};

/// How large the volume is for its user, in MiB.
fn size(vm: &Vm) -> u64 {
    let shown = vm.ctl(&["exec", "db", "--", "df", "-BM", "--output=size", "/data"]).ok().stdout;
    let number = shown.lines().last().unwrap_or_default().trim().trim_end_matches('M').to_owned();
    number.parse().unwrap_or_else(|_| panic!("{shown}"))
}

#[test]
fn volumes_of_a_plugin_are_used_grown_and_undone_over_crashes_and_reboots() {
    let root = Disk::new("storage");
    let data = ("data", "/data");
    let mut vm = machine::builder("storage", &root).reboots();
    vm = user(vm, "db", &[data], "");
    vm = user(vm, "reader", &[data], "");
    vm = user(vm, "broken", &[data, ("missing", "/missing")], "");
    let mut vm = vm.boot();
    vm.wait_up(&["loop"]);
    until("the plugin to say that there is no volume", BOOT_PATIENCE, || {
        vm.ctl(&["why", "db"])
            .stdout
            .contains("NodeStageVolume of plugin loop for data: NOT_FOUND")
            .then_some(())
    });
    vm.ctl(&["volumes", "create", "data", "--size", "32Mi"]).ok();
    vm.ctl(&["restart", "db", "reader"]).ok();
    vm.wait_up(&["db", "reader"]);
    let published = |vm: &Vm| {
        let mounts = mounts(vm);
        let is = |name: &str| mounts.iter().any(|mount| mount.ends_with(&format!("/published/{name}/data")));
        (mounts.len(), ["db", "reader", "broken"].map(is))
    };
    // One stage for both. The other service is undone, as one of its volumes is missing.
    until("the volumes of the broken service to be undone", BOOT_PATIENCE, || {
        (published(&vm) == (3, [true, true, false])).then_some(())
    });
    until("the answer of the plugin", BOOT_PATIENCE, || {
        let why = vm.ctl(&["why", "broken"]).stdout;
        why.contains("NodeStageVolume of plugin loop for missing: NOT_FOUND").then_some(())
    });
    vm.ctl(&["stop", "broken", "--wait"]).ok();

    // It grows while it is mounted.
    assert!(size(&vm) < 32);
    vm.ctl(&["volumes", "expand", "data", "64Mi"]).ok();
    assert!(size(&vm) > 48, "{}", size(&vm));

    // A stop of the plugin is refused. With its users it is one of all, in order, and the file system is free.
    let refused = vm.ctl(&["stop", "loop"]);
    assert!(refused.status != 0 && refused.stderr.contains("db"), "{refused:?}");
    vm.ctl(&["reexec"]).ok();
    vm.wait_answer();
    assert_eq!(published(&vm), (3, [true, true, false]));
    vm.ctl(&["stop", "loop", "--cascade", "--wait"]).ok();
    vm.ctl(&["start", "--with-dependencies", "db", "reader"]).ok();
    vm.wait_up(&["loop", "db", "reader"]);
    assert_eq!(published(&vm), (3, [true, true, false]));

    // What the records say is repeated after a reboot, when no mount is left.
    vm.ctl(&["reboot", "--no-wait"]).ok();
    until("the second boot", BOOT_PATIENCE, || {
        (vm.console().matches("Run /init as init process").count() == 2).then_some(())
    });
    vm.wait_answer();
    vm.wait_up(&["loop", "db", "reader"]);
    let lines = vm.ctl(&["exec", "db", "--", "cat", "/data/db"]).ok().stdout;
    assert_eq!(lines.lines().count(), 3, "{lines}");

    // The plugin hangs at the end.
    let pid = vm.client().service("loop").pid.expect("it runs").to_string();
    shell(&vm, &format!("kill -STOP {pid}"));
    vm.poweroff();
    assert_order(
        &vm.console(),
        &[
            "waits for the release of the volumes data of plugin loop",
            "shutdown: all file systems are unmounted",
        ],
    );
    assert_clean(&root.0);
    let volume = Disk::new("storage-volume");
    let dump = format!("dump {FILES}/data.img {}", volume.0.display());
    assert!(Command::new("debugfs").args(["-R", &dump]).arg(&root.0).status().expect("debugfs").success());
    assert!(Path::new(&volume.0).exists());
    assert_clean(&volume.0);
}
