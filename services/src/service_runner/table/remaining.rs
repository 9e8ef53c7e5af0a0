//! What is left to do to stop a service that is recorded in a phase, where no table steps any more: at the crash limit.

use std::num::NonZeroU8;
use std::time::Duration;

use super::{Phase, ServiceState};

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
    /// The stop signal of the image of its present run, where that counts.
    pub fn note_stop_signal(&mut self, signal: Option<i32>) {
        self.stop_signal = signal.and_then(|signal| NonZeroU8::new(u8::try_from(signal).ok()?));
    }

    /// As it was noted.
    pub fn stop_signal(&self) -> Option<i32> {
        self.stop_signal.map(|signal| signal.get().into())
    }

    /// `lives`: its main process does. `delay` is `stop.delay`.
    pub fn remaining_stop(&self, lives: bool, delay: Duration, now: Duration) -> RemainingStop {
        // Those that were cut off run again from the first.
        let post = self.owes_post || self.phase == Phase::Post;
        let clear = RemainingStop { post, ..RemainingStop::default() };
        if !lives {
            return clear;
        }
        let whole_delay = |counts: bool| Some(if counts { delay } else { Duration::ZERO });
        match self.phase {
            // One that was just being made runs, or it would not live.
            Phase::Active(_) | Phase::Spawning => {
                RemainingStop { pre_stop: true, signal_after: whole_delay(true), ..clear }
            }
            Phase::PreStop { delays } => {
                RemainingStop { pre_stop: true, signal_after: whole_delay(delays), ..clear }
            }
            Phase::StopDelay { until } => {
                RemainingStop { signal_after: Some(until.saturating_sub(now)), ..clear }
            }
            Phase::Ending { .. } => {
                RemainingStop { signal_after: Some(Duration::ZERO), signalled: true, ..clear }
            }
            Phase::Rest
            | Phase::When
            | Phase::Gate
            | Phase::Opening
            | Phase::Pre
            | Phase::Clearing
            | Phase::Post
            | Phase::Closing
            | Phase::Backoff { .. } => clear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Active;
    use super::*;

    #[test]
    fn each_phase_goes_on_where_it_stood() {
        const DELAY: Duration = Duration::from_secs(5);
        const LEFT: Duration = Duration::from_secs(2);
        const NOW: Duration = Duration::from_secs(100);
        let active = Phase::Active(Active::default());
        let pre_stop = Phase::PreStop { delays: true };
        let ending = Phase::Ending { until: None };
        let backoff = Phase::Backoff { until: None };
        let of = |phase, lives| {
            let service = ServiceState { phase, owes_post: true, ..ServiceState::new(true) };
            service.remaining_stop(lives, DELAY, NOW)
        };
        let clear = RemainingStop { post: true, ..RemainingStop::default() };
        let whole = RemainingStop { pre_stop: true, signal_after: Some(DELAY), ..clear };
        assert_eq!(of(active, true), whole);
        assert_eq!(of(Phase::Spawning, true), whole);
        assert_eq!(of(pre_stop, true), whole);
        assert_eq!(
            of(Phase::StopDelay { until: NOW + LEFT }, true),
            RemainingStop { signal_after: Some(LEFT), ..clear }
        );
        let signalled = RemainingStop { signal_after: Some(Duration::ZERO), signalled: true, ..clear };
        assert_eq!(of(ending, true), signalled);
        for phase in [Phase::Rest, Phase::Pre, Phase::Clearing, Phase::Post, backoff] {
            assert_eq!(of(phase, true), clear);
        }
        for phase in [active, pre_stop, ending] {
            assert_eq!(of(phase, false), clear, "nobody is left to be signalled");
        }
        let cut_off = ServiceState { phase: Phase::Post, ..ServiceState::new(true) };
        assert_eq!(cut_off.remaining_stop(false, DELAY, NOW), clear);
        let failed = ServiceState { phase: Phase::PreStop { delays: false }, ..ServiceState::new(true) };
        let at_once =
            RemainingStop { pre_stop: true, signal_after: Some(Duration::ZERO), ..RemainingStop::default() };
        assert_eq!(failed.remaining_stop(true, DELAY, NOW), at_once);
    }
}
