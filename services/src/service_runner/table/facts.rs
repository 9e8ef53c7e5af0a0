//! What is true of a service in its present state, for those who look at it.

use std::sync::Arc;
use std::time::Duration;

use kelson_spec::service::ServiceKind;

use super::ending::After;
use super::{Active, Phase, Rules, ServiceState, Timer};
use crate::model::{Retry, State};

impl ServiceState {
    /// The host is stopping.
    pub fn starts_nothing(&self) -> bool {
        self.closing
    }

    /// Running, and everything that says whether it is ready and healthy says so now.
    pub fn up(&self, rules: &Rules) -> bool {
        match rules.kind {
            ServiceKind::Oneshot => self.finished,
            ServiceKind::Service => self.active().is_some_and(|active| {
                self.state == State::Running
                    && active.ready
                    && (!rules.has_checks || active.healthy == Some(true))
            }),
        }
    }

    /// At rest, and nothing that is under way will change it. A successful one-shot is not down.
    pub fn down(&self, rules: &Rules) -> bool {
        self.phase == Phase::Rest
            && !(self.finished && rules.kind == ServiceKind::Oneshot)
            && (self.state != State::Initialized || !self.will_start)
            && !self.awaits_group
            // It has asked its group for a restart and is not yet told to stop with it.
            && (self.asked_group.is_none() || self.is_stopped() || self.closing)
    }

    /// Its start failed, and it is tried again only once what was wrong has changed.
    pub fn is_refused(&self) -> bool {
        self.phase == Phase::Rest
            && matches!(self.after, Some(After::Refused { .. }))
            && !self.is_stopped()
            && !self.closing
            && !self.leaving
    }

    /// Somebody does not want it to run.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped || self.unwanted
    }

    /// What is known of its run while its process lives.
    pub fn active(&self) -> Option<Active> {
        match self.phase {
            Phase::Active(active) => Some(active),
            _ => None,
        }
    }

    /// All deadlines that stand, each with what it is for.
    pub fn deadlines(&self) -> impl Iterator<Item = (Timer, Duration)> {
        let of_phase = match self.phase {
            Phase::Active(Active { start, watchdog, .. }) => {
                [(Timer::Start, start), (Timer::Watchdog, watchdog)]
            }
            Phase::StopDelay { until } => [(Timer::StopDelay, Some(until)), (Timer::Watchdog, None)],
            Phase::Backoff { until } => [(Timer::Backoff, until), (Timer::Watchdog, None)],
            _ => [(Timer::Start, None), (Timer::Watchdog, None)],
        };
        let all = of_phase.into_iter().chain([(Timer::StopFor, self.stop_for)]);
        all.filter_map(|(timer, at)| Some((timer, at?)))
    }

    /// Until when a stop whose signal was sent waits.
    pub fn stop_until(&self) -> Option<Duration> {
        match self.phase {
            Phase::Ending { until } => until,
            _ => None,
        }
    }

    /// When its process was last spawned, since PID 1's start.
    pub fn spawned_at(&self) -> Duration {
        self.spawned_at
    }

    /// Whether the preparations stand.
    pub fn is_open(&self) -> bool {
        self.opened
    }

    /// What ended its last run, on the way to another one.
    pub fn retry(&self) -> Option<&Arc<Retry>> {
        let on_the_way = matches!(
            self.phase,
            Phase::When
                | Phase::Gate
                | Phase::Opening
                | Phase::Pre
                | Phase::Spawning
                | Phase::Active(_)
                | Phase::Backoff { .. }
        );
        self.retry.as_ref().filter(|_| on_the_way)
    }

    /// Why it is in its state, and what ended its last run where that is not said anyhow.
    pub fn reason(&self) -> Arc<str> {
        match self.retry() {
            Some(retry) if !matches!(self.phase, Phase::Backoff { .. }) => {
                format!("{}; the last run: {}", self.message, retry.ended).into()
            }
            _ => Arc::clone(&self.message),
        }
    }
}
