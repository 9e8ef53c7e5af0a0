//! PID 1's side of the checks that `kelson-probe` asks: which are to be asked, the processes that ask, and where results go.
//!
//! [`Prober`] is a cheap handle; one [driver] future does the work. Each network of the host has [checks] and
//! a [`Supervisor`](kelson_helper::supervisor::Supervisor) that keeps one `kelson-probe` at work there. After
//! the end of a probe, for any reason, the next gets all checks again: they are late then, which is reported,
//! but no result is made up.

mod checks;
mod driver;
mod watched;

use std::hash::{Hash, Hasher};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use kelson_helper::supervisor::{self, Status};
use kelson_helper::{BoxFuture, Launcher};
use kelson_spec::service::{Check, Probe};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

pub use kelson_helper::probe::Verdict;

/// Where a check asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    Host,
    /// In that of this run, which is not the host's. Each such network has a probe of its own.
    NetworkOf(Arc<RunNetwork>),
    /// At Unix sockets of the host, of any owner.
    Sockets,
}

/// The network of a run, open for as long as anything of the run is checked.
#[derive(Debug)]
pub struct RunNetwork {
    pub service: Arc<str>,
    /// Of the run's main process.
    pub pid: i32,
    pub namespace: OwnedFd,
}

impl PartialEq for RunNetwork {
    fn eq(&self, other: &RunNetwork) -> bool {
        (&self.service, self.pid) == (&other.service, other.pid)
    }
}

impl Eq for RunNetwork {}

impl Hash for RunNetwork {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.service, self.pid).hash(state);
    }
}

/// The question of one check, and its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// One that `kelson-probe` asks.
    pub probe: Probe,
    /// From the call of [`Prober::watch`] to the first time.
    pub initial_delay: Duration,
    /// From one answer to the next time; up to a tenth longer.
    pub interval: Duration,
    pub timeout: Duration,
    /// For so long it is asked at least every second, until it has passed `success_threshold` times in a row.
    pub grace: Duration,
    pub success_threshold: u32,
}

impl Schedule {
    /// That of a check of a service file; `None` where it is a command.
    pub fn of(check: &Check) -> Option<Schedule> {
        if let Probe::Exec { .. } | Probe::Volume(_) = &check.probe {
            return None;
        }
        Some(Schedule {
            probe: check.probe.clone(),
            initial_delay: check.initial_delay,
            interval: check.interval,
            timeout: check.timeout,
            grace: check.grace,
            success_threshold: check.success_threshold,
        })
    }
}

/// One result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckAnswer {
    /// When it was asked.
    pub at: SystemTime,
    pub took: Duration,
    pub verdict: Verdict,
    /// A short line such as `200 OK` or `connection refused`; shared with the last answer where it is the same. Holds
    /// no control characters.
    pub text: Arc<str>,
}

/// Where the answers of one check go.
pub trait Sink: Send + Sync {
    /// Called by the driver for each answer, in their order, for at most ten batches a second; must not block.
    fn take(&self, answer: CheckAnswer);
}

/// The host's probe as the built-in service `probe` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProberStatus {
    pub helper: Status,
    /// There is something to ask: a probe runs, or should.
    pub wanted: bool,
    /// How often it, or one of another network, was replaced without being asked to end.
    pub restarts: u32,
    /// How many checks are asked, in all networks.
    pub checks: usize,
    /// How many probes there are for sockets and for other networks.
    pub others: usize,
    /// Results that a probe threw away since PID 1 did not take them.
    pub dropped: u64,
}

/// Something about the probes that is worth an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A new probe asks again after the one before died or froze. `late` checks had been due by then.
    Replaced { place: Place, reason: String, late: usize },
    /// None can be started, a limit is reached; reported once per change.
    Trouble { place: Place, text: String },
}

/// A request to the driver.
enum Command {
    Watch { place: Place, entry: Box<watched::Entry> },
    End { place: Place, id: u64 },
    Restart,
    Shutdown { deadline: Instant, done: oneshot::Sender<()> },
}

/// Has checks asked. Cheap to clone.
#[derive(Clone)]
pub struct Prober {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<ProberStatus>,
    next: Arc<AtomicU64>,
}

/// What starts the probes.
pub struct Launchers {
    pub networks: Arc<dyn Launcher>,
    /// For [`Place::Sockets`].
    pub sockets: Arc<dyn Launcher>,
}

/// One check that is asked; dropping it ends that, and its sink gets no more.
#[must_use = "the check ends when this is dropped"]
pub struct Watch {
    commands: mpsc::UnboundedSender<Command>,
    place: Place,
    id: u64,
    ended: Arc<AtomicBool>,
}

/// Reports that nobody has taken wait here; further ones are lost.
const REPORTS: usize = 256;

impl Prober {
    /// The handle, the driver to be spawned as one task on a runtime with I/O and time, and the reports to be made
    /// events of. A probe is launched when there is a first check, and ends some time after the last. The driver ends
    /// after the last handle and the last [`Watch`] are dropped; dropped before, it takes all probes with it.
    pub fn new(launchers: Launchers) -> (Prober, BoxFuture<'static, ()>, mpsc::Receiver<Report>) {
        let (commands, queue) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::channel(REPORTS);
        let (publish, status) = watch::channel(ProberStatus {
            helper: Status::new(checks::NOTHING),
            wanted: false,
            restarts: 0,
            checks: 0,
            others: 0,
            dropped: 0,
        });
        let driver = driver::Driver::new(launchers, queue, reports, publish);
        (Prober { commands, status, next: Arc::default() }, Box::pin(driver.run()), reported)
    }

    /// Begins a check; never waits. Its answers go to `sink` until the [`Watch`] is dropped.
    pub fn watch(&self, place: Place, schedule: Schedule, sink: Arc<dyn Sink>) -> Watch {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let ended = Arc::new(AtomicBool::new(false));
        let entry = Box::new(watched::Entry::new(id, schedule, sink, Arc::clone(&ended), Instant::now()));
        // A driver that is gone means that PID 1 is ending: then nothing is asked any more.
        let _ = self.commands.send(Command::Watch { place: place.clone(), entry });
        Watch { commands: self.commands.clone(), place, id, ended }
    }

    /// The host's probe as it is now, published at every change.
    pub fn status(&self) -> watch::Receiver<ProberStatus> {
        self.status.clone()
    }

    /// An operator's restart: each probe ends, the next gets all checks. Not counted.
    pub fn restart(&self) {
        let _ = self.commands.send(Command::Restart);
    }

    /// All probes end; at `deadline` they are killed. None is started after that, and nothing is asked.
    pub async fn shutdown(&self, deadline: Instant) {
        supervisor::ask(&self.commands, |done| Command::Shutdown { deadline, done }).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = self.commands.send(Command::End { place: self.place.clone(), id: self.id });
    }
}
