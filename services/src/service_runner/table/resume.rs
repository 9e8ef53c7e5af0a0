//! A service in the next incarnation of PID 1: where its record stood, and how it goes on from there.

use std::time::Duration;

use kelson_runner::Exit;
use kelson_spec::ServiceSpec;

use super::ending::After;
use super::{Effect, Effects, Phase, Rules, ServiceState, Work};
use crate::model::State;

impl ServiceState {
    /// Goes on from each phase. What the phase was doing is done again: all of it is made for that.
    pub(super) fn attached(
        &mut self,
        rules: &Rules,
        (found, closing): (Result<i32, Exit>, bool),
        (now, chance): (Duration, u32),
        fx: &mut Effects,
    ) {
        self.closing = closing;
        match self.phase {
            Phase::Rest if self.new_spec.is_some() && self.is_refused() => self.has_new_spec(rules, fx),
            Phase::Rest => self.await_change(fx),
            Phase::When => fx.push(Effect::Work(Work::When)),
            Phase::Gate => self.ask_gate(fx),
            Phase::Opening => fx.push(Effect::Work(Work::Open)),
            // Another run begins, with the first of its hooks; what hooks of this one did is answered first. A process
            // that was made already is told as spawned instead.
            Phase::Pre | Phase::Spawning => {
                self.after = Some(After::Gate);
                self.run_post(rules, now, chance, fx);
            }
            Phase::PreStop { .. } => match found {
                Ok(_) => fx.push(Effect::Work(Work::PreStop)),
                Err(exit) => self.clear_away(exit, fx),
            },
            Phase::StopDelay { .. } => {
                if let Err(exit) = found {
                    self.clear_away(exit, fx);
                }
            }
            Phase::Active(active) => {
                if let Err(exit) = found {
                    self.ended(rules, active, exit, now, fx);
                }
            }
            Phase::Ending { until } => {
                let until = until.unwrap_or_else(|| now.saturating_add(rules.stop.timeout));
                self.phase = Phase::Ending { until: Some(until) };
                fx.push(Effect::Record);
                if let Err(exit) = found {
                    self.pid = None;
                    self.exit.get_or_insert(exit);
                    // Cleaning up may take its time, and nobody is to take a PID of the dead for one that lives.
                    fx.push(Effect::Publish);
                }
                fx.push(Effect::Work(Work::Stop));
            }
            Phase::Clearing => fx.push(Effect::Work(Work::Clear)),
            Phase::Post => fx.push(Effect::Work(Work::Post)),
            Phase::Closing => fx.push(Effect::Work(Work::Close)),
            // Its clock goes on; one that had run out rings at once.
            Phase::Backoff { .. } => {}
        }
    }

    /// The spec that waits is the one that was written down, which may have been done without this.
    pub fn expects(&mut self, new_spec: Option<&ServiceSpec>) {
        self.new_spec = new_spec.map(|spec| !spec.when.is_empty());
    }

    /// Whether this run has been ready, also where it is reloading now.
    pub fn has_been_ready(&self) -> bool {
        self.active().is_some_and(|active| active.ready || self.state == State::Running)
    }

    /// Whether its `post` hooks are owed.
    pub fn owes_post(&self) -> bool {
        self.owes_post
    }

    /// Its file is gone, and so is it once it is at rest.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// What must be undone, also where it is only half prepared.
    pub fn has_opened(&self) -> bool {
        self.opened || matches!(self.phase, Phase::Opening | Phase::Closing)
    }

    /// Its group has stopped it and is to start it again.
    pub fn awaits_group(&self) -> bool {
        self.awaits_group
    }

    /// Its group was about to restart, or in the middle of it.
    pub fn group_restarts(&self) -> bool {
        self.awaits_group || self.asked_group.is_some()
    }
}
