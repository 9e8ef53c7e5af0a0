//! Services that divide their cgroup: they are started, checked, entered and stopped like any other.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kelson_tests::{Ctl, Host, PATIENCE, eventually, paths, until};

/// Makes cgroups below its own, one of them threaded, moves into the other, and leaves a process that ignores SIGTERM.
const DIVIDER: &str = "process:
  command:
  - /bin/sh
  - -ec
  - |
    top=$(awk '$3 == \"cgroup2\" {print $2; exit}' /proc/mounts)
    cd $top$(sed -n 's/^0:://p' /proc/self/cgroup)
    [ -z \"$(ls -d */ 2>/dev/null)\" ]
    mkdir -p payload other/threads
    echo $$ > payload/cgroup.procs
    echo threaded > other/threads/cgroup.type
    setsid sh -c 'trap \"\" TERM; sleep 77100' &
    echo divided
    exec sleep 77101
user: '1234:1234'
delegate: true
health: [{name: own, exec: {command: [grep, '0::.*/web/exec$', /proc/self/cgroup]}, interval: 100ms}]
hooks:
  pre: {command: [sh, -c, 'echo pre $(grep 0:: /proc/self/cgroup)']}
  postStart: {command: [sh, -c, 'echo postStart $(grep 0:: /proc/self/cgroup)']}
  preStop: {command: [sh, -c, 'echo preStop $(grep 0:: /proc/self/cgroup)']}
  post: {command: [sh, -c, 'echo post $(grep 0:: /proc/self/cgroup)']}
stop: {timeout: 2s}";

fn cgroup_of(pid: i32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned()
}

fn owner(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).uid()
}

/// How often each hook said that it was in a cgroup with this end.
fn said(host: &Host, hook: &str, end: &str) -> usize {
    let log = host.log_text("web");
    log.lines().filter(|line| line.contains(&format!(" {hook} 0::")) && line.ends_with(end)).count()
}

#[test]
fn a_service_that_divides_its_cgroup_is_held_like_any_other() {
    let mut host = Host::builder().service("web", DIVIDER).start();
    let own = host.cgroup_of("web");
    // One run after the other, each with a cgroup in which nothing is: otherwise it fails.
    for run in 1..=3 {
        host.wait_up("web");
        let (main, service) = (host.pid_of("web"), host.service("web"));
        assert_eq!((service.restarts, service.healthy), (0, Some(true)), "{service:?}");
        let outer = host.outer_pid(main);
        let moved = || cgroup_of(outer).ends_with("/web/main/payload").then_some(());
        until("it to have moved", PATIENCE, moved);
        for file in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
            assert_eq!(owner(&own.join("main").join(file)), 1234, "{file} is handed over");
        }
        for file in ["", "cgroup.procs", "cgroup.subtree_control", "main/cgroup.type", "main/cgroup.freeze"] {
            assert_eq!(owner(&own.join(file)), 0, "{file} is kept");
        }
        let text = "grep 0:: /proc/self/cgroup; id -u";
        let entered = host.ctl(&["exec", "web", "--", "/bin/sh", "-c", text]).ok().stdout;
        assert!(entered.trim().ends_with("/web/exec\n1234"), "{entered}");
        eventually("all of it to be the service's", || {
            let processes: serde_json::Value = host.ctl(&["processes", "-o", "json"]).ok().json();
            let processes = processes.as_array().expect("a list").clone();
            let of_web = processes.iter().filter(|process| process["service"] == "web");
            of_web.count() >= 2
        });
        if run == 2 {
            // PID 1 begins again: the service runs on, and is entered and restarted as before.
            host.ctl(&["reexec"]).ok();
            assert_eq!(host.service("web").pid, Some(main));
            host.ctl(&["exec", "web", "--", "/bin/true"]).ok();
        }
        host.ctl(&[if run < 3 { "restart" } else { "stop" }, "web", "--wait"]).ok();
        assert_ne!(host.service("web").pid, Some(main));
    }
    host.assert_nothing_left("web", "7710");
    let count = |hook| [said(&host, hook, "/web/main"), said(&host, hook, "/web/exec")];
    eventually("all hooks to be in the log", || count("post")[0] == 3);
    let counts = ["pre", "postStart", "preStop", "post"].map(count);
    assert_eq!(counts, [[3, 0], [0, 3], [0, 3], [3, 0]], "{}", host.log_text("web"));
    host.poweroff();
}

/// A service that moves itself below its own cgroup and enables a controller there, as root can without being asked.
const ROOTS: &str = "start: manual
process:
  command:
  - /bin/sh
  - -ec
  - |
    top=$(awk '$3 == \"cgroup2\" {print $2; exit}' /proc/mounts)
    cd $top$(sed -n 's/^0:://p' /proc/self/cgroup)
    mkdir inner
    echo $$ > inner/cgroup.procs
    echo +$CONTROLLER > cgroup.subtree_control
    echo enabled
    exec sleep 77102
health: [{name: own, exec: {command: [/bin/true]}, interval: 100ms}]
hooks: {postStart: {command: [touch, $DIR/postStart]}, post: {command: [touch, $DIR/post]}}";

/// Passes a controller on as far as the cgroups of the host's services, as far as this computer has one. Only a cgroup
/// without processes can: those of the host move aside.
fn controller(host: &Host) -> String {
    let services = host.cgroup_of("web").parent().expect("it has one").to_owned();
    let own = services.parent().expect("it has one");
    let controllers = fs::read_to_string(own.join("cgroup.controllers")).expect("a cgroup2");
    let names: Vec<&str> = controllers.split_whitespace().collect();
    let domain = ["memory", "io", "hugetlb", "misc", "rdma"];
    let name = domain.into_iter().find(|name| names.contains(name));
    let name = name.unwrap_or_else(|| panic!("no controller of cgroup2 is free on this computer: {names:?}"));
    let aside = own.join("aside");
    fs::create_dir(&aside).expect("the test's cgroup can be written");
    for pid in fs::read_to_string(own.join("cgroup.procs")).unwrap_or_default().lines() {
        fs::write(aside.join("cgroup.procs"), pid).expect("it can be moved");
    }
    for folder in [own, &services] {
        fs::write(folder.join("cgroup.subtree_control"), format!("+{name}")).expect("it can be enabled");
    }
    name.to_owned()
}

#[test]
fn a_service_that_enables_controllers_is_restarted_checked_hooked_and_entered() {
    let mut host = Host::builder().start();
    let name = controller(&host);
    let text = format!("{ROOTS}\nenvironment: {{CONTROLLER: {name}}}");
    host.write_service("web", &text);
    host.signal(libc::SIGHUP);
    until("the service to be known", PATIENCE, || {
        host.services().into_iter().find(|service| service.name == "web")
    });
    for run in 1..=3 {
        host.ctl(&[if run == 1 { "start" } else { "restart" }, "web"]).ok();
        let enabled = || host.log_text("web").matches("enabled").count() == run;
        eventually("the controller to be enabled", enabled);
        host.wait_up("web");
        host.ctl(&["exec", "web", "--", "/bin/true"]).ok();
        assert_eq!(host.service("web").restarts, 0);
        host.wait_file("postStart");
    }
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.wait_file("post");
    host.assert_nothing_left("web", "77102");
    host.poweroff();
}

#[test]
fn a_nested_kelson_starts_restarts_and_stops_services() {
    let init = paths::binary("init");
    let inner = format!(
        "process:
  command: [unshare, --pid, --fork, --mount, --mount-proc, --kill-child=KILL, {init}, --mode, container,
            --config, $DIR/inner, --runtime-dir, $DIR/inner-run, --log-dir, $DIR/inner-log,
            --images, $DIR/images, --state-dir, $DIR/inner-lib]
delegate: true
stop: {{timeout: 2s}}",
        init = init.display()
    );
    let mut host = Host::builder().service("inner", &format!("start: manual\n{inner}")).start();
    for folder in ["inner/services", "inner-run", "inner-log", "inner-lib"] {
        fs::create_dir_all(host.path(folder)).expect("the test's folder is writable");
    }
    let program = paths::binary("kelson-test-program");
    let check = "health: [{name: own, exec: {command: [/bin/true]}, interval: 100ms}]";
    let web =
        format!("name: web\nprocess: {{command: [{}, serve]}}\ndelegate: true\n{check}\n", program.display());
    fs::write(host.path("inner/services/web.yaml"), web).expect("the test's folder is writable");
    let ctl = Ctl::at(format!("unix://{}", host.path("inner-run/init.sock").display()));

    let mut before = Vec::new();
    for run in 1..=2 {
        host.ctl(&[if run == 1 { "start" } else { "restart" }, "inner", "--wait"]).ok();
        host.wait_up("inner");
        eventually("the nested host to answer", || ctl.run(&["version"]).status == 0);
        ctl.run(&["wait", "web", "--for", "up", "--timeout", "30s"]).ok();
        let first = ctl.service("web").pid;
        ctl.run(&["restart", "web", "--wait"]).ok();
        ctl.run(&["wait", "web", "--for", "up", "--timeout", "30s"]).ok();
        assert_ne!(ctl.service("web").pid, first);
        ctl.run(&["exec", "web", "--", "/bin/true"]).ok();
        // Its services are below its own cgroup, and the outer host knows them as its service's.
        let web = host.cgroup_of("inner").join("main/kelson/web/main/cgroup.procs");
        let pids = fs::read_to_string(&web).unwrap_or_else(|error| panic!("{}: {error}", web.display()));
        assert_eq!(pids.lines().count(), 1, "{pids}");
        let outer: i32 = pids.trim().parse().expect("a PID");
        before.push(outer);
        let processes: serde_json::Value = host.ctl(&["processes", "-o", "json"]).ok().json();
        let commands: Vec<String> = processes
            .as_array()
            .expect("a list")
            .iter()
            .filter(|process| process["service"] == "inner")
            .map(|process| process["command"].to_string())
            .collect();
        assert!(commands.iter().any(|command| command.contains("kelson-test-program")), "{commands:?}");
        ctl.run(&["stop", "web", "--wait"]).ok();
        assert!(!host.cgroup_of("inner").join("main/kelson/web").exists());
        ctl.run(&["start", "web", "--wait"]).ok();
        host.ctl(&["exec", "inner", "--", "/bin/true"]).ok();
    }
    host.ctl(&["stop", "inner", "--wait"]).ok();
    host.assert_nothing_left("inner", "kelson-test-program");
    host.poweroff();
}
