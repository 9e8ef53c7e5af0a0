//! The words in which the state of a service is told: its state, its snapshot, its events.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The state of a service. `docs/flow.md` tells what leads from one to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub enum State {
    #[default]
    Initialized,
    Waiting,
    Preparing,
    Starting,
    Running,
    Stopping,
    Finished,
    Failed,
    Skipped,
    Backoff,
}

impl State {
    /// Nothing runs and nothing is under way.
    pub fn at_rest(self) -> bool {
        matches!(self, State::Initialized | State::Finished | State::Failed | State::Skipped)
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
        }
    }
}

/// A service as it is now, published at every change.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub name: Arc<str>,
    pub state: State,
    pub up: bool,
    /// Ended, stopped, failed, skipped, or nothing will start it.
    pub down: bool,
    /// Ended successfully by itself and was not started again since.
    pub finished: bool,
    pub healthy: Option<bool>,
    /// Counted restarts since an operator or the boot started it.
    pub restarts: u32,
    pub pid: Option<i32>,
    pub since: SystemTime,
    pub waiting_for: Vec<String>,
    /// Why it is in this state.
    pub message: Arc<str>,
    pub builtin: bool,
    /// An operator stopped it.
    pub stopped: bool,
    /// sd_notify `STATUS=`.
    pub status_text: Option<Arc<str>>,
    /// Number of the current or last run; 0 before the first.
    pub run: u64,
    pub oneshot: bool,
    /// Its file changed since it was started.
    pub changed: bool,
    /// Number of the last operator's request that was taken up; a larger one than one's own supersedes it.
    pub ticket: u64,
    /// Since PID 1's start: when it was first up, and when the run that was so was spawned.
    pub spawned_after: Option<Duration>,
    pub up_after: Option<Duration>,
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
}

/// How a check of a service stands, in the present run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// It has neither passed nor failed often enough.
    #[default]
    Pending,
    Passing,
    Failing,
}

/// One check of a service, and what it said last.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckReport {
    pub name: Arc<str>,
    /// `exec`, `http`, `tcp`, `grpc`.
    pub kind: &'static str,
    pub standing: Standing,
    /// Since when it stands so; `None` while no run is checked.
    pub since: Option<SystemTime>,
    /// Of the present run, oldest first; at most ten.
    pub results: Vec<CheckResult>,
}

/// What came of a check once.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckResult {
    pub at: SystemTime,
    pub took: Duration,
    pub passed: bool,
    /// The last 3 KiB of what it said; of all results but the last, the last line of that.
    pub output: String,
}
