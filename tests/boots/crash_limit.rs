//! A machine whose PID 1 crashes again and again stops its containers as any stop does, and starts again.

use std::time::Duration;

use kelson_tests::{Image, PATIENCE, Vm, VmBuilder, archive, until};

use crate::{Disk, assert_clean};

/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";

fn builder(disk: &Disk) -> VmBuilder {
    let container = |steps: &str| {
        format!(
            "container:
  image: 'quits:1'
  command: [/program, {steps}]
  mounts: [{{source: /var/lib, target: /out}}]
start: manual
"
        )
    };
    Vm::builder("crash-limit")
        .disk(&disk.0)
        .archive(
            "quits.tar",
            archive(&[Image::new("quits:1", &["serve"]).set("StopSignal", "SIGQUIT".into())]),
        )
        .service("db", &container("await=QUIT, end-if=/out/web-kept, touch=/out/db-was-early"))
        .service(
            "web",
            &format!("{}depends: [{{service: db}}]", container("await=QUIT, sleep=8s, touch=/out/web-kept")),
        )
        .runs_with("crash", "'kill=SEGV:1'", "type: oneshot\nstart: manual\nrestart: {policy: once}")
        .runs("look", "serve")
}

#[test]
fn long_the_crash_limit_stops_containers_in_order_and_what_they_write_is_there_after_the_reboot() {
    let disk = Disk::new("crash-limit");
    let mut vm = builder(&disk).boot();
    vm.ctl(&["start", "db", "web", "--wait"]).ok();
    for crash in 1..=2 {
        vm.ctl(&["start", "crash"]).ok();
        until("PID 1 to tell of its crash", PATIENCE * 2, || {
            let told = vm.ctl(&["-o", "json", "events"]);
            let count = told.stdout.matches("PID 1 crashed and goes on").count();
            (told.status == 0 && count == crash).then_some(())
        });
    }
    // The third answer may be lost with the connection.
    vm.ctl(&["start", "crash"]);
    assert!(!vm.wait_end(), "it powered off instead of starting again: {}", vm.said());
    let console = vm.console();
    assert!(console.contains("PID 1 crashed 3 times in 1m"), "{console}");
    assert!(!console.contains("web: did not end within"), "{console}");
    assert_clean(&disk.0);
    // One machine at a time: the next waits until this one is gone.
    drop(vm);

    let mut vm = builder(&disk).longest(Duration::from_secs(300)).boot();
    vm.wait_up(&["look"]);
    let left = vm.ctl(&["exec", "look", "--", STEPS, "list=/var/lib"]).ok().stdout;
    let has = |name: &str| left.lines().any(|line| line.trim() == name);
    assert!(has("web-kept"), "the container was not given its 8 s: {left}");
    assert!(!has("db-was-early"), "the database was stopped before its user: {left}");
    vm.poweroff();
}
