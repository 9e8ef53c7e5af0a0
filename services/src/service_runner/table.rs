//! The table: (phase, input) → (phase, effects). Pure; time comes in as an argument.
//!
//! [`Life::step`] is the table; `vocabulary` has its words, `requests` what is asked from outside, `starting` the way from
//! rest to a run, `ending` the way back.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::Missing;
use kelson_runner::restart::RestartHistory;
use kelson_runner::{ErrorKind, Exit};
use kelson_spec::service::{RestartScope, ServiceKind};

use crate::model::{RestartCounts, RestartReason, Retry, State};
use crate::service_runner::words;
use ending::After;

mod ending;
mod remaining;
mod requests;
mod resume;
mod starting;
mod stored;
mod vocabulary;

pub use remaining::RemainingStop;
pub use vocabulary::{Answer, Effect, Ended, HookKinds, Input, Phase, Rules, Step, StopReason, Timer, Work};

/// The life of one service as the table sees it.
#[derive(Debug, Clone, PartialEq)]
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
    /// Somebody stopped it after it had ended by itself: its group does not start it.
    unwanted: bool,
    /// Ended successfully by itself.
    pub finished: bool,
    pub ticket: u64,
    /// Shared with the snapshot and the event that tell it.
    pub message: Arc<str>,
    /// It is tried again, and was not up since.
    retry: Option<Arc<Retry>>,
    /// What the gate lacks. Not recorded: another incarnation of PID 1 asks the gate at once.
    pub missing: Vec<Missing>,
    /// The next [`Input::Begin`] starts it: not yet begun, but not down either. Settled when the service was added, and
    /// recorded: what its file says by now starts nothing.
    pub will_start: bool,
    /// The last exit that was learnt and not yet acted on.
    pub exit: Option<Exit>,
    /// The stop signal of its image, where that counts and not the service file's. For the crash limit, which does not
    /// ask containerd.
    stop_signal: Option<NonZeroU8>,
    opened: bool,
    /// Something of this run was begun: its `post` hooks are owed.
    owes_post: bool,
    /// How often its gate went shut after its `pre` hooks since it was last spawned.
    broken_off: u32,
    /// `stop.delay` counts for the stop that is under way.
    delays: bool,
    /// It is stopped because its file is gone.
    leaving: bool,
    /// Its group has stopped it and is to start it again.
    awaits_group: bool,
    /// It asked for its group to be restarted, for this reason.
    asked_group: Option<RestartReason>,
    /// A new spec waits; whether that has a `when`.
    new_spec: Option<bool>,
    closing: bool,
    after: Option<After>,
    history: RestartHistory,
    spawned_at: Duration,
}

impl Life {
    /// The host is stopping.
    pub fn starts_nothing(&self) -> bool {
        self.closing
    }

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
            unwanted: false,
            finished: false,
            ticket: 0,
            message: Arc::from(""),
            retry: None,
            missing: Vec::new(),
            will_start,
            exit: None,
            stop_signal: None,
            opened: false,
            owes_post: false,
            broken_off: 0,
            delays: false,
            leaving: false,
            awaits_group: false,
            asked_group: None,
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
            && !self.awaits_group
            // It has asked its group for a restart and is not yet told to stop with it.
            && (self.asked_group.is_none() || self.stopped || self.unwanted || self.closing)
    }

    /// Its start failed, and it is tried again only once what was wrong has changed.
    pub fn is_refused(&self) -> bool {
        self.phase == Phase::Rest
            && matches!(self.after, Some(After::Refused { .. }))
            && !self.stopped
            && !self.unwanted
            && !self.closing
            && !self.leaving
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
            | Input::DependencyDown { run, .. }
            | Input::Exited { run, .. }
                if run != self.run => {}

            Input::Begin => {
                let starts = std::mem::take(&mut self.will_start);
                let is_new = self.phase == Phase::Rest && self.state == State::Initialized;
                if starts && is_new && !self.closing {
                    self.begin(rules, true, fx);
                }
            }
            Input::Start { ticket } => step.answer = Some(self.start(rules, ticket, fx)),
            Input::Restart { ticket } => {
                if !self.closing {
                    self.history = RestartHistory::default();
                }
                step.answer = Some(self.restart(rules, ticket, "asked by an operator", fx));
            }
            // What is on its way already, up or down, ends as it would.
            Input::Replace { text } if matches!(self.phase, Phase::Active | Phase::Gate | Phase::Backoff) => {
                self.restart(rules, self.ticket, &text, fx);
            }
            Input::Stop { ticket, reason } => step.answer = Some(self.stop(rules, ticket, &reason, fx)),
            Input::StopFor(time) => self.stop_for(time, fx),
            Input::GroupStart { text } => self.group_start(rules, &text, fx),
            Input::GroupRefused { text } => self.group_refused(rules, &text, fx),
            Input::Arm => self.arm(rules, fx),
            Input::NewSpec { has_when } => {
                self.new_spec = Some(has_when);
                fx.push(Effect::Publish);
                self.has_new_spec(rules, fx);
            }
            Input::OldSpec => {
                self.new_spec = None;
                fx.push(Effect::Publish);
            }
            Input::Leaving => {
                self.leaving = true;
                fx.push(Effect::Publish);
            }
            Input::ArchivesChanged if self.is_refused() => {
                fx.push(Effect::Note("the archives of images changed, it is tried again".into()));
                self.begin(rules, true, fx);
            }
            Input::Closing => {
                self.closing = true;
                // Its process is not begun any more, so its hooks need not wait until those that need it are down. One
                // that is just being made is stopped in its turn.
                if self.phase == Phase::Pre {
                    self.stop(rules, self.ticket, &StopReason::Shutdown, fx);
                }
            }

            Input::WhenHolds if self.phase == Phase::When => self.ask_gate(fx),
            Input::WhenFails(text) if self.phase == Phase::When => {
                fx.push(Effect::Work(Work::None));
                self.rest(State::Skipped, format!("skipped: {text}"), fx);
            }
            Input::GateShut(missing) => self.gate_shut(rules, missing, (now, chance), fx),
            Input::GateHolds if self.phase == Phase::Gate && !self.closing => self.gate_holds(rules, fx),

            Input::Opened(Ok(())) if self.phase == Phase::Opening => {
                self.opened = true;
                fx.push(Effect::Work(Work::None));
                self.ask_gate(fx);
            }
            Input::Opened(Err(error)) if self.phase == Phase::Opening => {
                let text = format!("preparing failed: {error}");
                fx.push(Effect::Note(text.clone()));
                fx.push(Effect::DropGate);
                self.after = Some(After::Decide(Ended::NotStarted { text, kind: error.kind }));
                self.close(fx);
            }
            Input::Turn if matches!(self.phase, Phase::Pre | Phase::Spawning) => {
                self.owes_post = rules.hooks.post;
            }
            Input::PreDone(Ok(())) if self.phase == Phase::Pre => {
                self.phase = Phase::Spawning;
                fx.push(Effect::Work(Work::Spawn));
            }
            Input::PreDone(Err(text)) if self.phase == Phase::Pre => {
                fx.push(Effect::DropGate);
                let kind = ErrorKind::Retryable;
                self.after = Some(After::Decide(Ended::NotStarted { text, kind }));
                self.run_is_over(fx);
                self.run_post(rules, now, chance, fx);
            }
            Input::Spawned(Ok(pid)) if self.phase == Phase::Spawning => self.spawned(rules, pid, now, fx),
            Input::Spawned(Err(error)) if self.phase == Phase::Spawning => {
                let text = format!("could not start: {error}");
                self.after = Some(After::Decide(Ended::NotStarted { text, kind: error.kind }));
                self.run_post(rules, now, chance, fx);
            }

            Input::Ready { .. } if self.phase == Phase::Active && !self.ready => {
                self.is_ready(rules, now, fx);
            }
            Input::Unready { text, .. } if self.phase == Phase::Active && self.ready => {
                self.ready = false;
                self.tell(self.state, text, fx);
            }
            Input::NeverReady { text, .. } if self.phase == Phase::Active && !self.ready => {
                self.end_run(rules, RestartReason::NotReady, text, now, fx);
            }
            Input::Broken { reason: RestartReason::Check, text, .. }
                if self.phase == Phase::Active && rules.restart.scope == RestartScope::Group =>
            {
                // The coordinator stops it in its turn, after those that need it.
                self.check_asks_group(rules, text, (now, chance), fx);
            }
            Input::Broken { reason, text, .. } if self.phase == Phase::Active => {
                self.end_run(rules, reason, text, now, fx);
            }
            Input::Health { healthy, missing, .. } if self.phase == Phase::Active => {
                self.health(healthy, &missing, now, fx);
            }
            Input::DependencyDown { rule, text, .. } if self.phase == Phase::Active => {
                self.dependency_down(rules, rule, &text, fx);
            }

            Input::Attached { found, closing } => {
                self.attached(rules, (found, closing), (now, chance), fx);
            }
            Input::Exited { exit, .. } => self.exited(rules, exit, now, fx),
            Input::PreStopDone(failures) if self.phase == Phase::PreStop => {
                fx.extend(failures.into_iter().map(Effect::Note));
                self.delay_stop(rules, fx);
            }
            Input::Cleared { exit, report } if matches!(self.phase, Phase::Ending | Phase::Clearing) => {
                if let Some(exit) = exit {
                    self.exit = Some(exit);
                }
                self.cleared(rules, report, fx);
                self.run_post(rules, now, chance, fx);
            }
            Input::PostDone(failures) if self.phase == Phase::Post => {
                fx.extend(failures.into_iter().map(Effect::Note));
                fx.push(Effect::Work(Work::None));
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
                self.end_run(rules, RestartReason::NotReady, text, now, fx);
            }
            Input::Timer(Timer::Start)
                if self.phase == Phase::Active && rules.awaits_health() && !self.proven =>
            {
                let text = format!("not healthy after {}", words::duration(rules.start_timeout));
                self.end_run(rules, RestartReason::NotReady, text, now, fx);
            }
            Input::Timer(Timer::Watchdog) if self.phase == Phase::Active => {
                let text = "no WATCHDOG=1 within its interval".to_owned();
                self.end_run(rules, RestartReason::Watchdog, text, now, fx);
            }
            Input::Timer(Timer::StopDelay) if matches!(self.phase, Phase::PreStop | Phase::StopDelay) => {
                self.phase = Phase::Ending;
                fx.push(Effect::Timer(Timer::StopDelay, None));
                fx.push(Effect::Work(Work::Stop));
            }
            Input::Timer(Timer::Backoff) if self.phase == Phase::Backoff => self.ask_gate(fx),
            Input::Timer(Timer::StopFor) => self.stopped_for_long_enough(rules, fx),

            // What no longer fits the phase is stale.
            _ => {}
        }
        if self.retry.is_some() && self.up(rules) {
            self.retry = None;
        }
        step
    }

    /// What ended its last run, on the way to another one.
    pub fn retry(&self) -> Option<&Arc<Retry>> {
        let on_the_way = matches!(
            self.phase,
            Phase::When
                | Phase::Gate
                | Phase::Opening
                | Phase::Pre
                | Phase::Spawning
                | Phase::Active
                | Phase::Backoff
        );
        self.retry.as_ref().filter(|_| on_the_way)
    }

    /// Why it is in its state, and what ended its last run where that is not said anyhow.
    pub fn reason(&self) -> Arc<str> {
        match self.retry() {
            Some(retry) if self.phase != Phase::Backoff => {
                format!("{}; the last run: {}", self.message, retry.ended).into()
            }
            _ => Arc::clone(&self.message),
        }
    }

    /// It is to run again after this.
    fn tries_after(&mut self, ended: String) {
        self.retry = Some(Arc::new(Retry { ended, budget: String::new() }));
    }

    fn tell(&mut self, state: State, message: String, fx: &mut Vec<Effect>) {
        self.state = state;
        self.message = Arc::from(message);
        fx.push(Effect::Tell);
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
}
