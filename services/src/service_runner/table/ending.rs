//! From a run to its end, and what follows: again, a pause, or rest.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::restart::{self, Decision};
use kelson_runner::{ErrorKind, Exit, StopReport};
use kelson_spec::service::{RestartPolicy, RestartScope, ServiceKind, WhenDown};

use super::starting::TRIED_AGAIN;
use super::{Active, Effect, Effects, Ended, Phase, Rules, ServiceState, StopReason, Work};
use crate::model::{RestartReason, Retry, State};
use crate::service_runner::words;

/// What follows once the present ending is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum After {
    /// The restart policy decides.
    Decide(Ended),
    /// It is to run again, and nobody asks the policy.
    Again(RestartReason),
    /// Its start was broken off, because its gate holds no longer: back to it.
    Gate,
    /// It ends here, and rests until what makes its start fail has changed.
    Refused { kind: ErrorKind, text: String },
    /// It ends here. `wanted`: not by itself.
    End { state: State, finished: bool, stopped: bool, wanted: bool, text: String },
}

impl After {
    /// Somebody or something stops it.
    pub(super) fn stopped(reason: &StopReason, text: String) -> After {
        // A group stops its members to start them again.
        let stopped = !matches!(reason, StopReason::Group(_));
        After::End { state: State::Stopped, finished: false, stopped, wanted: true, text }
    }

    /// It has failed, and nobody asked for its end.
    fn failed(text: String) -> After {
        After::End { state: State::Failed, finished: false, stopped: false, wanted: false, text }
    }
}

impl ServiceState {
    /// `startTimeout` is over, which covers ready, and where checks may restart it also healthy.
    pub(super) fn start_timeout(&mut self, rules: &Rules, active: Active, now: Duration, fx: &mut Effects) {
        let missing = match self.state {
            State::Starting => "ready",
            _ if rules.awaits_health() && !active.proven => "healthy",
            _ => return,
        };
        let text = format!("not {missing} after {}", words::duration(rules.start_timeout));
        self.end_run(rules, RestartReason::NotReady, text, now, fx);
    }

    /// Ends a run that failed while its process lives.
    pub(super) fn end_run(
        &mut self,
        rules: &Rules,
        reason: RestartReason,
        text: String,
        now: Duration,
        fx: &mut Effects,
    ) {
        let told = format!("{text}, stopping it");
        let ran = now.saturating_sub(self.spawned_at);
        self.after = Some(After::Decide(Ended::GivenUp { ran, reason, text }));
        self.begin_stop(rules, told, fx);
    }

    /// One that it needs went down, and it is told to mind.
    pub(super) fn dependency_down(&mut self, rules: &Rules, rule: WhenDown, text: &str, fx: &mut Effects) {
        match rule {
            WhenDown::Ignore => {}
            WhenDown::Stop => {
                let text = format!("stopped: {text}");
                self.after = Some(After::End {
                    state: State::Stopped,
                    finished: false,
                    stopped: false,
                    wanted: true,
                    text: text.clone(),
                });
                self.begin_stop(rules, text, fx);
            }
            WhenDown::Restart => {
                self.tries_after(format!("stopped: {text}"));
                self.after = Some(After::Again(RestartReason::Dependency));
                self.begin_stop(rules, format!("restarting: {text}"), fx);
            }
        }
    }

    /// The coordinator of its group answers with a stop in its turn.
    fn ask_group(&mut self, reason: RestartReason, text: String, after: Duration, fx: &mut Effects) {
        if !self.closing && self.asked_group.is_none() {
            self.asked_group = Some(reason);
            fx.push(Effect::AskGroup { text, after });
        }
    }

    /// Its group's own budget is used up: the service that has asked for the restart ends as failed.
    pub(super) fn group_refused(&mut self, rules: &Rules, text: &str, fx: &mut Effects) {
        let Some(reason) = self.asked_group.take() else { return };
        match self.phase {
            Phase::Active(_) => {
                let text = format!("a restart of its group was asked for ({}); {text}", reason.name());
                let told = format!("{text}, stopping it");
                self.after = Some(After::failed(text));
                self.begin_stop(rules, told, fx);
            }
            // It had failed already.
            Phase::Rest if self.state == State::Failed => {
                let text = format!("{}; {text}", self.message);
                self.tell(State::Failed, text, fx);
            }
            _ => {
                // It is about to rest as failed.
                if let Some(After::End { state: State::Failed, text: why, .. }) = &mut self.after {
                    *why = format!("{why}; {text}");
                }
                fx.push(Effect::Publish);
            }
        }
    }

    /// A check would restart its whole group, as far as its policy and its budget permit.
    pub(super) fn check_asks_group(
        &mut self,
        rules: &Rules,
        text: String,
        (now, chance): (Duration, u32),
        fx: &mut Effects,
    ) {
        if self.asked_group.is_some() || self.closing {
            return;
        }
        let reason = RestartReason::Check;
        let ran = now.saturating_sub(self.spawned_at);
        let ended = restart::Ended::GivenUp { ran };
        match restart::decide(&rules.restart, &mut self.history, ended, now, chance) {
            Decision::Again { after, budget } => {
                let how = restart::restarting(after, &budget);
                self.ask_group(reason, format!("{text}, {how}"), after, fx);
            }
            Decision::End { .. } => self.end_run(rules, reason, text, now, fx),
            Decision::Exhausted { text: why } => {
                let told = format!("{text}, stopping it");
                self.after = Some(After::failed(format!("{text}; {why}")));
                self.begin_stop(rules, told, fx);
            }
        }
    }

    /// No longer up: `preStop`, then `stop.delay`, then the signal.
    pub(super) fn begin_stop(&mut self, rules: &Rules, text: String, fx: &mut Effects) {
        // Nobody was sent to one that was not up, so nobody has to be given time to go.
        let was_up = self.up(rules) || rules.kind == ServiceKind::Oneshot;
        let delays = was_up || !matches!(self.after, Some(After::Decide(_)));
        if rules.hooks.pre_stop {
            self.phase = Phase::PreStop { delays };
            self.tell(State::Stopping, format!("{text}; its preStop hooks first"), fx);
            fx.push(Effect::Work(Work::PreStop));
            return;
        }
        let told = match rules.stop.delay {
            delay if delays && !delay.is_zero() => {
                format!("{text}; its stop signal comes in {}", words::duration(delay))
            }
            _ => text,
        };
        self.tell(State::Stopping, told, fx);
        self.delay_stop(rules, delays, fx);
    }

    /// The stop signal, after `stop.delay`.
    pub(super) fn delay_stop(&mut self, rules: &Rules, delays: bool, fx: &mut Effects) {
        if delays && !rules.stop.delay.is_zero() {
            self.phase = Phase::StopDelay { until: fx.now.saturating_add(rules.stop.delay) };
            fx.push(Effect::Work(Work::None));
        } else {
            self.signal(rules, fx);
        }
    }

    /// The stop signal, now.
    pub(super) fn signal(&mut self, rules: &Rules, fx: &mut Effects) {
        self.phase = Phase::Ending { until: Some(fx.now.saturating_add(rules.stop.timeout)) };
        fx.push(Effect::Work(Work::Stop));
    }

    /// The process ended by itself.
    pub(super) fn ended(
        &mut self,
        rules: &Rules,
        active: Active,
        exit: Exit,
        now: Duration,
        fx: &mut Effects,
    ) {
        let ran = now.saturating_sub(self.spawned_at);
        let before_ready =
            rules.kind == ServiceKind::Service && !active.ready && self.state == State::Starting;
        let ended = Ended::Exited { exit, ran, before_ready, out_of_memory: false, outlived: 0 };
        // Clearing away may take its time: who minds it learns by now that it went down, and why.
        self.message = words::ended(&ended, rules).into();
        self.after = Some(After::Decide(ended));
        self.clear_away(exit, fx);
    }

    pub(super) fn clear_away(&mut self, exit: Exit, fx: &mut Effects) {
        self.exit = Some(exit);
        self.phase = Phase::Clearing;
        self.pid = None;
        fx.push(Effect::Publish);
        fx.push(Effect::Work(Work::Clear));
    }

    /// Nothing of the run is left, but what no signal ends.
    pub(super) fn cleared(&mut self, rules: &Rules, report: StopReport, fx: &mut Effects) {
        let StopReport { killed, deaf, outlived, left_behind, out_of_memory } = report;
        if killed && matches!(self.phase, Phase::Ending { .. }) {
            let after = words::duration(rules.stop.timeout);
            let signal = self.stop_signal().unwrap_or(rules.stop.signal);
            let why = deaf.map(|deaf| words::deaf(deaf, signal));
            if let (Some(why), Some(After::End { text, .. })) = (&why, &mut self.after) {
                text.push_str(&format!("; killed after {after}: {why}"));
            }
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            fx.push(Effect::Note(match rules.stop.timeout {
                Duration::ZERO => "killed at once: its stop.timeout is now".to_owned(),
                _ => format!("did not end within {after} of its stop signal, killed{why}"),
            }));
        }
        if left_behind > 0 {
            fx.push(Effect::Note(format!(
                "{left_behind} of its processes could not be killed (they are in a sleep that no signal ends); left behind"
            )));
        }
        if let Some(After::Decide(Ended::Exited { out_of_memory: told, outlived: left, .. })) =
            &mut self.after
        {
            (*told, *left) = (out_of_memory, outlived);
        } else if out_of_memory {
            fx.push(Effect::Note(words::out_of_memory(rules.memory_max)));
        }
        if self.pid.take().is_some() {
            // Cleaning up may take its time, and nobody is to take a PID of the dead for one that lives.
            fx.push(Effect::Publish);
        }
    }

    /// The `post` hooks, where something of the run was begun; then what follows.
    pub(super) fn run_post(&mut self, rules: &Rules, now: Duration, chance: u32, fx: &mut Effects) {
        if std::mem::take(&mut self.owes_post) {
            self.phase = Phase::Post;
            let what = match &self.after {
                Some(After::Decide(ended)) => words::ended(ended, rules),
                _ => "ended".into(),
            };
            self.tell(State::Stopping, format!("{what}; its post hooks run"), fx);
            fx.push(Effect::Work(Work::Post));
        } else {
            fx.push(Effect::Work(Work::None));
            self.conclude(rules, now, chance, fx);
        }
    }

    /// The run (or its preparation) is over and cleared away: what now?
    pub(super) fn conclude(&mut self, rules: &Rules, now: Duration, chance: u32, fx: &mut Effects) {
        match self.after.take() {
            Some(After::Decide(ended)) => self.decide(rules, ended, now, chance, fx),
            Some(After::Again(_) | After::Gate) if self.closing => {
                let text = words::stopped(&StopReason::Shutdown, "");
                self.end(After::stopped(&StopReason::Shutdown, text), fx);
            }
            Some(After::Gate) => self.ask_gate(fx),
            Some(After::Again(reason)) => {
                if self.new_spec.is_some() && self.opened {
                    self.after = Some(After::Again(reason));
                    self.close(fx);
                    return;
                }
                self.restarts_by.add(reason);
                self.begin(rules, false, fx);
            }
            Some(end @ (After::End { .. } | After::Refused { .. })) => self.end(end, fx),
            None => self.end(After::failed("ended without a reason (please report this)".into()), fx),
        }
    }

    /// Asks the restart policy.
    fn decide(&mut self, rules: &Rules, ended: Ended, now: Duration, chance: u32, fx: &mut Effects) {
        let what = words::ended(&ended, rules);
        let end = |state, text| After::End {
            state,
            finished: ended.success(),
            stopped: false,
            wanted: false,
            text,
        };
        if self.closing {
            self.end(end(words::end_state(&ended), what), fx);
            return;
        }
        if let Ended::NotStarted { kind: kind @ (ErrorKind::Permanent | ErrorKind::Image { .. }), .. } = ended
        {
            if self.new_spec.is_some() {
                // It changed in the middle of the attempt.
                fx.push(Effect::Note(format!("{what}; {TRIED_AGAIN}")));
                self.after = Some(After::Again(ended.reason()));
                self.conclude(rules, now, chance, fx);
                return;
            }
            let text = format!("{what}; {}", words::until(kind));
            self.end(After::Refused { kind, text }, fx);
            return;
        }
        match restart::decide(&rules.restart, &mut self.history, ended.for_policy(), now, chance) {
            Decision::Again { after, budget } => {
                self.history.escalated = false;
                self.restarts = self.restarts.saturating_add(1);
                self.restarts_by.add(ended.reason());
                let until = (!after.is_zero()).then(|| now.saturating_add(after));
                self.phase = Phase::Backoff { until };
                let text = format!("{what}, {}", restart::restarting(after, &budget));
                self.retry = Some(Arc::new(Retry { ended: what, budget }));
                self.tell(State::Backoff, text, fx);
                if until.is_none() {
                    self.ask_gate(fx);
                }
            }
            Decision::End { .. } => {
                let text = match rules.restart.policy {
                    RestartPolicy::Once if rules.kind == ServiceKind::Service => {
                        format!("{what}; restart.policy is once")
                    }
                    _ => what,
                };
                self.end(end(words::end_state(&ended), text), fx);
            }
            Decision::Exhausted { text } => {
                let text = format!("{what}; {text}");
                // Once: the budget stays used up until failures leave its window, and another failure is the last.
                if rules.restart.scope == RestartScope::Group && !self.history.escalated {
                    self.history.escalated = true;
                    self.ask_group(ended.reason(), text.clone(), Duration::ZERO, fx);
                }
                self.end(end(State::Failed, text), fx);
            }
        }
    }

    /// Cleans up what is open, then rests.
    pub(super) fn end(&mut self, end: After, fx: &mut Effects) {
        if self.opened {
            self.after = Some(end);
            self.close(fx);
            return;
        }
        match end {
            After::End { state, finished, stopped, text, .. } => {
                self.finished = finished;
                self.stopped = stopped;
                self.rest(state, text, fx);
            }
            After::Refused { kind, text } => {
                self.after = Some(After::Refused { kind, text: String::new() });
                self.come_to_rest(State::Failed, text, fx);
                self.await_change(fx);
            }
            _ => {}
        }
    }

    pub(super) fn close(&mut self, fx: &mut Effects) {
        self.phase = Phase::Closing;
        fx.push(Effect::Work(Work::Close));
    }

    pub(super) fn rest(&mut self, state: State, text: String, fx: &mut Effects) {
        self.after = None;
        self.come_to_rest(state, text, fx);
    }

    fn come_to_rest(&mut self, state: State, text: String, fx: &mut Effects) {
        self.phase = Phase::Rest;
        self.retry = None;
        self.missing.clear();
        self.tell(state, text, fx);
        fx.push(Effect::Rested);
    }

    /// Stands for the archives of images that must change before it is tried again.
    pub fn refused_archives(&self) -> Option<u32> {
        match self.after {
            Some(After::Refused { kind: ErrorKind::Image { archives }, .. }) => Some(archives),
            _ => None,
        }
    }

    /// At rest: waits for other archives where that can help.
    pub(super) fn await_change(&self, fx: &mut Effects) {
        if self.refused_archives().is_some() {
            fx.push(Effect::Work(Work::AwaitArchives));
        }
    }
}
