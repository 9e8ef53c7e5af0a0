//! The words between the table and the task: rules, phases, inputs, effects.

use std::time::Duration;

use kelson_conditions::Missing;
use kelson_runner::{ErrorKind, Exit, RunnerError, StopReport, restart};
use kelson_spec::service::{Readiness, RestartSpec, ServiceKind, StopSpec, WhenDown};
use kelson_spec::units::is_never;

use crate::model::RestartReason;

/// What the table needs to know of the spec.
#[derive(Debug, Clone)]
pub struct Rules {
    pub kind: ServiceKind,
    pub restart: RestartSpec,
    pub readiness: Readiness,
    pub start_timeout: Duration,
    pub stop: StopSpec,
    pub has_when: bool,
    pub has_checks: bool,
    /// One of its checks restarts it.
    pub checks_restart: bool,
    /// Which hooks it has.
    pub hooks: HookKinds,
    /// Bytes its processes may hold, for the sentence that tells that they reached it.
    pub memory_max: Option<u64>,
}

/// The hooks that are part of the way from one phase to the next. `postStart` is not: it runs beside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookKinds {
    pub pre: bool,
    pub pre_stop: bool,
    pub post: bool,
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

/// Where the service is, finer than the [`State`] that is shown, with its deadlines. Times count from PID 1's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing runs and nothing is under way: initialized, finished, failed, skipped.
    Rest,
    /// `when` is being asked.
    When,
    /// The gate is watched.
    Gate,
    Opening,
    /// The `pre` hooks run, one after the other.
    Pre,
    Spawning,
    /// A process lives: starting or running.
    Active(Active),
    /// No longer up; the `preStop` hooks run. `delays`: `stop.delay` counts for this stop.
    PreStop {
        delays: bool,
    },
    /// No longer up; the signal comes at this time.
    StopDelay {
        until: Duration,
    },
    /// Signal sent, waiting for the end, killing. `None`: a stop that an earlier incarnation of PID 1 was about to
    /// begin.
    Ending {
        until: Option<Duration>,
    },
    /// The process ended by itself; what it left is cleared away.
    Clearing,
    /// Nothing of the run is left; the `post` hooks run.
    Post,
    Closing,
    /// The next run comes at this time. `None`: at once, or not by itself.
    Backoff {
        until: Option<Duration>,
    },
}

/// What is known of a run while its process lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Active {
    pub ready: bool,
    pub healthy: Option<bool>,
    /// It has been healthy in this run.
    pub proven: bool,
    /// When it has to be ready, or healthy for the first time.
    pub start: Option<Duration>,
    /// When the next `WATCHDOG=1` has to have come.
    pub watchdog: Option<Duration>,
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

impl Ended {
    pub fn success(&self) -> bool {
        matches!(self, Ended::Exited { exit, .. } if exit.success())
    }

    /// Why it is started again, if it is.
    pub fn reason(&self) -> RestartReason {
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
            Ended::GivenUp { ran, .. } => restart::Ended::GivenUp { ran: *ran },
            Ended::NotStarted { .. } => restart::Ended::NotStarted,
        }
    }
}

/// Why it is to be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    Operator,
    /// Stopped first because this other one is to be stopped.
    Cascade(String),
    /// Its file is gone.
    Removed,
    /// Its group is restarted in order; the text says why.
    Group(String),
    Shutdown,
}

impl StopReason {
    /// Somebody does not want it to run.
    pub(super) fn is_somebodys(&self) -> bool {
        matches!(self, StopReason::Operator | StopReason::Cascade(_))
    }
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
    WhenHolds,
    WhenFails(String),
    GateHolds,
    /// Not all conditions hold: these are missing.
    GateShut(Vec<Missing>),
    Opened(Result<(), RunnerError>),
    /// The run has its turn: what follows is begun at once.
    Turn,
    /// The `pre` hooks have run; or one failed, and none after it was run.
    PreDone(Result<(), String>),
    Spawned(Result<i32, RunnerError>),
    /// Its readiness signal says yes.
    Ready {
        run: u64,
    },
    /// Its readiness signal was taken back (`RELOADING=1`, `STOPPING=1`); the text says so.
    Unready {
        run: u64,
        text: String,
    },
    /// It will never be ready (descriptor closed without a newline).
    NeverReady {
        run: u64,
        text: String,
    },
    /// All its checks pass, one fails, or (`None`) not each has a result yet; what is missing, in words.
    Health {
        run: u64,
        healthy: Option<bool>,
        missing: String,
    },
    Exited {
        run: u64,
        exit: Exit,
    },
    /// The `preStop` hooks have run; the texts tell of those that failed.
    PreStopDone(Vec<String>),
    /// `Work::Stop` or `Work::Clear` is done: how the run ended where that was learnt, and what was met on the way.
    Cleared {
        exit: Option<Exit>,
        report: StopReport,
    },
    /// The `post` hooks have run; the texts tell of those that failed.
    PostDone(Vec<String>),
    /// One that it needs went down; what its spec says to that, and what happened.
    DependencyDown {
        run: u64,
        rule: WhenDown,
        text: String,
    },
    Closed(Result<(), String>),
    /// PID 1 is in another incarnation, and this is what was found of the run: its PID, or how it ended. `closing`: the
    /// host was stopping.
    Attached {
        found: Result<i32, Exit>,
        closing: bool,
    },
    Timer(Timer),
    /// `WATCHDOG=1`, or another interval: the next one has to come within this time.
    Watchdog(Option<Duration>),
    /// `EXTEND_TIMEOUT_USEC`: the deadline of its start or stop is at least so far away.
    Extend(Duration),
    /// An operator wants what is stopping to be killed at once.
    Force,
    /// The total deadline of the host's stop has passed: what is left of it is killed at once.
    Kill,
    /// It is found broken: by a check, or it says so itself.
    Broken {
        run: u64,
        reason: RestartReason,
        text: String,
    },
    /// A new spec waits to be taken up at the next start.
    NewSpec {
        has_when: bool,
    },
    /// The new spec was taken back.
    OldSpec,
    /// The new spec is another release's, and so is the program: what runs of the old one gives way. The text says why.
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

impl Input {
    /// The run of which it tells.
    pub(super) fn run(&self) -> Option<u64> {
        match self {
            Input::Ready { run }
            | Input::Unready { run, .. }
            | Input::NeverReady { run, .. }
            | Input::Broken { run, .. }
            | Input::Health { run, .. }
            | Input::DependencyDown { run, .. }
            | Input::Exited { run, .. } => Some(*run),
            Input::Begin
            | Input::Start { .. }
            | Input::Restart { .. }
            | Input::Stop { .. }
            | Input::StopFor(_)
            | Input::WhenHolds
            | Input::WhenFails(_)
            | Input::GateHolds
            | Input::GateShut(_)
            | Input::Opened(_)
            | Input::Turn
            | Input::PreDone(_)
            | Input::Spawned(_)
            | Input::PreStopDone(_)
            | Input::Cleared { .. }
            | Input::PostDone(_)
            | Input::Closed(_)
            | Input::Attached { .. }
            | Input::Timer(_)
            | Input::Watchdog(_)
            | Input::Extend(_)
            | Input::Force
            | Input::Kill
            | Input::NewSpec { .. }
            | Input::OldSpec
            | Input::Replace { .. }
            | Input::ArchivesChanged
            | Input::GroupStart { .. }
            | Input::GroupRefused { .. }
            | Input::Arm
            | Input::Leaving
            | Input::Closing => None,
        }
    }
}

/// What a deadline that has passed was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    Start,
    StopDelay,
    Backoff,
    Watchdog,
    /// The time for which an operator stopped it.
    StopFor,
}

/// The one piece of work under way. A new one cancels the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    None,
    When,
    Open,
    Pre,
    Spawn,
    PreStop,
    /// Signal, timeout, kill.
    Stop,
    /// Kill what is left of the run.
    Clear,
    Post,
    Close,
    /// Wait until the archives of images have changed.
    AwaitArchives,
}

/// What is to be done about it, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Record and publish the state, and tell it as an event.
    Tell,
    /// Record and publish what changed, without an event.
    Publish,
    /// Record what changed: a deadline was moved.
    Record,
    /// An event that changes nothing.
    Note(String),
    Work(Work),
    /// Look whether the gate holds, and watch it from now on.
    AskGate,
    /// Stop watching the gate.
    DropGate,
    /// Take up the new spec: nothing of the old one is open.
    Adopt,
    /// At rest.
    Rested,
    /// Its whole group is to be restarted, and rest at least this long in between; the text says why.
    AskGroup {
        text: String,
        after: Duration,
    },
}

/// What became of a request, at the moment it was taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    NothingToDo(String),
    Refused(String),
}

/// What comes of an input, as far as the step has come, and when it happens.
pub(super) struct Effects {
    pub all: Vec<Effect>,
    pub now: Duration,
}

impl Effects {
    pub fn push(&mut self, effect: Effect) {
        self.all.push(effect);
    }

    /// Tells of failures.
    pub fn note(&mut self, texts: Vec<String>) {
        self.all.extend(texts.into_iter().map(Effect::Note));
    }
}

/// What comes of an input.
#[derive(Debug, Default)]
pub struct Step {
    pub effects: Vec<Effect>,
    /// Only for requests.
    pub answer: Option<Answer>,
}
