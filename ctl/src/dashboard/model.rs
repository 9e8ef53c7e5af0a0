//! The state of the dashboard, and its changes by news and keys. Pure: nothing here waits, asks or draws.

mod press;
mod ring;
mod usage;

use std::collections::HashMap;
use std::time::{Instant, SystemTime};

use kelson_proto::v1::action_result::Outcome;
use kelson_proto::v1::line::Stream;
use kelson_proto::v1::{
    ActionResult, BootResponse, Event, GraphResponse, Line, Service, StatusResponse, VersionResponse,
};

use crate::commands::acting::{Action, describe, is_bad, with_mistakes};
use crate::failure::Failure;
use crate::output::{Tone, escape, escape_bytes, fit, time};

pub use press::Effect;
pub use ring::Ring;
pub use usage::{Usage, Usages};

/// Longer than this a log line is cut.
const LINE_MAX: usize = 2000;

/// News from the host.
#[derive(Debug)]
pub enum News {
    /// The host answers. A part that it did not report this time stays as it was.
    Host {
        services: Vec<Service>,
        version: Option<Box<VersionResponse>>,
        boot: Option<BootResponse>,
    },
    /// It does not, and why.
    Lost(String),
    /// The resources that services have used until then; `None`: they are not known.
    Usage(Instant, Option<HashMap<String, Usage>>),
    /// PID 1 is another one: events are counted from 1.
    Incarnation,
    /// Events, and how many before them are no longer kept.
    Events(Vec<Event>, u64),
    /// They are not available at present, and why.
    NoEvents(String),
    /// From here on the lines are those of this service.
    LogOf(String),
    Lines(Vec<Line>),
    /// They are not available at present, and why.
    NoLog(String),
    Graph(GraphResponse),
    Status(Box<StatusResponse>),
    /// The graph or the status is not available, and why.
    NoDetail(String),
    /// The outcome of an action.
    Acted(Action, String, Box<Result<ActionResult, Failure>>),
}

/// How it stands with the connection.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum Link {
    #[default]
    Connected,
    Lost(String),
}

/// The subject of the pane below the table.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    #[default]
    Logs,
    Events,
    Graph,
    Details,
}

impl Pane {
    pub const ALL: [Pane; 4] = [Pane::Logs, Pane::Events, Pane::Graph, Pane::Details];

    pub fn name(self) -> &'static str {
        match self {
            Pane::Logs => "Logs",
            Pane::Events => "Events",
            Pane::Graph => "Graph",
            Pane::Details => "Details",
        }
    }
}

/// The meaning of the keys.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Browse,
    /// A name is being typed.
    Filter,
    /// It is to be done, if that is confirmed. The text says more about it.
    Confirm(Action, String, String),
    Help,
}

/// The data to ask the host for, besides those that are always shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    Nothing,
    LogOf(String),
    Graph,
    Status(String),
}

/// One line of the log, safe to show.
#[derive(Debug)]
pub struct LogLine {
    pub time: String,
    pub tone: Tone,
    pub text: String,
}

/// An item of the list of events.
#[derive(Debug)]
pub enum Happening {
    Event(Event),
    /// Said about the list itself.
    Note(String),
}

/// How the last drawing came out: what keys refer to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Lines of the table and of the pane.
    pub table: usize,
    pub pane: usize,
    /// The first line of the pane that is seen.
    pub top: usize,
    /// The number of the last item that is seen.
    pub bottom: Option<u64>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Model {
    pub link: Link,
    pub version: Option<VersionResponse>,
    pub boot: Option<BootResponse>,
    pub services: Vec<Service>,
    pub usages: Usages,
    pub events: Ring<Happening>,
    /// The service whose lines are there.
    pub log_of: String,
    pub log: Ring<LogLine>,
    pub graph: Option<GraphResponse>,
    pub status: Option<StatusResponse>,
    pub no_detail: Option<String>,
    pub mode: Mode,
    pub pane: Pane,
    /// Keys of movement are for the pane.
    pub in_pane: bool,
    /// The pane has the table's place too.
    pub zoomed: bool,
    /// Only services whose names have this in them are shown.
    pub filter: String,
    /// The message in the last line.
    pub said: Option<(Tone, String)>,
    /// The item at the lower end, where it is not the newest.
    pub bottom: Option<u64>,
    /// The first line, of what begins at the top.
    pub top: usize,
    chosen: String,
    /// Where it stood in the table: its neighbour is chosen once it is gone.
    place: usize,
    shown: Shown,
}

impl Model {
    /// The host as it answered first.
    pub fn new(services: Vec<Service>) -> Model {
        let mut model = Model { services, ..Model::default() };
        model.choose_near();
        model
    }

    /// The services of the table.
    pub fn listed(&self) -> Vec<&Service> {
        self.services.iter().filter(|service| service.name.contains(&self.filter)).collect()
    }

    /// The chosen service, and its place in the table.
    pub fn chosen(&self) -> Option<(usize, &Service)> {
        self.listed().into_iter().enumerate().find(|(_, service)| service.name == self.chosen)
    }

    /// The data to ask the host for.
    pub fn wish(&self) -> Wish {
        match (self.pane, self.chosen()) {
            (Pane::Logs, Some((_, service))) => Wish::LogOf(service.name.clone()),
            (Pane::Graph, Some(_)) => Wish::Graph,
            (Pane::Details, Some((_, service))) => Wish::Status(service.name.clone()),
            _ => Wish::Nothing,
        }
    }

    /// Takes up what came.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Host { services, version, boot } => {
                self.link = Link::Connected;
                self.services = services;
                self.version = version.map(|version| *version).or(self.version.take());
                self.boot = boot.or(self.boot.take());
                self.choose_near();
            }
            News::Lost(reason) => self.link = Link::Lost(reason),
            News::Usage(at, Some(sample)) => self.usages.take(at, sample),
            News::Usage(_, None) => self.usages.fail(),
            News::Incarnation => {
                self.boot = None;
                self.events.push(Happening::Note("PID 1 has restarted, and counts events from 1".to_owned()));
            }
            News::Events(events, missed) => {
                if missed > 0 {
                    self.events.push(Happening::Note(format!("no longer kept of what follows: {missed}")));
                }
                events.into_iter().for_each(|event| self.events.push(Happening::Event(event)));
            }
            News::NoEvents(reason) => self.events.push(Happening::Note(format!("no events: {reason}"))),
            News::LogOf(name) => {
                self.log_of = name;
                self.log.clear();
                if self.pane == Pane::Logs {
                    self.bottom = None;
                }
            }
            News::Lines(lines) => lines.iter().for_each(|line| self.log.push(log_line(line))),
            News::NoLog(reason) => {
                let text = escape(&format!("no lines: {reason}")).into_owned();
                self.log.push(LogLine { time: String::new(), tone: Tone::Quiet, text });
            }
            News::Graph(graph) => (self.graph, self.no_detail) = (Some(graph), None),
            News::Status(status) => (self.status, self.no_detail) = (Some(*status), None),
            News::NoDetail(reason) => self.no_detail = Some(reason),
            News::Acted(action, name, result) => self.tell(action, name, *result),
        }
    }

    fn tell(&mut self, action: Action, name: String, result: Result<ActionResult, Failure>) {
        let result = match result {
            Ok(result) => result,
            Err(reason) => {
                self.said = Some((Tone::Bad, format!("{name}: {reason}")));
                return;
            }
        };
        let text = describe(action, false, &result);
        // In the middle of something else the question becomes a note.
        let refused = action == Action::Stop { cascade: false } && result.outcome() == Outcome::Refused;
        if refused && self.mode == Mode::Browse && self.services.iter().any(|service| service.name == name) {
            self.mode = Mode::Confirm(Action::Stop { cascade: true }, name, text);
        } else {
            self.said = Some(match with_mistakes(action, &result, SystemTime::now()) {
                Some(mistakes) => (Tone::Waiting, mistakes),
                None => (if is_bad(&result) { Tone::Bad } else { Tone::Good }, text),
            });
        }
    }

    /// Takes up how it was drawn.
    pub fn note(&mut self, shown: Shown) {
        self.shown = shown;
        self.top = shown.top;
        if self.bottom.is_some() {
            let newest = self.followed().and_then(|(_, end)| end.checked_sub(1));
            self.bottom = shown.bottom.filter(|bottom| Some(*bottom) != newest);
        }
    }

    /// The numbers of the first item and after the last of the pane, where it is one that goes on.
    fn followed(&self) -> Option<(u64, u64)> {
        match self.pane {
            Pane::Logs => Some((self.log.first(), self.log.end())),
            Pane::Events => Some((self.events.first(), self.events.end())),
            Pane::Graph | Pane::Details => None,
        }
    }

    /// Keeps the choice, or takes what stands there now.
    fn choose_near(&mut self) {
        match self.chosen() {
            Some((place, _)) => self.place = place,
            None => {
                let listed = self.listed();
                let place = self.place.min(listed.len().saturating_sub(1));
                let name = listed.get(place).map_or_else(String::new, |service| service.name.clone());
                self.choose(place, name);
            }
        }
    }

    fn choose(&mut self, place: usize, name: String) {
        self.place = place;
        if name != self.chosen {
            self.chosen = name;
            if self.pane != Pane::Events {
                (self.bottom, self.top) = (None, 0);
            }
        }
    }
}

fn log_line(line: &Line) -> LogLine {
    let text = escape_bytes(&line.text).replace('\t', "    ");
    let tone = match line.stream() {
        Stream::Stderr => Tone::Waiting,
        Stream::Note => Tone::Quiet,
        _ => Tone::Plain,
    };
    LogLine {
        time: line.time.as_ref().map_or_else(String::new, time::clock),
        tone,
        text: fit(&text, LINE_MAX).into_owned(),
    }
}

#[cfg(test)]
mod tests;
