//! Services that never stop talking: to their notify socket, on their readiness descriptor, into their log.

use std::time::{Duration, Instant};

use kelson_tests::{Host, HostBuilder};

use super::Fault;
use super::descriptors::processor_time;
use super::siege::logs_go_on;

pub const FAULT: Fault = Fault { name: "floods", host: with_floods, inject: flood };

const NAMES: [&str; 3] = ["own-notify", "own-newlines", "own-lines"];

fn with_floods(builder: HostBuilder) -> HostBuilder {
    builder
        .runs_with("own-notify", "'notify=READY=1', notify-flood", "readiness: notify\nstart: manual")
        .runs_with("own-newlines", "newline-flood=3, serve", "readiness: {fd: 3}\nstart: manual")
        .runs_with("own-lines", "lines=1000000000", "logs: {maxSize: 64Ki, maxFiles: 2}\nstart: manual")
}

fn flood(host: &Host) {
    for name in NAMES {
        host.ctl(&["start", name, "--wait"]).ok();
    }
    let init = host.init_pid();
    let (begun, before) = (Instant::now(), processor_time(init));
    let mut longest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        host.ctl(&["services"]).ok();
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    let used = processor_time(init) - before;
    assert!(used < begun.elapsed() / 2, "PID 1 used {used:?} in {:?}", begun.elapsed());
    assert!(longest < Duration::from_secs(5), "an answer took {longest:?}");
    // Nobody else's lines are crowded out.
    logs_go_on(host, "log");
    for name in NAMES {
        host.ctl(&["stop", name, "--wait"]).ok();
    }
}
