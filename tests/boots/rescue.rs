//! A machine that starts none of its services, for an operator who repairs it, and what its console shows.

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, paths, until};

use super::assert_order;

/// A shell reads it first, and ends then: the next one is started.
const PROFILE: &str = "echo \"a shell on $(tty) for $(id -u) as $TERM\"\nexit\n";

/// Puts a shell on the machine, where none was. It runs on the console, and again each time that it ends.
#[track_caller]
fn assert_shell(vm: &Vm) {
    let profile = paths::test_logs().join("rescue.profile");
    std::fs::write(&profile, PROFILE).expect("the folder of the test is writable");
    for applet in ["sh", "tty", "id"] {
        vm.ctl(&["cp", "/usr/bin/busybox", &format!(":/usr/bin/{applet}")]).ok();
    }
    vm.ctl(&["cp", &profile.display().to_string(), ":/etc/profile"]).ok();
    std::fs::remove_file(&profile).expect("it is ours");
    vm.ctl(&["restart", "console"]).ok();
    until("the second shell", BOOT_PATIENCE, || {
        (vm.console().matches("a shell on /dev/ttyS0 for 0 as vt220").count() > 1).then_some(())
    });
}

#[track_caller]
fn assert_no_shell(vm: &Vm) {
    assert!(vm.ctl(&["logs", "console"]).ok().stdout.contains("no shell: this image has no bash or sh"));
    assert_eq!(vm.client().service("console").state, "running");
}

#[test]
fn a_machine_in_rescue_starts_no_service_and_a_shell() {
    let mut vm = Vm::builder("rescue")
        .append("kelson.rescue")
        .machine("main: web\n")
        .runs("web", "serve")
        .runs_with("once", "exit=0", "type: oneshot")
        .boot();
    let event = "kelson.rescue: the boot starts no service; `kelsonctl start NAME` starts one";
    assert!(vm.client().events().iter().any(|found| found.message == event));
    assert_no_shell(&vm);
    assert_shell(&vm);
    for name in ["web", "once"] {
        assert_eq!(vm.client().service(name).pid, None, "{name} has started");
    }
    vm.ctl(&["reload"]).ok();
    vm.ctl(&["start", "web", "--wait"]).ok();
    // It is not the main service now.
    vm.ctl(&["stop", "web", "--wait"]).ok();
    assert_eq!(vm.client().service("once").pid, None);
    vm.poweroff();
}

#[test]
fn a_machine_without_a_root_answers_from_its_initramfs() {
    let mut vm = Vm::builder("no-root").append("module_blacklist=squashfs").runs("web", "serve").boot();
    let message =
        vm.client().events().into_iter().find(|event| event.message.starts_with("there is no root"));
    let message = message.expect("an event reports it").message;
    assert!(message.contains("root image") && message.contains("No such device"), "{message}");
    let boot = vm.ctl(&["boot"]).ok().stdout;
    assert!(
        boot.lines().any(|line| line.contains("root image") && line.contains("No such device")),
        "{boot}"
    );
    // PID 1 knows it in its next incarnation, too.
    vm.ctl(&["reexec"]).ok();
    vm.ctl(&["reload"]).ok();
    assert_no_shell(&vm);
    vm.poweroff();
}

#[test]
fn a_machine_without_a_root_starts_again_when_it_was_told_to() {
    let mut vm = Vm::builder("no-root-panic").append("module_blacklist=squashfs kelson.panic=15").start();
    assert!(!vm.wait_end(), "it powered off instead of starting again: {}", vm.said());
    assert_order(
        &vm.console(),
        &[
            "initramfs: root image: ",
            "starts again in 15 s (kelson.panic: this machine has no root)",
            "there is no root (",
            "reboot: asked for by kelson.panic: this machine has no root",
            "rebooting",
        ],
    );
}

#[test]
fn the_console_shows_the_dashboard_which_changes_nothing() {
    let mut vm = Vm::builder("console").machine("console: dashboard\n").runs("web", "serve").boot();
    vm.wait_up(&["web", "console"]);
    until("the dashboard on the serial console", BOOT_PATIENCE, || {
        let console = vm.console();
        let shown = console.rsplit("\u{1b}[?1049h").next().unwrap_or_default();
        (console.contains("\u{1b}[?1049h") && shown.contains("web")).then_some(())
    });
    vm.poweroff();
}
