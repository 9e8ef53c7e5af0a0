use crate::output::Palette;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use kelson_proto::v1::line::Stream;
use kelson_proto::v1::{
    BootPhase, BootResponse, Event, GraphNode, GraphResponse, Line, Service, State, StatusResponse,
    VersionResponse,
};
use prost_types::Timestamp;

use super::*;
use crate::dashboard::keys::Key;
use crate::dashboard::model::{News, Usage};
use crate::samples::{self, at, edge, golden, node};

const STARTED: i64 = 1_795_254_485;
const PLAIN: Looks = Looks { palette: Palette::None, unicode: true };

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_254_485 + 3 * 3600 + 240)
}

fn stamp(after: i64) -> Option<Timestamp> {
    at(STARTED + after)
}

fn service(name: &str, state: State) -> Service {
    Service { since: stamp(60), ..samples::service(name, state) }
}

fn services() -> Vec<Service> {
    vec![
        Service { builtin: true, up: true, ..service("apid", State::Running) },
        Service { up: true, healthy: Some(true), restarts: 2, ..service("db", State::Running) },
        Service { message: "exited with status 3 after 1.2 s".to_owned(), ..service("job", State::Failed) },
        Service {
            up: true,
            healthy: Some(false),
            message: "check \"http\" fails".to_owned(),
            ..service("mail", State::Running)
        },
        Service {
            waiting_for: vec!["service \"job\" to be finished".to_owned()],
            ..service("web", State::Waiting)
        },
    ]
}

fn line(second: i64, stream: Stream, text: &str) -> Line {
    let text = text.as_bytes().to_vec();
    let (service, stream) = ("db".to_owned(), stream.into());
    Line { service, time: stamp(second), stream, text, ..Line::default() }
}

fn event(seq: u64, name: &str, state: State, message: &str) -> Event {
    Event { time: stamp(60), run: 1, ..samples::event(seq, name, state, message) }
}

fn graph() -> GraphResponse {
    GraphResponse {
        nodes: vec![
            node("db", State::Running),
            node("job", State::Failed),
            node("web", State::Waiting),
            node("path \"/dev/vdb\" to exist", State::Unspecified),
        ],
        edges: vec![
            edge("db", "path \"/dev/vdb\" to exist", "", true),
            edge("job", "db", "up", true),
            edge("web", "job", "finished", false),
        ],
    }
}

/// A host with five services; `db` is chosen.
fn model() -> Model {
    let mut model = Model::new(services());
    model.press(Key::Down);
    let version = VersionResponse {
        hostname: "edge-1".to_owned(),
        mode: "machine".to_owned(),
        version: "9.8.7".to_owned(),
        started: stamp(0),
        ..VersionResponse::default()
    };
    model.hear(News::Host { services: services(), version: Some(Box::new(version)), boot: None });
    let begin = Instant::now();
    for (second, cpu) in [(0, 100), (2, 340)] {
        let usage = Usage { memory: Some(12_345_678), cpu: Some(Duration::from_millis(cpu)) };
        let at = begin + Duration::from_secs(second);
        model.hear(News::Usage(at, Some(HashMap::from([("db".to_owned(), usage)]))));
    }
    model.hear(News::Events(
        vec![
            event(40, "", State::Unspecified, "the boot is done"),
            event(41, "job", State::Failed, "exited with status 3 after 1.2 s, and is not started again"),
            event(42, "db", State::Running, "ready\x1b[2J"),
        ],
        0,
    ));
    model.hear(News::LogOf("db".to_owned()));
    model.hear(News::Lines(vec![
        line(60, Stream::Stdout, "listening on port 5432"),
        line(
            61,
            Stream::Stderr,
            "a file is \x1b[31mred\x1b[0m, 漢字 are wide, and this line is too long for the terminal",
        ),
        line(62, Stream::Stdout, "ready"),
    ]));
    model
}

/// The screen as text, without the blanks at the ends of its lines.
fn drawn(model: &Model, columns: u16, rows: u16, looks: Looks) -> (String, Shown) {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let shown = draw(&mut buffer, model, looks, now());
    let mut text = String::new();
    for y in 0..rows {
        let mut row = String::new();
        let mut x = 0;
        while x < columns {
            let symbol = buffer[(x, y)].symbol();
            row.push_str(symbol);
            x += u16::try_from(crate::output::text::width(symbol)).unwrap().max(1);
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    (text, shown)
}

fn compare(name: &str, model: &Model) {
    golden(&format!("src/dashboard/view/screens/{name}.txt"), &drawn(model, 80, 24, PLAIN).0);
}

fn press(model: &mut Model, keys: &str) {
    keys.chars().for_each(|key| drop(model.press(Key::Char(key))));
}

#[test]
fn each_pane_in_80x24() {
    let mut model = model();
    compare("logs", &model);
    press(&mut model, "2");
    compare("events", &model);
    press(&mut model, "3");
    model.hear(News::Graph(graph()));
    compare("graph", &model);
    press(&mut model, "4");
    model.hear(News::Status(Box::new(StatusResponse {
        service: Some(services().remove(1)),
        memory_bytes: Some(12_345_678),
        needed_by: vec!["job".to_owned()],
        file: "/etc/kelson/services/db.yaml".to_owned(),
        spec: "name: db\nprocess:\n  command: [/usr/bin/db]\n".to_owned(),
        ..StatusResponse::default()
    })));
    compare("details", &model);
    model.press(Key::Enter);
    compare("details-whole", &model);
}

#[test]
fn what_is_asked_and_said_in_80x24() {
    let mut fresh = model();
    press(&mut fresh, "?");
    compare("keys", &fresh);
    let mut asked = model();
    press(&mut asked, "x");
    compare("stop", &asked);
    let mut filtered = model();
    press(&mut filtered, "/a");
    compare("filter", &filtered);
    let mut lost = model();
    lost.hear(News::Lost(
        "nobody serves /run/kelson/init.sock: it was left behind by a process that has ended".to_owned(),
    ));
    compare("lost", &lost);
}

#[test]
fn a_boot_is_told_by_its_phase() {
    let mut model = model();
    let phase = |name: &str, duration| BootPhase { name: name.to_owned(), duration, ..BootPhase::default() };
    let mut boot = |phases, total| {
        let boot = BootResponse { phases, total, ..BootResponse::default() };
        model.hear(News::Host { services: services(), version: None, boot: Some(boot) });
        drawn(&model, 80, 24, PLAIN).0.lines().next().unwrap().to_owned()
    };
    let took = Some(prost_types::Duration::default());
    let head = boot(vec![phase("mounts", took), phase("network", None)], None);
    assert!(head.starts_with("edge-1  machine  Kelson 9.8.7  booting: network  3 up, 2 not"), "{head}");
    let head = boot(vec![phase("mounts", took)], None);
    assert!(head.contains("booting: services"), "{head}");
    let head = boot(vec![phase("mounts", took)], took);
    assert!(head.contains("Kelson 9.8.7  for 3h4m  3 up"), "{head}");
}

#[test]
fn any_size_is_drawn() {
    let mut model = model();
    model.hear(News::Lost("a reason that is long enough to take more than one line of it".to_owned()));
    model.hear(News::Graph(graph()));
    for keys in ["1", "2", "3", "4", "x", "n/", "é", "?"] {
        press(&mut model, keys);
        for columns in [0, 1, 20, 39, 40, 41, 60, 79, 80, 81, 200] {
            for rows in [0, 1, 2, 9, 10, 11, 12, 15, 24, 60] {
                let (text, shown) = drawn(&model, columns, rows, PLAIN);
                assert!(shown.table + shown.pane < usize::from(rows).max(1), "{columns}x{rows}\n{text}");
            }
        }
    }
    let (text, _) = drawn(&model, 39, 12, PLAIN);
    assert_eq!(text.trim_end(), "This terminal has 39x12; the dashboard\nneeds 40x10. q quits.");
}

#[test]
fn a_thousand_services_are_gone_through() {
    let names = (0..1000).map(|number| service(&format!("s{number:03}"), State::Running));
    let mut model = Model::new(names.collect());
    model.press(Key::End);
    let (text, shown) = drawn(&model, 80, 24, PLAIN);
    assert!(text.contains("▸ s999") && text.contains("  s990") && shown.table == 10, "{text}");
    model.note(shown);
    model.press(Key::PageUp);
    let (text, _) = drawn(&model, 80, 24, PLAIN);
    assert!(text.contains("▸ s990"), "{text}");
}

#[test]
fn one_can_look_back_and_to_the_first_line() {
    let mut model = model();
    let many = (0..100).map(|number| line(number, Stream::Stdout, &format!("line {number:02}")));
    model.hear(News::LogOf("db".to_owned()));
    model.hear(News::Lines(many.collect()));
    let mut see = |keys: &[Key]| {
        keys.iter().for_each(|key| drop(model.press(*key)));
        let (text, shown) = drawn(&model, 80, 24, PLAIN);
        model.note(shown);
        let seen =
            text.lines().filter_map(|row| row.split_once("line ").map(|(_, number)| number.to_owned()));
        let seen: Vec<String> = seen.collect();
        (seen[0].clone(), seen[seen.len() - 1].clone(), text)
    };
    let (first, last, _) = see(&[]);
    assert_eq!((first.as_str(), last.as_str()), ("85", "99"));
    let (first, last, text) = see(&[Key::Tab, Key::PageUp]);
    assert_eq!((first.as_str(), last.as_str()), ("71", "85"));
    assert!(text.contains(" * db, 14 newer below "), "{text}");
    let (first, last, _) = see(&[Key::Home]);
    assert_eq!((first.as_str(), last.as_str()), ("00", "14"));
    let (first, _, _) = see(&[Key::Down]);
    assert_eq!(first, "01");
    let (_, last, text) = see(&[Key::End]);
    assert!(last == "99" && !text.contains("newer"), "{text}");
}

#[test]
fn without_unicode_there_is_none() {
    let mut model = model();
    press(&mut model, "3");
    model.hear(News::Graph(graph()));
    let (text, _) = drawn(&model, 80, 24, Looks { palette: Palette::None, unicode: false });
    assert!(text.is_ascii() && text.contains("> db") && text.contains("`- path"), "{text}");
}

#[test]
fn nothing_that_a_host_says_steers_the_terminal() {
    let evil = "\x1b[2J\u{202e}\n";
    let mut model = Model::new(vec![Service {
        name: evil.to_owned(),
        status_text: evil.to_owned(),
        ..service("", State::Running)
    }]);
    model.hear(News::LogOf(evil.to_owned()));
    model.hear(News::Lines(vec![line(0, Stream::Note, evil)]));
    model.hear(News::NoLog(evil.to_owned()));
    model.hear(News::Events(vec![event(1, evil, State::Failed, evil)], 0));
    model.hear(News::Lost(evil.to_owned()));
    model.hear(News::Graph(GraphResponse {
        nodes: vec![GraphNode { id: evil.to_owned(), ..GraphNode::default() }],
        edges: Vec::new(),
    }));
    for keys in ["1", "2", "3", "4", "x"] {
        press(&mut model, keys);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
        draw(&mut buffer, &model, PLAIN, now());
        let cells = buffer.content.iter();
        let bad = |cell: &&ratatui::buffer::Cell| {
            cell.symbol().chars().any(|letter| letter.is_control() || letter == '\u{202e}')
        };
        assert_eq!(cells.filter(bad).count(), 0, "{keys}");
        assert!(drawn(&model, 80, 24, PLAIN).0.contains("\\x1b[2J\\u{202e}\\n"), "{keys}");
    }
}
