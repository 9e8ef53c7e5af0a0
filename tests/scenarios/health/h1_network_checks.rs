//! H1, H2: tcp, http and grpc checks of a server that changes its mind, dies and comes back; asked by a process that can
//! do nothing else.

use std::fs;

use kelson_tests::{Host, eventually, free_port};

use super::{check, last_output, probe};

/// A service whose three servers are asked by a check each.
fn served(ports: [u16; 3]) -> String {
    let [tcp, http, grpc] = ports;
    format!(
        "process: {{command: [$PROGRAM, 'spawn=tcp={tcp}', 'spawn=grpc={grpc}:$DIR/grpc', 'http={http}:$DIR/http']}}\n\
         restart: {{delay: 100ms}}\n\
         health:\n\
         - {{tcp: {{port: {tcp}}}, initialDelay: 0s, interval: 200ms, failureThreshold: 1}}\n\
         - {{http: {{port: {http}, path: /healthz, body: ok}}, initialDelay: 0s, interval: 200ms, failureThreshold: 1}}\n\
         - {{grpc: {{port: {grpc}}}, initialDelay: 0s, interval: 200ms, failureThreshold: 1}}"
    )
}

#[test]
fn h1_network_checks_say_what_is_so_now() {
    let mut host =
        Host::builder().service("web", &served([free_port(), free_port(), free_port()])).up(&["web"]);
    assert_eq!(host.service("web").healthy, Some(true));
    for kind in ["tcp", "http", "grpc"] {
        let check = check(&host, "web", kind);
        assert_eq!((&check["kind"], &check["state"]), (&kind.into(), &"passing".into()), "{check}");
    }
    eventually("ten results", || {
        let http = check(&host, "web", "http");
        http["results"].as_array().map_or(0, Vec::len) == 10
    });

    fs::write(host.path("http"), "503 busy").expect("the test's folder is writable");
    let sick = host.wait_for("web", "to be unhealthy", |web| web.healthy == Some(false));
    assert!(!sick.up && sick.pid.is_some(), "{sick:?}");
    assert!(sick.message == "running, waits for check http: status 503, wanted 200-399", "{sick:?}");
    let table = host.ctl(&["status", "web"]).ok().stdout;
    assert!(table.contains("http (http): failing") && table.contains("503"), "{table}");
    fs::write(host.path("http"), "200 all is ok").expect("the test's folder is writable");
    host.wait_up("web");
    fs::write(host.path("http"), "200 out of order").expect("the test's folder is writable");
    host.wait_for("web", "to miss its word", |web| web.healthy == Some(false));
    fs::remove_file(host.path("http")).expect("it is there");
    host.wait_up("web");

    fs::write(host.path("grpc"), "2").expect("the test's folder is writable");
    host.wait_for("web", "to be unhealthy", |web| web.healthy == Some(false));
    let said = last_output(&check(&host, "web", "grpc"));
    assert!(said.contains("NOT_SERVING"), "{said}");
    fs::remove_file(host.path("grpc")).expect("it is there");
    host.wait_up("web");
    assert_eq!(host.service("web").restarts, 0);

    // H2: what was asked of the run that died counts for nothing in the next.
    let before = host.newest_event();
    host.kill(host.pid_of("web"), libc::SIGKILL);
    host.wait_event(before, "to be up again", |event| event.message.starts_with("running, healthy after"));
    let events = host.events_of("web");
    let since = |text: &str| {
        events.iter().find(|event| event.seq > before && event.message.contains(text)).map(|event| event.seq)
    };
    let (spawned, up) = (since("up once its checks pass"), since("running, healthy after"));
    for kind in ["tcp", "http", "grpc"] {
        let passes = since(&format!("check {kind} passes"));
        assert!(spawned < passes && passes < up, "{kind}: {events:#?}");
    }
    host.poweroff();
}

#[test]
fn who_asks_can_do_nothing_else() {
    let port = free_port();
    let mut host = Host::builder()
        .runs_with(
            "web",
            &format!("tcp={port}"),
            &format!("health: [{{tcp: {{port: {port}}}, initialDelay: 0s}}]"),
        )
        .up(&["web"]);
    let pid = probe(&host);
    let outer = host.outer_pid(pid);
    let status = fs::read_to_string(format!("/proc/{outer}/status")).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let nobody = "65534 65534 65534 65534";
    assert_eq!(field("Uid").as_deref(), Some(nobody));
    assert_eq!((field("Gid").as_deref(), field("Groups").as_deref()), (Some(nobody), Some("")));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(set).as_deref(), Some("0000000000000000"), "{set}");
    }
    assert_eq!((field("NoNewPrivs").as_deref(), field("Seccomp").as_deref()), (Some("1"), Some("2")));
    let cgroup = fs::read_to_string(format!("/proc/{outer}/cgroup")).expect("it runs");
    assert!(cgroup.trim_end().ends_with("kelson/probe"), "{cgroup}");

    // An operator's restart is not counted, and a stop is refused.
    host.ctl(&["restart", "probe"]).ok();
    let next = host.wait_for("probe", "to be another", |probe| probe.up && probe.pid != Some(pid));
    assert!(next.builtin && next.restarts == 0, "{next:?}");
    assert!(host.service("web").up && host.service("web").restarts == 0);
    // Where there is nothing to ask, nobody is there to ask.
    host.ctl(&["stop", "web", "--wait"]).ok();
    let idle = host.wait_state("probe", "finished");
    assert_eq!((idle.pid, idle.message.as_str()), (None, "nothing to ask"));
    let table = host.ctl(&["status", "web"]).ok().stdout;
    assert!(table.contains("nothing is checked while it does not run"), "{table}");
    assert!(table.contains("tcp (tcp): not asked now"), "{table}");
    host.poweroff();
}

#[test]
fn without_network_checks_there_is_no_probe() {
    let mut host = Host::builder().runs("web", "serve").up(&["web"]);
    assert!(host.services().iter().all(|service| service.name != "probe"), "{:?}", host.services());
    assert!(host.processes_with("kelson-probe").is_empty());
    host.poweroff();
}
