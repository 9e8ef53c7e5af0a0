//! Processes (P1 to P6): what is reaped, what is handed down, what becomes of output.

mod hints;
mod last_lines;
mod log_runs;
mod logd_privileges;
mod p1_no_status_is_lost;
mod p2_orphans;
mod p3_nothing_leaks;
mod p4_last_output;
mod p5_nobody_reads;
mod p6_logd_dies;
mod p7_signal;
mod rate_limit;

use std::time::Duration;

use kelson_tests::{Host, PATIENCE, eventually, until};

/// The report of a service with the step `beat=…:$DIR/NAME`: its last number, and the time that its longest
/// write took.
#[track_caller]
fn board(host: &Host, name: &str) -> (u64, Duration) {
    until("the first beat", PATIENCE, || {
        let text = std::fs::read_to_string(host.path(name)).ok()?;
        let mut words = text.split_whitespace();
        let (number, longest) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((number, Duration::from_millis(longest)))
    })
}

/// Returns once a service has written `more` beats from now on.
#[track_caller]
fn beats_on(host: &Host, name: &str, more: u64) {
    let (from, _) = board(host, name);
    eventually(&format!("{name} to write on"), || board(host, name).0 >= from + more);
}

/// The numbers of the beats in a log.
fn beats(log: &str) -> Vec<u64> {
    log.lines()
        .filter_map(|line| line.split_once("beat ")?.1.split_whitespace().next()?.parse().ok())
        .collect()
}

/// PID 1's own processes by the name that they were started with.
#[track_caller]
fn logd(host: &Host) -> i32 {
    host.service("logd").pid.expect("logd runs")
}
