//! What operators, a cascade, a removal and the end of the host ask of a service, in each of its phases.

use kelson_runner::restart::RestartHistory;
use kelson_spec::service::ServiceKind;

use super::{After, Answer, Effect, Life, Phase, Rules, StopReason, Timer, Work};
use crate::model::State;
use crate::service_runner::words;

impl Life {
    pub(super) fn start(&mut self, rules: &Rules, ticket: u64, fx: &mut Vec<Effect>) -> Answer {
        if self.closing {
            return Answer::Refused("the host is stopping, nothing is started any more".into());
        }
        // A request that changes nothing replaces none.
        let text = match self.phase {
            Phase::Rest => {
                self.ticket = ticket;
                self.restarts = 0;
                self.history = RestartHistory::default();
                self.begin(rules, true, fx);
                return Answer::Done;
            }
            Phase::Backoff => {
                self.ticket = ticket;
                self.history = RestartHistory::default();
                fx.push(Effect::Timer(Timer::Backoff, None));
                self.again_from_gate(rules, fx);
                return Answer::Done;
            }
            Phase::StopDelay | Phase::Ending | Phase::Clearing | Phase::Closing => {
                if self.after != Some(After::Again) {
                    self.ticket = ticket;
                    let ended = match self.after.replace(After::Again) {
                        Some(After::Decide(ended)) => format!("{}, ", words::ended(&ended)),
                        Some(After::End { text, stopped: false, .. }) => format!("{text}, "),
                        _ => String::new(),
                    };
                    fx.push(Effect::Note(format!(
                        "{ended}starts again once it has stopped: asked by an operator"
                    )));
                    fx.push(Effect::Publish);
                    return Answer::Done;
                }
                "it is restarting already"
            }
            Phase::When | Phase::Gate | Phase::Opening | Phase::Spawning => "it is starting already",
            Phase::Active => "it runs already",
        };
        Answer::NothingToDo(text.into())
    }

    pub(super) fn restart(&mut self, rules: &Rules, ticket: u64, fx: &mut Vec<Effect>) -> Answer {
        if self.closing {
            return Answer::Refused("the host is stopping, nothing is started any more".into());
        }
        const TEXT: &str = "restarting: asked by an operator";
        self.ticket = ticket;
        match self.phase {
            Phase::Rest => {
                self.history = RestartHistory::default();
                self.begin(rules, true, fx);
            }
            Phase::When => fx.push(Effect::Publish),
            Phase::Gate | Phase::Backoff => {
                fx.push(Effect::Timer(Timer::Backoff, None));
                self.again_from_gate(rules, fx);
            }
            Phase::Opening => {
                fx.push(Effect::DropGate);
                self.after = Some(After::Again);
                self.tell(State::Stopping, TEXT.into(), fx);
                self.close(fx);
            }
            Phase::Spawning => {
                fx.push(Effect::DropGate);
                self.after = Some(After::Again);
                self.phase = Phase::Clearing;
                self.tell(State::Stopping, TEXT.into(), fx);
                fx.push(Effect::Work(Work::Clear));
            }
            Phase::Active => {
                self.after = Some(After::Again);
                self.begin_stop(rules.stop.delay, TEXT.into(), fx);
            }
            Phase::StopDelay | Phase::Ending | Phase::Clearing | Phase::Closing => {
                self.after = Some(After::Again);
                self.tell(State::Stopping, TEXT.into(), fx);
            }
        }
        Answer::Done
    }

    /// Nothing runs; a new spec may be waiting.
    fn again_from_gate(&mut self, rules: &Rules, fx: &mut Vec<Effect>) {
        if self.new_spec.is_some() && self.opened {
            self.after = Some(After::Again);
            fx.push(Effect::DropGate);
            self.close(fx);
        } else {
            self.state = State::Initialized;
            self.begin(rules, false, fx);
        }
    }

    pub(super) fn stop(
        &mut self,
        rules: &Rules,
        ticket: u64,
        reason: &StopReason,
        fx: &mut Vec<Effect>,
    ) -> Answer {
        if *reason == StopReason::Shutdown {
            self.closing = true;
        }
        let text = words::stopped(reason, "");
        let end = |text: String| After::End { state: State::Finished, finished: false, stopped: true, text };
        match self.phase {
            Phase::Rest => {
                if *reason != StopReason::Shutdown && self.state == State::Initialized {
                    self.ticket = self.ticket.max(ticket);
                    self.stopped = true;
                    self.rest(State::Finished, text, fx);
                    return Answer::Done;
                }
                self.will_start &= *reason != StopReason::Shutdown;
                fx.push(Effect::Publish);
                fx.push(Effect::Rested);
                return Answer::NothingToDo(match self.state {
                    State::Initialized => "it was never started".into(),
                    state => format!("it is {} already", state.name()),
                });
            }
            Phase::When | Phase::Gate | Phase::Backoff => {
                fx.push(Effect::Work(Work::None));
                fx.push(Effect::DropGate);
                fx.push(Effect::Timer(Timer::Backoff, None));
                let during = match self.state {
                    State::Waiting if !self.waiting_for.is_empty() => {
                        format!(" while waiting for {}", words::list(&self.waiting_for))
                    }
                    State::Backoff => " before its restart".into(),
                    _ => " before its start".into(),
                };
                self.end(end(words::stopped(reason, &during)), fx);
            }
            Phase::Opening => {
                fx.push(Effect::DropGate);
                self.after = Some(end(words::stopped(reason, " while preparing")));
                self.tell(State::Stopping, format!("{text}, undoing what was prepared"), fx);
                self.close(fx);
            }
            Phase::Spawning => {
                fx.push(Effect::DropGate);
                self.after = Some(end(words::stopped(reason, " while starting")));
                self.phase = Phase::Clearing;
                self.tell(State::Stopping, text, fx);
                fx.push(Effect::Work(Work::Clear));
            }
            Phase::Active => {
                self.after = Some(end(text.clone()));
                self.begin_stop(rules.stop.delay, text, fx);
            }
            Phase::StopDelay | Phase::Ending | Phase::Clearing | Phase::Closing => match &self.after {
                // It ended by itself and only its cleanup is left: that is what happened.
                Some(After::End { stopped: false, state, .. }) => {
                    return Answer::NothingToDo(format!("it has just {}", state.name()));
                }
                Some(After::Decide(ended)) if rules.kind == ServiceKind::Oneshot && ended.success() => {
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
        self.ticket = self.ticket.max(ticket);
        fx.push(Effect::Publish);
        Answer::Done
    }
}
