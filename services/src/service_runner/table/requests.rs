//! What operators, a cascade, a removal and the end of the host ask of a service, in each of its phases.

use std::time::Duration;

use kelson_conditions::sentence;
use kelson_runner::restart::RestartHistory;
use kelson_spec::service::ServiceKind;

use super::Work;
use super::ending::After;
use super::{Answer, Effect, Effects, Phase, Rules, ServiceState, StopReason};
use crate::model::{RestartReason, State};
use crate::service_runner::words;

impl ServiceState {
    /// A request that counts replaces the one before.
    pub(super) fn take_up(&mut self, request_id: u64) {
        self.request_id = request_id;
        self.leaving = false;
        self.retry = None;
    }

    pub(super) fn start_from_rest(&mut self, rules: &Rules, request_id: u64, fx: &mut Effects) -> Answer {
        self.take_up(request_id);
        self.restarts = 0;
        self.history = RestartHistory::default();
        self.begin(rules, true, fx);
        Answer::Done
    }

    /// It is ending, and begins again once it has.
    pub(super) fn start_after_stop(&mut self, rules: &Rules, request_id: u64, fx: &mut Effects) -> Answer {
        if matches!(self.after, Some(After::Again(_) | After::Gate)) {
            return Answer::NothingToDo("it is restarting already".into());
        }
        self.take_up(request_id);
        self.history = RestartHistory::default();
        let ended = match self.after.replace(After::Again(RestartReason::Operator)) {
            Some(After::Decide(ended)) => format!("{}, ", words::ended(&ended, rules)),
            Some(After::End { text, stopped: false, .. }) => format!("{text}, "),
            _ => String::new(),
        };
        let text = format!("{ended}starts again once it has stopped: asked by an operator");
        fx.push(Effect::Note(text));
        fx.push(Effect::Publish);
        Answer::Done
    }

    pub(super) fn restart(&mut self, rules: &Rules, request_id: u64, why: &str, fx: &mut Effects) {
        let text = format!("restarting: {why}");
        self.take_up(request_id);
        let again = Some(After::Again(RestartReason::Operator));
        match self.phase {
            Phase::Rest => self.begin(rules, true, fx),
            Phase::When => fx.push(Effect::Publish),
            Phase::Gate | Phase::Backoff { .. } => self.again_from_gate(rules, fx),
            Phase::Opening => {
                fx.push(Effect::DropGate);
                self.after = again;
                self.tell(State::Stopping, text, fx);
                self.close(fx);
            }
            Phase::Pre | Phase::Spawning => {
                self.after = again;
                self.break_start(rules, text, fx);
            }
            Phase::Active(_) => {
                self.after = again;
                self.begin_stop(rules, text, fx);
            }
            Phase::PreStop { .. }
            | Phase::StopDelay { .. }
            | Phase::Ending { .. }
            | Phase::Clearing
            | Phase::Post
            | Phase::Closing => {
                self.after = again;
                self.tell(State::Stopping, text, fx);
            }
        }
    }

    /// A hook that runs is killed. A program that is just being started may run by now: then it has its stop signal.
    fn break_start(&mut self, rules: &Rules, text: String, fx: &mut Effects) {
        fx.push(Effect::DropGate);
        self.tell(State::Stopping, text, fx);
        if self.phase == Phase::Spawning {
            self.signal(rules, fx);
        } else {
            self.phase = Phase::Clearing;
            fx.push(Effect::Work(Work::Clear));
        }
    }

    /// Nothing runs; a new spec may be waiting.
    pub(super) fn again_from_gate(&mut self, rules: &Rules, fx: &mut Effects) {
        if self.new_spec.is_some() && self.opened {
            self.undo_for_new_spec(After::Again(RestartReason::Operator), fx);
        } else {
            self.state = State::Initialized;
            self.begin(rules, false, fx);
        }
    }

    /// What a reason to stop says beside its stop.
    fn stops_for(&mut self, reason: &StopReason) {
        self.closing |= *reason == StopReason::Shutdown;
        self.leaving |= *reason == StopReason::Removed;
    }

    pub(super) fn stop_at_rest(&mut self, request_id: u64, reason: &StopReason, fx: &mut Effects) -> Answer {
        self.stops_for(reason);
        if matches!(reason, StopReason::Group(_)) {
            return self.rests_for_group(fx);
        }
        let starts_again = std::mem::take(&mut self.awaits_group);
        let begun = self.state != State::Initialized;
        if *reason != StopReason::Shutdown && (!begun || starts_again) {
            self.request_id = self.request_id.max(request_id);
            self.stopped = true;
            self.rest(State::Stopped, words::stopped(reason, ""), fx);
            return Answer::Done;
        }
        // Somebody does not want it to run: neither does its group start it then.
        self.unwanted |= reason.is_somebodys();
        self.will_start &= *reason != StopReason::Shutdown;
        fx.push(Effect::Publish);
        fx.push(Effect::Rested);
        Answer::NothingToDo(match self.state {
            State::Initialized => "it was never started".into(),
            state => format!("it is {} already", state.name()),
        })
    }

    /// In any phase but rest.
    pub(super) fn stop(
        &mut self,
        rules: &Rules,
        request_id: u64,
        reason: &StopReason,
        fx: &mut Effects,
    ) -> Answer {
        self.stops_for(reason);
        let text = words::stopped(reason, "");
        let by_group = matches!(reason, StopReason::Group(_));
        let by_somebody = reason.is_somebodys();
        let end = |text: String| After::stopped(reason, text);
        match self.phase {
            Phase::Rest => {}
            Phase::When | Phase::Gate | Phase::Backoff { .. } => {
                fx.push(Effect::Work(Work::None));
                fx.push(Effect::DropGate);
                let during = match self.state {
                    State::Waiting if !self.missing.is_empty() => {
                        format!(" while waiting for {}", sentence(&self.missing))
                    }
                    State::Backoff => " before its restart".into(),
                    _ => " before its start".into(),
                };
                let ended = end(words::stopped(reason, &during));
                if self.opened {
                    // It waits for nothing any more, and cleaning up may take its time.
                    self.missing.clear();
                    self.tell(State::Stopping, format!("{text}, undoing what was prepared"), fx);
                }
                self.end(ended, fx);
            }
            Phase::Opening => {
                fx.push(Effect::DropGate);
                self.after = Some(end(words::stopped(reason, " while preparing")));
                self.tell(State::Stopping, format!("{text}, undoing what was prepared"), fx);
                self.close(fx);
            }
            Phase::Pre | Phase::Spawning => {
                self.after = Some(end(words::stopped(reason, " while starting")));
                self.break_start(rules, text, fx);
            }
            Phase::Active(_) => {
                self.after = Some(end(text.clone()));
                self.begin_stop(rules, text, fx);
            }
            Phase::PreStop { .. }
            | Phase::StopDelay { .. }
            | Phase::Ending { .. }
            | Phase::Clearing
            | Phase::Post
            | Phase::Closing => match &mut self.after {
                Some(After::End { wanted: false, finished, state, .. }) if by_group && !self.unwanted => {
                    *finished = false;
                    let state = *state;
                    self.awaits_group = true;
                    return Answer::NothingToDo(format!("it has just {}", state.name()));
                }
                // It ended by itself and only its cleanup is left: that is what happened.
                Some(After::End { wanted: false, state, .. }) => {
                    self.unwanted |= by_somebody;
                    self.awaits_group &= !by_somebody;
                    return Answer::NothingToDo(format!("it has just {}", state.name()));
                }
                Some(After::Decide(ended))
                    if !by_group && rules.kind == ServiceKind::Oneshot && ended.success() =>
                {
                    self.unwanted |= by_somebody;
                    return Answer::NothingToDo("it has just finished".into());
                }
                Some(After::End { stopped: true, .. }) => {
                    return Answer::NothingToDo("it is stopping already".into());
                }
                _ => {
                    self.after = Some(end(text.clone()));
                    self.tell(State::Stopping, text, fx);
                }
            },
        }
        self.awaits_group = by_group;
        self.request_id = self.request_id.max(request_id);
        fx.push(Effect::Publish);
        Answer::Done
    }

    pub(super) fn stop_for(&mut self, time: Option<Duration>, fx: &mut Effects) {
        self.stop_for = time.map(|time| fx.now.saturating_add(time));
        if let Some(time) = time {
            let time = words::duration(time);
            fx.push(Effect::Note(format!("to be stopped for {time}, then it starts again by itself")));
            // The stop that follows may come late: it is recorded at once.
            fx.push(Effect::Publish);
        }
    }

    /// An operator who started it meanwhile, or stopped it again, wins.
    pub(super) fn stopped_for_long_enough(&mut self, rules: &Rules, fx: &mut Effects) {
        self.stop_for = None;
        let stopped = match self.phase {
            Phase::Rest => self.stopped,
            _ => matches!(self.after, Some(After::End { stopped: true, .. })),
        };
        if stopped && !self.closing && !self.leaving {
            fx.push(Effect::Note("the time for which it was stopped is over".into()));
            match self.phase {
                Phase::Rest => self.start_from_rest(rules, self.request_id, fx),
                _ => self.start_after_stop(rules, self.request_id, fx),
            };
        }
    }

    /// It is stopped with its group while nothing of it runs.
    fn rests_for_group(&mut self, fx: &mut Effects) -> Answer {
        if !self.is_stopped() && self.state != State::Initialized {
            self.awaits_group = true;
            // Whoever waits for its success waits for the next one.
            self.finished = false;
        }
        fx.push(Effect::Publish);
        fx.push(Effect::Rested);
        Answer::NothingToDo(format!("it is {} already", self.state.name()))
    }

    /// All of its group has stopped, and starts again. An operator who stopped it meanwhile wins.
    pub(super) fn group_start(&mut self, rules: &Rules, text: &str, fx: &mut Effects) {
        if self.closing || self.is_stopped() {
            return;
        }
        let asked = self.asked_group.take();
        self.restarts = self.restarts.saturating_add(1);
        self.restarts_by.add(asked.unwrap_or(RestartReason::Group));
        fx.push(Effect::Note(format!("starts again with its group: {text}")));
        self.tries_after(format!("its group is restarted ({text})"));
        self.begin(rules, true, fx);
    }
}
