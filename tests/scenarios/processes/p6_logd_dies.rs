//! P6: logd is killed or frozen while 100 services write: same PIDs, no restart counted, nobody gets SIGPIPE,
//! later lines are collected, the losses are bounded and reported.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use kelson_tests::{Host, eventually, until};

use super::{beats, board, logd};

const COUNT: usize = 100;

fn name(n: usize) -> String {
    format!("n-{n}")
}

#[track_caller]
fn pids(host: &Host) -> BTreeMap<String, (Option<i32>, u32, bool)> {
    let services = host.services().into_iter().filter(|service| !service.builtin);
    services.map(|service| (service.name, (service.pid, service.restarts, service.up))).collect()
}

#[track_caller]
fn writing() -> Host {
    let mut builder = Host::builder();
    for n in 0..COUNT {
        builder = builder.runs(&name(n), &format!("'beat=20ms:40:$DIR/n-{n}'"));
    }
    let host = builder.start();
    for n in 0..COUNT {
        host.wait_up(&name(n));
        host.wait_log(&name(n), "beat 1 ");
    }
    host
}

/// Returns once the lines that each service has written by now are in its log.
#[track_caller]
fn collected(host: &Host) {
    let last: Vec<u64> = (0..COUNT).map(|n| board(host, &name(n)).0).collect();
    for (n, last) in last.into_iter().enumerate() {
        host.wait_log(&name(n), &format!("beat {} ", last + 10));
    }
}

/// The losses of a log are bounded, reported in their place, and no line is there twice.
#[track_caller]
fn gaps(host: &Host) -> u64 {
    let mut missing = 0;
    for n in 0..COUNT {
        let log = host.log_text(&name(n));
        let numbers = beats(&log);
        assert!(numbers.is_sorted_by(|a, b| a < b), "{}: doubles or disorder:\n{log}", name(n));
        let mut lost = 0;
        for pair in numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1) {
            let (_, from) = log.split_once(&format!("beat {} ", pair[0])).expect("it is there");
            let (between, _) = from.split_once(&format!("beat {} ", pair[1])).expect("it is there");
            assert!(
                between.contains("lost here"),
                "{}: nothing tells of the gap after {}:\n{log}",
                name(n),
                pair[0]
            );
            lost += pair[1] - pair[0] - 1;
        }
        // A service writes 50 lines a second; logd is missed for less than two.
        assert!(lost <= 100, "{}: {lost} lines are lost", name(n));
        missing += lost;
    }
    missing
}

#[track_caller]
fn ends_well(mut host: Host, before: &BTreeMap<String, (Option<i32>, u32, bool)>) {
    assert_eq!(&pids(&host), before);
    for n in 0..COUNT {
        let (_, longest) = board(&host, &name(n));
        assert!(longest < Duration::from_secs(2), "{}: a write took {longest:?}", name(n));
    }
    gaps(&host);
    host.poweroff();
    gaps(&host);
}

#[test]
fn p6_a_killed_logd_costs_no_service_anything() {
    let host = writing();
    let before = pids(&host);
    let boot = host.newest_event();
    for restarts in 1..=3 {
        let old = logd(&host);
        host.kill(old, libc::SIGKILL);
        host.wait_for("logd", "to be replaced", |service| {
            service.up && service.pid != Some(old) && service.restarts == restarts
        });
        collected(&host);
    }
    let told: Vec<_> = host.events_of("logd").into_iter().filter(|event| event.seq > boot).collect();
    assert!(told.iter().any(|event| event.message.contains("killed by SIGKILL")), "{told:#?}");
    for n in 0..COUNT {
        let log = host.log_text(&name(n));
        assert_eq!(
            log.matches("kelson-logd was replaced").count(),
            3,
            "{}: said once a time:\n{log}",
            name(n)
        );
    }
    ends_well(host, &before);
}

#[test]
fn p6_a_silent_service_has_the_note_as_soon_as_the_next_logd_has_its_pipe() {
    let mut host = Host::builder().runs("web", "print=begin, hang").start();
    host.wait_log("web", "begin");
    let old = logd(&host);
    host.kill(old, libc::SIGKILL);
    host.wait_for("logd", "to be replaced", |service| service.up && service.pid != Some(old));
    // It answers after it has taken all pipes; the rest is one write.
    let log = until("the note", Duration::from_secs(2), || {
        let log = host.log_text("web");
        log.contains(" note F kelson-logd was replaced").then_some(log)
    });
    assert_eq!(log.lines().count(), 2, "{log}");
    host.poweroff();
}

#[test]
fn p6_a_frozen_logd_is_replaced_within_two_seconds() {
    let host = writing();
    let before = pids(&host);
    let old = logd(&host);
    let folder = host.cgroup_of("logd");
    fs::write(folder.join("cgroup.freeze"), "1").expect("its cgroup can be frozen");
    let next = host.wait_for("logd", "to be replaced", |service| service.up && service.pid != Some(old));
    assert_eq!(next.restarts, 1, "{next:?}");
    collected(&host);
    eventually("the frozen one to be gone", || host.processes().iter().all(|process| process.pid != old));
    ends_well(host, &before);
}

#[test]
fn p6_services_start_while_logd_dies_again_and_again() {
    let mut builder = Host::builder().runs("base", "serve");
    for n in 0..COUNT {
        builder =
            builder.runs_with(&name(n), "print=begin, wait-path=$DIR/go, print=late, serve", "start: manual");
    }
    let mut host = builder.up(&["base"]);
    let names: Vec<String> = (0..COUNT).map(name).collect();
    let client = host.client().clone();
    let starter = std::thread::spawn(move || {
        for chunk in names.chunks(5) {
            let words: Vec<&str> = ["start"].into_iter().chain(chunk.iter().map(String::as_str)).collect();
            client.run(&words).ok();
        }
    });
    let mut killed = 0;
    while !starter.is_finished() || killed < 2 {
        let old = host.wait_for("logd", "to be up", |service| service.up).pid.expect("it runs");
        // It may just have been replaced by itself: only the one that was seen counts.
        if let Some(process) = host.processes().into_iter().find(|process| process.pid == old) {
            host::kill(process.outer_pid);
            killed += 1;
        }
        host.wait_for("logd", "to be replaced", |service| service.pid.is_some() && service.pid != Some(old));
    }
    starter.join().expect("all starts are taken up");
    for n in 0..COUNT {
        host.wait_up(&name(n));
    }
    let before = pids(&host);
    for (name, (pid, restarts, up)) in &before {
        assert!(pid.is_some() && *up && *restarts == 0, "{name}: {pid:?}, {restarts} restarts, up: {up}");
    }
    host.touch("go");
    for n in 0..COUNT {
        host.wait_log(&name(n), "late");
    }
    // Nobody had SIGPIPE for it.
    assert_eq!(pids(&host), before);
    host.poweroff();
}

mod host {
    pub fn kill(pid: i32) {
        // SAFETY: kill(2) has no preconditions.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}
