//! The boot as rows and as a drawing.

use super::super::check::{elements, read};
use super::*;
use crate::samples::{event, wire};
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

/// PID 1 began at 50 s of the clock; before `web` is spawned the clock is set an hour on.
fn events() -> Vec<Event> {
    let event = |(seq, (millis, service, state)): (usize, (i64, &str, State))| {
        let (seconds, nanos) = (50 + millis / 1000, (millis % 1000 * 1_000_000) as i32);
        let time = Some(prost_types::Timestamp { seconds, nanos });
        Event { time, ..event(seq as u64 + 1, service, state, "") }
    };
    let hour = 3_600_000;
    [
        (70, "late", State::Waiting),
        (80, "db", State::Preparing),
        (95, "db", State::Starting),
        (100, "db", State::Starting),
        (330, "db", State::Running),
        (650, "db", State::Stopping),
        (hour + 60, "web", State::Waiting),
        (hour + 90, "web", State::Waiting),
        (hour + 405, "web", State::Preparing),
        (hour + 407, "web", State::Starting),
        (hour + 410, "web", State::Starting),
    ]
    .into_iter()
    .enumerate()
    .map(event)
    .collect()
}

fn chain() -> Vec<Link> {
    vec![Link { kind: "service", name: "db".to_owned(), start_ms: 100.0, duration_ms: 300.0 }]
}

#[test]
fn rows_stand_on_one_time_axis() {
    let rows = rows(&sample(), 900.0, &[], &chain());
    let brief: Vec<_> = rows.iter().map(|r| (r.label.as_str(), r.pieces.as_slice())).collect();
    assert_eq!(
        brief,
        [
            ("kernel", &[(0.0, Some(900.0), "bar-kernel")][..]),
            ("mounts", &[(910.0, Some(960.0), "bar-phase")]),
            ("mount /var", &[(912.0, Some(952.0), "bar-bad")]),
            ("db", &[(1000.0, Some(1300.0), "bar-starting"), (1300.0, None, "bar-stays")]),
            ("web", &[(1310.0, None, "bar-starting")]),
        ]
    );
    assert_eq!((rows[3].note.as_str(), rows[3].critical), ("300 ms", Some((1000.0, 1300.0))));
}

#[test]
fn events_tell_what_was_before() {
    let rows = rows(&sample(), 900.0, &events(), &[]);
    let row = |name: &str| rows.iter().find(|row| row.label == name).unwrap();
    assert_eq!(
        row("db").pieces,
        [
            (980.0, Some(1000.0), "bar-preparing"),
            (1000.0, Some(1230.0), "bar-starting"),
            (1230.0, Some(1300.0), "bar-checked"),
            (1300.0, Some(1550.0), "bar-stays"),
        ]
    );
    assert_eq!(
        row("web").pieces,
        [
            (960.0, Some(1305.0), "bar-waiting"),
            (1305.0, Some(1310.0), "bar-preparing"),
            (1310.0, None, "bar-starting"),
        ]
    );
    assert_eq!((row("late").pieces.len(), row("late").note.as_str()), (1, "not started yet"));
    assert!(!rows.iter().any(|row| row.label == "manual"));
    let later = &events()[1..];
    assert_eq!(
        super::rows(&sample(), 0.0, later, &[])[2].pieces.len(),
        2,
        "without the beginning nothing is known for sure"
    );
}

#[test]
fn the_plot_is_well_formed() {
    let svg = draw(&sample(), &events(), &chain());
    assert_eq!(elements(&svg)[0], "svg");
    for part in
        ["&lt;no such disk&gt;", ">1.6 s<", "kernel 900 ms", "not up yet", "all services stood", "critical"]
    {
        assert!(svg.contains(part), "{part} is in:\n{svg}");
    }
    let all = read(&svg);
    let (width, height) = (all[0].number("width"), all[0].number("height"));
    for bar in all.iter().filter(|e| e.name == "rect" && e.attribute("class").starts_with("bar")) {
        assert!(bar.number("x") + bar.number("width") <= width && bar.number("y") <= height, "{bar:?}");
    }
    for text in all.iter().filter(|e| e.name == "text") {
        let wide = if text.attribute("class").contains("middle") { 0.5 } else { 1.0 };
        let end = text.number("x") + text_width(&text.text, Font::Small) * wide;
        assert!(end <= width && text.number("y") < height, "{text:?} ends at {end} of {width}");
    }
    assert!(draw(&BootResponse::default(), &[], &[]).contains("</svg>"));
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
    events[5].time = Some(prost_types::Timestamp { seconds: 90_000, nanos: 0 });
    let svg = draw(&boot, &events, &chain());
    assert!(svg.contains("; not drawn: 1 steps shorter than 5.00 ms<"), "{svg}");
    assert!(svg.contains(">mount /srv<") && !svg.contains(">mount /proc<"), "{svg}");
    assert!(svg.contains(">1.6 s<") && !svg.contains(">1000 s<"), "{svg}");
}
