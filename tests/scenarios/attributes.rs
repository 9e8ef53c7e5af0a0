//! Umask, nice value, OOM score, CPUs and the weight at disks: of all that a service starts.

use std::fs;

use kelson_tests::{Host, eventually};

const KEYS: &str = "umask: '0027'\nnice: 5\noomScoreAdjust: 300\ncpuAffinity: [0, 4000]";
/// Prints them, one a line after a word.
const SHOW: &str = "for word in umask $(umask) nice $(nice) oom $(cat /proc/self/oom_score_adj) \
                    $(grep -h Cpus_allowed_list: /proc/self/status); do echo $1.$word; done";
const SHOWN: [&str; 8] = ["umask", "0027", "nice", "5", "oom", "300", "Cpus_allowed_list:", "0"];

/// Whether a log has all of them, each after this word.
fn has_shown(log: &str, name: &str) -> bool {
    SHOWN.iter().all(|word| log.lines().any(|line| line.ends_with(&format!(" {name}.{word}"))))
}

#[test]
fn all_that_a_service_starts_has_its_attributes() {
    let shell = |name: &str, more: &str| format!("{{command: [sh, -c, '{SHOW}{more}', sh, {name}]}}");
    let hooks = ["pre", "postStart", "preStop", "post"].map(|name| format!("{name}: {}", shell(name, "")));
    let mut host = Host::builder()
        .service(
            "web",
            &format!(
                "process: {}\n{KEYS}\nuser: '1234:1234'\nhooks: {{{}}}",
                shell("main", "; exec sleep 77200"),
                hooks.join(", ")
            ),
        )
        .service("plain", &format!("process: {}", shell("plain", "; exec sleep 77201")))
        .up(&["web", "plain"]);
    eventually("the hooks beside it to have run", || has_shown(&host.log_text("web"), "postStart"));
    let beside = host.ctl(&["exec", "web", "--", "/bin/sh", "-c", SHOW, "sh", "exec"]).ok().stdout;
    let expected = SHOWN.map(|word| format!("exec.{word}\n")).concat();
    assert_eq!(beside, expected);
    host.ctl(&["stop", "web", "--wait"]).ok();
    for name in ["pre", "main", "postStart", "preStop", "post"] {
        eventually(name, || has_shown(&host.log_text("web"), name));
    }
    let plain = host.wait_log("plain", "plain.Cpus_allowed_list:");
    assert!(plain.contains("plain.0022\n") && !plain.contains("plain.300\n"), "{plain}");
    let shown = host.ctl(&["status", "web"]).ok().stdout;
    for line in KEYS.lines() {
        assert!(shown.contains(&line.replace('\'', "")), "{line} in {shown}");
    }
    host.poweroff();
}

#[test]
fn what_the_kernel_refuses_is_named() {
    let mut host = Host::builder()
        .runs_with("nowhere", "hang", "cpuAffinity: [8000-8191]\nrestart: {policy: once}")
        .start();
    let message = host.wait_state("nowhere", "failed").message;
    let expected = "cannot choose its CPUs: invalid argument (this host has none of them, or does not give them to Kelson)";
    assert!(message.contains(expected), "{message}");
    host.poweroff();
}

#[test]
fn who_may_not_lower_a_nice_value_or_a_score_is_told_so() {
    let once = "restart: {policy: once}";
    let mut host = Host::builder()
        .runs_with("eager", "hang", &format!("nice: -5\n{once}"))
        .runs_with("spared", "hang", &format!("oomScoreAdjust: -500\n{once}"))
        .unprivileged(1234)
        .start();
    for (name, what) in
        [("eager", "cannot set the nice value: "), ("spared", "cannot write /proc/self/oom_score_adj: ")]
    {
        let message = host.wait_state(name, "failed").message;
        assert!(message.contains(what), "{message}");
    }
    host.poweroff();
}

/// Where the test's cgroup has no controller for it, an event says so.
#[test]
fn a_service_has_its_weight_at_disks() {
    let mut host = Host::builder()
        .runs_with("web", "hang", "resources: {ioWeight: 250}")
        .runs("plain", "hang")
        .up(&["web", "plain"]);
    let services = host.cgroup_of("web").parent().expect("it has one").to_owned();
    let own = services.parent().expect("it has one");
    let offered = fs::read_to_string(own.join("cgroup.controllers")).expect("a cgroup2");
    let weight = host.cgroup_of("web").join("io.weight");
    if !offered.split_whitespace().any(|name| name == "io") {
        host.wait_event(0, "what is not enforced", |event| {
            event.service == "web"
                && event.message == "ioWeight is not enforced: the cgroup controller io is missing"
        });
    } else if weight.exists() {
        assert_eq!(fs::read_to_string(weight).expect("a file of a cgroup"), "default 250\n");
    } else {
        host.wait_event(0, "what is not enforced", |event| {
            event.service == "web" && event.message.contains("cannot write 250 to io.weight")
        });
    }
    assert!(host.events_of("plain").iter().all(|event| !event.message.contains("ioWeight")));
    host.poweroff();
}
