//! The terms in which a service is reported: its state, its snapshot, its events.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_conditions::Missing;
use kelson_runner::Exit;
use kelson_spec::ServiceSpec;
use tokio::time::Instant;

/// A word that has the same number in the records of the state and in the API: its place among all of them, from 1 on.
/// A later release adds words at the end.
pub trait Numbered: Copy + PartialEq + 'static {
    const ALL: &'static [Self];

    fn number(self) -> i32 {
        let place = Self::ALL.iter().position(|word| *word == self);
        place.and_then(|place| i32::try_from(place).ok()).map_or(0, |place| place.saturating_add(1))
    }

    /// `None`: this version does not know it.
    fn of_number(number: i32) -> Option<Self> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(place).copied()
    }
}

/// The state of a service. `docs/flow.md` tells what leads from one to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    #[default]
    Initialized,
    Waiting,
    Preparing,
    Starting,
    Running,
    Stopping,
    /// Ended successfully by itself.
    Finished,
    Failed,
    Skipped,
    Backoff,
    /// It did not end by itself.
    Stopped,
}

impl Numbered for State {
    const ALL: &'static [State] = &[
        State::Initialized,
        State::Waiting,
        State::Preparing,
        State::Starting,
        State::Running,
        State::Stopping,
        State::Finished,
        State::Failed,
        State::Skipped,
        State::Backoff,
        State::Stopped,
    ];
}

impl State {
    /// Nothing runs and nothing is under way.
    pub fn at_rest(self) -> bool {
        matches!(self, State::Initialized | State::Finished | State::Failed | State::Skipped | State::Stopped)
    }

    /// The word of the command line and of JSON.
    pub fn name(self) -> &'static str {
        match self {
            State::Initialized => "initialized",
            State::Waiting => "waiting",
            State::Preparing => "preparing",
            State::Starting => "starting",
            State::Running => "running",
            State::Stopping => "stopping",
            State::Finished => "finished",
            State::Failed => "failed",
            State::Skipped => "skipped",
            State::Backoff => "backoff",
            State::Stopped => "stopped",
        }
    }
}

/// Why a service was started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RestartReason {
    /// It ended by itself with an exit status.
    Exit,
    /// A signal that Kelson did not send ended it.
    Signal,
    /// The kernel killed it for its memory.
    OutOfMemory,
    /// Its end was not seen.
    Lost,
    /// It could not be prepared or spawned, or a `pre` hook failed.
    NotStarted,
    /// It was not ready, or not healthy, in time.
    NotReady,
    /// A check asked for it.
    Check,
    /// It missed its watchdog's time, or reported itself broken.
    Watchdog,
    /// One that it needs went down.
    Dependency,
    /// Its group was restarted.
    Group,
    Operator,
}

impl Numbered for RestartReason {
    const ALL: &'static [RestartReason] = &[
        RestartReason::Exit,
        RestartReason::Signal,
        RestartReason::OutOfMemory,
        RestartReason::Lost,
        RestartReason::NotStarted,
        RestartReason::NotReady,
        RestartReason::Check,
        RestartReason::Watchdog,
        RestartReason::Dependency,
        RestartReason::Group,
        RestartReason::Operator,
    ];
}

impl RestartReason {
    /// The word of metrics and of JSON.
    pub fn name(self) -> &'static str {
        match self {
            RestartReason::Exit => "exit",
            RestartReason::Signal => "signal",
            RestartReason::OutOfMemory => "out-of-memory",
            RestartReason::Lost => "lost",
            RestartReason::NotStarted => "not-started",
            RestartReason::NotReady => "not-ready",
            RestartReason::Check => "check",
            RestartReason::Watchdog => "watchdog",
            RestartReason::Dependency => "dependency",
            RestartReason::Group => "group",
            RestartReason::Operator => "operator",
        }
    }

    /// Operators and a dependency are obeyed; the others are failures, of the service or of its group, or ends that the
    /// policy answers.
    pub fn counts(self) -> bool {
        !matches!(self, RestartReason::Dependency | RestartReason::Operator)
    }
}

/// How often a service was started again for each reason, in this incarnation of the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartCounts([u32; RestartReason::ALL.len()]);

impl RestartCounts {
    pub fn add(&mut self, reason: RestartReason) {
        let place = RestartReason::ALL.iter().position(|other| *other == reason);
        if let Some(count) = place.and_then(|place| self.0.get_mut(place)) {
            *count = count.saturating_add(1);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (RestartReason, u32)> + '_ {
        RestartReason::ALL.iter().copied().zip(self.0)
    }

    /// In the order of their numbers; nothing where there is nothing to count.
    pub(crate) fn to_stored(self) -> Vec<u32> {
        let used = self.0.iter().rposition(|count| *count > 0).map_or(0, |last| last.saturating_add(1));
        self.0.into_iter().take(used).collect()
    }

    /// Those of reasons that this version does not know are left out.
    pub(crate) fn of_stored(counts: &[u32]) -> RestartCounts {
        let mut all = RestartCounts::default();
        all.0.iter_mut().zip(counts).for_each(|(count, stored)| *count = *stored);
        all
    }
}

/// Another try after a run that ended, until the service is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The reason why the last run ended.
    pub ended: String,
    /// How far its restart budget is used: `(2 of 5 in 5m)`; empty where that does not count.
    pub budget: String,
}

/// Why a service is not up, for those who compare hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// In words that are the same for the same failure on each host.
    pub cause: String,
    /// In words of others, with all that differs between hosts.
    pub detail: String,
}

/// The time of the day at that moment.
pub fn wall(at: Instant) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(at.elapsed()).unwrap_or(now)
}

/// The time since the boot of the kernel, which a suspend does not stop and nobody sets.
pub fn since_boot() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

/// A service as it is now, published at every change.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub name: Arc<str>,
    pub state: State,
    pub up: bool,
    /// The confirmation of its registration in the fleet is all that keeps it from being up.
    pub awaits_registration: bool,
    /// The checks of its registration that do not pass, and why: it is not registered.
    pub withheld: Option<Arc<str>>,
    /// Ended, stopped, failed, skipped, or nothing will start it.
    pub down: bool,
    /// Ended successfully by itself and was not started again since.
    pub finished: bool,
    pub healthy: Option<bool>,
    /// Counted restarts since an operator or the boot started it.
    pub restarts: u32,
    pub restarts_by: RestartCounts,
    /// A run has begun, and is not known to have ended.
    pub runs: bool,
    /// The main process of that run, if it has one.
    pub pid: Option<i32>,
    /// Of that process, where its network is not the host's.
    pub addresses: Vec<IpAddr>,
    /// When it entered its state, by the clock of the host at that time, and on the clock that nobody sets.
    pub since: SystemTime,
    pub entered: Instant,
    pub retry: Option<Arc<Retry>>,
    /// Of a host in a fleet: why it was not up, since it last was.
    pub failure: Option<Arc<Failure>>,
    /// When it is started again; `None` where it is not in backoff.
    pub restart_at: Option<Instant>,
    /// The conditions of its next run that do not hold yet.
    pub missing: Vec<Missing>,
    /// Why it is in this state.
    pub message: Arc<str>,
    pub builtin: bool,
    /// An operator stopped it.
    pub stopped: bool,
    /// sd_notify `STATUS=`.
    pub status_text: Option<Arc<str>>,
    /// Number of the current or last run; 0 before the first.
    pub run: u64,
    /// How that run ended, as far as it has; where its program could not be started, as a shell has it.
    pub exit: Option<Exit>,
    pub oneshot: bool,
    /// The group of which it is a member.
    pub group: Option<Arc<str>>,
    /// The host's health and the end of the boot wait for it.
    pub required: bool,
    /// Its file changed since it was started.
    pub changed: bool,
    /// As it was started, whatever its file says by now. `None` where nothing of it can be run.
    pub spec: Option<Arc<ServiceSpec>>,
    /// Its start failed, and it is tried again once its file changes.
    pub refused: bool,
    /// Number of the last operator's request that was taken up; a larger one than one's own supersedes it.
    pub request_id: u64,
    /// Since PID 1's start: when it was first up, and when the run that was so was spawned.
    pub spawned_after: Option<Duration>,
    pub up_after: Option<Duration>,
    /// From the spawn to up, of the last run that was up.
    pub start_took: Option<Duration>,
}

impl Snapshot {
    /// A service of which nothing runs and nothing more is known; it entered this state now.
    pub fn new(name: Arc<str>, state: State, message: Arc<str>) -> Snapshot {
        Snapshot {
            name,
            state,
            up: false,
            awaits_registration: false,
            withheld: None,
            down: false,
            finished: false,
            healthy: None,
            restarts: 0,
            restarts_by: RestartCounts::default(),
            runs: false,
            pid: None,
            addresses: Vec::new(),
            since: SystemTime::now(),
            entered: Instant::now(),
            retry: None,
            failure: None,
            restart_at: None,
            missing: Vec::new(),
            message,
            builtin: false,
            stopped: false,
            status_text: None,
            run: 0,
            exit: None,
            oneshot: false,
            group: None,
            required: true,
            changed: false,
            spec: None,
            refused: false,
            request_id: 0,
            spawned_after: None,
            up_after: None,
            start_took: None,
        }
    }

    /// The conditions that it waits for, in words.
    pub fn waiting_for(&self) -> Vec<String> {
        self.missing.iter().map(ToString::to_string).collect()
    }
}

/// A numbered, timed record of one thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Counted from 1 without gaps.
    pub seq: u64,
    pub time: SystemTime,
    /// Empty: the host itself.
    pub service: Arc<str>,
    pub state: State,
    pub message: Arc<str>,
    pub run: u64,
    /// What the message says, for programs.
    pub details: Details,
}

/// Names and values, sorted by name. `None`: most events have none.
pub type Details = Option<Arc<[(String, String)]>>;

/// How a check of a service stands, in the present run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// It has neither passed nor failed often enough.
    #[default]
    Pending,
    Passing,
    Failing,
}

impl Numbered for Standing {
    const ALL: &'static [Standing] = &[Standing::Pending, Standing::Passing, Standing::Failing];
}

/// One check of a service, and its last output.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckReport {
    pub name: Arc<str>,
    /// `exec`, `http`, `tcp`, `grpc`, `csi`.
    pub kind: &'static str,
    /// It only gates the start.
    pub startup: bool,
    /// It decides about the registration of the service, and not about its health.
    pub registration: bool,
    pub standing: Standing,
    /// Since when it stands so; `None` while nobody asks it: no run is checked, or checks that gate the start have not
    /// passed.
    pub since: Option<SystemTime>,
    pub lasts: Option<Duration>,
    /// Its next result should have come so long ago: who asks does not answer, and it counts as it stands until then.
    pub late: Option<Duration>,
    /// Of the present run, oldest first; at most ten.
    pub results: Vec<CheckResult>,
}

/// One result of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckResult {
    pub at: SystemTime,
    pub took: Duration,
    pub passed: bool,
    /// Of the last one: how long ago it came.
    pub ago: Option<Duration>,
    /// The last 3 KiB of its output; of all results but the last, the last line of that.
    pub output: String,
}
