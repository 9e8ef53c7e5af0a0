//! A container engine of somebody else's as a service that divides its cgroup: a second containerd, and what it runs.

use std::fs;

use kelson_tests::{Host, Output, PATIENCE, archive, containers, eventually, until};

use super::{host, test_image};

/// As containerd is run below systemd with `Delegate=yes`: it makes room for cgroups beside its own.
const ENGINE: &str = "process:
  command:
  - /bin/sh
  - -ec
  - |
    cd /sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
    mkdir engine
    echo $$ > engine/cgroup.procs
    for name in $(cat cgroup.controllers); do echo +$name > cgroup.subtree_control; done
    exec containerd --config $DIR/engine.toml
delegate: true
readiness: notify
start: manual
stop: {timeout: 5s}
security: {noNewPrivileges: false, seccomp: unconfined}";

const CONFIG: &str = "version = 2
root = '$DIR/lib/engine'
state = '/run/engine'
disabled_plugins = ['io.containerd.grpc.v1.cri', 'io.containerd.internal.v1.opt']
[grpc]
  address = '/run/engine/containerd.sock'
";

/// Runs the engine's tool beside the engine, and returns its output.
fn ctr(host: &Host, words: &[&str]) -> Output {
    let tool = ["exec", "engine", "--", "ctr", "--address", "/run/engine/containerd.sock"];
    host.ctl(&[tool.as_slice(), words].concat())
}

#[test]
fn a_real_containerd_runs_a_container_inside_a_service_that_divides_its_cgroup() {
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", containers::programs().display());
    let mut host = host(&[]).service("engine", &format!("{ENGINE}\nenvironment: {{PATH: '{path}'}}")).start();
    let config =
        CONFIG.replace("$DIR", host.path("").to_str().expect("a path in UTF-8").trim_end_matches('/'));
    fs::write(host.path("engine.toml"), config).expect("the test's folder is writable");
    let image = host.path("image.tar");
    fs::write(&image, archive(&[test_image()])).expect("the test's folder is writable");
    let own = host.cgroup_of("engine");

    let mut before = None;
    for run in 1..=2 {
        host.ctl(&[if run == 1 { "start" } else { "restart" }, "engine", "--wait"]).ok();
        host.wait_up("engine");
        assert!(!own.join("main/web").exists(), "the cgroup is a new one");
        if run == 1 {
            ctr(&host, &["images", "import", image.to_str().expect("a path in UTF-8")]).ok();
        } else {
            // The task that was killed with the service is still in containerd's records.
            eventually("the record of the first run to go", || {
                ctr(&host, &["tasks", "rm", "web"]);
                ctr(&host, &["containers", "rm", "web"]).status == 0
            });
        }
        let image = ctr(&host, &["images", "ls", "-q"]).ok().stdout;
        let membership =
            fs::read_to_string(format!("/proc/{}/cgroup", host.outer_pid(host.pid_of("engine"))));
        let membership = membership.expect("it runs");
        let main = membership.lines().find_map(|line| line.strip_prefix("0::")?.strip_suffix("/engine"));
        let cgroup = format!("{}/web", main.expect("it has moved"));
        // This computer need not have the controller of the default.
        let command = ["--cpu-shares", "0", "--cgroup", &cgroup, image.trim(), "web", "/program", "serve"];
        ctr(&host, &[["run", "--detach"].as_slice(), command.as_slice()].concat()).ok();

        let listed = fs::read_to_string(own.join("main/web/cgroup.procs")).expect("runc has made it");
        let pid: i32 = listed.trim().parse().unwrap_or_else(|_| panic!("one process: {listed}"));
        assert!(ctr(&host, &["tasks", "ls"]).ok().stdout.contains("RUNNING"));
        assert_ne!(before, Some(pid));
        // Kelson's own containers run beside it, each below its own service.
        let of_engine = until("all of it to be the service's", PATIENCE, || {
            let processes: serde_json::Value = host.ctl(&["processes", "-o", "json"]).ok().json();
            let all = processes.as_array()?.clone();
            let of = |word: &str| {
                all.iter().any(|one| one["service"] == "engine" && one["command"].to_string().contains(word))
            };
            (of("containerd-shim") && of("/program")).then_some(all)
        });
        assert!(!of_engine.is_empty());
        before = Some(pid);
    }
    host.ctl(&["stop", "engine", "--wait"]).ok();
    host.assert_nothing_left("engine", "/run/engine/containerd.sock");
    let program = format!("/proc/{}", before.expect("it ran"));
    assert!(!std::path::Path::new(&program).exists(), "the container's process is left");
    host.poweroff();
}
