//! The state machine of one service: (state, input) → (state, effects). It is pure; the time is an argument.
//!
//! A service is in one [`Phase`], and at most one piece of [`Work`] is under way. An [`Input`] is something
//! that happened. [`ServiceState::step`] takes it, changes the state, and returns [`Effect`]s. The task
//! carries them out in their order. The result of an effect is the next input.
//!
//! A phase holds all that is known in it alone: its deadlines, the PID, why a service rests, what follows a stop. So
//! the compiler refuses a PID at rest, or a stop that leads nowhere. [`ServiceState`] holds the rest: counters, and the
//! requests and reports of the service that outlive a phase.
//!
//! An input is judged in this order:
//!
//! 1. **The run.** The table drops an input of an earlier run at the top of `follow`, and nowhere else.
//! 2. **The host.** Once it stops ([`Host`]), requests to start are refused there, and a run that ends is the last one.
//! 3. **The phase.** `follow` has an arm for each pair of phase and input. There is no catch-all: ignored pairs are
//!    listed. They are results of work that was replaced, and timers of a phase that is over.
//! 4. **What follows.** On the way down [`Stage`] says how far the end has come, and [`After`] what comes next: the
//!    restart policy decides, or the service runs again, or it rests. A request that meets a stop changes `After`, not
//!    the stop, so the last request wins.
//! 5. **The restart policy.** It is asked in one place (`decide`), once nothing of the run is left.
//!
//! The way up is Rest, When, Gate, Opening, Gate, Pre, Spawning, Active. The gate is evaluated again before each spawn.
//! The way down is PreStop, StopDelay, Ending (or Clearing, if the process ended by itself), Post. Then comes Backoff
//! and the gate again, or Closing and Rest. A way down is never broken off, and what was opened is closed before Rest.
//! A stop is accepted everywhere: new work replaces the work before it, which cancels every wait.
//!
//! [`State`](crate::model::State) is what is shown. It is coarser than the phase, and derived from it. Each change of
//! it is an event ([`Effect::Tell`]).
//!
//! docs/reference/service-table.md prints the table; `page_tests` writes it. `state`, `phase`, `input` and `effect`
//! hold the types, `requests` what is asked from outside, `starting` the way up, `ending` the way down, `after` what
//! comes after it.

use std::time::Duration;

use kelson_runner::restart::RestartHistory;
use kelson_spec::service::RestartScope;

use crate::model::RestartReason;

mod after;
mod effect;
mod ending;
mod input;
#[cfg(test)]
mod page_tests;
mod phase;
mod remaining;
mod requests;
mod resume;
mod starting;
mod state;

use Phase::{Backoff, Opening, Pre, Rest as AtRest, Spawning, When};
use Stage::{Clearing, Closing, Ending, Post, PreStop, StopDelay};
use effect::Moment;
pub use effect::{Answer, Effect, Step, Work};
pub use input::{HookKinds, Input, Report, Rules, StopReason, Timer};
pub use phase::{Active, After, Down, Ended, Gate, Hold, Outcome, Phase, ReadySignal, Rest, Stage, Watchdog};
pub use remaining::RemainingStop;
pub use state::{Host, Place, ServiceState};

/// The phases from `when` to the spawn.
macro_rules! way_up {
    () => {
        When | Phase::Gate(_) | Opening | Pre { .. } | Spawning { .. }
    };
}

/// A stage of the way down.
macro_rules! down {
    ($stage:pat) => {
        Phase::Down(Down { stage: $stage, .. })
    };
}

impl ServiceState {
    /// One step. `now` is the time since PID 1's start; `chance` is any number, for jitter.
    pub fn step(&mut self, rules: &Rules, input: Input, now: Duration, chance: u32) -> Step {
        let mut at = Moment { rules, now, chance, effects: Vec::new() };
        let answer = self.follow(input, &mut at);
        if self.retry.is_some() && self.up(rules) {
            self.retry = None;
        }
        if self.failure.is_some() && self.up(rules) {
            self.failure = None;
        }
        let mut effects = at.effects;
        // Tell records and publishes, too, and each effect sees the state as it is after the step.
        if effects.contains(&Effect::Tell) && !effects.contains(&Effect::Adopt) {
            effects.retain(|effect| !matches!(effect, Effect::Publish | Effect::Record));
        }
        Step { effects, answer }
    }

    /// The table itself. `_` stands for a phase only where all of them do the same. An empty arm lists the pairs that
    /// are ignored: what no longer fits the phase is stale.
    fn follow(&mut self, input: Input, at: &mut Moment) -> Option<Answer> {
        if let Input::Report(run, _) | Input::Exited { run, .. } = input
            && run != self.run
        {
            return None;
        }
        match (&self.phase, input) {
            // Requests.
            (_, Input::Start { .. } | Input::Restart { .. }) if self.closing() => {
                return Some(Answer::Refused("the host is stopping, nothing is started any more".into()));
            }
            (AtRest(Rest::Initialized { will_start: true }), Input::Begin) => match self.closing() {
                true => self.phase = AtRest(Rest::Initialized { will_start: false }),
                false => self.begin(true, at),
            },
            (
                AtRest(Rest::Initialized { will_start: false } | Rest::Ended(..))
                | way_up!()
                | Phase::Active(_)
                | Phase::Down(_)
                | Backoff { .. },
                Input::Begin,
            ) => {}

            (_, Input::Start { request_id }) => return Some(self.start(request_id, at)),
            (_, Input::Restart { request_id }) => {
                self.history = RestartHistory::default();
                self.restart(request_id, "asked by an operator", at);
                return Some(Answer::Done);
            }
            (Phase::Gate(_) | Phase::Active(_) | Backoff { .. }, Input::Replace { text }) => {
                if !self.closing() {
                    self.restart(self.request_id, &text, at);
                }
            }
            // A service that is on its way already, up or down, ends as it would.
            (
                AtRest(_) | When | Opening | Pre { .. } | Spawning { .. } | Phase::Down(_),
                Input::Replace { .. },
            ) => {}
            (_, Input::Stop { request_id, reason }) => return Some(self.stop(request_id, &reason, at)),
            (_, Input::StopFor(time)) => self.stop_for(time, at),
            (AtRest(_), Input::Due) => self.due(at),
            (way_up!() | Phase::Active(_) | Phase::Down(_) | Backoff { .. }, Input::Due) => {}

            // Its group.
            (AtRest(_), Input::GroupStart { text }) => self.group_start(&text, at),
            (AtRest(_), Input::Arm) => {
                if !self.closing() && !self.is_stopped() {
                    self.begin(true, at);
                }
            }
            (
                way_up!() | Phase::Active(_) | Phase::Down(_) | Backoff { .. },
                Input::GroupStart { .. } | Input::Arm,
            ) => {}
            (_, Input::GroupRefused { text }) => self.group_refused(&text, at),

            // Its file, and the host.
            (_, Input::NewSpec { has_when }) => {
                self.new_spec = Some(has_when);
                at.push(Effect::Publish);
                self.has_new_spec(at);
            }
            (_, Input::OldSpec) => {
                self.new_spec = None;
                at.push(Effect::Publish);
            }
            (_, Input::Leaving) => {
                self.leaving = true;
                at.push(Effect::Publish);
            }
            (AtRest(_), Input::ArchivesChanged) => {
                if self.is_refused() {
                    at.note("the archives of images changed, it is tried again");
                    self.begin(true, at);
                }
            }
            (way_up!() | Phase::Active(_) | Phase::Down(_) | Backoff { .. }, Input::ArchivesChanged) => {}
            (_, Input::Closing) => {
                self.host = self.host.max(Host::Stops);
                // Its process is not begun any more, so its hooks need not wait until those that need it are down. One
                // that is just being made is stopped in its turn.
                if matches!(self.phase, Pre { .. }) {
                    self.stop(self.request_id, &StopReason::Shutdown, at);
                }
            }
            (_, Input::Attached { found, closing }) => self.attached(found, closing, at),

            // The answers of the gate and `when`.
            (When, Input::WhenHolds) => self.ask_gate(at),
            (When, Input::WhenFails(text)) => {
                at.work(Work::None);
                self.end(Outcome::Skipped, format!("skipped: {text}"), at);
            }
            (
                AtRest(_)
                | Phase::Gate(_)
                | Opening
                | Pre { .. }
                | Spawning { .. }
                | Phase::Active(_)
                | Phase::Down(_)
                | Backoff { .. },
                Input::WhenHolds | Input::WhenFails(_),
            ) => {}
            (Phase::Gate(_), Input::GateShut(missing)) => self.wait(missing, at),
            (Spawning { .. }, Input::GateShut(missing)) if at.rules.hooks.pre => {
                self.break_off(&missing, at);
            }
            // It went shut while the run waited for its turn: the task watches it until then.
            (Pre { .. } | Spawning { .. }, Input::GateShut(missing)) => {
                at.work(Work::None);
                self.wait(missing, at);
            }
            (Phase::Gate(gate), Input::GateHolds) => {
                if !self.closing() {
                    self.gate_holds(gate.opened, at);
                }
            }
            (
                AtRest(_) | When | Opening | Phase::Active(_) | Phase::Down(_) | Backoff { .. },
                Input::GateShut(_) | Input::GateHolds,
            )
            | (Pre { .. } | Spawning { .. }, Input::GateHolds) => {}

            // The results of the work under way, up to a process.
            (Opening, Input::Opened(Ok(()))) => {
                let shown = self.state();
                self.phase = Phase::Gate(Gate { shown, missing: Vec::new(), opened: true });
                at.work(Work::None);
                self.ask_gate(at);
            }
            (Opening, Input::Opened(Err(error))) => {
                let text = format!("preparing failed: {error}");
                at.note(text.clone());
                at.push(Effect::DropGate);
                self.close(After::not_started(text, error.kind), at);
            }
            (Pre { .. }, Input::Turn) => self.phase = Pre { owes_post: at.rules.hooks.post },
            (Spawning { .. }, Input::Turn) => self.phase = Spawning { owes_post: at.rules.hooks.post },
            (Pre { owes_post }, Input::PreDone(Ok(failures))) => {
                at.notes(failures);
                self.phase = Spawning { owes_post: *owes_post };
                at.work(Work::Spawn);
            }
            (Pre { .. }, Input::PreDone(Err(error))) => {
                at.push(Effect::DropGate);
                self.leave_run(After::not_started(error.message, error.kind), at);
            }
            (Pre { .. }, Input::PreSkips(text)) => {
                at.push(Effect::DropGate);
                let text = format!("skipped: {text}");
                self.leave_run(After::Rest { outcome: Outcome::Skipped, text }, at);
            }
            (Spawning { owes_post }, Input::Spawned(Ok(pid))) => self.spawned(pid, *owes_post, at),
            (Spawning { .. }, Input::Spawned(Err(error))) => {
                self.exit = error.exit_status().map(kelson_runner::Exit::Status);
                self.leave_run(After::not_started(format!("could not start: {error}"), error.kind), at);
            }
            (
                AtRest(_) | When | Phase::Gate(_) | Phase::Active(_) | Phase::Down(_) | Backoff { .. },
                Input::Opened(_) | Input::Turn | Input::PreDone(_) | Input::PreSkips(_) | Input::Spawned(_),
            )
            | (Opening, Input::Turn | Input::PreDone(_) | Input::PreSkips(_) | Input::Spawned(_))
            | (Pre { .. }, Input::Opened(_) | Input::Spawned(_))
            | (Spawning { .. }, Input::Opened(_) | Input::PreDone(_) | Input::PreSkips(_)) => {}

            // The notify messages of the run, and findings about it.
            (Phase::Active(active), Input::Report(_, report)) => self.reported(*active, report, at),
            (Phase::Active(active), Input::Ping) => self.phase = Phase::Active(active.pinged(at.now)),
            (Phase::Active(active), Input::WatchdogInterval(interval)) => {
                let watchdog = interval.map(|interval| Watchdog { interval, until: at.after(interval) });
                self.phase = Phase::Active(Active { watchdog, ..*active });
                at.push(Effect::Record);
            }
            (
                AtRest(_) | way_up!() | Phase::Down(_) | Backoff { .. },
                Input::Report(..) | Input::Ping | Input::WatchdogInterval(_),
            ) => {}

            // Its end.
            (Phase::Active(active), Input::Exited { exit, .. }) if active.leaves(exit, at.rules) => {
                self.look_for_main(*active, at);
            }
            (Phase::Active(active), Input::Exited { exit, .. }) => self.ended(*active, exit, at),
            (Phase::Active(active), Input::MainFound(Ok(pid))) => self.main_found(*active, pid, at),
            (Phase::Active(active), Input::MainFound(Err(error))) => {
                self.end_run(*active, RestartReason::NotReady, error.message, at);
            }
            (AtRest(_) | way_up!() | Phase::Down(_) | Backoff { .. }, Input::MainFound(_)) => {}
            (down!(PreStop { .. } | StopDelay { .. }), Input::Exited { exit, .. }) => {
                self.clear_away(exit, at);
            }
            (down!(Ending { .. }), Input::Exited { exit, .. }) => self.exits_at_last(exit, at),
            // The process of a run that has been cleared away: only its status is news.
            (
                AtRest(_) | way_up!() | down!(Clearing | Post | Closing) | Backoff { .. },
                Input::Exited { exit, .. },
            ) => self.exit = Some(exit),
            (down!(PreStop { delays, pid }), Input::PreStopDone(failures)) => {
                at.notes(failures);
                self.delay_stop(*delays, *pid, at);
            }
            (down!(Ending { .. } | Clearing), Input::Cleared { exit, report }) => {
                self.cleared(exit, report, at);
            }
            (down!(Post), Input::PostDone(failures)) => {
                at.notes(failures);
                at.work(Work::None);
                self.conclude(at);
            }
            (down!(Closing), Input::Closed(result)) => {
                at.work(Work::None);
                if let Err(error) = result {
                    at.note(format!("cleaning up failed: {error}"));
                }
                self.conclude(at);
            }
            (
                AtRest(_) | way_up!() | Phase::Active(_) | Backoff { .. } | down!(StopDelay { .. }),
                Input::PreStopDone(_) | Input::Cleared { .. } | Input::PostDone(_) | Input::Closed(_),
            )
            | (down!(PreStop { .. }), Input::Cleared { .. } | Input::PostDone(_) | Input::Closed(_))
            | (
                down!(Ending { .. } | Clearing),
                Input::PreStopDone(_) | Input::PostDone(_) | Input::Closed(_),
            )
            | (down!(Post), Input::PreStopDone(_) | Input::Cleared { .. } | Input::Closed(_))
            | (down!(Closing), Input::PreStopDone(_) | Input::Cleared { .. } | Input::PostDone(_)) => {}

            // Its deadlines: one that has passed, and what moves one.
            (Phase::Active(active), Input::Timer(Timer::Start)) => self.start_timeout(*active, at),
            (Phase::Active(active), Input::Timer(Timer::Watchdog)) => {
                let text = "no WATCHDOG=1 within its interval".to_owned();
                self.end_run(*active, RestartReason::Watchdog, text, at);
            }
            (down!(StopDelay { .. }), Input::Timer(Timer::StopDelay)) => self.signal(at),
            (Backoff { .. }, Input::Timer(Timer::Backoff)) => self.ask_gate(at),
            (_, Input::Timer(Timer::StopFor)) => self.stopped_for_long_enough(at),
            (
                AtRest(_) | way_up!() | Phase::Down(_) | Backoff { .. },
                Input::Timer(Timer::Start | Timer::Watchdog),
            )
            | (
                AtRest(_)
                | way_up!()
                | Phase::Active(_)
                | down!(PreStop { .. } | Ending { .. } | Clearing | Post | Closing)
                | Backoff { .. },
                Input::Timer(Timer::StopDelay),
            )
            | (AtRest(_) | way_up!() | Phase::Active(_) | Phase::Down(_), Input::Timer(Timer::Backoff)) => {}
            (Phase::Active(active), Input::Extend(by)) => {
                let start = active.start.map(|start| start.max(at.after(by)));
                self.phase = Phase::Active(Active { start, ..*active });
                at.push(Effect::Record);
            }
            (down!(Ending { until: Some(_), forced: false, .. }), Input::Extend(by)) => {
                self.extend_stop(by, at);
            }
            (
                AtRest(_)
                | way_up!()
                | down!(PreStop { .. } | StopDelay { .. } | Ending { .. } | Clearing | Post | Closing)
                | Backoff { .. },
                Input::Extend(_),
            ) => {}
            (down!(PreStop { .. } | StopDelay { .. } | Ending { forced: false, .. }), Input::Force) => {
                self.force(at);
            }
            (
                AtRest(_)
                | way_up!()
                | Phase::Active(_)
                | down!(Ending { forced: true, .. } | Clearing | Post | Closing)
                | Backoff { .. },
                Input::Force,
            ) => {}
            (_, Input::Kill) => self.is_overdue(at),
        }
        None
    }

    /// The part of the table for reports of the present run.
    fn reported(&mut self, active: Active, report: Report, at: &mut Moment) {
        match report {
            Report::Ready => self.is_ready(active, at),
            Report::Unready { text } => {
                if active.ready() {
                    self.phase = Phase::Active(Active { readiness: ReadySignal::TakenBack, ..active });
                    self.tell(text, at);
                }
            }
            Report::NeverReady { text } => {
                if !active.ready() {
                    self.end_run(active, RestartReason::NotReady, text, at);
                }
            }
            Report::Broken { reason, text } => {
                if reason == RestartReason::Check && at.rules.restart.scope == RestartScope::Group {
                    // The coordinator stops it in its turn, after those that need it.
                    self.check_asks_group(active, text, at);
                } else {
                    self.end_run(active, reason, text, at);
                }
            }
            Report::Health { healthy, missing } => self.health(active, healthy, &missing, at),
            Report::DependencyDown { rule, text } => self.dependency_down(active, rule, &text, at),
        }
    }
}
