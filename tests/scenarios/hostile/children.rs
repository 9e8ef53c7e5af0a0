//! Ten thousand orphans end at one moment: all are reaped, and meanwhile questions are answered.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::{Host, eventually};

use super::Fault;

pub const FAULT: Fault = Fault {
    name: "ten-thousand-ends",
    host: |builder| {
        builder.runs_with("own-storm", "storm=10000", "type: oneshot\nstart: manual\nstartTimeout: 5m")
    },
    inject: end_ten_thousand,
};

/// Private memory of PID 1 in KiB, its program apart.
fn memory(host: &Host) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", host.init_pid())).expect("it lives");
    let line = text.lines().find(|line| line.starts_with("RssAnon:")).expect("the kernel tells");
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

fn end_ten_thousand(host: &Host) {
    let before = memory(host);
    let client = host.client().clone();
    let storm =
        std::thread::spawn(move || client.run(&["start", "own-storm", "--wait", "--timeout", "100s"]));
    let mut longest = Duration::ZERO;
    while !storm.is_finished() {
        let begun = Instant::now();
        host.ctl(&["services"]).ok();
        longest = longest.max(begun.elapsed());
    }
    storm.join().expect("it ends").ok();
    assert!(longest < Duration::from_secs(5), "an answer took {longest:?}");
    eventually("all of them to be reaped", || host.processes_with("storm=").is_empty());
    eventually("all zombies to be reaped", || host.processes().iter().all(|process| process.state != 'Z'));
    let after = memory(host);
    assert!(after < before + 2048, "{before} KiB, and then {after}");
}
