//! The states of services over time, as events tell them, and who waited for whom when they stopped.

pub mod text;

use std::collections::HashMap;
use std::time::Duration;

use kelson_proto::v1::{Event, GraphEdge, State};
use prost_types::Timestamp;

use super::drawing::axis::Axis;
use super::style::Tone;

/// Later than this after the last of those that need it is down, a service stops for another reason.
const AT_ONCE: f64 = 1000.0;

/// The look of a state. Times are milliseconds since the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// Not started, or skipped.
    Idle,
    Down,
    Running,
    /// It runs, is to stop, and waits for those that need it.
    Held,
    Waiting,
    Preparing,
    Starting,
    Stopping,
    Backoff,
    Failed,
}

impl Look {
    /// All, in the order of a life: in words, by tone, letter (in ASCII, too) and class of drawings.
    const SHOWN: [(Look, &str, Tone, &str, &str, &str); 10] = [
        (Look::Idle, "not started", Tone::Quiet, "·", ".", "bar bar-down"),
        (Look::Waiting, "waiting", Tone::Waiting, "w", "w", "bar bar-waiting"),
        (Look::Preparing, "preparing", Tone::Busy, "p", "p", "bar bar-preparing"),
        (Look::Starting, "starting", Tone::Busy, "s", "s", "bar bar-starting"),
        (Look::Running, "running", Tone::Good, "█", "=", "bar bar-up"),
        (Look::Held, "to stop after those that need it", Tone::Waiting, "▒", "~", "bar bar-held"),
        (Look::Stopping, "stopping", Tone::Busy, "x", "x", "bar bar-stopping"),
        (Look::Backoff, "backoff", Tone::Bad, "b", "b", "bar bar-backoff"),
        (Look::Failed, "failed", Tone::Bad, "!", "!", "bar bar-bad"),
        (Look::Down, "ended", Tone::Quiet, "─", "-", "bar bar-down"),
    ];

    fn of(state: State) -> Look {
        match state {
            State::Unspecified | State::Initialized | State::Skipped => Look::Idle,
            State::Waiting => Look::Waiting,
            State::Preparing => Look::Preparing,
            State::Starting => Look::Starting,
            State::Running => Look::Running,
            State::Stopping => Look::Stopping,
            State::Finished | State::Stopped => Look::Down,
            State::Failed => Look::Failed,
            State::Backoff => Look::Backoff,
        }
    }

    /// All, in the order of a life.
    pub fn all() -> impl Iterator<Item = Look> {
        Look::SHOWN.into_iter().map(|(look, ..)| look)
    }

    fn shown(self) -> (Look, &'static str, Tone, &'static str, &'static str, &'static str) {
        let own = Look::SHOWN.into_iter().find(|(look, ..)| *look == self);
        own.unwrap_or((self, "", Tone::Plain, "", "", ""))
    }

    pub fn words(self) -> &'static str {
        self.shown().1
    }

    pub fn tone(self) -> Tone {
        self.shown().2
    }

    pub fn letter(self, unicode: bool) -> &'static str {
        if unicode { self.shown().3 } else { self.shown().4 }
    }

    /// The class of its bar in a drawing.
    pub fn class(self) -> &'static str {
        self.shown().5
    }
}

/// A state from its beginning to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub from: f64,
    /// Infinite: it goes on.
    pub to: f64,
    pub look: Look,
    pub state: State,
    /// Why it was entered.
    pub message: String,
}

/// A service that stopped only after those that need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    pub from: f64,
    pub to: f64,
    /// In the order in which they went down.
    pub by: Vec<String>,
}

/// One service.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    pub name: String,
    pub spans: Vec<Span>,
    pub holds: Vec<Hold>,
}

/// All of them, in the order in which they appeared.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// When time 0 was, by the clock of the host.
    pub begun: Option<Timestamp>,
    pub lanes: Vec<Lane>,
    /// Events of the host itself, with their times.
    pub host: Vec<(f64, String)>,
    pub axis: Axis,
}

/// Where the timeline begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum From {
    Oldest,
    /// The event of this number.
    Number(u64),
    /// So long before the last event.
    Last(Duration),
}

impl Timeline {
    /// Made of all events that are kept, whatever of them is shown: what was before tells how services stood at the beginning.
    /// `names`: only these are shown, where there are any.
    pub fn new(events: &[Event], edges: &[GraphEdge], from: From, names: &[String]) -> Timeline {
        let times = times(events);
        let end = times.last().copied().unwrap_or(0.0);
        let start = match from {
            From::Oldest => 0.0,
            From::Number(number) => {
                let place = events.partition_point(|event| event.seq < number);
                times.get(place).copied().unwrap_or(end)
            }
            From::Last(last) => (end - last.as_secs_f64() * 1000.0).max(0.0),
        };
        let mut lanes = lanes(events, &times);
        hold(&mut lanes, edges);
        for lane in &mut lanes {
            lane.holds.retain(|hold| hold.to >= start);
            lane.spans.retain(|span| span.to > start);
            lane.spans.iter_mut().for_each(|span| span.from = span.from.max(start));
        }
        lanes.retain(|lane| !lane.spans.is_empty() && (names.is_empty() || names.contains(&lane.name)));
        let reported =
            events.iter().zip(&times).filter(|(event, time)| event.service.is_empty() && **time >= start);
        let shown: Vec<f64> =
            std::iter::once(start).chain(times.iter().copied().filter(|t| *t >= start)).collect();
        Timeline {
            begun: events.first().and_then(|event| event.time),
            lanes,
            host: reported.map(|(event, time)| (*time, event.message.clone())).collect(),
            axis: Axis::of_times(&shown).with_tail(),
        }
    }
}

/// Milliseconds since the first event. A clock that was set back makes no time negative.
fn times(events: &[Event]) -> Vec<f64> {
    let mut first = None;
    let mut last = 0.0;
    events
        .iter()
        .map(|event| {
            if let Some(time) = &event.time {
                let (seconds, nanos) = (time.seconds, time.nanos);
                let (from, part) = *first.get_or_insert((seconds, nanos));
                let passed = (seconds - from) as f64 * 1000.0 + f64::from(nanos - part) / 1e6;
                last = f64::max(last, passed);
            }
            last
        })
        .collect()
}

fn lanes(events: &[Event], times: &[f64]) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    for (event, &time) in events.iter().zip(times).filter(|(event, _)| !event.service.is_empty()) {
        let place = *index.entry(&event.service).or_insert_with(|| {
            lanes.push(Lane { name: event.service.clone(), spans: Vec::new(), holds: Vec::new() });
            lanes.len() - 1
        });
        let spans = &mut lanes[place].spans;
        let (state, look) = (event.state(), Look::of(event.state()));
        match spans.last_mut() {
            // A repeated report of what it waits for, or of its progress.
            Some(last) if last.state == state => continue,
            Some(last) => last.to = time,
            None => {}
        }
        spans.push(Span { from: time, to: f64::INFINITY, look, state, message: event.message.clone() });
    }
    lanes
}

/// A stop of a service: when it began, and when the service was down.
struct Stop {
    lane: usize,
    /// In the lane's spans, the first one of the stop.
    span: usize,
    from: f64,
    down: f64,
}

/// Finds who stopped only after others. A service that has to wait for those that need it tells nothing until they are down, so
/// it is found by what happened: it stopped at once after the last of them.
fn hold(lanes: &mut [Lane], edges: &[GraphEdge]) {
    let mut stops: Vec<Stop> = Vec::new();
    for (lane, reported) in lanes.iter().enumerate() {
        for (span, piece) in reported.spans.iter().enumerate() {
            // A service that ends by itself holds nobody. One that never gets down does, but nobody got
            // further by it.
            if piece.state != State::Stopping {
                continue;
            }
            let down = reported.spans.get(span + 1).map_or(f64::INFINITY, |next| next.from);
            stops.push(Stop { lane, span, from: piece.from, down });
        }
    }
    stops.sort_by(|a, b| a.from.total_cmp(&b.from));
    // For each stop the time from which it was wanted.
    let mut wanted: Vec<f64> = Vec::new();
    for stop in &stops {
        let name = lanes[stop.lane].name.clone();
        let need = |other: &Stop| {
            let other = &lanes[other.lane].name;
            edges.iter().any(|edge| {
                edge.to == name && edge.from == *other && edge.event != "down" && !edge.alternative
            })
        };
        let mut before: Vec<(&Stop, f64)> = stops
            .iter()
            .zip(&wanted)
            .filter(|(other, _)| other.down <= stop.from && need(other))
            .map(|(other, wanted)| (other, *wanted))
            .collect();
        before.sort_by(|a, b| b.0.down.total_cmp(&a.0.down));
        // From the last one back, for as long as they are of this stop and not of an earlier one.
        let (mut from, mut by) = (stop.from, Vec::new());
        for (other, wanted) in before {
            if from - other.down > AT_ONCE {
                break;
            }
            from = from.min(wanted);
            by.insert(0, lanes[other.lane].name.clone());
        }
        wanted.push(from);
        let ran = stop.span.checked_sub(1).and_then(|before| lanes[stop.lane].spans.get(before));
        if let Some(ran) = ran.filter(|ran| ran.state == State::Running && from < stop.from) {
            let hold = Hold { from: from.max(ran.from), to: stop.from, by };
            lanes[stop.lane].holds.push(hold);
        }
    }
}

#[cfg(test)]
mod tests;
