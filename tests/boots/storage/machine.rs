//! A machine with the example plugin, whose tools wait or lie where the test wants it.

use std::collections::BTreeSet;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Disk, Vm, VmBuilder, until};
use serde_json::Value;

/// Where the plugin has its files.
pub const FILES: &str = "/var/lib/loop-volumes";
/// The folder of the plugin.
pub const FOLDER: &str = "/run/kelson/csi/loop";

/// Runs the tool of the host that has its name. `/run/hold` has a pattern of calls that wait before or after that until the
/// file is gone, and `/run/lie` one of those that report success and do nothing.
const TOOL: &str = r#"#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
tool=${0##*/}
call="$tool $*"
matches() { read -r pattern </run/$1 && case $2 in $pattern) ;; *) false ;; esac } 2>/dev/null
hold() {
    if matches hold "$1 $call"; then
        : >/run/held
        while [ -e /run/hold ]; do sleep 0.1; done
    fi
}
hold before
if matches lie "$call"; then exit 0; fi
"$tool" "$@"
status=$?
hold after
exit $status
"#;

/// What the kernel has of volumes: the mounts of loop devices, and the files of those.
const IN_KERNEL: &str = "sed -n 's|^/dev/loop[0-9]* \\([^ ]*\\) .*|mounted \\1|p' /proc/1/mounts; \
                         losetup --noheadings --output BACK-FILE | sed 's|^ *|attached |'";

/// With the plugin `loop`, and the volumes `data`, `work` and `missing` of it, of which none is made yet.
pub fn builder(name: &str, root: &Disk) -> VmBuilder {
    let plugin = format!(
        "process: {{command: [$DIR/kelson-demo-loop-plugin]}}\n\
         restart: {{delay: 100ms, maxDelay: 100ms}}\n\
         environment: {{LOOP_FOLDER: {FILES}, PATH: '$DIR/tools:/usr/sbin:/usr/bin:/sbin:/bin'}}\n\
         provides: {{csi: {{id: loop}}}}"
    );
    let mut builder = Vm::builder(name)
        .root_disk(&root.0)
        .machine("modules: [loop]\n")
        .binary("kelson-demo-loop-plugin")
        .service("loop", &plugin)
        .runs("look", "serve");
    for tool in ["losetup", "mount", "umount"] {
        builder = builder.file(format!("tools/{tool}"), 0o755, TOOL);
    }
    for volume in ["data", "work", "missing"] {
        builder =
            builder.file(format!("volumes/{volume}.yaml"), 0o644, "plugin: loop\nmountFlags: [noatime]\n");
    }
    builder
}

/// Adds a service that adds a line to a file of each of its volumes; they are given with their targets.
pub fn user(builder: VmBuilder, name: &str, volumes: &[(&str, &str)], more: &str) -> VmBuilder {
    let steps: String = volumes.iter().map(|(_, target)| format!("'append={target}/{name}', ")).collect();
    let entry = |(volume, target): &(&str, &str)| {
        format!("{{name: {volume}, source: {{csi: {volume}}}, target: {target}}}")
    };
    let entries = volumes.iter().map(entry).collect::<Vec<_>>().join(", ");
    let rest = format!("volumes: [{entries}]\nstop: {{timeout: 3s}}\n{more}");
    builder.runs_with(name, &format!("{steps}serve"), &rest)
}

/// What a shell of the machine prints.
#[track_caller]
pub fn shell(vm: &Vm, script: &str) -> String {
    vm.ctl(&["exec", "look", "--", "sh", "-c", script]).ok().stdout.trim().to_owned()
}

/// From now on the calls of this pattern wait.
#[track_caller]
pub fn hold(vm: &Vm, at: &str) {
    shell(vm, &format!("rm -f /run/held; echo '{at}' >/run/hold"));
}

/// Returns once one of them waits.
#[track_caller]
pub fn wait_held(vm: &Vm) {
    shell(vm, "n=0; until [ -e /run/held ]; do n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.1; done");
}

/// They wait no longer.
#[track_caller]
pub fn go_on(vm: &Vm) {
    shell(vm, "rm /run/hold");
}

/// From now on the calls of this pattern report success and do nothing.
#[track_caller]
pub fn lie(vm: &Vm, of: &str) {
    shell(vm, &format!("echo '{of}' >/run/lie"));
}

/// Where the loop devices are mounted.
#[track_caller]
pub fn mounts(vm: &Vm) -> Vec<String> {
    let table = shell(vm, "grep ^/dev/loop /proc/1/mounts || true");
    table.lines().filter_map(|line| line.split(' ').nth(1).map(str::to_owned)).collect()
}

/// The uses of volumes, as `kelsonctl volumes list` has them.
#[track_caller]
pub fn listed(vm: &Vm) -> Vec<Value> {
    vm.ctl(&["volumes", "list", "-o", "json"]).ok().json()
}

/// Returns once these services have these volumes, and nothing else is listed, mounted or attached.
#[track_caller]
pub fn wait_claims(vm: &Vm, claims: &[(&str, &str)]) {
    let volumes: BTreeSet<&str> = claims.iter().map(|(_, volume)| *volume).collect();
    let mut wanted: Vec<String> = claims
        .iter()
        .flat_map(|(service, volume)| {
            let path = format!("{FOLDER}/published/{service}/{volume}");
            [format!("published {service} {volume}"), format!("mounted {path}")]
        })
        .chain(volumes.iter().flat_map(|volume| {
            [format!("mounted {FOLDER}/staging/{volume}"), format!("attached {FILES}/{volume}.img")]
        }))
        .collect();
    wanted.sort();
    let mut found = Vec::new();
    let is_so = || {
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
        found = listed(vm)
            .iter()
            .map(|row| [text(row, "state"), text(row, "service"), text(row, "volume")].join(" "))
            .collect();
        // A stage is in a folder of the volume, one for each usage.
        let stage = |line: &str| match line.rsplit_once('/') {
            Some((volume, _)) if line.contains("/staging/") => volume.to_owned(),
            _ => line.to_owned(),
        };
        found.extend(shell(vm, IN_KERNEL).lines().map(stage));
        found.sort();
        (found == wanted).then_some(())
    };
    until(&format!("{wanted:#?}"), BOOT_PATIENCE, is_so);
}
