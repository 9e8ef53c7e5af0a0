//! Samples for the tests of this crate. Those in tests/cli include this file by its path.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use kelson_proto::v1::action_result::Outcome;
use kelson_proto::v1::line::Stream;
use kelson_proto::v1::metric_sample::Value;
use kelson_proto::v1::{
    ActionResult, Event, GraphEdge, GraphNode, Line, MetricFamily, MetricSample, Service, State,
};
use prost_types::{Duration, Timestamp};

/// An empty folder of this test's own, with a path short enough for a socket. It goes away at the end.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kctl-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// One with these files.
    pub fn with<T: AsRef<[u8]>>(files: impl IntoIterator<Item = (&'static str, T)>) -> Folder {
        let folder = Folder::new();
        files.into_iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
        folder
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Compares with a file of this crate; `KELSON_BLESS=1` writes it.
#[track_caller]
pub fn golden(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("KELSON_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(text == kept, "{file}:\n{kept}is not what comes:\n{text}");
}

/// So long after 1970-01-01T00:00:00Z.
pub fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

pub fn wire(millis: u64) -> Option<Duration> {
    Some(std::time::Duration::from_millis(millis).try_into().unwrap())
}

pub fn service(name: &str, state: State) -> Service {
    Service { name: name.to_owned(), state: state.into(), ..Service::default() }
}

/// The event of this number, which is not of any time.
pub fn event(seq: u64, service: &str, state: State, message: &str) -> Event {
    let (service, message) = (service.to_owned(), message.to_owned());
    Event { seq, service, state: state.into(), message, ..Event::default() }
}

/// A service that is up where it runs; without a state another condition.
pub fn node(id: &str, state: State) -> GraphNode {
    let (is_service, up) = (state != State::Unspecified, state == State::Running);
    GraphNode { id: id.to_owned(), is_service, state: state.into(), up }
}

pub fn edge(from: &str, to: &str, event: &str, holds: bool) -> GraphEdge {
    GraphEdge { from: from.to_owned(), to: to.to_owned(), event: event.to_owned(), holds, alternative: false }
}

/// The result of an action on this service.
pub fn result(name: &str, outcome: Outcome, message: &str) -> ActionResult {
    let (name, message) = (name.to_owned(), message.to_owned());
    ActionResult { name, outcome: outcome.into(), message, ..ActionResult::default() }
}

/// A line that this service has written, at no time.
pub fn line(service: &str, text: &[u8]) -> Line {
    let (service, text) = (service.to_owned(), text.to_vec());
    Line { service, text, stream: Stream::Stdout.into(), ..Line::default() }
}

/// Numbers of services by their names.
pub fn family(name: &str, numbers: &[(&str, f64)]) -> MetricFamily {
    let sample = |(service, number): &(&str, f64)| MetricSample {
        labels: vec![(*service).to_owned()],
        value: Some(Value::Number(*number)),
    };
    let (labels, samples) = (vec!["service".to_owned()], numbers.iter().map(sample).collect());
    MetricFamily { name: name.to_owned(), labels, samples, ..MetricFamily::default() }
}

/// Events at these milliseconds after the first, with numbers from 1 on.
pub fn sampled(events: &[(i64, &str, State, &str)]) -> Vec<Event> {
    let sampled = |(seq, &(millis, service, state, message)): (u64, &(i64, &str, State, &str))| {
        let (seconds, nanos) = (1_795_254_485 + millis.div_euclid(1000), millis.rem_euclid(1000) * 1_000_000);
        let time = Some(prost_types::Timestamp { seconds, nanos: nanos as i32 });
        Event { time, ..event(seq, service, state, message) }
    };
    (1..).zip(events).map(sampled).collect()
}

/// A host that starts a database and a web server, and is powered off.
pub fn story() -> Vec<Event> {
    sampled(&[
        (0, "db", State::Preparing, "all that it waits for holds"),
        (0, "db", State::Starting, "run 1"),
        (0, "web", State::Waiting, "waiting for service \"db\" to be up"),
        (300, "db", State::Running, "running, ready after 300 ms"),
        (300, "web", State::Starting, "run 1"),
        (320, "web", State::Starting, "PID 9 started"),
        (500, "web", State::Running, "running"),
        (800, "", State::Unspecified, "power off <now>"),
        (800, "web", State::Stopping, "stopped: the host is stopping"),
        (1000, "web", State::Stopped, "stopped: the host is stopping"),
        (1000, "db", State::Stopping, "stopped: the host is stopping"),
        (1100, "db", State::Stopped, "stopped: the host is stopping"),
    ])
}
