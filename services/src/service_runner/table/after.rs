//! The step after a run is down: another run, a pause, or rest.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::ErrorKind;
use kelson_runner::restart::{self, Decision};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{RestartPolicy, RestartScope, ServiceKind};

use super::effect::Moment;
use super::{
    Active, After, Down, Effect, Ended, Outcome, Phase, Rest, ServiceState, Stage, StopReason, Work,
};
use crate::model::{RestartReason, Retry, State};
use crate::service_runner::words;

impl ServiceState {
    /// The run (or its preparation) is over and cleared away: what now?
    pub(super) fn conclude(&mut self, at: &mut Moment) {
        if let Phase::Down(down) = &mut self.phase {
            let after = std::mem::replace(&mut down.after, After::Gate);
            self.follow_up(after, at);
        }
    }

    pub(super) fn follow_up(&mut self, after: After, at: &mut Moment) {
        match after {
            After::Decide(ended) => self.decide(ended, at),
            After::Again(_) | After::Gate if self.closing() => {
                let shutdown = StopReason::Shutdown;
                self.end(Outcome::stopped(&shutdown), words::stopped(&shutdown, ""), at);
            }
            After::Gate => self.ask_gate(at),
            After::Again(_) if self.new_spec.is_some() && self.is_open() => self.close(after, at),
            After::Again(reason) => {
                self.restarts_by.add(reason);
                self.begin(false, at);
            }
            After::Rest { outcome, text } => self.end(outcome, text, at),
        }
    }

    /// Asks the restart policy.
    fn decide(&mut self, ended: Ended, at: &mut Moment) {
        let what = words::ended(&ended, at.rules);
        self.fails(&ended);
        if self.closing() {
            self.end(ended.outcome(at.rules), what, at);
            return;
        }
        if let Ended::NotStarted { kind: kind @ (ErrorKind::Permanent | ErrorKind::Image { .. }), .. } = ended
        {
            if self.new_spec.is_some() {
                // It changed in the middle of the attempt.
                at.note(format!("{what}; {}", words::TRIED_AGAIN));
                self.follow_up(After::Again(ended.reason()), at);
                return;
            }
            self.end(Outcome::Refused(kind), format!("{what}; {}", words::until(kind)), at);
            return;
        }
        match restart::decide(&at.rules.restart, &mut self.history, ended.for_policy(), at.now, at.chance) {
            Decision::Again { after, budget } => {
                self.history.escalated = false;
                self.restarts = self.restarts.saturating_add(1);
                self.restarts_by.add(ended.reason());
                let until = (!after.is_zero()).then(|| at.after(after));
                self.phase = Phase::Backoff { until, opened: self.is_open() };
                let text = format!("{what}, {}", restart::restarting(after, &budget));
                self.retry = Some(Arc::new(Retry { ended: what, budget }));
                self.tell(text, at);
                if until.is_none() {
                    self.ask_gate(at);
                }
            }
            Decision::End { .. } => {
                let rules = &at.rules.restart;
                let text = match rules.policy {
                    _ if restart::is_prevented(rules, ended.for_policy()) => {
                        format!("{what}; restart.preventOn has that")
                    }
                    RestartPolicy::UntilSuccess | RestartPolicy::Forever => what,
                    policy if at.rules.kind == ServiceKind::Service => {
                        format!("{what}; restart.policy is {}", policy.name())
                    }
                    _ => what,
                };
                self.end(ended.outcome(at.rules), text, at);
            }
            Decision::Exhausted { text } => {
                let text = format!("{what}; {text}");
                // Once: the budget stays used up until failures leave its window, and another failure is the last.
                if at.rules.restart.scope == RestartScope::Group && !self.history.escalated {
                    self.history.escalated = true;
                    self.ask_group(ended.reason(), text.clone(), Duration::ZERO, at);
                }
                self.end(Outcome::Failed, text, at);
            }
        }
    }

    /// Remembers why it is not up. A check that asked for the end of the run has been reported already.
    pub(super) fn fails(&mut self, ended: &Ended) {
        let is_check = |ended: &Ended| matches!(ended, Ended::GivenUp { reason: RestartReason::Check, .. });
        let is_known = is_check(ended) && self.failure.as_deref().is_some_and(is_check);
        if const { OWN.has(Feature::Fleet) } && !is_known {
            self.failure = Some(Arc::new(ended.clone()));
        }
    }

    /// Cleans up what is open, then rests.
    pub(super) fn end(&mut self, outcome: Outcome, text: String, at: &mut Moment) {
        if self.is_open() {
            self.close(After::Rest { outcome, text }, at);
            return;
        }
        self.phase = Phase::Rest(Rest::Ended(outcome, self.hold()));
        self.retry = None;
        self.tell(text, at);
        at.push(Effect::Rested);
        self.await_change(at);
    }

    /// At rest: waits for other archives where that can help.
    pub(super) fn await_change(&self, at: &mut Moment) {
        if self.refused_archives().is_some() {
            at.work(Work::AwaitArchives);
        }
    }

    /// Undoes the preparations; the state that is shown stays.
    pub(super) fn close(&mut self, after: After, at: &mut Moment) {
        self.go_down(after, self.state());
        self.set_stage(Stage::Closing);
        at.work(Work::Close);
    }

    /// Undoes the preparations, before or instead of a run.
    pub(super) fn undo(&mut self, after: After, text: impl Into<Arc<str>>, at: &mut Moment) {
        self.go_down(after, State::Stopping);
        self.set_stage(Stage::Closing);
        self.tell(text, at);
        at.work(Work::Close);
    }

    /// The coordinator of its group answers with a stop in its turn.
    fn ask_group(&mut self, reason: RestartReason, text: String, after: Duration, at: &mut Moment) {
        if !self.closing() && self.asked_group.is_none() {
            self.asked_group = Some(reason);
            at.push(Effect::AskGroup { text, after });
        }
    }

    /// Its group's own budget is used up: the service that has asked for the restart ends as failed.
    pub(super) fn group_refused(&mut self, text: &str, at: &mut Moment) {
        let Some(reason) = self.asked_group.take() else { return };
        if let Some(active) = self.active() {
            let text = format!("a restart of its group was asked for ({}); {text}", reason.name());
            let told = format!("{text}, stopping it");
            self.begin_stop(active, After::failed(text), told, at);
        } else if self.state() == State::Failed {
            // It had failed already.
            self.tell(format!("{}; {text}", self.message), at);
        } else {
            // It may be about to rest as failed.
            if let Phase::Down(Down { after: After::Rest { outcome: Outcome::Failed, text: why }, .. }) =
                &mut self.phase
            {
                *why = format!("{why}; {text}");
            }
            at.push(Effect::Publish);
        }
    }

    /// A check would restart its whole group, as far as its policy and its budget permit.
    pub(super) fn check_asks_group(&mut self, active: Active, text: String, at: &mut Moment) {
        if self.asked_group.is_some() || self.closing() {
            return;
        }
        let reason = RestartReason::Check;
        let ran = at.now.saturating_sub(self.spawned_at);
        let ended = restart::Ended::GivenUp { ran, watchdog: false };
        match restart::decide(&at.rules.restart, &mut self.history, ended, at.now, at.chance) {
            Decision::Again { after, budget } => {
                let how = restart::restarting(after, &budget);
                self.ask_group(reason, format!("{text}, {how}"), after, at);
            }
            Decision::End { .. } => self.end_run(active, reason, text, at),
            Decision::Exhausted { text: why } => {
                let told = format!("{text}, stopping it");
                self.begin_stop(active, After::failed(format!("{text}; {why}")), told, at);
            }
        }
    }
}
