//! Requests of operators, a cascade, a removal, its group and the end of the host to a service, in each of
//! its phases.

use std::time::Duration;

use kelson_conditions::sentence;
use kelson_runner::restart::RestartHistory;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::ServiceKind;

use super::effect::Moment;
use super::{After, Answer, Effect, Gate, Hold, Host, Outcome, Phase, Rest, ServiceState, StopReason, Work};
use crate::model::{RestartReason, State};
use crate::service_runner::words;

/// Whether this build knows schedules and starts on demand.
const SCHEDULES: bool = OWN.has(Feature::Units);

impl ServiceState {
    /// A request that counts replaces the one before.
    fn take_up(&mut self, request_id: u64) {
        self.request_id = request_id;
        self.leaving = false;
        (self.retry, self.failure) = (None, None);
    }

    pub(super) fn start(&mut self, request_id: u64, at: &mut Moment) -> Answer {
        match &self.phase {
            Phase::Gate(gate) if SCHEDULES && at.rules.on_demand && gate.opened => {
                self.take_up(request_id);
                at.push(Effect::Demand);
                self.ask_gate(at);
            }
            // A request that changes nothing replaces none.
            Phase::When | Phase::Gate(_) | Phase::Opening | Phase::Pre { .. } | Phase::Spawning { .. } => {
                return Answer::NothingToDo("it is starting already".into());
            }
            Phase::Active(_) => return Answer::NothingToDo("it runs already".into()),
            Phase::Down(_) => return self.start_after_stop(request_id, at),
            Phase::Rest(_) => {
                self.take_up(request_id);
                (self.restarts, self.history) = (0, RestartHistory::default());
                self.begin(true, at);
            }
            Phase::Backoff { .. } => {
                self.take_up(request_id);
                self.history = RestartHistory::default();
                self.again_from_gate(at);
            }
        }
        Answer::Done
    }

    /// It is on its way down, and begins again after that.
    fn start_after_stop(&mut self, request_id: u64, at: &mut Moment) -> Answer {
        let Phase::Down(down) = &mut self.phase else { return Answer::Done };
        let ended = match std::mem::replace(&mut down.after, After::Again(RestartReason::Operator)) {
            before @ (After::Again(_) | After::Gate) => {
                down.after = before;
                return Answer::NothingToDo("it is restarting already".into());
            }
            After::Decide(ended) => format!("{}, ", words::ended(&ended, at.rules)),
            After::Rest { outcome: Outcome::Refused(_) | Outcome::Stopped { asked: true }, .. } => {
                String::new()
            }
            After::Rest { text, .. } => format!("{text}, "),
        };
        down.hold.give_up();
        self.take_up(request_id);
        self.history = RestartHistory::default();
        at.note(format!("{ended}starts again once it has stopped: asked by an operator"));
        at.push(Effect::Publish);
        Answer::Done
    }

    pub(super) fn restart(&mut self, request_id: u64, why: &str, at: &mut Moment) {
        let text = format!("restarting: {why}");
        self.take_up(request_id);
        let again = After::Again(RestartReason::Operator);
        let undoes = self.has_to_undo(at);
        match &mut self.phase {
            Phase::Rest(_) if undoes => self.undo_finished(again, text, at),
            Phase::Rest(_) => self.begin(true, at),
            Phase::When => at.push(Effect::Publish),
            Phase::Gate(_) | Phase::Backoff { .. } => self.again_from_gate(at),
            Phase::Opening => {
                at.push(Effect::DropGate);
                self.undo(again, text, at);
            }
            Phase::Pre { .. } | Phase::Spawning { .. } => self.break_start(again, text, at),
            Phase::Active(active) => {
                let active = *active;
                self.begin_stop(active, again, text, at);
            }
            Phase::Down(down) => {
                (down.after, down.shown) = (again, State::Stopping);
                down.hold.give_up();
                self.tell(text, at);
            }
        }
    }

    /// A hook that runs is killed. A program that is just being started may run by now: then it has its stop signal.
    fn break_start(&mut self, after: After, text: String, at: &mut Moment) {
        let spawning = matches!(self.phase, Phase::Spawning { .. });
        at.push(Effect::DropGate);
        self.go_down(after, State::Stopping);
        self.tell(text, at);
        if spawning {
            self.signal(at);
        } else {
            at.work(Work::Clear);
        }
    }

    /// Nothing runs; a new spec may be waiting.
    fn again_from_gate(&mut self, at: &mut Moment) {
        if self.new_spec.is_some() && self.is_open() {
            self.undo_for_new_spec(After::Again(RestartReason::Operator), at);
            return;
        }
        // The answer says again what it waits for.
        let (shown, missing) = (State::Initialized, self.missing().to_vec());
        self.phase = Phase::Gate(Gate { shown, missing, opened: self.is_open() });
        self.begin(false, at);
    }

    pub(super) fn stop(&mut self, request_id: u64, reason: &StopReason, at: &mut Moment) -> Answer {
        match reason {
            StopReason::Shutdown => self.host = self.host.max(Host::Stops),
            StopReason::Removed => self.leaving = true,
            StopReason::Operator
            | StopReason::Cascade(_)
            | StopReason::Conflict(_)
            | StopReason::CutOff(_)
            | StopReason::Group(_) => {}
        }
        let text = words::stopped(reason, "");
        let during = |during: &str| After::stopped(reason, words::stopped(reason, during));
        let by_group = matches!(reason, StopReason::Group(_));
        let ends_schedule = ends_schedule(reason, at);
        let undoes = self.has_to_undo(at);
        match &mut self.phase {
            Phase::Rest(_) if undoes => self.undo_finished(during(""), text, at),
            Phase::Rest(_) => return self.stop_at_rest(request_id, reason, at),
            Phase::When | Phase::Gate(_) | Phase::Backoff { .. } => {
                at.work(Work::None);
                at.push(Effect::DropGate);
                let after = match self.state() {
                    State::Waiting if !self.missing().is_empty() => {
                        during(&format!(" while waiting for {}", sentence(self.missing())))
                    }
                    State::Backoff => during(" before its restart"),
                    _ => during(" before its start"),
                };
                if self.is_open() {
                    // Cleaning up may take its time.
                    self.undo(after, format!("{text}, undoing what was prepared"), at);
                } else {
                    self.follow_up(after, at);
                }
            }
            Phase::Opening => {
                at.push(Effect::DropGate);
                self.undo(during(" while preparing"), format!("{text}, undoing what was prepared"), at);
            }
            Phase::Pre { .. } | Phase::Spawning { .. } => {
                self.break_start(during(" while starting"), text, at);
            }
            Phase::Active(active) => {
                let active = *active;
                self.begin_stop(active, during(""), text, at);
            }
            Phase::Down(down) => match &down.after {
                After::Rest { outcome: Outcome::Stopped { asked: true }, .. } => {
                    return Answer::NothingToDo("it is stopping already".into());
                }
                // It ended by itself and only its cleanup is left: that is what happened.
                After::Rest {
                    outcome: outcome @ (Outcome::Finished | Outcome::Failed | Outcome::Skipped),
                    ..
                } if !ends_schedule => {
                    down.hold.meet(reason);
                    return Answer::NothingToDo(format!("it has just {}", outcome.state().name()));
                }
                After::Decide(ended)
                    if !ends_schedule
                        && at.rules.kind == ServiceKind::Oneshot
                        && ended.success(at.rules)
                        && (!by_group || down.hold == Hold::Somebody) =>
                {
                    down.hold.meet(reason);
                    return Answer::NothingToDo("it has just finished".into());
                }
                After::Decide(_) | After::Again(_) | After::Gate | After::Rest { .. } => {
                    (down.after, down.shown) = (during(""), State::Stopping);
                    self.tell(text, at);
                }
            },
        }
        match self.hold_mut() {
            Some(hold) if by_group => hold.meet(reason),
            Some(hold @ Hold::Group) => *hold = Hold::Free,
            Some(Hold::Free | Hold::Abandoned | Hold::Somebody) | None => {}
        }
        self.request_id = self.request_id.max(request_id);
        at.push(Effect::Publish);
        Answer::Done
    }

    fn stop_at_rest(&mut self, request_id: u64, reason: &StopReason, at: &mut Moment) -> Answer {
        let shutdown = *reason == StopReason::Shutdown;
        let ends_it = !shutdown && !matches!(reason, StopReason::Group(_));
        let Phase::Rest(rest) = &mut self.phase else { return Answer::Done };
        let was_to_start = match rest {
            Rest::Initialized { will_start } => {
                *will_start &= !shutdown;
                true
            }
            Rest::Ended(_, hold @ Hold::Group) => {
                match reason {
                    StopReason::Group(_) => {}
                    StopReason::Shutdown => *hold = Hold::Abandoned,
                    StopReason::Operator
                    | StopReason::Cascade(_)
                    | StopReason::Conflict(_)
                    | StopReason::CutOff(_)
                    | StopReason::Removed => *hold = Hold::Free,
                }
                true
            }
            Rest::Ended(Outcome::Stopped { asked: true }, _) => {
                // An operator who does not want it to run keeps the fleet from starting it.
                if *reason == StopReason::Operator && words::is_cut_off(&self.message) {
                    self.tell(words::stopped(reason, ""), at);
                }
                false
            }
            Rest::Ended(..) if ends_schedule(reason, at) => true,
            // Somebody who does not want it to run keeps its group from starting it.
            Rest::Ended(_, hold) => {
                hold.meet(reason);
                false
            }
        };
        if was_to_start && ends_it {
            self.request_id = self.request_id.max(request_id);
            self.end(Outcome::stopped(reason), words::stopped(reason, ""), at);
            return Answer::Done;
        }
        at.push(Effect::Publish);
        at.push(Effect::Rested);
        Answer::NothingToDo(match self.state() {
            State::Initialized if shutdown => "it was never started".into(),
            state => format!("it is {} already", state.name()),
        })
    }

    pub(super) fn stop_for(&mut self, time: Option<Duration>, at: &mut Moment) {
        self.stop_for = time.map(|time| at.after(time));
        if let Some(time) = time {
            let time = words::duration(time);
            at.note(format!("to be stopped for {time}, then it starts again by itself"));
            // The stop that follows may come late: it is recorded at once.
            at.push(Effect::Publish);
        }
    }

    /// An operator who started it meanwhile, or stopped it again, wins.
    pub(super) fn stopped_for_long_enough(&mut self, at: &mut Moment) {
        self.stop_for = None;
        let stops = matches!(&self.phase, Phase::Down(down)
            if matches!(down.after, After::Rest { outcome: Outcome::Stopped { asked: true }, .. }));
        if !stops && !self.stopped() || self.closing() || self.leaving {
            return;
        }
        if SCHEDULES && at.rules.scheduled {
            self.follow_schedule(at);
        } else {
            at.note("the time for which it was stopped is over");
            self.start(self.request_id, at);
        }
    }

    /// One that stops for longer than it was to be stopped gets some more time for that.
    fn follow_schedule(&mut self, at: &mut Moment) {
        match &mut self.phase {
            Phase::Rest(rest) => {
                *rest = Rest::Initialized { will_start: false };
                self.tell("the time for which it was stopped is over: its schedule starts it again", at);
            }
            _ => {
                self.stop_for = Some(at.after(Duration::from_secs(1)));
                at.push(Effect::Publish);
            }
        }
    }

    /// Its schedule starts it. An operator who stopped it meanwhile wins.
    pub(super) fn due(&mut self, at: &mut Moment) {
        if SCHEDULES && !self.closing() && !self.leaving && !self.stopped() {
            at.note("its schedule starts it");
            self.start(self.request_id, at);
        }
    }

    /// All of its group has stopped, and starts again. An operator who stopped it meanwhile wins.
    pub(super) fn group_start(&mut self, text: &str, at: &mut Moment) {
        if self.closing() || self.is_stopped() {
            return;
        }
        let asked = self.asked_group.take();
        self.restarts = self.restarts.saturating_add(1);
        self.restarts_by.add(asked.unwrap_or(RestartReason::Group));
        at.note(format!("starts again with its group: {text}"));
        self.tries_after(format!("its group is restarted ({text})"));
        self.begin(true, at);
    }
}

/// Whether a stop means the schedule too, which would start the service again.
fn ends_schedule(reason: &StopReason, at: &Moment) -> bool {
    SCHEDULES && at.rules.scheduled && *reason == StopReason::Operator
}

impl Hold {
    /// Applies a stop that has nothing left to stop to the next start.
    fn meet(&mut self, reason: &StopReason) {
        match reason {
            StopReason::Operator | StopReason::Cascade(_) | StopReason::Conflict(_) => match *self {
                Hold::Free => *self = Hold::Somebody,
                Hold::Group => *self = Hold::Abandoned,
                Hold::Somebody | Hold::Abandoned => {}
            },
            StopReason::Group(_) if *self == Hold::Free => *self = Hold::Group,
            StopReason::CutOff(_) | StopReason::Group(_) | StopReason::Removed | StopReason::Shutdown => {}
        }
    }

    /// Somebody starts it after all.
    fn give_up(&mut self) {
        if *self != Hold::Group {
            *self = Hold::Free;
        }
    }
}
