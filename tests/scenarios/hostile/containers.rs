//! containerd or a shim is frozen, killed or replaced by another version: containers run on with the same PIDs, and nothing
//! waits for it for ever.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::{Host, HostBuilder, Image, PATIENCE, archive, eventually, until};

use super::Fault;

pub const FROZEN: Fault = Fault { name: "containerd-frozen", host: with_containers, inject: freeze };
pub const KILLED: Fault = Fault { name: "containerd-killed", host: with_containers, inject: kill };
pub const UPGRADED: Fault = Fault {
    name: "containerd-upgraded",
    host: |builder| with_containers(builder).replaceable_containerd(),
    inject: upgrade,
};

fn with_containers(builder: HostBuilder) -> HostBuilder {
    let steps = |steps: &str| format!("container: {{image: 'test:1', command: [/program, {steps}]}}\n");
    builder
        .containers()
        .archive("test.tar", archive(&[Image::new("test:1", &["serve"])]))
        .service("boxed", &steps("ticker=20ms"))
        .service("own-boxed", &format!("{}stop: {{timeout: 500ms}}", steps("serve")))
}

/// Returns once the container has written more.
#[track_caller]
fn ticks_on(host: &Host) {
    let ticks = host.log_text("boxed").lines().count();
    eventually("more of its output", || host.log_text("boxed").lines().count() > ticks + 5);
}

fn freeze(host: &Host) {
    host.wait_up("own-boxed");
    let folders = [host.cgroup_of("containerd"), host.cgroup_of("shims/own-boxed")];
    for folder in &folders {
        fs::write(folder.join("cgroup.freeze"), "1").expect("its cgroup can be frozen");
        until("it to be frozen", PATIENCE, || {
            fs::read_to_string(folder.join("cgroup.events")).ok()?.contains("frozen 1").then_some(())
        });
    }
    ticks_on(host);
    // A stop needs neither of them to end the process.
    let begun = Instant::now();
    host.ctl(&["stop", "own-boxed"]).ok();
    eventually("its process to be gone", || {
        host.processes_with("serve")
            .iter()
            .all(|process| !process.command.iter().any(|word| word == "/program"))
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for folder in &folders {
        // containerd may have been replaced meanwhile, as it did not answer its check.
        let _ = fs::write(folder.join("cgroup.freeze"), "0");
    }
    host.wait_state("own-boxed", "stopped");
    host.wait_up("containerd");
    host.ctl(&["start", "own-boxed", "--wait"]).ok();
    ticks_on(host);
}

fn kill(host: &Host) {
    host.wait_up("own-boxed");
    let was = host.pid_of("containerd");
    let shims = host.processes_with("containerd-shim");
    let own = shims
        .iter()
        .find(|shim| shim.command.iter().any(|word| word == "own-boxed"))
        .unwrap_or_else(|| panic!("no shim in {shims:?}"));
    host.kill(own.pid, libc::SIGKILL);
    host.kill(was, libc::SIGKILL);
    host.wait_for("containerd", "to be another and up", |now| now.up && now.pid != Some(was));
    ticks_on(host);
    // A container that lost its shim can be stopped and started all the same.
    host.ctl(&["restart", "own-boxed", "--wait"]).ok();
    ticks_on(host);
}

/// From 1.6 to 1.7, or back the next time. The containers have been begun by the shims of either.
fn upgrade(host: &Host) {
    host.wait_up("own-boxed");
    let program = |host: &Host| {
        let pid = host.outer_pid(host.pid_of("containerd"));
        fs::read_link(format!("/proc/{pid}/exe")).expect("it runs").display().to_string()
    };
    let was = program(host);
    let version = if was.contains("/containerd-1.6-") { "1.7" } else { "1.6" };
    host.put_containerd(version);
    host.ctl(&["restart", "containerd", "--wait"]).ok();
    let now = program(host);
    assert!(now.contains(&format!("/containerd-{version}-")), "{was}, and then {now}");
    ticks_on(host);
    // This version asks, stops and begins the containers of the version before.
    let said = host.ctl(&["exec", "own-boxed", "--", "/program", "print=still here"]).ok().stdout;
    assert_eq!(said, "still here\n");
    host.ctl(&["restart", "own-boxed", "--wait"]).ok();
    ticks_on(host);
}
