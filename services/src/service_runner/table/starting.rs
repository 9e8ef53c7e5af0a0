//! From rest to a run that is ready and healthy.

use std::time::Duration;

use kelson_conditions::{Missing, sentence};
use kelson_runner::{ErrorKind, restart};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Readiness;

use super::effect::Moment;
use super::{Active, After, Effect, Ended, Gate, Phase, ReadySignal, ServiceState, Watchdog, Work};
use crate::model::{RestartReason, State};
use crate::service_runner::words;

impl ServiceState {
    /// To `when` or the gate.
    pub(super) fn begin(&mut self, ask_when: bool, at: &mut Moment) {
        self.asked_group = None;
        let mut has_when = at.rules.has_when;
        if let Some(new) = self.new_spec.take() {
            has_when = new;
            at.push(Effect::Adopt);
        }
        if ask_when && has_when {
            self.phase = Phase::When;
            self.tell("asking whether its `when` holds", at);
            at.work(Work::When);
        } else {
            self.ask_gate(at);
        }
    }

    /// The way to the next run, which is of the newest spec: what was prepared for another one is undone first.
    pub(super) fn ask_gate(&mut self, at: &mut Moment) {
        let opened = self.is_open();
        if self.new_spec.is_some() && opened {
            self.undo_for_new_spec(After::Gate, at);
            return;
        }
        if !matches!(self.phase, Phase::Gate(_)) {
            self.phase = Phase::Gate(Gate { shown: self.state(), missing: Vec::new(), opened });
        }
        if self.new_spec.take().is_some() {
            at.push(Effect::Adopt);
            at.push(Effect::Publish);
        }
        at.push(Effect::AskGate);
    }

    /// A new spec has come. Where no run has begun it counts at once, and otherwise from the next run on.
    pub(super) fn has_new_spec(&mut self, at: &mut Moment) {
        match &self.phase {
            Phase::Rest(_) => {
                if self.is_refused() {
                    at.note(words::TRIED_AGAIN);
                    self.begin(true, at);
                }
            }
            Phase::Gate(gate) => {
                if !gate.opened {
                    at.note("its file or image changed, and counts from now on");
                }
                self.ask_gate(at);
            }
            Phase::Opening => self.undo_for_new_spec(After::Gate, at),
            Phase::Backoff { .. } => at.note("its file or image changed, its next run uses it"),
            Phase::When | Phase::Pre { .. } | Phase::Spawning { .. } | Phase::Active(_) | Phase::Down(_) => {}
        }
    }

    pub(super) fn undo_for_new_spec(&mut self, after: After, at: &mut Moment) {
        at.push(Effect::DropGate);
        self.undo(after, "its file or image changed, undoing what was prepared", at);
    }

    /// The gate is shut: from now on it is watched, and nothing of a run has begun.
    pub(super) fn wait(&mut self, missing: Vec<Missing>, at: &mut Moment) {
        if self.state() == State::Waiting && self.missing() == missing {
            return;
        }
        let opened = self.is_open();
        let text = format!("waiting for {}", sentence(&missing));
        let is_told = self.state() == State::Waiting && *self.message == *text;
        self.phase = Phase::Gate(Gate { shown: State::Waiting, missing, opened });
        if is_told {
            // The previous incarnation of PID 1 has reported it.
            at.push(Effect::Publish);
        } else {
            self.tell(text, at);
        }
    }

    /// The gate went shut after the `pre` hooks: what they did is answered before it waits again.
    pub(super) fn break_off(&mut self, missing: &[Missing], at: &mut Moment) {
        at.push(Effect::DropGate);
        self.broken_off = self.broken_off.saturating_add(1);
        // Once is chance. Hooks that run again and again without a run count as failed starts.
        let after = if self.broken_off == 1 {
            After::Gate
        } else {
            let missing = sentence(missing);
            let text = format!("broken off after its pre hooks, waiting for {missing} again");
            After::not_started(text, ErrorKind::Retryable)
        };
        self.leave_run(after, at);
    }

    pub(super) fn gate_holds(&mut self, opened: bool, at: &mut Moment) {
        if opened {
            self.launch(at);
        } else {
            // The gate stays watched: it is asked again after preparing, and while the spawn waits.
            self.phase = Phase::Opening;
            self.tell("all that it waits for holds", at);
            at.work(Work::Open);
        }
    }

    /// A new run, from its `pre` hooks on.
    fn launch(&mut self, at: &mut Moment) {
        self.run = self.run.saturating_add(1);
        self.exit = None;
        let run = self.run;
        if at.rules.hooks.pre {
            self.phase = Phase::Pre { owes_post: false };
            self.tell(format!("run {run}, its pre hooks first"), at);
            at.work(Work::Pre);
        } else {
            self.phase = Phase::Spawning { owes_post: false };
            self.tell(format!("run {run}"), at);
            at.work(Work::Spawn);
        }
    }

    /// Nobody has demanded it for longer than the longest pause before a restart: short runs with such times in between
    /// are no reason for pauses.
    fn rested(&mut self, at: &Moment) {
        let pause = at.rules.restart.max_delay.max(restart::STABLE);
        if at.now.saturating_sub(self.spawned_at) > pause.saturating_mul(2) {
            self.history.rested();
        }
    }

    pub(super) fn spawned(&mut self, pid: i32, owes_post: bool, at: &mut Moment) {
        self.broken_off = 0;
        if const { OWN.has(Feature::Units) } && at.rules.on_demand {
            self.rested(at);
        }
        self.spawned_at = at.now;
        at.work(Work::None);
        let ready = at.rules.readiness == Readiness::None;
        let limit = at.rules.start_limit().filter(|_| !ready || at.rules.awaits_health());
        let readiness = if ready { ReadySignal::Given } else { ReadySignal::Awaited };
        let start = limit.map(|limit| at.after(limit));
        self.phase = Phase::Active(Active {
            pid,
            readiness,
            healthy: None,
            proven: false,
            start,
            watchdog: None,
            owes_post,
        });
        if ready {
            let process = words::process(pid);
            self.tell(format!("running{process}{}", words::before_checks(at.rules)), at);
        } else {
            let limit =
                limit.map_or_else(String::new, |limit| format!("at most {} ", words::duration(limit)));
            let signal = words::readiness(at.rules.readiness);
            self.tell(format!("PID {pid} started, waiting {limit}for {signal}"), at);
        }
    }

    /// Its command has ended: the main process is among those that it has left.
    pub(super) fn look_for_main(&mut self, active: Active, at: &mut Moment) {
        self.phase = Phase::Active(Active { pid: 0, ..active });
        self.message = "its command has ended, looking for its main process".into();
        at.push(Effect::Publish);
        at.work(Work::FindMain);
    }

    pub(super) fn main_found(&mut self, active: Active, pid: i32, at: &mut Moment) {
        let active = Active { pid, ..active };
        self.phase = Phase::Active(active);
        at.work(Work::None);
        match active.has_been_ready() {
            true => at.push(Effect::Publish),
            false => self.is_ready(active, at),
        }
    }

    pub(super) fn is_ready(&mut self, mut active: Active, at: &mut Moment) {
        let text = match active.readiness {
            ReadySignal::Given => return,
            ReadySignal::TakenBack => "ready again".to_owned(),
            ReadySignal::Awaited => {
                let took = words::duration(at.now.saturating_sub(self.spawned_at));
                let process = words::process(active.pid);
                // One that the run has set itself stays.
                active.watchdog = active.watchdog.or_else(|| {
                    let interval = at.rules.watchdog.filter(|_| const { OWN.has(Feature::Units) })?;
                    Some(Watchdog { interval, until: at.after(interval) })
                });
                format!("running, ready after {took}{process}{}", words::before_checks(at.rules))
            }
        };
        active.readiness = ReadySignal::Given;
        if active.proven || !at.rules.awaits_health() {
            active.start = None;
        }
        self.phase = Phase::Active(active);
        self.tell(text, at);
    }

    /// Takes the joint result of its checks.
    pub(super) fn health(
        &mut self,
        mut active: Active,
        healthy: Option<bool>,
        missing: &str,
        at: &mut Moment,
    ) {
        let changed = healthy != active.healthy;
        active.healthy = healthy;
        let text = match healthy {
            Some(true) if !changed => return,
            Some(true) if active.proven => "running, healthy again".to_owned(),
            Some(true) => {
                (active.proven, active.start) = (true, None);
                let took = words::duration(at.now.saturating_sub(self.spawned_at));
                format!("running, healthy after {took}{}", words::process(active.pid))
            }
            Some(false) | None => format!("running, waits for {missing}"),
        };
        self.phase = Phase::Active(active);
        if healthy == Some(false) {
            let (reason, text) = (RestartReason::Check, missing.to_owned());
            self.failure = None;
            self.fails(&Ended::GivenUp { ran: Duration::ZERO, reason, text });
        }
        if changed && active.ready() {
            self.tell(text, at);
        } else if changed {
            // That it is not ready is the better reason.
            at.push(Effect::Publish);
        } else if active.ready() && *self.message != *text {
            self.message = text.into();
            at.push(Effect::Publish);
        }
    }
}
