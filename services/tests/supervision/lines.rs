//! Network checks that are played: the test answers them, when and as often as it likes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use kelson_services::health::network::{Network, Watched};
use kelson_services::prober::{CheckAnswer, Schedule, Sink, Verdict};
use kelson_spec::service::Probe;

/// One check of one run, as it was asked for.
#[derive(Clone)]
pub struct Line {
    pub run: u64,
    pub schedule: Schedule,
    sink: Arc<dyn Sink>,
    ended: Arc<AtomicBool>,
}

impl Line {
    /// An answer, also where nobody waits for one any more.
    pub fn answer(&self, verdict: Verdict, text: &str) {
        let took = Duration::from_millis(2);
        self.sink.take(CheckAnswer { at: SystemTime::now(), took, verdict, text: text.into() });
    }

    fn port(&self) -> Option<u16> {
        match &self.schedule.probe {
            Probe::Network(probe) => Some(probe.port),
            Probe::Exec { .. } | Probe::Csi { .. } | Probe::Volume(_) => None,
        }
    }

    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// All network checks that were ever begun for one service.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<Line>>>);

impl Lines {
    pub fn all(&self) -> Vec<Line> {
        self.0.lock().unwrap().clone()
    }

    /// Those that are asked now, by their ports.
    pub fn asked(&self) -> Vec<u16> {
        self.all().iter().filter(|line| !line.ended()).filter_map(Line::port).collect()
    }

    /// The one that is asked now at this port.
    #[track_caller]
    pub fn at(&self, port: u16) -> Line {
        let found = self.all().into_iter().find(|line| line.port() == Some(port) && !line.ended());
        found.unwrap_or_else(|| panic!("nobody asks port {port}"))
    }

    pub fn of_run(&self, run: u64) -> OfRun {
        OfRun { lines: self.clone(), run }
    }
}

pub struct OfRun {
    lines: Lines,
    run: u64,
}

struct Held(Arc<AtomicBool>);

impl Watched for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Network for OfRun {
    fn watch(&self, schedule: Schedule, sink: Arc<dyn Sink>) -> Box<dyn Watched> {
        let ended: Arc<AtomicBool> = Arc::default();
        let line = Line { run: self.run, schedule, sink, ended: Arc::clone(&ended) };
        self.lines.0.lock().unwrap().push(line);
        Box::new(Held(ended))
    }
}
