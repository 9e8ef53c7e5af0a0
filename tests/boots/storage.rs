//! A storage plugin that formats, mounts and grows file systems, on a machine with real disks, mounts and reboots.

use std::path::Path;
use std::process::Command;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Disk, Vm, until};

use super::{assert_clean, assert_order};

/// Where the plugin has its files.
const FOLDER: &str = "/var/lib/loop-volumes";

/// A service that adds a line to a file of the volume, and those of further volumes.
fn user(vm: kelson_tests::VmBuilder, name: &str, more: &str) -> kelson_tests::VmBuilder {
    vm.runs_with(
        name,
        &format!("'append=/data/{name}', serve"),
        &format!(
            "volumes: [{{name: data, source: {{csi: data}}, target: /data}}{more}]\nstop: {{timeout: 3s}}"
        ),
    )
}

/// What a program of the machine prints, run by the plugin's service.
#[track_caller]
fn run(vm: &Vm, words: &[&str]) -> String {
    vm.ctl(&[&["exec", "loop", "--"], words].concat()).ok().stdout.trim().to_owned()
}

/// Where the loop devices are mounted.
fn mounts(vm: &Vm) -> Vec<String> {
    let table = run(vm, &["cat", "/proc/1/mounts"]);
    let of_volumes = table.lines().filter(|line| line.starts_with("/dev/loop"));
    of_volumes.filter_map(|line| line.split(' ').nth(1).map(str::to_owned)).collect()
}

/// How large the volume is for its user, in MiB.
fn size(vm: &Vm) -> u64 {
    let shown = vm.ctl(&["exec", "db", "--", "df", "-BM", "--output=size", "/data"]).ok().stdout;
    let number = shown.lines().last().unwrap_or_default().trim().trim_end_matches('M').to_owned();
    number.parse().unwrap_or_else(|_| panic!("{shown}"))
}

#[test]
fn volumes_of_a_plugin_are_used_grown_and_undone_over_crashes_and_reboots() {
    let root = Disk::new("storage");
    let plugin = format!(
        "process: {{command: [$DIR/kelson-demo-loop-plugin]}}\nenvironment: {{LOOP_FOLDER: {FOLDER}}}\n\
         provides: {{csi: {{id: loop}}}}"
    );
    let mut vm = Vm::builder("storage")
        .root_disk(&root.0)
        .reboots()
        .machine("modules: [loop]\n")
        .binary("kelson-demo-loop-plugin")
        .service("loop", &plugin)
        .file("volumes/data.yaml", 0o644, "plugin: loop\nmountFlags: [noatime]\n")
        .file("volumes/missing.yaml", 0o644, "plugin: loop\n");
    vm = user(vm, "db", "");
    vm = user(vm, "reader", "");
    vm = user(vm, "broken", ", {name: missing, source: {csi: missing}, target: /missing}");
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
    run(&vm, &["sh", "-c", &format!("kill -STOP {pid}")]);
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
    let dump = format!("dump {FOLDER}/data.img {}", volume.0.display());
    assert!(Command::new("debugfs").args(["-R", &dump]).arg(&root.0).status().expect("debugfs").success());
    assert!(Path::new(&volume.0).exists());
    assert_clean(&volume.0);
}
