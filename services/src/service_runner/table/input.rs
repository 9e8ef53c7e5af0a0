//! The inputs of the table: events, and the rules by which they are judged.

use std::time::Duration;

use kelson_conditions::Missing;
use kelson_runner::{Exit, RunnerError, StopReport};
use kelson_spec::service::{Readiness, RestartSpec, ServiceKind, StopSpec, WhenDown};
use kelson_spec::units::is_never;

use crate::model::RestartReason;

/// The part of the spec that the table needs.
#[derive(Debug, Clone)]
pub struct Rules {
    pub kind: ServiceKind,
    pub restart: RestartSpec,
    pub readiness: Readiness,
    pub start_timeout: Duration,
    /// The first interval of the watchdog of a run that is ready.
    pub watchdog: Option<Duration>,
    pub stop: StopSpec,
    pub has_when: bool,
    pub has_checks: bool,
    /// One of its checks restarts it.
    pub checks_restart: bool,
    /// Which hooks it has.
    pub hooks: HookKinds,
    /// It registers something, which is removed before its `preStop` hooks.
    pub registers: bool,
    /// The clock starts it.
    pub scheduled: bool,
    /// It waits to be demanded before each run.
    pub on_demand: bool,
    /// Bytes its processes may hold, for the sentence that tells that they reached it.
    pub memory_max: Option<u64>,
}

/// The hooks that are part of the way from one phase to the next. `postStart` is not: it runs beside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookKinds {
    pub pre: bool,
    pub pre_stop: bool,
    pub post: bool,
    pub undo: bool,
}

impl Rules {
    /// `None`: a start may take as long as it takes.
    pub(super) fn start_limit(&self) -> Option<Duration> {
        (!is_never(self.start_timeout)).then_some(self.start_timeout)
    }

    /// `startTimeout` covers not only ready but also healthy for the first time: only where checks may restart it at
    /// all.
    pub(super) fn awaits_health(&self) -> bool {
        self.has_checks && self.checks_restart && self.kind == ServiceKind::Service
    }
}

/// Why it is to be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    Operator,
    /// Stopped first because this other one is to be stopped.
    Cascade(String),
    /// This other one, with which it conflicts, is started.
    Conflict(String),
    /// The host is cut off from the store of its fleet; the text says for how long.
    CutOff(String),
    /// Its file is gone.
    Removed,
    /// Its group is restarted in order; the text says why.
    Group(String),
    Shutdown,
}

/// Something that happened to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The boot, or a new file, starts it; one that was not added to be started rests on.
    Begin,
    Start {
        request_id: u64,
    },
    Restart {
        request_id: u64,
    },
    Stop {
        request_id: u64,
        reason: StopReason,
    },
    /// An operator is about to stop it, for this time or (`None`) until somebody starts it.
    StopFor(Option<Duration>),
    /// It is time for a start by its schedule.
    Due,
    WhenHolds,
    WhenFails(String),
    GateHolds,
    /// Not all conditions hold: these are missing.
    GateShut(Vec<Missing>),
    Opened(Result<(), RunnerError>),
    /// The run has its turn: what follows is begun at once.
    Turn,
    /// The `pre` hooks have run, and the texts tell of those that failed and may; or another one failed, and none after it
    /// was run.
    PreDone(Result<Vec<String>, RunnerError>),
    /// A `pre` hook says that the service is not to start; the text names it.
    PreSkips(String),
    Spawned(Result<i32, RunnerError>),
    /// A notify message of this run, or a finding about it.
    Report(u64, Report),
    Exited {
        run: u64,
        exit: Exit,
    },
    /// `Work::FindMain` is done: the PID of the main process that the command has left, or 0 if it has none.
    MainFound(Result<i32, RunnerError>),
    /// The `preStop` hooks have run; the texts tell of those that failed.
    PreStopDone(Vec<String>),
    /// `Work::Stop` or `Work::Clear` is done: how the run ended where that was learnt, and what was met on the way.
    Cleared {
        exit: Option<Exit>,
        report: StopReport,
    },
    /// The `post` hooks have run; the texts tell of those that failed.
    PostDone(Vec<String>),
    Closed(Result<(), RunnerError>),
    /// PID 1 is in another incarnation, and this is what was found of the run: its PID, or how it ended. `closing`: the
    /// host was stopping.
    Attached {
        found: Result<i32, Exit>,
        closing: bool,
    },
    Timer(Timer),
    /// `WATCHDOG=1`: the next one has to come within its interval.
    Ping,
    /// From now on a `WATCHDOG=1` has to come within this time; `None`: no more.
    WatchdogInterval(Option<Duration>),
    /// `EXTEND_TIMEOUT_USEC`: the deadline of its start or stop is at least so far away.
    Extend(Duration),
    /// An operator wants what is stopping to be killed at once.
    Force,
    /// The total deadline of the host's stop has passed: what is left of it is killed at once.
    Kill,
    /// A new spec waits to be taken up at the next start.
    NewSpec {
        has_when: bool,
    },
    /// The new spec was taken back.
    OldSpec,
    /// What runs gives way to another run: of the program of another release, or at a time of its schedule. The text says
    /// why.
    Replace {
        text: String,
    },
    /// The archives of images have changed since its image was refused.
    ArchivesChanged,
    /// Its group starts again; the text says why.
    GroupStart {
        text: String,
    },
    /// Its group is not restarted, though it has asked for that; the text says why.
    GroupRefused {
        text: String,
    },
    /// It has run after its group's mains were down, and they are up again: it waits for their end once more.
    Arm,
    /// Its file is gone: its stop comes in its turn, and then it is forgotten.
    Leaving,
    /// The host is stopping: nothing is started any more, and its own stop comes in its turn.
    Closing,
}

/// Something that matters only while the process of the run lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Its readiness signal says yes.
    Ready,
    /// Its readiness signal was taken back (`RELOADING=1`, `STOPPING=1`); the text says so.
    Unready { text: String },
    /// It will never be ready (descriptor closed without a newline).
    NeverReady { text: String },
    /// All its checks pass, one fails, or (`None`) not each has a result yet; what is missing, in words.
    Health { healthy: Option<bool>, missing: String },
    /// It is found broken: by a check, or it says so itself.
    Broken { reason: RestartReason, text: String },
    /// One that it needs went down; what its spec says to that, and what happened.
    DependencyDown { rule: WhenDown, text: String },
}

/// The purpose of a deadline that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    Start,
    StopDelay,
    Backoff,
    Watchdog,
    /// The time for which an operator stopped it.
    StopFor,
}
