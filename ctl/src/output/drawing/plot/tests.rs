//! The boot as rows and as a drawing.

use super::*;
use crate::samples::{golden, sampled, wire};
use kelson_proto::v1::{BootPhase, BootService, BootTask, State};

fn sample() -> BootResponse {
    BootResponse {
        kernel: wire(900),
        total: wire(700),
        phases: vec![BootPhase {
            name: "mounts".to_owned(),
            start: wire(10),
            duration: wire(50),
            tasks: vec![BootTask {
                name: "mount /var".to_owned(),
                start: wire(12),
                duration: wire(40),
                error: "LABEL=STATE: <no such disk>".to_owned(),
                message: String::new(),
            }],
        }],
        services: vec![
            BootService { name: "db".to_owned(), spawned: wire(100), up: wire(400), after: vec![] },
            BootService {
                name: "web".to_owned(),
                spawned: wire(410),
                up: None,
                after: vec!["db".to_owned()],
            },
            BootService { name: "late".to_owned(), ..BootService::default() },
            BootService { name: "manual".to_owned(), ..BootService::default() },
        ],
    }
}

/// PID 1 began with the sample; before `web` is spawned the clock is set an hour on.
fn events() -> Vec<Event> {
    let hour = 3_600_000;
    sampled(&[
        (70, "late", State::Waiting, ""),
        (80, "db", State::Preparing, ""),
        (95, "db", State::Starting, ""),
        (100, "db", State::Starting, ""),
        (330, "db", State::Running, ""),
        (650, "db", State::Stopping, ""),
        (hour + 60, "web", State::Waiting, ""),
        (hour + 90, "web", State::Waiting, ""),
        (hour + 405, "web", State::Preparing, ""),
        (hour + 407, "web", State::Starting, ""),
        (hour + 410, "web", State::Starting, ""),
    ])
}

fn chain() -> Vec<Link> {
    vec![Link { kind: "service", name: "db".to_owned(), start_ms: 100.0, duration_ms: 300.0 }]
}

#[test]
fn the_boot_is_drawn_so() {
    golden("src/output/drawing/plot/golden.svg", &draw(&sample(), &events(), &chain()));
    golden("src/output/drawing/plot/without-events.svg", &draw(&sample(), &[], &chain()));
    assert!(draw(&BootResponse::default(), &[], &[]).contains("</svg>"));
}

#[test]
fn without_the_beginning_nothing_is_known_for_sure() {
    assert_eq!(rows(&sample(), 0.0, &events()[1..], &[])[2].pieces.len(), 2);
}

#[test]
fn of_two_tasks_of_one_name_the_one_that_was_waited_for_is_marked() {
    let mut boot = sample();
    let mut earlier = boot.phases[0].clone();
    earlier.name = "initramfs".to_owned();
    (earlier.start, earlier.tasks[0].start) = (wire(0), wire(1));
    boot.phases.insert(0, earlier);
    let link = |kind, name: &str, start_ms| Link { kind, name: name.to_owned(), start_ms, duration_ms: 40.0 };
    let chain = [link("task", "mount /var", 12.0), link("phase", "mounts", 10.0)];
    let rows = rows(&boot, 900.0, &[], &chain);
    let marked = |name: &str| -> Vec<bool> {
        rows.iter().filter(|row| row.label == name).map(|row| row.critical.is_some()).collect()
    };
    assert_eq!(
        (marked("mount /var"), marked("initramfs"), marked("mounts")),
        (vec![false, true], vec![false], vec![true])
    );
}

#[test]
fn what_cannot_be_seen_is_left_out() {
    let mut boot = sample();
    let short = |name: &str, error: &str| BootTask {
        name: name.to_owned(),
        start: wire(20),
        duration: wire(1),
        error: error.to_owned(),
        message: String::new(),
    };
    boot.phases[0].tasks = vec![short("mount /proc", ""), short("mount /srv", "no such disk")];
    // A service that ends long after the boot does not stretch the axis.
    let mut events = events();
    events[5].time = Some(prost_types::Timestamp { seconds: 1_795_254_485 + 90_000, nanos: 0 });
    let svg = draw(&boot, &events, &chain());
    assert!(svg.contains("; not drawn: 1 steps shorter than 5.00 ms<"), "{svg}");
    assert!(svg.contains(">mount /srv<") && !svg.contains(">mount /proc<"), "{svg}");
    assert!(svg.contains(">1.6 s<") && !svg.contains(">1000 s<"), "{svg}");
}
