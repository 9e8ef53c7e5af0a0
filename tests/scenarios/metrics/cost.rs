//! The cost for PID 1 of a reader of the metrics of a thousand services with ten checks each.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::process::ran;
use kelson_tests::{Host, until};

const SERVICES: usize = 1000;
const READINGS: u32 = 5;
/// CPU time of PID 1 for one reading: five times what a debug build takes here.
const CPU: Duration = Duration::from_millis(500);
/// By so much may PID 1 grow while it is read: a reading, and the pages that are on their way.
const GROWTH_KB: u64 = 3 << 10;

fn status_kb(pid: i32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("PID 1 is there");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("it has this line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn long_metrics_of_a_thousand_services_cost_little() {
    let checks: String = (0..10)
        .map(|n| {
            format!("- {{name: c{n}, exec: {{command: [/bin/true]}}, initialDelay: 1h, interval: 1h}}\n")
        })
        .collect();
    let mut builder = Host::builder();
    for n in 0..SERVICES {
        let yaml = format!("process: {{command: [$PROGRAM, await=TERM]}}\nhealth:\n{checks}");
        builder = builder.service(&format!("n-{n:04}"), &yaml);
    }
    let mut host = builder.start();
    until("all to run", Duration::from_secs(120), || {
        host.services().iter().all(|service| service.state == "running").then_some(())
    });
    let init = host.init_pid();
    let text = host.ctl(&["metrics"]).ok().stdout;
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(text.matches("\nkelson_check_duration_seconds_count{").count(), SERVICES * 10);
    std::thread::sleep(Duration::from_secs(2));

    let (memory, before) = (status_kb(init, "VmRSS:"), ran(init));
    let mut took = Duration::ZERO;
    for _ in 0..READINGS {
        let begun = Instant::now();
        host.ctl(&["metrics"]).ok();
        took += begun.elapsed();
        // Each is a reading of its own.
        std::thread::sleep(Duration::from_millis(1100));
    }
    let each = (ran(init) - before) / READINGS;
    let grown = status_kb(init, "VmHWM:").saturating_sub(memory);
    eprintln!(
        "{} KiB of text in {:?}; CPU of PID 1 {each:?}; memory {memory} KiB, at most {grown} KiB more",
        text.len() >> 10,
        took / READINGS
    );
    assert!(each < CPU, "a reading takes {each:?} of PID 1");
    assert!(status_kb(init, "VmRSS:") < memory + GROWTH_KB, "PID 1 grows from {memory} KiB");
    host.ctl(&["poweroff"]).ok();
    assert_eq!(host.wait_exit_within(Duration::from_secs(120)), 0);
}
