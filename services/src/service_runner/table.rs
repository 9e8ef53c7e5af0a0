//! The table: (phase, input) → (phase, effects). Pure; time comes in as an argument.
//!
//! [`Life::step`] is the table; what is asked from outside stands in `requests`.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::Exit;
use kelson_runner::restart::{self, Decision, RestartHistory};
use kelson_spec::service::{Readiness, RestartPolicy, RestartSpec, ServiceKind, StopSpec};

use super::words;
use crate::model::{RestartCounts, RestartReason, State};

mod requests;

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
}

impl Rules {
    /// `startTimeout` covers not only ready but also healthy for the first time: only where checks may restart it at all.
    fn awaits_health(&self) -> bool {
        self.has_checks && self.checks_restart && self.kind == ServiceKind::Service
    }
}

/// Where the service is, finer than the [`State`] that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing runs and nothing is under way: initialized, finished, failed, skipped.
    Rest,
    /// `when` is being asked.
    When,
    /// The gate is watched.
    Gate,
    Opening,
    Spawning,
    /// A process lives: starting or running.
    Active,
    /// No longer up; the signal comes after `stop.delay`.
    StopDelay,
    /// Signal sent, waiting for the end, killing.
    Ending,
    /// The process ended by itself; what it left is cleared away.
    Clearing,
    Closing,
    Backoff,
}

/// How a run came to its end, for the policy and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Exited {
        exit: Exit,
        ran: Duration,
        before_ready: bool,
    },
    /// Kelson ended it: not ready in time, a watchdog. The text says why.
    GivenUp {
        ran: Duration,
        text: String,
    },
    /// Preparing or spawning failed.
    NotStarted {
        text: String,
    },
}

impl Ended {
    pub fn success(&self) -> bool {
        matches!(self, Ended::Exited { exit, .. } if exit.success())
    }

    fn for_policy(&self) -> restart::Ended {
        match self {
            Ended::Exited { exit, ran, .. } => restart::Ended::Exited { exit: *exit, ran: *ran },
            Ended::GivenUp { ran, .. } => restart::Ended::GivenUp { ran: *ran },
            Ended::NotStarted { .. } => restart::Ended::NotStarted,
        }
    }
}

/// What follows once the present ending is over.
#[derive(Debug, Clone, PartialEq, Eq)]
enum After {
    /// The restart policy decides.
    Decide(Ended),
    /// An operator wants it to run again.
    Again,
    /// It ends here.
    End { state: State, finished: bool, stopped: bool, text: String },
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

/// Something that happened to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The boot, or a new file, starts it.
    Begin,
    Start {
        ticket: u64,
    },
    Restart {
        ticket: u64,
    },
    Stop {
        ticket: u64,
        reason: StopReason,
    },
    WhenHolds,
    WhenFails(String),
    GateHolds,
    /// Not all conditions hold: these are missing.
    GateShut(Vec<String>),
    Opened(Result<(), String>),
    Spawned(Result<i32, String>),
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
    /// `Work::Stop` or `Work::Clear` is done: how the run ended where that was learnt, and who outlived it.
    Cleared {
        exit: Option<Exit>,
        killed: bool,
        left_behind: u32,
    },
    Closed(Result<(), String>),
    Timer(Timer),
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
    /// Its group starts again; the text says why.
    GroupStart {
        text: String,
    },
    /// The host is stopping: nothing is started any more, and its own stop comes in its turn.
    Closing,
}

/// The clocks of one service; each runs or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    Start,
    StopDelay,
    Backoff,
    Watchdog,
}

/// The one piece of work under way. A new one cancels the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    None,
    When,
    Open,
    Spawn,
    /// Signal, timeout, kill.
    Stop,
    /// Kill what is left of the run.
    Clear,
    Close,
}

/// What is to be done about it, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Record and publish the state, and tell it as an event.
    Tell,
    /// Record and publish what changed, without an event.
    Publish,
    /// An event that changes nothing.
    Note(String),
    Work(Work),
    /// Look whether the gate holds, and watch it from now on.
    AskGate,
    /// Stop watching the gate.
    DropGate,
    /// Start (again) or stop a clock.
    Timer(Timer, Option<Duration>),
    /// Take up the new spec: nothing of the old one is open.
    Adopt,
    /// At rest.
    Rested,
    /// Its whole group is to be restarted; the text says why.
    AskGroup(String),
}

/// What became of a request, at the moment it was taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    NothingToDo(String),
    Refused(String),
}

/// What comes of an input.
#[derive(Debug, Default)]
pub struct Step {
    pub effects: Vec<Effect>,
    /// Only for requests.
    pub answer: Option<Answer>,
}

/// The life of one service as the table sees it.
#[derive(Debug)]
pub struct Life {
    pub state: State,
    pub phase: Phase,
    /// Number of the current or last run.
    pub run: u64,
    pub pid: Option<i32>,
    pub ready: bool,
    pub healthy: Option<bool>,
    /// It has been healthy in this run.
    proven: bool,
    pub restarts: u32,
    pub restarts_by: RestartCounts,
    pub stopped: bool,
    /// Ended successfully by itself.
    pub finished: bool,
    pub ticket: u64,
    /// Shared with the snapshot and the event that tell it.
    pub message: Arc<str>,
    pub waiting_for: Vec<String>,
    /// Something will start it: not yet begun, but not down either.
    pub will_start: bool,
    /// The last exit that was learnt and not yet acted on.
    pub exit: Option<Exit>,
    opened: bool,
    /// A new spec waits; whether that has a `when`.
    new_spec: Option<bool>,
    closing: bool,
    after: Option<After>,
    history: RestartHistory,
    spawned_at: Duration,
}

impl Life {
    pub fn new(will_start: bool) -> Life {
        Life {
            state: State::Initialized,
            phase: Phase::Rest,
            run: 0,
            pid: None,
            ready: false,
            healthy: None,
            proven: false,
            restarts: 0,
            restarts_by: RestartCounts::default(),
            stopped: false,
            finished: false,
            ticket: 0,
            message: Arc::from(""),
            waiting_for: Vec::new(),
            will_start,
            exit: None,
            opened: false,
            new_spec: None,
            closing: false,
            after: None,
            history: RestartHistory::default(),
            spawned_at: Duration::ZERO,
        }
    }

    /// Running, and everything that says whether it is ready and healthy says so now.
    pub fn up(&self, rules: &Rules) -> bool {
        match rules.kind {
            ServiceKind::Oneshot => self.finished,
            ServiceKind::Service => {
                self.state == State::Running
                    && self.pid.is_some()
                    && self.ready
                    && (!rules.has_checks || self.healthy == Some(true))
            }
        }
    }

    /// At rest, and nothing that is under way will change it. A successful one-shot is not down.
    pub fn down(&self, rules: &Rules) -> bool {
        self.phase == Phase::Rest
            && !(self.finished && rules.kind == ServiceKind::Oneshot)
            && (self.state != State::Initialized || !self.will_start)
    }

    /// When its process was last spawned, since PID 1's start.
    pub fn spawned_at(&self) -> Duration {
        self.spawned_at
    }

    /// Whether the preparations stand.
    pub fn is_open(&self) -> bool {
        self.opened
    }

    /// One step. `now` is the time since PID 1's start; `chance` is any number, for jitter.
    pub fn step(&mut self, rules: &Rules, input: Input, now: Duration, chance: u32) -> Step {
        let mut step = Step::default();
        let fx = &mut step.effects;
        match input {
            // A message of an earlier run ends here.
            Input::Ready { run }
            | Input::Unready { run, .. }
            | Input::NeverReady { run, .. }
            | Input::Broken { run, .. }
            | Input::Health { run, .. }
            | Input::Exited { run, .. }
                if run != self.run => {}

            Input::Begin => {
                self.will_start = false;
                if self.phase == Phase::Rest && self.state == State::Initialized && !self.closing {
                    self.begin(rules, true, fx);
                }
            }
            Input::Start { ticket } => step.answer = Some(self.start(rules, ticket, fx)),
            Input::Restart { ticket } => step.answer = Some(self.restart(rules, ticket, fx)),
            Input::Stop { ticket, reason } => step.answer = Some(self.stop(rules, ticket, &reason, fx)),
            Input::NewSpec { has_when } => {
                self.new_spec = Some(has_when);
                fx.push(Effect::Publish);
            }
            Input::OldSpec => {
                self.new_spec = None;
                fx.push(Effect::Publish);
            }
            Input::Closing => self.closing = true,

            Input::WhenHolds if self.phase == Phase::When => self.ask_gate(fx),
            Input::WhenFails(text) if self.phase == Phase::When => {
                fx.push(Effect::Work(Work::None));
                self.rest(State::Skipped, format!("skipped: {text}"), fx);
            }
            Input::GateShut(missing)
                if self.phase == Phase::Gate
                    && (self.state != State::Waiting || self.waiting_for != missing) =>
            {
                self.waiting_for = missing;
                self.tell(State::Waiting, format!("waiting for {}", words::list(&self.waiting_for)), fx);
            }
            // It went shut while the spawn waited for its turn: the task watches it until then.
            Input::GateShut(missing) if self.phase == Phase::Spawning => {
                self.phase = Phase::Gate;
                self.waiting_for = missing;
                fx.push(Effect::Work(Work::None));
                self.tell(State::Waiting, format!("waiting for {}", words::list(&self.waiting_for)), fx);
            }
            Input::GateHolds if self.phase == Phase::Gate && !self.closing => {
                self.waiting_for.clear();
                if self.opened {
                    self.spawn(fx);
                } else {
                    // The gate stays watched: it is asked again after preparing, and while the spawn waits.
                    self.phase = Phase::Opening;
                    self.tell(State::Preparing, "all that it waits for holds".into(), fx);
                    fx.push(Effect::Work(Work::Open));
                }
            }

            Input::Opened(Ok(())) if self.phase == Phase::Opening => {
                self.opened = true;
                fx.push(Effect::Work(Work::None));
                self.ask_gate(fx);
            }
            Input::Opened(Err(text)) if self.phase == Phase::Opening => {
                fx.push(Effect::Note(format!("preparing failed: {text}")));
                fx.push(Effect::DropGate);
                self.after =
                    Some(After::Decide(Ended::NotStarted { text: format!("preparing failed: {text}") }));
                self.close(fx);
            }
            Input::Spawned(Ok(pid)) if self.phase == Phase::Spawning => {
                self.phase = Phase::Active;
                self.pid = Some(pid);
                self.spawned_at = now;
                fx.push(Effect::Work(Work::None));
                match rules.readiness {
                    Readiness::None => {
                        self.ready = true;
                        let text = format!("running (PID {pid}){}", words::before_checks(rules));
                        self.tell(State::Running, text, fx);
                        if rules.awaits_health() {
                            fx.push(Effect::Timer(Timer::Start, Some(rules.start_timeout)));
                        }
                    }
                    Readiness::Notify | Readiness::Descriptor(_) => {
                        let limit = words::duration(rules.start_timeout);
                        let signal = words::readiness(rules.readiness);
                        self.tell(
                            State::Starting,
                            format!("PID {pid} started, waiting at most {limit} for {signal}"),
                            fx,
                        );
                        fx.push(Effect::Timer(Timer::Start, Some(rules.start_timeout)));
                    }
                }
            }
            Input::Spawned(Err(text)) if self.phase == Phase::Spawning => {
                fx.push(Effect::Work(Work::None));
                let ended = Ended::NotStarted { text: format!("could not start: {text}") };
                self.decide(rules, ended, now, chance, fx);
            }

            Input::Ready { .. } if self.phase == Phase::Active && !self.ready => {
                self.ready = true;
                if self.proven || !rules.awaits_health() {
                    fx.push(Effect::Timer(Timer::Start, None));
                }
                let text = if self.state == State::Running {
                    "ready again".to_owned()
                } else {
                    let took = words::duration(now.saturating_sub(self.spawned_at));
                    let pid = self.pid.unwrap_or_default();
                    format!("running, ready after {took} (PID {pid}){}", words::before_checks(rules))
                };
                self.tell(State::Running, text, fx);
            }
            Input::Unready { text, .. } if self.phase == Phase::Active && self.ready => {
                self.ready = false;
                self.tell(self.state, text, fx);
            }
            Input::NeverReady { text, .. } if self.phase == Phase::Active && !self.ready => {
                self.end_run(text, now, fx);
            }
            Input::Broken { text, .. } if self.phase == Phase::Active => self.end_run(text, now, fx),
            Input::Health { healthy, missing, .. } if self.phase == Phase::Active => {
                self.health(healthy, &missing, now, fx);
            }

            Input::Exited { exit, .. } => self.exited(rules, exit, now, fx),
            Input::Cleared { exit, killed, left_behind }
                if matches!(self.phase, Phase::Ending | Phase::Clearing) =>
            {
                if let Some(exit) = exit {
                    self.exit = Some(exit);
                }
                if killed && self.phase == Phase::Ending {
                    fx.push(Effect::Note(format!(
                        "did not end within {} of its stop signal, killed",
                        words::duration(rules.stop.timeout)
                    )));
                }
                if left_behind > 0 {
                    fx.push(Effect::Note(format!(
                        "{left_behind} of its processes could not be killed (they are in a sleep that no signal ends); left behind"
                    )));
                }
                fx.push(Effect::Work(Work::None));
                self.run_is_over(fx);
                self.conclude(rules, now, chance, fx);
            }
            Input::Closed(result) if self.phase == Phase::Closing => {
                self.opened = false;
                fx.push(Effect::Work(Work::None));
                if let Err(text) = result {
                    fx.push(Effect::Note(format!("cleaning up failed: {text}")));
                }
                self.conclude(rules, now, chance, fx);
            }

            Input::Timer(Timer::Start) if self.phase == Phase::Active && self.state == State::Starting => {
                let text = format!("not ready after {}", words::duration(rules.start_timeout));
                self.end_run(text, now, fx);
            }
            Input::Timer(Timer::Start)
                if self.phase == Phase::Active && rules.awaits_health() && !self.proven =>
            {
                let text = format!("not healthy after {}", words::duration(rules.start_timeout));
                self.end_run(text, now, fx);
            }
            Input::Timer(Timer::Watchdog) if self.phase == Phase::Active => {
                self.end_run("no WATCHDOG=1 within its interval".to_owned(), now, fx);
            }
            Input::Timer(Timer::StopDelay) if self.phase == Phase::StopDelay => {
                self.phase = Phase::Ending;
                fx.push(Effect::Work(Work::Stop));
            }
            Input::Timer(Timer::Backoff) if self.phase == Phase::Backoff => self.ask_gate(fx),

            // What no longer fits the phase is stale.
            _ => {}
        }
        step
    }

    fn tell(&mut self, state: State, message: String, fx: &mut Vec<Effect>) {
        self.state = state;
        self.message = Arc::from(message);
        fx.push(Effect::Tell);
    }

    /// From rest to `when` or the gate.
    fn begin(&mut self, rules: &Rules, ask_when: bool, fx: &mut Vec<Effect>) {
        self.will_start = false;
        self.finished = false;
        self.stopped = false;
        self.after = None;
        let mut has_when = rules.has_when;
        if let Some(new) = self.new_spec.take() {
            has_when = new;
            fx.push(Effect::Adopt);
        }
        if ask_when && has_when {
            self.phase = Phase::When;
            self.waiting_for = Vec::new();
            self.tell(State::Waiting, "asking whether its `when` holds".into(), fx);
            fx.push(Effect::Work(Work::When));
        } else {
            self.ask_gate(fx);
        }
    }

    fn ask_gate(&mut self, fx: &mut Vec<Effect>) {
        self.phase = Phase::Gate;
        fx.push(Effect::AskGate);
    }

    fn spawn(&mut self, fx: &mut Vec<Effect>) {
        self.phase = Phase::Spawning;
        self.run = self.run.saturating_add(1);
        self.exit = None;
        self.proven = false;
        self.tell(State::Starting, format!("run {}", self.run), fx);
        fx.push(Effect::Work(Work::Spawn));
    }

    /// What its checks say together.
    fn health(&mut self, healthy: Option<bool>, missing: &str, now: Duration, fx: &mut Vec<Effect>) {
        let changed = healthy != self.healthy;
        self.healthy = healthy;
        let text = match healthy {
            Some(true) if !changed => return,
            Some(true) if self.proven => "running, healthy again".to_owned(),
            Some(true) => {
                self.proven = true;
                fx.push(Effect::Timer(Timer::Start, None));
                let took = words::duration(now.saturating_sub(self.spawned_at));
                format!("running, healthy after {took} (PID {})", self.pid.unwrap_or_default())
            }
            _ => format!("running, waits for {missing}"),
        };
        if changed && self.ready {
            self.tell(self.state, text, fx);
        } else if changed {
            // That it is not ready is the better reason.
            fx.push(Effect::Publish);
        } else if self.ready && *self.message != *text {
            self.message = Arc::from(text);
            fx.push(Effect::Publish);
        }
    }

    /// Facts of a run are gone with it.
    fn run_is_over(&mut self, fx: &mut Vec<Effect>) {
        self.pid = None;
        self.ready = false;
        self.healthy = None;
        for timer in [Timer::Start, Timer::StopDelay, Timer::Watchdog] {
            fx.push(Effect::Timer(timer, None));
        }
    }

    /// Ends a run that failed while its process lives.
    fn end_run(&mut self, text: String, now: Duration, fx: &mut Vec<Effect>) {
        let told = format!("{text}, stopping it");
        let ran = now.saturating_sub(self.spawned_at);
        self.after = Some(After::Decide(Ended::GivenUp { ran, text }));
        self.begin_stop(Duration::ZERO, told, fx);
    }

    fn begin_stop(&mut self, delay: Duration, text: String, fx: &mut Vec<Effect>) {
        let told = match delay {
            Duration::ZERO => text,
            _ => format!("{text}; its stop signal comes in {}", words::duration(delay)),
        };
        // Nothing is checked any more.
        self.healthy = None;
        self.tell(State::Stopping, told, fx);
        fx.push(Effect::Timer(Timer::Start, None));
        fx.push(Effect::Timer(Timer::Watchdog, None));
        if delay.is_zero() {
            self.phase = Phase::Ending;
            fx.push(Effect::Work(Work::Stop));
        } else {
            self.phase = Phase::StopDelay;
            fx.push(Effect::Timer(Timer::StopDelay, Some(delay)));
        }
    }

    fn exited(&mut self, rules: &Rules, exit: Exit, now: Duration, fx: &mut Vec<Effect>) {
        self.exit = Some(exit);
        match self.phase {
            Phase::Active => {
                let ran = now.saturating_sub(self.spawned_at);
                let early =
                    rules.kind == ServiceKind::Service && !self.ready && self.state == State::Starting;
                self.after = Some(After::Decide(Ended::Exited { exit, ran, before_ready: early }));
                self.phase = Phase::Clearing;
                self.run_is_over(fx);
                fx.push(Effect::Publish);
                fx.push(Effect::Work(Work::Clear));
            }
            Phase::StopDelay => {
                self.phase = Phase::Clearing;
                self.run_is_over(fx);
                fx.push(Effect::Publish);
                fx.push(Effect::Work(Work::Clear));
            }
            Phase::Ending => {
                self.pid = None;
                fx.push(Effect::Publish);
            }
            _ => {}
        }
    }

    /// The run (or its preparation) is over and cleared away: what now?
    fn conclude(&mut self, rules: &Rules, now: Duration, chance: u32, fx: &mut Vec<Effect>) {
        match self.after.take() {
            Some(After::Decide(ended)) => self.decide(rules, ended, now, chance, fx),
            Some(After::Again) if !self.closing => {
                if self.new_spec.is_some() && self.opened {
                    self.after = Some(After::Again);
                    self.close(fx);
                    return;
                }
                self.begin(rules, false, fx);
            }
            Some(After::Again) => self.end(
                After::End {
                    state: State::Finished,
                    finished: false,
                    stopped: true,
                    text: words::stopped(&StopReason::Shutdown, ""),
                },
                fx,
            ),
            Some(end @ After::End { .. }) => self.end(end, fx),
            None => self.end(
                After::End {
                    state: State::Failed,
                    finished: false,
                    stopped: false,
                    text: "ended without a reason (please report this)".into(),
                },
                fx,
            ),
        }
    }

    /// Asks the restart policy.
    fn decide(&mut self, rules: &Rules, ended: Ended, now: Duration, chance: u32, fx: &mut Vec<Effect>) {
        let what = words::ended(&ended);
        if self.closing {
            let finished = ended.success();
            self.end(
                After::End { state: words::end_state(&ended), finished, stopped: false, text: what },
                fx,
            );
            return;
        }
        match restart::decide(&rules.restart, &mut self.history, ended.for_policy(), now, chance) {
            Decision::Again { after, text } => {
                self.restarts = self.restarts.saturating_add(1);
                self.phase = Phase::Backoff;
                self.tell(State::Backoff, format!("{what}, {text}"), fx);
                if after.is_zero() {
                    self.ask_gate(fx);
                } else {
                    fx.push(Effect::Timer(Timer::Backoff, Some(after)));
                }
            }
            Decision::End { .. } => {
                let finished = ended.success();
                let text = match rules.restart.policy {
                    RestartPolicy::Once if rules.kind == ServiceKind::Service => {
                        format!("{what}; restart.policy is once")
                    }
                    _ => what,
                };
                self.end(After::End { state: words::end_state(&ended), finished, stopped: false, text }, fx);
            }
            Decision::Exhausted { text } => self.end(
                After::End {
                    state: State::Failed,
                    finished: false,
                    stopped: false,
                    text: format!("{what}; {text}"),
                },
                fx,
            ),
        }
    }

    /// Cleans up what is open, then rests.
    fn end(&mut self, end: After, fx: &mut Vec<Effect>) {
        if self.opened {
            self.after = Some(end);
            self.close(fx);
        } else if let After::End { state, finished, stopped, text } = end {
            self.finished = finished;
            self.stopped = stopped;
            self.rest(state, text, fx);
        }
    }

    fn close(&mut self, fx: &mut Vec<Effect>) {
        self.phase = Phase::Closing;
        fx.push(Effect::Work(Work::Close));
    }

    fn rest(&mut self, state: State, text: String, fx: &mut Vec<Effect>) {
        self.phase = Phase::Rest;
        self.will_start = false;
        self.waiting_for.clear();
        self.after = None;
        self.tell(state, text, fx);
        fx.push(Effect::Rested);
    }
}
