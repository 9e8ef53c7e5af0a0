//! Where a service is: its phase, with all that is known in that phase alone. Times count from PID 1's start.

use std::time::Duration;

use kelson_conditions::Missing;
use kelson_runner::{ErrorKind, Exit, restart};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Readiness;

use super::input::{Rules, StopReason};
use crate::model::{RestartReason, State};

/// Finer than the [`State`] that is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Nothing runs and nothing is under way.
    Rest(Rest),
    /// `when` is being asked.
    When,
    /// The gate is watched.
    Gate(Gate),
    /// Being prepared.
    Opening,
    /// The `pre` hooks run, one after the other.
    Pre { owes_post: bool },
    /// The process is being made. `owes_post` here and elsewhere: something of this run was begun, and it has `post`
    /// hooks.
    Spawning { owes_post: bool },
    /// A process lives: starting or running.
    Active(Active),
    /// On the way from a run, or from its preparations, to what comes after.
    Down(Down),
    /// The next run comes at this time. `None`: at once, or not by itself. `opened`: the preparations stand.
    Backoff { until: Option<Duration>, opened: bool },
}

/// Why nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It was never started. `will_start`: the next [`Input::Begin`](super::Input) starts it, so it is not down either.
    /// Settled when the service was added, and recorded: a file that has changed since starts nothing.
    Initialized {
        will_start: bool,
    },
    Ended(Outcome, Hold),
}

/// How a service came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Ended successfully by itself.
    Finished,
    Failed,
    /// Its start failed, and is tried again only once what was wrong has changed.
    Refused(ErrorKind),
    Skipped,
    /// `asked`: by a request. Otherwise by its group, or because a service that it needs went down.
    Stopped {
        asked: bool,
    },
}

/// The authority that decides whether a service that ends is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Anyone.
    Free,
    /// Its group, which has stopped it and is to start it again.
    Group,
    /// Nobody: its group has stopped it, and somebody, or the end of the host, keeps the group from starting it again. Its
    /// success does not count.
    Abandoned,
    /// Somebody has stopped it after it had ended by itself: its group does not start it.
    Somebody,
}

/// The gate, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Waiting, once the gate is known to be shut; until then the state before.
    pub shown: State,
    /// The unmet conditions of the gate. Not recorded: another incarnation of PID 1 asks the gate at once.
    pub missing: Vec<Missing>,
    /// The preparations stand.
    pub opened: bool,
}

/// A run while its process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Active {
    /// Its main process; 0: it has none.
    pub pid: i32,
    pub readiness: ReadySignal,
    pub healthy: Option<bool>,
    /// It has been healthy in this run.
    pub proven: bool,
    /// When it has to be ready, or healthy for the first time.
    pub start: Option<Duration>,
    pub watchdog: Option<Watchdog>,
    pub owes_post: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadySignal {
    Awaited,
    Given,
    /// It is reloading or stopping by itself.
    TakenBack,
}

/// The watchdog that a run has set for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watchdog {
    pub interval: Duration,
    /// When the next `WATCHDOG=1` has to have come.
    pub until: Duration,
}

/// The way down.
#[derive(Debug, Clone, PartialEq)]
pub struct Down {
    pub stage: Stage,
    pub after: After,
    pub hold: Hold,
    /// Stopping; of a run that ended by itself, and is only cleared away, the state before.
    pub shown: State,
    /// False from the `post` hooks on.
    pub owes_post: bool,
}

/// How far the way down has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The `preStop` hooks run. `delays`: `stop.delay` counts for this stop.
    PreStop { delays: bool, pid: i32 },
    /// The signal comes at this time.
    StopDelay { until: Duration, pid: i32 },
    /// Signal sent, waiting for the end, killing. `until: None`: a stop that an earlier incarnation of PID 1 was about to
    /// begin. `forced`: an operator has it killed. `pid: None`: its process has ended, or may just be being made.
    Ending { until: Option<Duration>, forced: bool, pid: Option<i32> },
    /// The process ended by itself, or a hook is killed; what is left of the run is cleared away.
    Clearing,
    /// Nothing of the run is left; the `post` hooks run.
    Post,
    /// The preparations are undone.
    Closing,
}

/// The step after the run is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// The restart policy decides.
    Decide(Ended),
    /// It runs again, and nobody asks the policy.
    Again(RestartReason),
    /// Its start was broken off, because its gate holds no longer: back to it.
    Gate,
    /// It rests. The text says why.
    Rest { outcome: Outcome, text: String },
}

/// How a run came to its end, for the policy and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Exited {
        exit: Exit,
        ran: Duration,
        before_ready: bool,
        /// The kernel killed a process of it for its memory.
        out_of_memory: bool,
        /// The number of its processes that were still there, and were killed.
        outlived: u32,
    },
    /// Kelson ended it: not ready in time, a check, a watchdog. The text says why.
    GivenUp { ran: Duration, reason: RestartReason, text: String },
    /// Preparing or spawning failed.
    NotStarted { text: String, kind: ErrorKind },
}

impl Rest {
    pub fn state(self) -> State {
        match self {
            Rest::Initialized { .. } => State::Initialized,
            Rest::Ended(outcome, _) => outcome.state(),
        }
    }
}

impl Outcome {
    /// A group stops its members to start them again.
    pub(super) fn stopped(reason: &StopReason) -> Outcome {
        Outcome::Stopped { asked: !matches!(reason, StopReason::Group(_)) }
    }

    pub fn state(self) -> State {
        match self {
            Outcome::Finished => State::Finished,
            Outcome::Failed | Outcome::Refused(_) => State::Failed,
            Outcome::Skipped => State::Skipped,
            Outcome::Stopped { .. } => State::Stopped,
        }
    }
}

impl Active {
    pub fn ready(&self) -> bool {
        self.readiness == ReadySignal::Given
    }

    /// `WATCHDOG=1` came.
    pub(super) fn pinged(mut self, now: Duration) -> Active {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.until = now.saturating_add(watchdog.interval);
        }
        self
    }

    /// Its command has ended as it should, and has left the processes of the service.
    pub(super) fn leaves(&self, exit: Exit, rules: &Rules) -> bool {
        rules.readiness == Readiness::Forks
            && !self.has_been_ready()
            && exit.success()
            && const { OWN.has(Feature::Units) }
    }

    /// Its processes have no main one, or none that is known yet.
    pub(super) fn lacks_main(&self, rules: &Rules) -> bool {
        rules.readiness == Readiness::Forks && self.pid == 0 && const { OWN.has(Feature::Units) }
    }

    /// Also where it is reloading now.
    pub fn has_been_ready(&self) -> bool {
        self.readiness != ReadySignal::Awaited
    }
}

impl After {
    /// Somebody or something stops it.
    pub(super) fn stopped(reason: &StopReason, text: String) -> After {
        After::Rest { outcome: Outcome::stopped(reason), text }
    }

    /// Preparing or spawning failed: the restart policy decides.
    pub(crate) fn not_started(text: String, kind: ErrorKind) -> After {
        After::Decide(Ended::NotStarted { text, kind })
    }

    /// It has failed, and nobody asked for its end.
    pub(super) fn failed(text: String) -> After {
        After::Rest { outcome: Outcome::Failed, text }
    }
}

impl Ended {
    pub fn success(&self, rules: &Rules) -> bool {
        matches!(self, Ended::Exited { exit, .. } if restart::is_success(&rules.restart, *exit))
    }

    /// How the service comes to rest when nothing restarts it.
    pub(super) fn outcome(&self, rules: &Rules) -> Outcome {
        if self.success(rules) { Outcome::Finished } else { Outcome::Failed }
    }

    /// Why it is started again, if it is.
    pub(super) fn reason(&self) -> RestartReason {
        match self {
            Ended::Exited { exit, out_of_memory: true, .. } if !exit.success() => RestartReason::OutOfMemory,
            Ended::Exited { exit: Exit::Status(_), .. } => RestartReason::Exit,
            Ended::Exited { exit: Exit::Signal { .. }, .. } => RestartReason::Signal,
            Ended::Exited { exit: Exit::Lost, .. } => RestartReason::Lost,
            Ended::GivenUp { reason, .. } => *reason,
            Ended::NotStarted { .. } => RestartReason::NotStarted,
        }
    }

    pub(super) fn for_policy(&self) -> restart::Ended {
        match self {
            Ended::Exited { exit, ran, .. } => restart::Ended::Exited { exit: *exit, ran: *ran },
            Ended::GivenUp { ran, reason, .. } => {
                restart::Ended::GivenUp { ran: *ran, watchdog: *reason == RestartReason::Watchdog }
            }
            Ended::NotStarted { .. } => restart::Ended::NotStarted,
        }
    }
}
