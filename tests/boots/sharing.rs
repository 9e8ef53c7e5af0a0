//! Services that share parts of the machine: cgroups that they divide, and mounts that come and go.

use std::fs::{self, File};
use std::process::Command;

use kelson_tests::{Image, Output, PATIENCE, Tar, Vm, archive, eventually, paths, until};

use crate::{Disk, assert_clean};

/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";
const LOOK: &str = "process: {command: [$PROGRAM, serve]}";
/// Looks at a disk on a signal.
const SEALED: &str = "process: {command: [$PROGRAM, await=USR1, try=/mnt/sealed, serve]}
security: {readOnlyRoot: true}";
/// Kelson as PID 1 of a container, which may divide its cgroup.
const INNER: &str = "container:
  image: 'inner:1'
  command: [/init, --mode, container, --config, /config, --runtime-dir, /run/inner, --log-dir, /run/log,
            --images, /run/images, --state-dir, /run/lib]
  mounts: [{source: tmpfs, target: /run, options: [mode=0755]}]
delegate: true
resources: {memoryMax: 256Mi}";
/// A service of the Kelson in the container.
const NESTED: &str = "name: web
process: {command: [/program, serve]}
resources: {memoryMax: 32Mi}
health: [{name: own, exec: {command: [/program, print=well]}, interval: 1s, timeout: 20s}]
";
const FOLLOWS: &str = "container:
  image: 'test:1'
  mounts: [{source: /var, target: /host, options: [rbind, rslave]}]
security: {readOnlyRoot: true}";
const SHARES: &str = "container:
  image: 'test:1'
  mounts: [{source: /var, target: /host, options: [rbind, rshared]}]
security: {capabilities: {add: [sys_admin]}}";

#[track_caller]
fn look(vm: &Vm, step: &str) -> String {
    vm.ctl(&["exec", "look", "--", STEPS, step]).ok().stdout.trim().to_owned()
}

/// kelsonctl in the container, of the Kelson there.
fn inner(vm: &Vm, args: &[&str]) -> Output {
    let command = ["exec", "inner", "--", "/kelsonctl", "-e", "unix:///run/inner/init.sock"];
    vm.ctl(&[command.as_slice(), args].concat())
}

/// Whether something is mounted at this path, in the view of a service's main process.
#[track_caller]
fn is_mounted(vm: &Vm, service: &str, path: &str) -> bool {
    let pid = vm.client().service(service).pid.expect("it runs");
    look(vm, &format!("cat=/proc/{pid}/mountinfo")).contains(&format!(" {path} "))
}

fn images() -> Vec<u8> {
    let binary = |name| fs::read(paths::binary(name)).expect("a binary of Kelson");
    let layer = Tar::new()
        .file("init", 0o755, &binary("init"))
        .file("kelsonctl", 0o755, &binary("kelsonctl"))
        .folder("config/")
        .folder("config/services/")
        .file("config/services/web.yaml", 0o644, NESTED.as_bytes());
    archive(&[Image::new("test:1", &["serve"]), Image::new("inner:1", &["serve"]).layer(layer)])
}

#[test]
fn long_cgroups_are_divided_and_mounts_come_and_go_for_all() {
    let disk = Disk::new("sharing");
    let made = File::create(&disk.0).and_then(|file| file.set_len(16 << 20));
    made.expect("the folder of logs is writable");
    let mut format = Command::new("mkfs.ext4");
    let formatted = format.args(["-q", "-L", "SRV"]).arg(&disk.0).status().expect("mkfs.ext4 is installed");
    assert!(formatted.success(), "{format:?}");

    let mut vm = Vm::builder("sharing")
        .machine("mounts: [{source: LABEL=SRV, target: /mnt, type: ext4}]\n")
        .second_disk(&disk.0.display().to_string())
        .archive("test.tar", images())
        .service("look", LOOK)
        .service("sealed", SEALED)
        .service("follows", FOLLOWS)
        .service("shares", SHARES)
        .service("inner", INNER)
        .boot();
    vm.wait_up(&["look", "sealed", "follows", "shares", "inner"]);
    mounts_arrive_and_go(&vm);
    let device = an_unmounted_disk_is_free(&vm);
    a_later_disk_is_read_only_where_the_root_is(&vm, &device);
    a_nested_kelson_has_every_controller(&vm);
    vm.poweroff();
    assert_clean(&disk.0);
}

fn mounts_arrive_and_go(vm: &Vm) {
    // Where the same folder is in each view.
    let views = |name: &str| {
        let inside = format!("/host/{name}");
        [
            ("look", format!("/var/{name}")),
            ("sealed", format!("/var/{name}")),
            ("follows", inside.clone()),
            ("shares", inside),
        ]
    };
    let wait = |name: &str, mounted: bool| {
        for (service, path) in views(name) {
            let what = format!("{path} of {service} to be {}", if mounted { "mounted" } else { "free" });
            eventually(&what, || is_mounted(vm, service, &path) == mounted);
        }
    };
    look(vm, "cover=/var/tmp");
    wait("tmp", true);
    // `shared` goes the other way as well.
    vm.ctl(&["exec", "shares", "--", "/program", "cover=/host/lib/redis"]).ok();
    wait("lib/redis", true);
    for path in ["/var/tmp", "/var/lib/redis"] {
        look(vm, &format!("uncover={path}"));
    }
    wait("tmp", false);
    wait("lib/redis", false);
}

/// apid and `sealed` have mount namespaces of their own, which were made when the disk was mounted.
fn an_unmounted_disk_is_free(vm: &Vm) -> String {
    for service in ["apid", "sealed"] {
        assert!(is_mounted(vm, service, "/mnt"), "{service} sees the disk");
    }
    let mounts = look(vm, "cat=/proc/self/mounts");
    let device = mounts.lines().find_map(|line| line.split_once(" /mnt ").map(|(device, _)| device));
    let device = device.unwrap_or_else(|| panic!("the disk is not mounted:\n{mounts}"));
    let exclusive = || look(vm, &format!("exclusive={device}"));
    assert!(exclusive().contains("busy"), "a disk that is mounted is in use: {}", exclusive());
    look(vm, "uncover=/mnt");
    assert_eq!(exclusive(), format!("{device}: free"));
    device.to_owned()
}

fn a_later_disk_is_read_only_where_the_root_is(vm: &Vm, device: &str) {
    look(vm, &format!("mount=ext4:{device}:/mnt"));
    for service in ["apid", "sealed"] {
        let pid = vm.client().service(service).pid.expect("it runs");
        eventually(&format!("the disk to be read-only in {service}"), || {
            look(vm, &format!("cat=/proc/{pid}/mountinfo")).contains(" /mnt ro,")
        });
    }
    vm.ctl(&["signal", "sealed", "USR1"]).ok();
    let said = until("sealed to have tried", PATIENCE, || {
        let said = vm.ctl(&["logs", "sealed"]).ok().stdout;
        said.contains("/mnt/sealed: ").then_some(said)
    });
    assert!(said.contains("Read-only file system"), "{said}");
    let entered = vm.ctl(&["exec", "sealed", "--", STEPS, "try=/mnt/entered"]).ok().stdout;
    assert!(entered.contains("Read-only file system"), "{entered}");
    assert_eq!(look(vm, "try=/mnt/machine"), "/mnt/machine: written");
    look(vm, "uncover=/mnt");
    assert_eq!(look(vm, &format!("exclusive={device}")), format!("{device}: free"));
}

fn a_nested_kelson_has_every_controller(vm: &Vm) {
    for _ in 0..2 {
        eventually("the nested service to be up", || {
            inner(vm, &["wait", "web", "--for", "up", "--timeout", "20s"]).status == 0
        });
        let file = |path: &str| {
            let found =
                vm.ctl(&["exec", "look", "--", STEPS, &format!("cat=/sys/fs/cgroup/kelson/inner/{path}")]);
            assert_eq!(found.status, 0, "{}\n{}", found.stderr, inner(vm, &["events"]).stdout);
            found.stdout.trim().to_owned()
        };
        assert_eq!(file("memory.max"), (256 << 20).to_string());
        assert_eq!(file("main/kelson/web/memory.max"), (32 << 20).to_string());
        inner(vm, &["restart", "web", "--wait"]).ok();
        inner(vm, &["exec", "web", "--", "/program", "print=well"]).ok();
        vm.ctl(&["restart", "inner", "--wait"]).ok();
    }
    vm.ctl(&["stop", "inner", "--wait"]).ok();
}
