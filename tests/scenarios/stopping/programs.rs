//! The programs `reboot`, `poweroff` and `halt`: they ask PID 1 for the end of the run, and with `--force` make it at once.

use std::process::{Command, Output};

use kelson_tests::{Host, paths};

/// A host whose service leaves a file when it is stopped in order.
fn running() -> Host {
    let web =
        "process: {command: [$PROGRAM, notify=READY=1, await=TERM, touch=$DIR/in-order]}\nreadiness: notify";

    Host::builder().service("web", web).up(&["web"])
}

/// Runs one of the programs inside of the host.
#[track_caller]
fn run(host: &Host, name: &str, words: &[&str]) -> Output {
    let program = host.path(name);
    std::os::unix::fs::symlink(paths::binary("init"), &program).expect("the test's folder is writable");
    let init = host.init_pid().to_string();
    let mut command = Command::new("nsenter");
    command.args(["--target", &init, "--pid"]).arg(program).args(words);
    command.output().expect("nsenter(1) can be started")
}

#[test]
fn each_program_asks_for_its_end_and_is_named() {
    for (name, begun, status) in [
        ("reboot", "reboot has begun", 10),
        ("poweroff", "power off has begun", 0),
        ("halt", "halt has begun", 0),
    ] {
        let mut host = running();
        let folder = host.path("run").display().to_string();
        let output = run(&host, name, &["--runtime-dir", &folder]);
        assert!(String::from_utf8_lossy(&output.stdout).contains(begun), "{output:?}");
        assert_eq!(host.wait_exit(), status, "{name}");
        assert!(host.path("in-order").exists(), "{name}: the service was not stopped in order");
        assert!(host.console().contains(&format!("{name} (PID ")), "{}", host.console());
    }
}

#[test]
fn by_force_nothing_is_stopped() {
    // In a PID namespace reboot(2) makes the kernel end PID 1 by one of these signals.
    for (name, signal) in [("reboot", libc::SIGHUP), ("poweroff", libc::SIGINT), ("halt", libc::SIGINT)] {
        let mut host = running();
        run(&host, name, &["--force"]);
        assert_eq!(host.wait_exit(), 128 + signal, "{name}");
        assert!(!host.path("in-order").exists(), "{name}: the service was stopped");
        assert!(!host.console().contains("asked for by"), "{}", host.console());
    }
}
