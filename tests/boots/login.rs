//! A login on a serial line: a getty that is given its terminal.

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, paths, until};

const GETTY: &str = "process:
  command: [$DIR/busybox, getty, -L, 115200, '-', vt100]
  terminal: {path: /dev/ttyS1, hangUp: true, reset: true, clear: true, rows: 25, columns: 80}
stop: {hangUp: true}
security: {noNewPrivileges: false, seccomp: unconfined}
";

#[test]
fn a_getty_asks_for_a_login_on_its_line_after_each_start() {
    let line = paths::test_logs().join("login.ttyS1");
    let _ = std::fs::remove_file(&line);
    let mut vm = Vm::builder("login")
        .qemu(&format!("-serial file:{}", line.display()))
        .copy("busybox", "/usr/bin/busybox")
        .service("getty", GETTY)
        .boot();
    let prompts =
        || String::from_utf8_lossy(&std::fs::read(&line).unwrap_or_default()).matches("login: ").count();
    until("the prompt", BOOT_PATIENCE, || (prompts() == 1).then_some(()));
    vm.ctl(&["restart", "getty", "--wait"]).ok();
    until("the prompt of the next run", BOOT_PATIENCE, || (prompts() == 2).then_some(()));
    assert!(!vm.console().contains("login: "), "the console is another line");
    vm.poweroff();
}
