//! `logs.rateLimit`: a service that floods its log costs logd a tenth of a processor at most, and what is suppressed is
//! counted.

use std::fs;
use std::time::{Duration, Instant};

use kelson_tests::{Host, PATIENCE, eventually, until};

use super::logd;

/// CPU time of a process and of its threads.
fn processor_time(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("its fields").split(' ').collect();
    let ticks = |index: usize| fields[index].parse::<u64>().expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

#[test]
fn a_flood_costs_logd_a_tenth_of_a_processor_and_what_is_suppressed_is_counted() {
    let flood = "process: {command: [$PROGRAM, lines=1000000000]}\nlogs: {rateLimit: 500, maxSize: 1Gi}\nstart: manual";
    let mut host = Host::builder().service("flood", flood).up(&["logd"]);
    let pid = host.outer_pid(logd(&host));
    host.ctl(&["start", "flood", "--wait"]).ok();
    host.wait_log("flood", " were lost here: suppressed, logs.rateLimit allows 500 lines a second");
    let (began, before) = (Instant::now(), processor_time(pid));
    std::thread::sleep(Duration::from_secs(4));
    let (elapsed, used) = (began.elapsed(), processor_time(pid) - before);
    assert!(used <= elapsed / 10, "logd used {used:?} in {elapsed:?}");
    host.wait_event(0, "that counts them", |event| {
        event.service == "flood"
            && event.message.contains("of its log were dropped: suppressed, logs.rateLimit")
    });
    host.ctl(&["stop", "flood", "--wait"]).ok();
    // Nothing is missing that is not counted, in its place.
    let log = host.log_text("flood");
    let mut next = 1_u64;
    for line in log.lines() {
        if let Some((_, number)) = line.split_once(" line ") {
            assert_eq!(number.parse(), Ok(next), "{line}");
            next += 1;
        } else if line.contains(" were lost here: ") {
            let count = line.split(" note F ").nth(1).and_then(|text| text.split(' ').next()?.parse().ok());
            next += count.unwrap_or(0);
        }
    }
    assert!(next > 10_000, "{next} lines");
    host.poweroff();
}

#[test]
fn suppressed_lines_are_noted_although_the_service_is_silent_and_the_next_second_is_new() {
    let twice = "process: {command: [$PROGRAM, lines=100, sleep=2s, lines=5, hang]}\nlogs: {rateLimit: 40}";
    let mut host = Host::builder().service("web", twice).start();
    let said =
        " note F 60 lines (421 bytes) were lost here: suppressed, logs.rateLimit allows 40 lines a second";
    let noted = until("the note", PATIENCE, || {
        let log = host.log_text("web");
        log.contains(said).then_some(log)
    });
    assert_eq!(noted.lines().count(), 41, "before anything follows:\n{noted}");
    eventually("the lines of another second", || {
        let log = host.log_text("web");
        log.lines().count() == 41 + 5 && log.ends_with(" line 5\n")
    });
    host.poweroff();
}
