//! The steps that remain to stop a service that is recorded in a phase, where no table steps any more: at the
//! crash limit.

use std::time::Duration;

use super::{Phase, ServiceState, Stage};

/// The rest of a stop, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemainingStop {
    /// The `preStop` hooks, from the first.
    pub pre_stop: bool,
    /// Then so long before the signal. `None`: there is no signal, what is left of the run is killed.
    pub signal_after: Option<Duration>,
    /// The signal has been sent before: what was left of its timeout is left.
    pub signalled: bool,
    /// At last the `post` hooks.
    pub post: bool,
}

impl ServiceState {
    /// `lives`: its main process does. `delay` is `stop.delay`.
    pub fn remaining_stop(&self, lives: bool, delay: Duration, now: Duration) -> RemainingStop {
        // Those that were cut off run again from the first.
        let is_post = self.stage() == Some(Stage::Post);
        // With both it is `undo` hooks that were cut off, of a run whose `post` hooks have run.
        let post = self.owes_post() != is_post;
        let (pre_stop, signal_after, signalled) = match &self.phase {
            // One that was just being made runs, or it would not live.
            Phase::Active(_) | Phase::Spawning { .. } => (true, Some(delay), false),
            Phase::Down(down) => match down.stage {
                Stage::PreStop { delays: true, .. } => (true, Some(delay), false),
                Stage::PreStop { delays: false, .. } => (true, Some(Duration::ZERO), false),
                Stage::StopDelay { until, .. } => (false, Some(until.saturating_sub(now)), false),
                Stage::Ending { .. } => (false, Some(Duration::ZERO), true),
                Stage::Clearing | Stage::Post | Stage::Closing => (false, None, false),
            },
            Phase::Rest(_)
            | Phase::When
            | Phase::Gate(_)
            | Phase::Opening
            | Phase::Pre { .. }
            | Phase::Backoff { .. } => (false, None, false),
        };
        match lives {
            true => RemainingStop { pre_stop, signal_after, signalled, post },
            false => RemainingStop { post, ..RemainingStop::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::phase::{Active, After, Down, Hold, ReadySignal};
    use super::*;
    use crate::model::{RestartReason, State};

    const DELAY: Duration = Duration::from_secs(5);
    const LEFT: Duration = Duration::from_secs(2);
    const NOW: Duration = Duration::from_secs(100);

    fn down(stage: Stage, owes_post: bool) -> Phase {
        let after = After::Again(RestartReason::Operator);
        Phase::Down(Down { stage, after, hold: Hold::Free, shown: State::Stopping, owes_post })
    }

    fn of(phase: Phase, lives: bool) -> RemainingStop {
        ServiceState { phase, ..ServiceState::new(true) }.remaining_stop(lives, DELAY, NOW)
    }

    #[test]
    fn each_phase_goes_on_where_it_stood() {
        let active = Phase::Active(Active {
            pid: 7,
            readiness: ReadySignal::Given,
            healthy: None,
            proven: false,
            start: None,
            watchdog: None,
            owes_post: true,
        });
        let pre_stop = down(Stage::PreStop { delays: true, pid: 7 }, true);
        let ending = down(Stage::Ending { until: None, forced: false, pid: Some(7) }, true);
        let clear = RemainingStop { post: true, ..RemainingStop::default() };
        let whole = RemainingStop { pre_stop: true, signal_after: Some(DELAY), ..clear };
        assert_eq!(of(active.clone(), true), whole);
        assert_eq!(of(Phase::Spawning { owes_post: true }, true), whole);
        assert_eq!(of(pre_stop.clone(), true), whole);
        assert_eq!(
            of(down(Stage::StopDelay { until: NOW + LEFT, pid: 7 }, true), true),
            RemainingStop { signal_after: Some(LEFT), ..clear }
        );
        let signalled = RemainingStop { signal_after: Some(Duration::ZERO), signalled: true, ..clear };
        assert_eq!(of(ending.clone(), true), signalled);
        let cut_off = down(Stage::Post, false);
        for phase in [Phase::Pre { owes_post: true }, down(Stage::Clearing, true), cut_off.clone()] {
            assert_eq!(of(phase, true), clear);
        }
        for phase in [Phase::When, Phase::Backoff { until: None, opened: true }] {
            assert_eq!(of(phase, true), RemainingStop::default());
        }
        for phase in [active, pre_stop, ending, cut_off] {
            assert_eq!(of(phase, false), clear, "nobody is left to be signalled");
        }
        let failed = down(Stage::PreStop { delays: false, pid: 7 }, false);
        let at_once =
            RemainingStop { pre_stop: true, signal_after: Some(Duration::ZERO), ..RemainingStop::default() };
        assert_eq!(of(failed, true), at_once);
    }
}
