//! H4, P3, and what a container sees, may do and may use.

use std::collections::BTreeMap;

use kelson_tests::{Image, PATIENCE, VmBuilder, archive, eventually, on_terminal, until};
use serde_json::Value;

use super::*;

/// A device that no container is given by itself: `/dev/ttyS0`.
const SERIAL: &str = "4:64";

/// Those whose privileges are looked at, and their image.
pub(super) fn privileged(builder: VmBuilder) -> VmBuilder {
    let boxed = "container:
  image: 'test:1'
  network: none
  command: [/program, try=/new, try=/scratch/new, try=/proc/sys/kernel/hostname, list=/sys/class/net,
            list=/dev, report, serve]
  mounts: [{source: tmpfs, target: /scratch, options: [mode=1777]}]
user: web
security: {readOnlyRoot: true, capabilities: {drop: [all], add: [net_bind_service]}}";
    let given = format!(
        "container:
  image: 'test:1'
  command: [/program, 'device={SERIAL}', serve]
  devices: [{{source: /dev/ttyS0, permissions: rm}}]"
    );
    builder
        .archive("test.tar", archive(&[Image::new("test:1", &["serve"])]))
        .service("plain", &steps(&format!("'device={SERIAL}', report, serve"), ""))
        .runs("process", "report, serve")
        .service("boxed", boxed)
        .service("given", &given)
}

/// All services.
pub(super) fn services(builder: VmBuilder) -> VmBuilder {
    let checked = "user: web
environment: {MARK: green}
health:
- name: own
  exec: {command: [/program, report-of=ns., 'report-of=status Uid', report-of=cgroup, report-of=env.]}
  initialDelay: 0s
  timeout: 20s";
    // By hand: a start among many others would take all of the check's time.
    let slow = "start: manual
health:
- name: own
  exec: {command: [/program, print=asking, spawn=hang, hang]}
  initialDelay: 0s
  timeout: 4s
  interval: 1h
  grace: 0s
  failureThreshold: 1";
    let bounds = "resources: {memoryMax: 32Mi, pidsMax: 16, cpuMax: 0.5}";
    let hungry = "resources: {memoryMax: 32Mi}\nrestart: {policy: once}";
    privileged(builder)
        .service("bounded", &steps("serve", bounds))
        .service("hog", &steps("hog=64, print=fed, serve", hungry))
        .service("checked", &steps("report, serve", checked))
        .service("slow", &steps("serve", slow))
}

/// The lines of `report` in a log, by their first word or, of files with fields, by `file field`.
fn report(vm: &Vm, name: &str) -> BTreeMap<String, String> {
    let log = until(&format!("the report of {name}"), PATIENCE, || {
        // Its last line.
        Some(vm.ctl(&["logs", name]).ok().stdout).filter(|log| log.contains("tty "))
    });
    let text = |line: &str| {
        line.split_once(" stdout ").map_or(line, |(_, text)| text).trim_start_matches("F ").to_owned()
    };
    fields(&log.lines().map(text).collect::<Vec<_>>().join("\n"))
}

fn fields(report: &str) -> BTreeMap<String, String> {
    let field = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        match (key, value.split_once(':')) {
            ("status", Some((field, value))) => Some((format!("status.{field}"), value.trim().to_owned())),
            ("limits", _) => {
                let words: Vec<&str> = value.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect();
                Some((format!("limits.{}", words.first()?), words.get(1..3)?.join(" ")))
            }
            _ => Some((key.to_owned(), value.to_owned())),
        }
    };
    report.lines().filter_map(field).collect()
}

/// The names of all fields that begin so, without that.
fn below(report: &BTreeMap<String, String>, begin: &str) -> Vec<String> {
    report.keys().filter_map(|key| key.strip_prefix(begin)).map(str::to_owned).collect()
}

pub(super) fn p3_nothing_of_pid_1_leaks_into_a_container(vm: &Vm) {
    let (inside, beside) = (report(vm, "plain"), report(vm, "process"));
    let get = |key: &str| inside.get(key).map_or("", String::as_str);
    assert_eq!(below(&inside, "fd."), ["0", "1", "2"], "{inside:#?}");
    assert!(
        get("fd.0").contains("null") && get("fd.1").contains("pipe:") && get("fd.2").contains("pipe:"),
        "{inside:#?}"
    );
    assert_ne!(get("fd.1"), get("fd.2"), "the streams are told apart");
    for mask in ["SigIgn", "SigCgt", "SigPnd", "ShdPnd"] {
        assert_eq!(get(&format!("status.{mask}")), "0000000000000000", "{mask}: {inside:#?}");
    }
    // `serve` blocks the one signal that it waits for.
    assert_eq!(get("status.SigBlk"), format!("{:016x}", 1 << 14), "{inside:#?}");
    assert_eq!(
        below(&inside, "env."),
        ["HOME", "HOSTNAME", "KELSON_RUN", "KELSON_SERVICE", "OF_IMAGE", "PATH"],
        "{inside:#?}"
    );
    assert_eq!(get("limits.Max open files"), "1024 524288", "{inside:#?}");
    for limit in below(&beside, "limits.") {
        let limit = format!("limits.{limit}");
        if !limit.ends_with("open files") {
            assert_eq!(inside.get(&limit), beside.get(&limit), "{limit} is not that of a process");
        }
    }
    assert_eq!((get("oom_score_adj"), get("nice")), ("0", "0"), "{inside:#?}");
    assert_eq!((get("pid"), get("sid"), get("pgid"), get("ppid")), ("1", "1", "1", "0"), "{inside:#?}");
    assert_eq!((get("cgroup"), get("tty"), get("cwd")), ("0::/", "false", "/"), "{inside:#?}");
    for kind in ["cgroup", "ipc", "mnt", "pid", "uts"] {
        let key = format!("ns.{kind}");
        assert!(inside.contains_key(&key) && inside.get(&key) != beside.get(&key), "{key}: {inside:#?}");
    }
    assert_eq!(inside.get("ns.net"), beside.get("ns.net"), "it is on the host's network");
}

pub(super) fn a_container_sees_and_may_do_what_its_file_says(vm: &Vm) {
    let inside = report(vm, "boxed");
    let get = |key: &str| inside.get(key).map_or("", String::as_str);
    let ids = ["status.Uid", "status.Gid", "status.Groups"]
        .map(|key| get(key).split_whitespace().next().unwrap_or_default());
    assert_eq!(ids, ["1000", "1001", "1002"], "those of the image's own files: {inside:#?}");
    for set in ["CapBnd", "CapPrm", "CapEff"] {
        assert_eq!(get(&format!("status.{set}")), format!("{:016x}", 1 << 10), "{set}: {inside:#?}");
    }
    assert_eq!((get("status.NoNewPrivs"), get("status.Seccomp")), ("1", "2"), "{inside:#?}");
    assert_ne!(inside.get("ns.net"), report(vm, "plain").get("ns.net"));
    let log = vm.ctl(&["logs", "boxed"]).ok().stdout;
    assert!(log.contains("/new: Read-only file system") && log.contains("/scratch/new: written"), "{log}");
    assert!(log.contains("/proc/sys/kernel/hostname: "), "{log}");
    assert!(!log.contains("hostname: written"), "{log}");
    let lines: Vec<&str> = log.lines().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
    assert!(lines.contains(&"lo") && !lines.contains(&"eth0"), "{log}");
    assert!(lines.contains(&"null") && lines.contains(&"urandom"), "{log}");
    for device in ["kmsg", "ttyS0", "vda", "mem", "sda"] {
        assert!(!lines.contains(&device), "{device}: {log}");
    }
    // Root makes the node; what it may open is up to the file.
    let log = vm.ctl(&["logs", "plain"]).ok().stdout;
    assert!(log.contains(&format!("device {SERIAL}: Operation not permitted")), "{log}");
    let log = vm.ctl(&["logs", "given"]).ok().stdout;
    assert!(log.contains(&format!("device {SERIAL}: opened")), "{log}");
}

pub(super) fn a_container_is_held_to_its_resources(vm: &Vm) {
    let value = |file: &str| look(vm, &format!("cat={}/{file}", cgroup("bounded"))).trim().to_owned();
    let found = ["memory.max", "pids.max", "cpu.max"].map(value);
    assert_eq!(found, ["33554432", "16", "50000 100000"]);
    let made = vm.ctl(&["exec", "bounded", "--", "/program", "brood=32"]).ok().stdout;
    let count = made.split(' ').next().and_then(|count| count.parse::<u32>().ok());
    assert!(count.is_some_and(|count| (8..16).contains(&count)), "{made}");
    wait_state(vm, "hog", "failed");
    let hog = vm.client().service("hog");
    assert!(hog.message.contains("SIGKILL"), "{hog:?}");
    let log = vm.ctl(&["logs", "hog"]).ok().stdout;
    assert!(!log.contains("fed"), "{log}");
    assert!(vm.client().service("bounded").up, "what one container does is no other's harm");
}

pub(super) fn a_command_has_a_terminal_of_its_container(vm: &Vm) {
    let words = ["exec", "-t", "plain", "--", "/program", "list=/dev/pts", "report-of=fd.0"];
    let (status, shown) = on_terminal(vm.client().command(&words), "");
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert_eq!((status, &lines[..]), (0, ["0", "ptmx", "fd.0 /dev/pts/0"].as_slice()), "{shown}");
}

pub(super) fn a_container_outlives_pid_1(vm: &Vm) {
    let held = || ["plain", "boxed", "bounded", "checked"].map(|name| vm.client().service(name));
    let before = held();
    vm.ctl(&["reexec"]).ok();
    for (before, after) in before.iter().zip(held()) {
        assert_eq!((after.pid, after.restarts, after.up), (before.pid, 0, true), "{after:?}");
    }
    // Its end is seen, and another run begins where the one before ended.
    vm.ctl(&["restart", "plain", "--wait"]).ok();
    assert_ne!(vm.client().service("plain").pid, before[0].pid);
}

/// The one check of a service, as its status has it, and what it said last.
#[track_caller]
fn check(vm: &Vm, name: &str) -> (Value, String) {
    let status: Value = vm.ctl(&["status", name, "-o", "json"]).ok().json();
    let check = status["checks"][0].clone();
    let last = check["results"].as_array().and_then(|results| results.last()).cloned().unwrap_or_default();
    (check, last["output"].as_str().unwrap_or_default().to_owned())
}

/// `cgroup`: as a check sees it.
pub(super) fn h4_a_check_runs_in_its_container(vm: &Vm, cgroup: &str) {
    let checked = vm.client().wait_for("checked", "to be healthy", PATIENCE, |now| now.healthy == Some(true));
    assert!(checked.up, "{checked:?}");
    let main = report(vm, "checked");
    let (state, output) = check(vm, "checked");
    assert_eq!(state["state"], "passing", "{state}");
    let own = fields(&output);
    assert_eq!(own.get("cgroup").map(String::as_str), Some(cgroup), "{output}");
    for key in below(&own, "ns.").iter().map(|kind| format!("ns.{kind}")).chain(["status.Uid".to_owned()]) {
        assert_eq!(own.get(&key), main.get(&key), "{key}: {output}");
    }
    assert_eq!(below(&own, "ns.").len(), 7, "{output}");
    assert_eq!(own.get("env.MARK").map(String::as_str), Some("green"), "{output}");
    assert_eq!(below(&own, "env."), below(&main, "env."), "{output}");
}

pub(super) fn h4_a_timeout_kills_all_that_the_check_started(vm: &Vm) {
    vm.ctl(&["start", "slow"]).ok();
    let slow = vm.client().wait_for("slow", "to be unhealthy", PATIENCE, |now| now.healthy == Some(false));
    assert!(!slow.up && slow.pid.is_some(), "{slow:?}");
    assert_eq!(slow.message, "running, waits for check own: no answer within 4 s");
    eventually("all of the check to be gone", || {
        let left = look(vm, &format!("cat={}/cgroup.procs", cgroup("slow")));
        left.trim() == slow.pid.unwrap_or_default().to_string()
    });
    // On a busy computer a command may need longer than that until it is there to say something.
    eventually("what the check said to be told", || check(vm, "slow").1 == "asking\nno answer within 4 s");
}
