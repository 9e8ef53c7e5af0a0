//! States over time, as events tell them.

use super::*;
use crate::output::style::Palette;
use crate::output::terminal::Terminal;
use crate::samples::{edge, golden, sampled, story as events};

fn edges() -> Vec<GraphEdge> {
    vec![edge("web", "db", "up", false)]
}

fn spans(timeline: &Timeline, name: &str) -> Vec<(f64, f64, Look)> {
    let lane = timeline.lanes.iter().find(|lane| lane.name == name).unwrap();
    lane.spans.iter().map(|span| (span.from, span.to, span.look)).collect()
}

fn hold(from: f64, to: f64, by: &[&str]) -> Hold {
    Hold { from, to, by: by.iter().map(|name| (*name).to_owned()).collect() }
}

fn holds(timeline: &Timeline, name: &str) -> Vec<Hold> {
    timeline.lanes.iter().find(|lane| lane.name == name).unwrap().holds.clone()
}

#[test]
fn a_state_lasts_until_the_next_one() {
    let timeline = Timeline::new(&events(), &edges(), From::Oldest, &[]);
    assert_eq!(
        spans(&timeline, "web"),
        [
            (0.0, 300.0, Look::Waiting),
            (300.0, 500.0, Look::Starting),
            (500.0, 800.0, Look::Running),
            (800.0, 1000.0, Look::Stopping),
            (1000.0, f64::INFINITY, Look::Down),
        ]
    );
    assert_eq!(timeline.host, [(800.0, "power off <now>".to_owned())]);
}

#[test]
fn who_needs_a_service_holds_it_at_the_stop() {
    let timeline = Timeline::new(&events(), &edges(), From::Oldest, &[]);
    assert_eq!(holds(&timeline, "db"), [hold(800.0, 1000.0, &["web"])]);
    assert_eq!(holds(&timeline, "web"), []);
    let nobody = Timeline::new(&events(), &[edge("web", "db", "down", false)], From::Oldest, &[]);
    assert_eq!(holds(&nobody, "db"), [], "who waits for its end does not need it");
}

#[test]
fn a_stop_is_wanted_since_the_first_of_its_chain() {
    use State::{Finished, Running, Stopping};
    let events = sampled(&[
        (0, "db", Running, ""),
        (0, "web", Running, ""),
        (0, "mail", Running, ""),
        (0, "proxy", Running, ""),
        (100, "proxy", Stopping, ""),
        (100, "mail", Stopping, ""),
        (150, "mail", Finished, ""),
        (400, "proxy", Finished, ""),
        (401, "web", Stopping, ""),
        (9000, "web", Finished, ""),
        (9010, "db", Stopping, ""),
        (9020, "db", Finished, ""),
    ]);
    let edges =
        [edge("web", "db", "up", false), edge("mail", "db", "up", false), edge("proxy", "web", "up", false)];
    let timeline = Timeline::new(&events, &edges, From::Oldest, &[]);
    assert_eq!(holds(&timeline, "web"), [hold(100.0, 401.0, &["proxy"])]);
    assert_eq!(holds(&timeline, "db"), [hold(100.0, 9010.0, &["mail", "web"])]);
}

#[test]
fn a_stop_long_after_has_another_reason() {
    use State::{Finished, Running, Stopping};
    let events = sampled(&[
        (0, "db", Running, ""),
        (0, "web", Running, ""),
        (100, "web", Stopping, ""),
        (200, "web", Finished, ""),
        (5000, "db", Stopping, ""),
        (5100, "db", Finished, ""),
    ]);
    assert_eq!(holds(&Timeline::new(&events, &edges(), From::Oldest, &[]), "db"), []);
}

#[test]
fn it_begins_where_it_is_asked_to() {
    let from = |from| Timeline::new(&events(), &edges(), from, &[]);
    let later = from(From::Number(9));
    assert_eq!(
        spans(&later, "db"),
        [
            (800.0, 1000.0, Look::Running),
            (1000.0, 1100.0, Look::Stopping),
            (1100.0, f64::INFINITY, Look::Down)
        ],
        "what was before tells that it ran"
    );
    assert_eq!(later.axis.place(800.0), 0.0);
    assert!(from(From::Last(Duration::from_millis(300))).axis.place(850.0) > 0.1);
    assert_eq!(from(From::Last(Duration::from_millis(300))).axis.place(800.0), 0.0);
    assert_eq!(from(From::Number(99)).axis.place(1100.0), 0.0);
    let one = Timeline::new(&events(), &edges(), From::Oldest, &["db".to_owned()]);
    assert_eq!((one.lanes.len(), holds(&one, "db").len()), (1, 1), "who is not shown holds all the same");
}

#[test]
fn a_clock_that_is_set_back_stands_still() {
    let events = sampled(&[
        (5000, "db", State::Starting, ""),
        (5100, "db", State::Running, ""),
        (0, "db", State::Stopping, ""),
        (50, "db", State::Finished, ""),
    ]);
    let timeline = Timeline::new(&events, &[], From::Oldest, &[]);
    assert_eq!(
        spans(&timeline, "db")[1..],
        [(100.0, 100.0, Look::Running), (100.0, 100.0, Look::Stopping), (100.0, f64::INFINITY, Look::Down)]
    );
}

fn drawn(events: &[Event], terminal: &Terminal) -> String {
    text::render(&Timeline::new(events, &edges(), From::Oldest, &[]), terminal)
}

#[test]
fn a_line_for_each_service() {
    let terminal = Terminal { width: Some(50), ..Terminal::plain() };
    golden("src/output/timeline/golden.txt", &drawn(&events(), &terminal));
    let ascii = drawn(&events(), &Terminal { unicode: false, ..terminal });
    assert!(ascii.is_ascii(), "{ascii}");
    assert!(ascii.contains("\ndb   sssssssssss===================~~~~~~~~xxxx--\n"), "{ascii}");
    assert_eq!(drawn(&[], &terminal), "no events of services\n");
}

#[test]
fn it_is_as_wide_as_the_terminal_whatever_happens() {
    let mut events = events();
    events[3].service = "a\x1b[2J-very-long-name-indeed".to_owned();
    for (place, event) in events.iter_mut().enumerate().skip(8) {
        event.time.as_mut().unwrap().seconds += 86_400 + 5 * place as i64;
    }
    for columns in [30, 50, 80, 120, 200] {
        let terminal = Terminal { width: Some(columns), palette: Palette::None, ..Terminal::plain() };
        let text = drawn(&events, &terminal);
        for line in text.lines() {
            assert!(line.chars().count() <= columns.max(48), "{columns}: {line}");
        }
        assert!(!text.contains('\x1b') && text.contains("a\\x1b[2J-very"), "{text}");
        assert!(columns < 80 || (text.contains("╌") && text.contains(" 24h")), "{text}");
    }
    let painted = drawn(&events, &Terminal { width: Some(60), palette: Palette::Full, ..Terminal::plain() });
    assert!(painted.contains("\x1b[38;5;28m█"), "{painted}");
}
