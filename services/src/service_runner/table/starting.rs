//! From rest to a run that is ready and healthy.

use std::time::Duration;

use kelson_conditions::{Missing, sentence};
use kelson_runner::ErrorKind;
use kelson_spec::service::Readiness;

use super::ending::After;
use super::{Active, Effect, Effects, Ended, Phase, Rules, ServiceState, Work};
use crate::model::State;
use crate::service_runner::words;

/// What is told of one that was refused, and whose file has changed since.
pub(super) const TRIED_AGAIN: &str = "its file changed, it is tried again";

impl ServiceState {
    /// From rest to `when` or the gate.
    pub(super) fn begin(&mut self, rules: &Rules, ask_when: bool, fx: &mut Effects) {
        self.will_start = false;
        self.finished = false;
        self.stopped = false;
        self.unwanted = false;
        self.awaits_group = false;
        self.asked_group = None;
        self.after = None;
        let mut has_when = rules.has_when;
        if let Some(new) = self.new_spec.take() {
            has_when = new;
            fx.push(Effect::Adopt);
        }
        if ask_when && has_when {
            self.phase = Phase::When;
            self.missing = Vec::new();
            self.tell(State::Waiting, "asking whether its `when` holds".into(), fx);
            fx.push(Effect::Work(Work::When));
        } else {
            self.ask_gate(fx);
        }
    }

    /// The way to the next run, which is of the newest spec: what was prepared for another one is undone first.
    pub(super) fn ask_gate(&mut self, fx: &mut Effects) {
        if self.new_spec.is_some() && self.opened {
            self.undo_for_new_spec(After::Gate, fx);
            return;
        }
        self.phase = Phase::Gate;
        if self.new_spec.take().is_some() {
            fx.push(Effect::Adopt);
            fx.push(Effect::Publish);
        }
        fx.push(Effect::AskGate);
    }

    /// A new spec has come. Where no run has begun it counts at once, and otherwise from the next run on.
    pub(super) fn has_new_spec(&mut self, rules: &Rules, fx: &mut Effects) {
        if self.is_refused() {
            fx.push(Effect::Note(TRIED_AGAIN.into()));
            self.begin(rules, true, fx);
            return;
        }
        match self.phase {
            Phase::Gate => {
                if !self.opened {
                    fx.push(Effect::Note("its file changed, and counts from now on".into()));
                }
                self.ask_gate(fx);
            }
            Phase::Opening => self.undo_for_new_spec(After::Gate, fx),
            Phase::Backoff { .. } => fx.push(Effect::Note("its file changed, its next run uses it".into())),
            _ => {}
        }
    }

    pub(super) fn undo_for_new_spec(&mut self, after: After, fx: &mut Effects) {
        self.after = Some(after);
        fx.push(Effect::DropGate);
        self.missing.clear();
        self.tell(State::Stopping, "its file changed, undoing what was prepared".into(), fx);
        self.close(fx);
    }

    pub(super) fn gate_shut(
        &mut self,
        rules: &Rules,
        missing: Vec<Missing>,
        (now, chance): (Duration, u32),
        fx: &mut Effects,
    ) {
        match self.phase {
            Phase::Gate if self.state != State::Waiting || self.missing != missing => {}
            Phase::Spawning if rules.hooks.pre => {
                // What its `pre` hooks did is answered before it waits again.
                fx.push(Effect::DropGate);
                self.broken_off = self.broken_off.saturating_add(1);
                // Once is chance. Hooks that run again and again without a run count as failed starts.
                self.after = Some(if self.broken_off == 1 {
                    After::Gate
                } else {
                    let missing = sentence(&missing);
                    let text = format!("broken off after its pre hooks, waiting for {missing} again");
                    After::Decide(Ended::NotStarted { text, kind: ErrorKind::Retryable })
                });
                self.run_post(rules, now, chance, fx);
                return;
            }
            // It went shut while the run waited for its turn: the task watches it until then.
            Phase::Pre | Phase::Spawning => fx.push(Effect::Work(Work::None)),
            _ => return,
        }
        self.phase = Phase::Gate;
        self.owes_post = false;
        self.missing = missing;
        let text = format!("waiting for {}", sentence(&self.missing));
        if self.state == State::Waiting && *self.message == *text {
            // The previous incarnation of PID 1 has reported it.
            fx.push(Effect::Publish);
        } else {
            self.tell(State::Waiting, text, fx);
        }
    }

    pub(super) fn gate_holds(&mut self, rules: &Rules, fx: &mut Effects) {
        self.missing.clear();
        if self.opened {
            self.launch(rules, fx);
        } else {
            // The gate stays watched: it is asked again after preparing, and while the spawn waits.
            self.phase = Phase::Opening;
            self.tell(State::Preparing, "all that it waits for holds".into(), fx);
            fx.push(Effect::Work(Work::Open));
        }
    }

    /// A new run, from its `pre` hooks on.
    fn launch(&mut self, rules: &Rules, fx: &mut Effects) {
        self.run = self.run.saturating_add(1);
        self.exit = None;
        self.owes_post = false;
        let run = self.run;
        if rules.hooks.pre {
            self.phase = Phase::Pre;
            self.tell(State::Starting, format!("run {run}, its pre hooks first"), fx);
            fx.push(Effect::Work(Work::Pre));
        } else {
            self.phase = Phase::Spawning;
            self.tell(State::Starting, format!("run {run}"), fx);
            fx.push(Effect::Work(Work::Spawn));
        }
    }

    pub(super) fn spawned(&mut self, rules: &Rules, pid: i32, now: Duration, fx: &mut Effects) {
        self.broken_off = 0;
        self.pid = Some(pid);
        self.spawned_at = now;
        fx.push(Effect::Work(Work::None));
        let ready = rules.readiness == Readiness::None;
        let limit = rules.start_limit().filter(|_| !ready || rules.awaits_health());
        let start = limit.map(|limit| now.saturating_add(limit));
        self.phase = Phase::Active(Active { ready, start, ..Active::default() });
        if ready {
            let text = format!("running (PID {pid}){}", words::before_checks(rules));
            self.tell(State::Running, text, fx);
        } else {
            let limit =
                limit.map_or_else(String::new, |limit| format!("at most {} ", words::duration(limit)));
            let signal = words::readiness(rules.readiness);
            self.tell(State::Starting, format!("PID {pid} started, waiting {limit}for {signal}"), fx);
        }
    }

    pub(super) fn is_ready(&mut self, rules: &Rules, active: Active, now: Duration, fx: &mut Effects) {
        let start = active.start.filter(|_| !active.proven && rules.awaits_health());
        self.phase = Phase::Active(Active { ready: true, start, ..active });
        let text = if self.state == State::Running {
            "ready again".to_owned()
        } else {
            let took = words::duration(now.saturating_sub(self.spawned_at));
            let pid = self.pid.unwrap_or_default();
            format!("running, ready after {took} (PID {pid}){}", words::before_checks(rules))
        };
        self.tell(State::Running, text, fx);
    }

    /// What its checks say together.
    pub(super) fn health(
        &mut self,
        mut active: Active,
        healthy: Option<bool>,
        missing: &str,
        now: Duration,
        fx: &mut Effects,
    ) {
        let changed = healthy != active.healthy;
        active.healthy = healthy;
        let text = match healthy {
            Some(true) if !changed => return,
            Some(true) if active.proven => "running, healthy again".to_owned(),
            Some(true) => {
                (active.proven, active.start) = (true, None);
                let took = words::duration(now.saturating_sub(self.spawned_at));
                format!("running, healthy after {took} (PID {})", self.pid.unwrap_or_default())
            }
            _ => format!("running, waits for {missing}"),
        };
        self.phase = Phase::Active(active);
        if changed && active.ready {
            self.tell(self.state, text, fx);
        } else if changed {
            // That it is not ready is the better reason.
            fx.push(Effect::Publish);
        } else if active.ready && *self.message != *text {
            self.message = std::sync::Arc::from(text);
            fx.push(Effect::Publish);
        }
    }
}
