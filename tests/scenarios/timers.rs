//! Services that a schedule starts: runs by the clock, what was missed, overlaps, and PID 1's own restarts.

use std::fs;

use kelson_tests::{Host, eventually};

const ONCE: &str = "type: oneshot\n";

/// How often the schedule started it.
fn starts(host: &Host, name: &str) -> usize {
    host.events_of(name).iter().filter(|event| event.message == "its schedule starts it").count()
}

#[test]
fn a_service_runs_at_its_times_and_when_it_is_asked() {
    let mut host = Host::builder()
        .runs_with("job", "exit=0", &format!("{ONCE}schedule: {{every: 1s}}"))
        .runs_with("night", "exit=0", &format!("{ONCE}schedule: '2199-01-01 03:00 UTC'"))
        .start();
    eventually("it runs again and again", || starts(&host, "job") >= 3);
    host.wait_for("timers", "to run", |now| now.up);
    assert_eq!(host.service("night").state, "initialized", "the boot does not start it");
    let timers = host.ctl(&["timers", "-o", "json"]).ok().stdout;
    assert!(timers.contains("2199-01-01T03:00:00") && timers.contains("every 1 s"), "{timers}");
    host.ctl(&["start", "night"]).ok();
    host.wait_finished("night");

    // An operator who stops it between its runs ends them, until the next start.
    host.wait_finished("job");
    host.ctl(&["stop", "job"]).ok();
    host.wait_for("job", "to stay stopped", |now| now.state == "stopped");
    let refused = "its schedule does not start it: an operator stopped it";
    let refusals =
        |host: &Host| host.events_of("job").iter().filter(|event| event.message == refused).count();
    eventually("its schedule does not start it", || refusals(&host) == 1);
    host.ctl(&["start", "job"]).ok();
    let before = starts(&host, "job");
    eventually("it runs again", || starts(&host, "job") > before);

    // For a time its schedule does not start it.
    let answer = host.ctl(&["stop", "job", "--for", "1s"]).ok();
    assert!(format!("{answer:?}").contains("its schedule starts it again in 1 s"), "{answer:?}");
    let over = "the time for which it was stopped is over: its schedule starts it again";
    eventually("the time is over", || host.events_of("job").iter().any(|event| event.message == over));
    let before = starts(&host, "job");
    eventually("it runs again", || starts(&host, "job") > before);

    // The next incarnation of PID 1 has the schedules too.
    host.ctl(&["reexec"]).ok();
    let before = starts(&host, "job");
    eventually("it runs again", || starts(&host, "job") > before + 1);
    host.poweroff();
}

#[test]
fn what_the_host_missed_is_made_up_for_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // Last run in 2020.
    let kept = "missed 1577836800000000 1577836800000000\nleft 1577836800000000 1577836800000000\n";
    fs::write(folder.path().join("timers"), kept).expect("it can be written");
    let mut host = Host::builder()
        .state(folder.path())
        .runs_with("missed", "exit=0", &format!("{ONCE}schedule: 'Mon *-*-* 03:00'"))
        .runs_with(
            "left",
            "exit=0",
            &format!("{ONCE}schedule: {{calendar: 'Mon *-*-* 03:00', catchUp: false}}"),
        )
        .start();
    host.wait_finished("missed");
    eventually("it is written down", || {
        fs::read_to_string(folder.path().join("timers")).is_ok_and(|text| {
            text.lines().any(|line| line.starts_with("missed ") && !line.contains(" 1577836800000000"))
        })
    });
    assert_eq!((starts(&host, "missed"), starts(&host, "left")), (1, 0));
    host.poweroff();
}

#[test]
fn a_start_while_it_runs_is_left_out_restarts_it_or_waits() {
    let schedule = |overlap: &str| format!("{ONCE}schedule: {{every: 1s, overlap: {overlap}}}");
    let mut host = Host::builder()
        .runs_with("forbid", "serve", &schedule("forbid"))
        .runs_with("replace", "serve", &schedule("replace"))
        .runs_with("queue", "serve", &schedule("queue"))
        .start();
    let has = |host: &Host, name: &str, end: &str| {
        host.events_of(name).iter().any(|event| event.message.ends_with(end))
    };
    eventually("one is left out", || has(&host, "forbid", "the last run has not ended"));
    assert_eq!(starts(&host, "forbid"), 1);
    let left_out = |host: &Host| {
        host.events_of("forbid").iter().filter(|event| event.message.ends_with("has not ended")).count()
    };
    eventually("one is restarted", || has(&host, "replace", "its schedule starts it again"));
    eventually("one waits", || has(&host, "queue", "waits for the end of the last run"));
    assert_eq!(starts(&host, "queue"), 1);
    let pid = host.service("queue").pid.expect("it runs");
    host.ctl(&["signal", "queue", "SIGKILL"]).ok();
    host.wait_for("queue", "to run once more", |now| now.pid.is_some_and(|now| now != pid));
    assert_eq!(left_out(&host), 1, "one event tells of all");
    host.poweroff();
}

#[test]
fn a_start_by_a_schedule_stops_what_conflicts_with_the_service() {
    let mut host = Host::builder()
        .service("day", "process: {command: [/bin/sleep, \"77301\"]}\n")
        .runs_with("job", "exit=0", &format!("{ONCE}conflicts: [day]\nschedule: {{every: 1s}}\n"))
        .start();
    host.wait_finished("job");
    host.wait_for("day", "to be stopped", |now| now.state == "stopped");
    let message = host.service("day").message;
    assert_eq!(message, "stopped: \"job\", with which it conflicts, is started");
    host.poweroff();
}
