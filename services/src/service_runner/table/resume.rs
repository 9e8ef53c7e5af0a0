//! A service in the next incarnation of PID 1: how it goes on from the phase that its record names.

use kelson_runner::Exit;
use kelson_spec::ServiceSpec;

use super::effect::Moment;
use super::{After, Effect, Host, Phase, ServiceState, Stage, Work};

impl ServiceState {
    /// Repeats the work of the phase: all of it can be repeated.
    pub(super) fn attached(&mut self, found: Result<i32, Exit>, closing: bool, at: &mut Moment) {
        self.host = if closing { Host::Stops } else { Host::Runs };
        match &mut self.phase {
            Phase::Rest(_) => match self.new_spec {
                Some(_) if self.is_refused() => self.has_new_spec(at),
                Some(_) | None => self.await_change(at),
            },
            Phase::When => at.work(Work::When),
            Phase::Gate(_) => self.ask_gate(at),
            Phase::Opening => at.work(Work::Open),
            // Another run begins, with the first of its hooks; what hooks of this one did is answered first. A process
            // that was made already is reported as spawned instead.
            Phase::Pre { .. } | Phase::Spawning { .. } => self.leave_run(After::Gate, at),
            Phase::Active(active) => match found {
                // When it last pinged is not written down.
                Ok(_) => *active = active.pinged(at.now),
                Err(exit) if active.leaves(exit, at.rules) || active.lacks_main(at.rules) => {
                    active.pid = 0;
                    at.work(Work::FindMain);
                }
                Err(exit) => {
                    let active = *active;
                    self.ended(active, exit, at);
                }
            },
            Phase::Down(down) => match (&mut down.stage, found) {
                (Stage::PreStop { .. } | Stage::StopDelay { .. }, Err(exit)) => self.clear_away(exit, at),
                (Stage::PreStop { .. }, Ok(_)) => at.work(Work::PreStop),
                (Stage::StopDelay { .. }, Ok(_)) => {}
                (Stage::Ending { until, pid, .. }, found) => {
                    until.get_or_insert(at.after(at.rules.stop.timeout));
                    at.push(Effect::Record);
                    if let Err(exit) = found {
                        *pid = None;
                        self.exit.get_or_insert(exit);
                        // Cleaning up may take its time, and nobody is to take a PID of the dead for one that lives.
                        at.push(Effect::Publish);
                    }
                    at.work(Work::Stop);
                }
                (Stage::Clearing, _) => at.work(Work::Clear),
                (Stage::Post, _) if down.owes_post => at.work(Work::Undo),
                (Stage::Post, _) => at.work(Work::Post),
                (Stage::Closing, _) => at.work(Work::Close),
            },
            // Its clock goes on; one that had run out rings at once.
            Phase::Backoff { .. } => {}
        }
    }

    /// The spec that waits is the one that was written down, which may have been done without this.
    pub fn expects(&mut self, new_spec: Option<&ServiceSpec>) {
        self.new_spec = new_spec.map(|spec| !spec.when.is_empty());
    }
}
