//! `schedule`: read, written again, and refused where it cannot be.
use std::time::Duration;

use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::service::{Overlap, Schedule, StartMode};

fn folder(text: &str) -> Folder {
    let folder = Folder::new();
    folder.service("job", format!("name: job\nprocess: {{command: [/bin/job]}}\n{text}\n"));
    folder
}

#[test]
fn it_is_read_and_written_as_it_was() {
    let long = "schedule: {calendar: ['Mon..Fri 03:00 Europe/Berlin', daily], cron: '0 4 * * 0', every: 15m, \
                afterBoot: 5m, jitter: 10s, catchUp: false, overlap: queue}";
    let expected = Schedule {
        calendar: ["Mon..Fri 03:00 Europe/Berlin", "daily", "cron 0 4 * * 0"].map(str::to_owned).into(),
        every: Some(Duration::from_secs(900)),
        after_boot: Some(Duration::from_secs(300)),
        jitter: Duration::from_secs(10),
        catch_up: false,
        overlap: Overlap::Queue,
    };
    let short = Schedule { calendar: vec!["*:0/15".to_owned()], ..Schedule::default() };
    for (text, expected) in [(long, expected), ("schedule: '*:0/15'", short)] {
        let folder = folder(&format!("type: oneshot\n{text}"));
        let loaded = folder.load();
        assert_eq!(loaded.diagnostics, []);
        let spec = &loaded.services[0];
        assert_eq!(spec.schedule(), Some(&expected));
        assert_eq!(spec.start, StartMode::Manual, "the boot does not start it");
        let again = written(spec).file();
        assert!(!again.contains("start:"), "the schedule implies it: {again}");
        folder.service("job", again);
        assert_eq!(folder.load(), loaded);
    }
}

#[test]
fn who_cannot_have_one_is_told_why() {
    for (text, why) in [
        (
            "schedule: daily",
            "schedule: a service that is always restarted never ends; write type: oneshot, or restart: {policy: \
             once}",
        ),
        (
            "type: oneshot\nschedule: {jitter: 5s}",
            "schedule.calendar: it names no time; write calendar, cron, every or afterBoot",
        ),
        (
            "type: oneshot\nschedule: noon",
            "schedule: \"noon\" names no weekday, date or time; write such as 03:00, Mon *-*-* 12:00 or daily",
        ),
        (
            "type: oneshot\nschedule: \"\\e[31m\"",
            "schedule: \"\\u{1b}[31m\" has letters that no time has; write such as Mon *-*-* 12:00",
        ),
        (
            "type: oneshot\nschedule: {calendar: [daily, '25:00']}",
            "schedule.calendar[1]: \"25:00\" has \"25\", which is no hour; write *, or numbers 0 to 23 such as 23, 1,2, \
             1..5 or 2/5",
        ),
        (
            "type: oneshot\nschedule: {cron: '0 3 * *'}",
            "schedule.cron: \"0 3 * *\" has \"0 3 * *\", which is no line of cron; write such as 0 3 * * *: minute, hour, \
             day, month, weekday",
        ),
        (
            "type: oneshot\nschedule: {every: 10ms}",
            "schedule.every: 10ms is out of range; write a duration from 1s to 365d",
        ),
        (
            "type: oneshot\nschedule: {every: 5m, overlap: skip}",
            "schedule.overlap: \"skip\" is not one of forbid, replace, queue",
        ),
        (
            "restart: {policy: once}\nsockets: [{name: a, listen: /run/a}]\nstart: onDemand\nschedule: daily",
            "start: the schedule starts it, and the boot does not; leave start or schedule out",
        ),
        (
            "type: oneshot\nstart: auto\nschedule: daily",
            "start: the schedule starts it, and the boot does not; leave start or schedule out",
        ),
    ] {
        let loaded = folder(text).load();
        let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
        assert_eq!(found, [why], "{text}");
    }
}
