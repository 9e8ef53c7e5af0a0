//! Clients that connect and say nothing, or ask and do not read: all others get their answers.

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use kelson_tests::{Host, PATIENCE, eventually, host::send, until};

use super::Fault;

pub const SILENT: Fault = Fault { name: "silent-clients", host: |builder| builder, inject: say_nothing };
pub const STOPPED: Fault = Fault {
    name: "stopped-clients",
    host: |builder| builder.runs("own-idle", "serve"),
    inject: read_nothing,
};

const MANY: usize = 1000;

fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").count()
}

fn say_nothing(host: &Host) {
    let logd = host.outer_pid(host.pid_of("logd"));
    for (socket, pid, asked) in [
        ("run/init.sock", host.init_pid(), ["services"].as_slice()),
        ("run/log.sock", logd, &["logs", "--tail", "1", "n-0"]),
    ] {
        let before = descriptors(pid);
        let silent: Vec<UnixStream> = (0..MANY)
            .map(|n| UnixStream::connect(host.path(socket)).unwrap_or_else(|error| panic!("{n}: {error}")))
            .collect();
        for _ in 0..3 {
            host.ctl(asked).ok();
        }
        let held = descriptors(pid);
        assert!(held < before + 120, "{socket}: {before} descriptors, and with them {held}");
        drop(silent);
        host.ctl(asked).ok();
        eventually("their descriptors to be free", || descriptors(pid) < before + 10);
    }
}

fn read_nothing(host: &Host) {
    let follow = || {
        let mut command = host.client().command(&["events", "-f"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("kelsonctl can be started")
    };
    let mut stopped: Vec<_> = (0..64).map(|_| follow()).collect();
    until("all places to be taken", PATIENCE * 2, || {
        // A client that came while one of an earlier time still had its place.
        for child in &mut stopped {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                *child = follow();
            }
        }
        host.ctl(&["events"]).stderr.contains("64 clients are being served").then_some(())
    });
    for child in &stopped {
        send(i32::try_from(child.id()).expect("a PID"), libc::SIGSTOP);
    }
    // Questions, and what an operator does, have their answers.
    host.ctl(&["services"]).ok();
    host.ctl(&["status", "idle"]).ok();
    host.ctl(&["restart", "own-idle"]).ok();
    for mut child in stopped {
        let _ = child.kill();
        let _ = child.wait();
    }
    eventually("a place to be free", || host.ctl(&["events"]).status == 0);
}
