//! From a run to its end: stopped, killed or cleared away, and its `post` hooks.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{Exit, StopReport};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{ServiceKind, WhenDown};

use super::effect::Moment;
use super::{
    Active, After, Down, Effect, Ended, Host, Outcome, Phase, ReadySignal, ServiceState, Stage, Work,
};
use crate::model::{RestartReason, Retry, State};
use crate::service_runner::words;

impl ServiceState {
    /// `startTimeout` is over, which covers ready, and where checks may restart it also healthy.
    pub(super) fn start_timeout(&mut self, active: Active, at: &mut Moment) {
        let missing = match active.readiness {
            ReadySignal::Awaited => "ready",
            ReadySignal::Given | ReadySignal::TakenBack if at.rules.awaits_health() && !active.proven => {
                "healthy"
            }
            ReadySignal::Given | ReadySignal::TakenBack => {
                self.phase = Phase::Active(Active { start: None, ..active });
                return;
            }
        };
        let text = format!("not {missing} after {}", words::duration(at.rules.start_timeout));
        self.end_run(active, RestartReason::NotReady, text, at);
    }

    /// Ends a run that failed while its process lives.
    pub(super) fn end_run(&mut self, active: Active, reason: RestartReason, text: String, at: &mut Moment) {
        let told = format!("{text}, stopping it");
        let ran = at.now.saturating_sub(self.spawned_at);
        self.begin_stop(active, After::Decide(Ended::GivenUp { ran, reason, text }), told, at);
    }

    /// One that it needs went down, and its spec has a rule for that.
    pub(super) fn dependency_down(&mut self, active: Active, rule: WhenDown, text: &str, at: &mut Moment) {
        match rule {
            WhenDown::Ignore => {}
            WhenDown::Stop => {
                let text = format!("stopped: {text}");
                let outcome = Outcome::Stopped { asked: false };
                self.begin_stop(active, After::Rest { outcome, text: text.clone() }, text, at);
            }
            WhenDown::Restart => {
                self.tries_after(format!("stopped: {text}"));
                let after = After::Again(RestartReason::Dependency);
                self.begin_stop(active, after, format!("restarting: {text}"), at);
            }
        }
    }

    /// No longer up: not registered any more, `preStop`, then `stop.delay`, then the signal.
    pub(super) fn begin_stop(&mut self, active: Active, after: After, text: String, at: &mut Moment) {
        // Nobody was sent to one that was not up, so nobody has to be given time to go.
        let was_up = self.up(at.rules) || at.rules.kind == ServiceKind::Oneshot;
        let delays = was_up || !matches!(after, After::Decide(_));
        self.go_down(after, State::Stopping);
        self.set_stage(Stage::PreStop { delays, pid: active.pid });
        let first = match (at.rules.registers, at.rules.hooks.pre_stop) {
            (true, true) => Some("its registration and its preStop hooks"),
            (true, false) => Some("its registration"),
            (false, true) => Some("its preStop hooks"),
            (false, false) => None,
        };
        if let Some(first) = first {
            self.tell(format!("{text}; {first} first"), at);
            at.work(Work::PreStop);
            return;
        }
        let told = match at.rules.stop.delay {
            delay if delays && !delay.is_zero() => {
                format!("{text}; its stop signal comes in {}", words::duration(delay))
            }
            _ => text,
        };
        self.tell(told, at);
        self.delay_stop(delays, active.pid, at);
    }

    /// The stop signal, after `stop.delay`.
    pub(super) fn delay_stop(&mut self, delays: bool, pid: i32, at: &mut Moment) {
        if delays && !at.rules.stop.delay.is_zero() {
            self.set_stage(Stage::StopDelay { until: at.after(at.rules.stop.delay), pid });
            at.work(Work::None);
        } else {
            self.signal(at);
        }
    }

    /// The stop signal, now.
    pub(super) fn signal(&mut self, at: &mut Moment) {
        let until = Some(at.after(at.rules.stop.timeout));
        self.set_stage(Stage::Ending { until, forced: false, pid: self.main() });
        at.work(if self.host == Host::Overdue { Work::Clear } else { Work::Stop });
    }

    /// Ends the time of the stop, also for a later incarnation of PID 1.
    fn kill(&mut self, forced: bool, at: &mut Moment) {
        self.set_stage(Stage::Ending { until: Some(at.now), forced, pid: self.main() });
        at.push(Effect::Record);
        at.work(Work::Clear);
    }

    pub(super) fn force(&mut self, at: &mut Moment) {
        if self.host != Host::Overdue {
            at.note("killed: asked by an operator");
            self.kill(true, at);
        }
    }

    /// The total deadline of the host's stop has passed.
    pub(super) fn is_overdue(&mut self, at: &mut Moment) {
        self.host = Host::Overdue;
        at.note("the total deadline has passed: killed");
        match self.stage() {
            Some(Stage::PreStop { .. } | Stage::StopDelay { .. } | Stage::Ending { .. }) => {
                self.kill(false, at);
            }
            Some(Stage::Clearing) => at.work(Work::Clear),
            Some(Stage::Post) => at.work(Work::EndPost),
            Some(Stage::Closing) | None => {}
        }
    }

    /// The run asks for more time. A run that is being killed has none.
    pub(super) fn extend_stop(&mut self, by: Duration, at: &mut Moment) {
        let later = at.after(by);
        if let Phase::Down(Down { stage: Stage::Ending { until: Some(until), .. }, .. }) = &mut self.phase
            && *until < later
            && self.host != Host::Overdue
        {
            *until = later;
            at.push(Effect::Record);
            at.work(Work::Stop);
        }
    }

    /// The process ends on its signal.
    pub(super) fn exits_at_last(&mut self, exit: Exit, at: &mut Moment) {
        self.exit = Some(exit);
        if let Phase::Down(Down { stage: Stage::Ending { pid, .. }, .. }) = &mut self.phase {
            *pid = None;
        }
        at.push(Effect::Publish);
    }

    /// The process ended by itself.
    pub(super) fn ended(&mut self, active: Active, exit: Exit, at: &mut Moment) {
        let ran = at.now.saturating_sub(self.spawned_at);
        let before_ready = at.rules.kind == ServiceKind::Service && active.readiness == ReadySignal::Awaited;
        let ended = Ended::Exited { exit, ran, before_ready, out_of_memory: false, outlived: 0 };
        // Clearing away may take its time: others learn by now that it went down, and why.
        self.message = words::ended(&ended, at.rules).into();
        self.go_down(After::Decide(ended), self.state());
        self.clear_away(exit, at);
    }

    pub(super) fn clear_away(&mut self, exit: Exit, at: &mut Moment) {
        self.exit = Some(exit);
        self.set_stage(Stage::Clearing);
        at.push(Effect::Publish);
        at.work(Work::Clear);
    }

    /// Nothing of the run is left, but what no signal ends.
    pub(super) fn cleared(&mut self, exit: Option<Exit>, report: StopReport, at: &mut Moment) {
        self.exit = exit.or(self.exit);
        let overdue = self.host == Host::Overdue;
        let signal = self.stop_signal.unwrap_or(at.rules.stop.signal);
        let Phase::Down(Down { stage, after, .. }) = &mut self.phase else { return };
        let StopReport { killed, deaf, outlived, left_behind, out_of_memory } = report;
        if killed && !overdue && matches!(stage, Stage::Ending { forced: false, .. }) {
            let time = words::duration(at.rules.stop.timeout);
            let why = deaf.map(|deaf| words::deaf(deaf, signal));
            if let (Some(why), After::Rest { text, .. }) = (&why, &mut *after) {
                text.push_str(&format!("; killed after {time}: {why}"));
            }
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            at.note(match at.rules.stop.timeout {
                Duration::ZERO => "killed at once: its stop.timeout is now".to_owned(),
                _ => format!("did not end within {time} of its stop signal, killed{why}"),
            });
        }
        if left_behind > 0 {
            at.note(format!(
                "{left_behind} of its processes could not be killed (they are in a sleep that no signal ends); left behind"
            ));
        }
        if let After::Decide(Ended::Exited { out_of_memory: told, outlived: left, .. }) = after {
            (*told, *left) = (out_of_memory, outlived);
        } else if out_of_memory {
            at.note(words::out_of_memory(at.rules.memory_max));
        }
        if let Stage::Ending { pid, .. } = stage
            && pid.take().is_some()
        {
            // Cleaning up may take its time, and nobody is to take a PID of the dead for one that lives.
            at.push(Effect::Publish);
        }
        self.run_post(at);
    }

    /// A one-shot that has finished, and has hooks for its stop.
    pub(super) fn has_to_undo(&self, at: &Moment) -> bool {
        at.rules.hooks.undo
            && at.rules.kind == ServiceKind::Oneshot
            && self.finished()
            && const { OWN.has(Feature::Units) }
    }

    /// From rest to the `undo` hooks. Only this comes to the stage of `post` hooks with `owes_post`.
    pub(super) fn undo_finished(&mut self, after: After, text: String, at: &mut Moment) {
        self.go_down(after, State::Stopping);
        if let Phase::Down(down) = &mut self.phase {
            (down.stage, down.owes_post) = (Stage::Post, true);
        }
        self.tell(format!("{text}; its undo hooks run"), at);
        at.work(if self.host == Host::Overdue { Work::EndPost } else { Work::Undo });
    }

    /// Leaves a run that was begun and has no process yet.
    pub(super) fn leave_run(&mut self, after: After, at: &mut Moment) {
        self.go_down(after, self.state());
        self.run_post(at);
    }

    /// The `post` hooks, where something of the run was begun; then what follows.
    fn run_post(&mut self, at: &mut Moment) {
        let Phase::Down(down) = &mut self.phase else { return };
        if !std::mem::take(&mut down.owes_post) {
            at.work(Work::None);
            self.conclude(at);
            return;
        }
        (down.stage, down.shown) = (Stage::Post, State::Stopping);
        let what = match &down.after {
            After::Decide(ended) => words::ended(ended, at.rules),
            After::Again(_) | After::Gate | After::Rest { .. } => "ended".into(),
        };
        self.tell(format!("{what}; its post hooks run"), at);
        at.work(if self.host == Host::Overdue { Work::EndPost } else { Work::Post });
    }

    /// To the way down, or on with it.
    pub(super) fn go_down(&mut self, after: After, shown: State) {
        let (hold, owes_post) = (self.hold(), self.owes_post());
        self.phase = Phase::Down(Down { stage: Stage::Clearing, after, hold, shown, owes_post });
    }

    pub(super) fn set_stage(&mut self, stage: Stage) {
        if let Phase::Down(down) = &mut self.phase {
            down.stage = stage;
        }
    }

    /// It is to run again after this.
    pub(super) fn tries_after(&mut self, ended: String) {
        self.retry = Some(Arc::new(Retry { ended, budget: String::new() }));
    }
}
