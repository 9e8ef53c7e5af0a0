//! The life of one service: (state, input) → (state, effects). Pure; time comes in as an argument.
//!
//! A service is in one [`Phase`], and one piece of [`Work`] is under way. Something happens to it, an [`Input`]; the table
//! answers with [`Effect`]s, which the task carries out in their order. What they bring comes back as an input.
//!
//! What decides, in this order:
//!
//! 1. **The run.** An input of an earlier run is dropped at the top of [`ServiceState::step`], and nowhere else.
//! 2. **The host.** Once it stops (`closing`), requests to start are refused there, and a run that ends is the last one.
//! 3. **The phase.** [`ServiceState::follow`] has an arm for each pair of phase and input. There is no catch-all: pairs
//!    that are ignored are listed. They are results of work that was replaced, and timers that have lost their meaning.
//! 4. **What follows** (`after`). On the way down the phase says how far the end has come, and `after` what comes behind
//!    it: the restart policy decides, or it runs again, or it rests. So a request that meets a stop changes `after` and
//!    not the stop, and the last request wins.
//! 5. **The restart policy**, which is asked in one place ([`ServiceState::decide`]), once nothing of the run is left.
//!
//! The way up is Rest, When, Gate, Opening, Gate, Pre, Spawning, Active. The gate is asked again before each spawn. The
//! way down is PreStop, StopDelay, Ending (or Clearing, where the process ended by itself), Post, then Backoff and the
//! gate again, or Closing and Rest. A way down is never broken off; what was opened is closed before Rest. A stop is
//! accepted everywhere: new work drops the work before it, which cancels all that waits.
//!
//! [`State`] is what is shown. It is coarser than the phase, and each change of it is an event (`Effect::Tell`).
//!
//! docs/reference/service-table.md prints the table, as `page_tests` makes it. `vocabulary` has the words, `requests` what is
//! asked from outside, `starting` the way up, `ending` the way down, `resume` the way through a re-exec, `facts`
//! what others ask of a state.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::Missing;
use kelson_runner::restart::RestartHistory;
use kelson_runner::{ErrorKind, Exit};
use kelson_spec::service::RestartScope;

use crate::model::{RestartCounts, RestartReason, Retry, State};
pub(crate) use ending::After;

mod ending;
mod facts;
#[cfg(test)]
mod page_tests;
mod remaining;
mod requests;
mod resume;
mod starting;
mod vocabulary;

use Phase::{Clearing, Closing, Gate, Opening, Post, Pre, Rest, Spawning, When};
pub use remaining::RemainingStop;
use vocabulary::Effects;
pub use vocabulary::{
    Active, Answer, Effect, Ended, HookKinds, Input, Phase, Rules, Step, StopReason, Timer, Work,
};

/// The phases from `when` to the spawn.
macro_rules! way_up {
    () => {
        When | Gate | Opening | Pre | Spawning
    };
}

/// The phases from the first `preStop` hook to the last cleanup.
macro_rules! way_down {
    () => {
        Phase::PreStop { .. } | Phase::StopDelay { .. } | Phase::Ending { .. } | Clearing | Post | Closing
    };
}

/// One service as the table sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceState {
    pub state: State,
    pub phase: Phase,
    /// Number of the current or last run.
    pub run: u64,
    pub pid: Option<i32>,
    pub restarts: u32,
    pub restarts_by: RestartCounts,
    pub stopped: bool,
    /// Somebody stopped it after it had ended by itself: its group does not start it.
    pub(crate) unwanted: bool,
    /// Ended successfully by itself.
    pub finished: bool,
    pub request_id: u64,
    /// Shared with the snapshot and the event that tell it.
    pub message: Arc<str>,
    /// It is tried again, and was not up since.
    pub(crate) retry: Option<Arc<Retry>>,
    /// What the gate lacks. Not recorded: another incarnation of PID 1 asks the gate at once.
    pub missing: Vec<Missing>,
    /// The next [`Input::Begin`] starts it: not yet begun, but not down either. Settled when the service was added, and
    /// recorded: what its file says by now starts nothing.
    pub will_start: bool,
    /// The last exit that was learnt and not yet acted on.
    pub exit: Option<Exit>,
    /// The stop signal of its image, where that counts and not the service file's. For the crash limit, which does not
    /// ask containerd.
    pub(crate) stop_signal: Option<NonZeroU8>,
    pub(crate) opened: bool,
    /// Something of this run was begun: its `post` hooks are owed.
    pub(crate) owes_post: bool,
    /// How often its gate went shut after its `pre` hooks since it was last spawned.
    pub(crate) broken_off: u32,
    /// It is stopped because its file is gone.
    pub(crate) leaving: bool,
    /// Its group has stopped it and is to start it again.
    pub(crate) awaits_group: bool,
    /// It asked for its group to be restarted, for this reason.
    pub(crate) asked_group: Option<RestartReason>,
    /// A new spec waits; whether that has a `when`.
    pub(crate) new_spec: Option<bool>,
    pub(crate) closing: bool,
    pub(crate) after: Option<After>,
    pub(crate) history: RestartHistory,
    pub(crate) spawned_at: Duration,
    /// Until when an operator stopped it.
    pub stop_for: Option<Duration>,
}

impl ServiceState {
    pub fn new(will_start: bool) -> ServiceState {
        ServiceState {
            state: State::Initialized,
            phase: Phase::Rest,
            run: 0,
            pid: None,
            restarts: 0,
            restarts_by: RestartCounts::default(),
            stopped: false,
            unwanted: false,
            finished: false,
            request_id: 0,
            message: Arc::from(""),
            retry: None,
            missing: Vec::new(),
            will_start,
            exit: None,
            stop_signal: None,
            opened: false,
            owes_post: false,
            broken_off: 0,
            leaving: false,
            awaits_group: false,
            asked_group: None,
            new_spec: None,
            closing: false,
            after: None,
            history: RestartHistory::default(),
            spawned_at: Duration::ZERO,
            stop_for: None,
        }
    }

    /// One step. `now` is the time since PID 1's start; `chance` is any number, for jitter.
    pub fn step(&mut self, rules: &Rules, input: Input, now: Duration, chance: u32) -> Step {
        let mut step = Step::default();
        let mut fx = Effects { all: Vec::new(), now };
        if input.run().is_some_and(|run| run != self.run) {
            // A message of an earlier run ends here.
        } else if self.closing && matches!(input, Input::Start { .. } | Input::Restart { .. }) {
            let text = "the host is stopping, nothing is started any more";
            step.answer = Some(Answer::Refused(text.into()));
        } else {
            step.answer = self.follow(rules, input, (now, chance), &mut fx);
        }
        if self.retry.is_some() && self.up(rules) {
            self.retry = None;
        }
        step.effects = fx.all;
        step
    }

    /// The table itself. `_` stands for a phase only where all of them do the same. An empty arm lists the pairs that are
    /// ignored: what no longer fits the phase is stale.
    fn follow(
        &mut self,
        rules: &Rules,
        input: Input,
        (now, chance): (Duration, u32),
        fx: &mut Effects,
    ) -> Option<Answer> {
        match (self.phase, input) {
            // Requests.
            (Rest, Input::Begin) => {
                let starts = std::mem::take(&mut self.will_start);
                if starts && self.state == State::Initialized && !self.closing {
                    self.begin(rules, true, fx);
                }
            }
            (way_up!() | Phase::Active(_) | way_down!() | Phase::Backoff { .. }, Input::Begin) => {}

            (Rest, Input::Start { request_id }) => return Some(self.start_from_rest(rules, request_id, fx)),
            (Phase::Backoff { .. }, Input::Start { request_id }) => {
                self.take_up(request_id);
                self.history = RestartHistory::default();
                self.again_from_gate(rules, fx);
                return Some(Answer::Done);
            }
            (way_down!(), Input::Start { request_id }) => {
                return Some(self.start_after_stop(rules, request_id, fx));
            }
            // A request that changes nothing replaces none.
            (way_up!(), Input::Start { .. }) => {
                return Some(Answer::NothingToDo("it is starting already".into()));
            }
            (Phase::Active(_), Input::Start { .. }) => {
                return Some(Answer::NothingToDo("it runs already".into()));
            }

            (_, Input::Restart { request_id }) => {
                self.history = RestartHistory::default();
                self.restart(rules, request_id, "asked by an operator", fx);
                return Some(Answer::Done);
            }
            (Gate | Phase::Active(_) | Phase::Backoff { .. }, Input::Replace { text }) => {
                // The one that closes starts nothing any more.
                if !self.closing {
                    self.restart(rules, self.request_id, &text, fx);
                }
            }
            // What is on its way already, up or down, ends as it would.
            (Rest | When | Opening | Pre | Spawning | way_down!(), Input::Replace { .. }) => {}

            (Rest, Input::Stop { request_id, reason }) => {
                return Some(self.stop_at_rest(request_id, &reason, fx));
            }
            (
                way_up!() | Phase::Active(_) | way_down!() | Phase::Backoff { .. },
                Input::Stop { request_id, reason },
            ) => return Some(self.stop(rules, request_id, &reason, fx)),

            (_, Input::StopFor(time)) => self.stop_for(time, fx),

            (Rest, Input::GroupStart { text }) => self.group_start(rules, &text, fx),
            (Rest, Input::Arm) => {
                if !self.closing && !self.is_stopped() {
                    self.begin(rules, true, fx);
                }
            }
            (
                way_up!() | Phase::Active(_) | way_down!() | Phase::Backoff { .. },
                Input::GroupStart { .. } | Input::Arm,
            ) => {}
            (_, Input::GroupRefused { text }) => self.group_refused(rules, &text, fx),

            // Its file, and the host.
            (_, Input::NewSpec { has_when }) => {
                self.new_spec = Some(has_when);
                fx.push(Effect::Publish);
                self.has_new_spec(rules, fx);
            }
            (_, Input::OldSpec) => {
                self.new_spec = None;
                fx.push(Effect::Publish);
            }
            (_, Input::Leaving) => {
                self.leaving = true;
                fx.push(Effect::Publish);
            }
            (Rest, Input::ArchivesChanged) => {
                if self.is_refused() {
                    fx.push(Effect::Note("the archives of images changed, it is tried again".into()));
                    self.begin(rules, true, fx);
                }
            }
            (way_up!() | Phase::Active(_) | way_down!() | Phase::Backoff { .. }, Input::ArchivesChanged) => {}
            // Its process is not begun any more, so its hooks need not wait until those that need it are down. One that is
            // just being made is stopped in its turn.
            (Pre, Input::Closing) => {
                self.closing = true;
                self.stop(rules, self.request_id, &StopReason::Shutdown, fx);
            }
            (
                Rest
                | When
                | Gate
                | Opening
                | Spawning
                | Phase::Active(_)
                | way_down!()
                | Phase::Backoff { .. },
                Input::Closing,
            ) => self.closing = true,
            (_, Input::Attached { found, closing }) => {
                self.attached(rules, (found, closing), (now, chance), fx)
            }

            // What the gate and `when` say.
            (When, Input::WhenHolds) => self.ask_gate(fx),
            (When, Input::WhenFails(text)) => {
                fx.push(Effect::Work(Work::None));
                self.rest(State::Skipped, format!("skipped: {text}"), fx);
            }
            (
                Rest
                | Gate
                | Opening
                | Pre
                | Spawning
                | Phase::Active(_)
                | way_down!()
                | Phase::Backoff { .. },
                Input::WhenHolds | Input::WhenFails(_),
            ) => {}
            (Gate | Pre | Spawning, Input::GateShut(missing)) => {
                self.gate_shut(rules, missing, (now, chance), fx);
            }
            (Gate, Input::GateHolds) => {
                if !self.closing {
                    self.gate_holds(rules, fx);
                }
            }
            (
                Rest | When | Opening | Phase::Active(_) | way_down!() | Phase::Backoff { .. },
                Input::GateShut(_) | Input::GateHolds,
            )
            | (Pre | Spawning, Input::GateHolds) => {}

            // What the work under way has brought, up to a process.
            (Opening, Input::Opened(Ok(()))) => {
                self.opened = true;
                fx.push(Effect::Work(Work::None));
                self.ask_gate(fx);
            }
            (Opening, Input::Opened(Err(error))) => {
                let text = format!("preparing failed: {error}");
                fx.push(Effect::Note(text.clone()));
                fx.push(Effect::DropGate);
                self.after = Some(After::Decide(Ended::NotStarted { text, kind: error.kind }));
                self.close(fx);
            }
            (
                Rest | When | Gate | Pre | Spawning | Phase::Active(_) | way_down!() | Phase::Backoff { .. },
                Input::Opened(_),
            ) => {}
            (Pre | Spawning, Input::Turn) => self.owes_post = rules.hooks.post,
            (Pre, Input::PreDone(Ok(()))) => {
                self.phase = Spawning;
                fx.push(Effect::Work(Work::Spawn));
            }
            (Pre, Input::PreDone(Err(text))) => {
                fx.push(Effect::DropGate);
                let kind = ErrorKind::Retryable;
                self.after = Some(After::Decide(Ended::NotStarted { text, kind }));
                self.run_post(rules, now, chance, fx);
            }
            (Spawning, Input::Spawned(Ok(pid))) => self.spawned(rules, pid, now, fx),
            (Spawning, Input::Spawned(Err(error))) => {
                let text = format!("could not start: {error}");
                self.after = Some(After::Decide(Ended::NotStarted { text, kind: error.kind }));
                self.run_post(rules, now, chance, fx);
            }
            (
                Rest | When | Gate | Opening | Phase::Active(_) | way_down!() | Phase::Backoff { .. },
                Input::Turn | Input::PreDone(_) | Input::Spawned(_),
            )
            | (Pre, Input::Spawned(_))
            | (Spawning, Input::PreDone(_)) => {}

            // What the run says of itself, and what is learnt of it.
            (Phase::Active(active), Input::Ready { .. }) => {
                if !active.ready {
                    self.is_ready(rules, active, now, fx);
                }
            }
            (Phase::Active(active), Input::Unready { text, .. }) => {
                if active.ready {
                    self.phase = Phase::Active(Active { ready: false, ..active });
                    self.tell(self.state, text, fx);
                }
            }
            (Phase::Active(active), Input::NeverReady { text, .. }) => {
                if !active.ready {
                    self.end_run(rules, RestartReason::NotReady, text, now, fx);
                }
            }
            (Phase::Active(_), Input::Broken { reason, text, .. }) => {
                if reason == RestartReason::Check && rules.restart.scope == RestartScope::Group {
                    // The coordinator stops it in its turn, after those that need it.
                    self.check_asks_group(rules, text, (now, chance), fx);
                } else {
                    self.end_run(rules, reason, text, now, fx);
                }
            }
            (Phase::Active(active), Input::Health { healthy, missing, .. }) => {
                self.health(active, healthy, &missing, now, fx);
            }
            (Phase::Active(_), Input::DependencyDown { rule, text, .. }) => {
                self.dependency_down(rules, rule, &text, fx)
            }
            (
                Rest | way_up!() | way_down!() | Phase::Backoff { .. },
                Input::Ready { .. }
                | Input::Unready { .. }
                | Input::NeverReady { .. }
                | Input::Broken { .. }
                | Input::Health { .. }
                | Input::DependencyDown { .. },
            ) => {}

            // Its end.
            (Phase::Active(active), Input::Exited { exit, .. }) => self.ended(rules, active, exit, now, fx),
            (Phase::PreStop { .. } | Phase::StopDelay { .. }, Input::Exited { exit, .. }) => {
                self.clear_away(exit, fx)
            }
            (Phase::Ending { .. }, Input::Exited { exit, .. }) => {
                self.exit = Some(exit);
                self.pid = None;
                fx.push(Effect::Publish);
            }
            // The process of a run that has been cleared away: only its status is news.
            (
                Rest | way_up!() | Clearing | Post | Closing | Phase::Backoff { .. },
                Input::Exited { exit, .. },
            ) => self.exit = Some(exit),
            (Phase::PreStop { delays }, Input::PreStopDone(failures)) => {
                fx.note(failures);
                self.delay_stop(rules, delays, fx);
            }
            (Phase::Ending { .. } | Clearing, Input::Cleared { exit, report }) => {
                self.exit = exit.or(self.exit);
                self.cleared(rules, report, fx);
                self.run_post(rules, now, chance, fx);
            }
            (Post, Input::PostDone(failures)) => {
                fx.note(failures);
                fx.push(Effect::Work(Work::None));
                self.conclude(rules, now, chance, fx);
            }
            (Closing, Input::Closed(result)) => {
                self.opened = false;
                fx.push(Effect::Work(Work::None));
                if let Err(text) = result {
                    fx.push(Effect::Note(format!("cleaning up failed: {text}")));
                }
                self.conclude(rules, now, chance, fx);
            }
            (
                Rest | way_up!() | Phase::Active(_) | Phase::Backoff { .. },
                Input::PreStopDone(_) | Input::Cleared { .. } | Input::PostDone(_) | Input::Closed(_),
            )
            | (
                Phase::PreStop { .. } | Phase::StopDelay { .. },
                Input::Cleared { .. } | Input::PostDone(_) | Input::Closed(_),
            )
            | (Phase::StopDelay { .. }, Input::PreStopDone(_))
            | (
                Phase::Ending { .. } | Clearing,
                Input::PreStopDone(_) | Input::PostDone(_) | Input::Closed(_),
            )
            | (Post, Input::PreStopDone(_) | Input::Cleared { .. } | Input::Closed(_))
            | (Closing, Input::PreStopDone(_) | Input::Cleared { .. } | Input::PostDone(_)) => {}

            // Its deadlines: one that has passed, and what moves one.
            (Phase::Active(active), Input::Timer(Timer::Start)) => {
                self.phase = Phase::Active(Active { start: None, ..active });
                self.start_timeout(rules, active, now, fx);
            }
            (Phase::Active(_), Input::Timer(Timer::Watchdog)) => {
                let text = "no WATCHDOG=1 within its interval".to_owned();
                self.end_run(rules, RestartReason::Watchdog, text, now, fx);
            }
            (Phase::StopDelay { .. }, Input::Timer(Timer::StopDelay)) => self.signal(rules, fx),
            (Phase::Backoff { .. }, Input::Timer(Timer::Backoff)) => self.ask_gate(fx),
            (_, Input::Timer(Timer::StopFor)) => self.stopped_for_long_enough(rules, fx),
            (Phase::Active(active), Input::Watchdog(interval)) => {
                let watchdog = interval.map(|interval| now.saturating_add(interval));
                self.phase = Phase::Active(Active { watchdog, ..active });
            }
            (Phase::Active(active), Input::Extend(by)) => {
                let start = active.start.map(|start| start.max(now.saturating_add(by)));
                self.phase = Phase::Active(Active { start, ..active });
                fx.push(Effect::Record);
            }
            (Phase::Ending { until: Some(until) }, Input::Extend(by)) => {
                let later = now.saturating_add(by);
                if until < later {
                    self.phase = Phase::Ending { until: Some(later) };
                    fx.push(Effect::Record);
                    fx.push(Effect::Work(Work::Stop));
                }
            }
            // What is left of its time is nothing, also in a later incarnation of PID 1.
            (Phase::PreStop { .. } | Phase::StopDelay { .. } | Phase::Ending { .. }, Input::Force) => {
                fx.push(Effect::Note("killed: asked by an operator".into()));
                self.phase = Phase::Ending { until: Some(now) };
                fx.push(Effect::Record);
                fx.push(Effect::Work(Work::Stop));
            }
            (Phase::PreStop { .. } | Phase::StopDelay { .. } | Phase::Ending { .. }, Input::Kill) => {
                self.phase = Phase::Ending { until: Some(now) };
                fx.push(Effect::Work(Work::Stop));
            }
            (Clearing, Input::Kill) => fx.push(Effect::Work(Work::Clear)),
            (Post, Input::Kill) => fx.push(Effect::Work(Work::Post)),
            (
                Rest | way_up!() | way_down!() | Phase::Backoff { .. },
                Input::Timer(Timer::Start | Timer::Watchdog) | Input::Watchdog(_),
            )
            | (
                Rest
                | way_up!()
                | Phase::Active(_)
                | Phase::PreStop { .. }
                | Phase::Ending { .. }
                | Clearing
                | Post
                | Closing
                | Phase::Backoff { .. },
                Input::Timer(Timer::StopDelay),
            )
            | (Rest | way_up!() | Phase::Active(_) | way_down!(), Input::Timer(Timer::Backoff))
            | (
                Rest
                | When
                | Gate
                | Opening
                | Pre
                | Spawning
                | Phase::PreStop { .. }
                | Phase::StopDelay { .. }
                | Phase::Ending { until: None }
                | Clearing
                | Post
                | Closing
                | Phase::Backoff { .. },
                Input::Extend(_),
            )
            | (
                Rest | way_up!() | Phase::Active(_) | Clearing | Post | Closing | Phase::Backoff { .. },
                Input::Force,
            )
            | (Rest | way_up!() | Phase::Active(_) | Closing | Phase::Backoff { .. }, Input::Kill) => {}
        }
        None
    }

    /// It is to run again after this.
    fn tries_after(&mut self, ended: String) {
        self.retry = Some(Arc::new(Retry { ended, budget: String::new() }));
    }

    fn tell(&mut self, state: State, message: String, fx: &mut Effects) {
        self.state = state;
        self.message = Arc::from(message);
        fx.push(Effect::Tell);
    }
}
