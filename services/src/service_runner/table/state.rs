//! One service as the table sees it, and what is true of it in its present phase.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::Missing;
use kelson_runner::restart::RestartHistory;
use kelson_runner::{ErrorKind, Exit};
use kelson_spec::service::ServiceKind;

use super::effect::{Effect, Moment};
use super::{Active, Down, Ended, Gate, Hold, Outcome, Phase, ReadySignal, Rest, Rules, Stage, Timer};
use crate::model::{RestartCounts, RestartReason, Retry, State};

/// The state of the host, as far as its services are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    Runs,
    /// Nothing is started any more.
    Stops,
    /// The total deadline of its stop has passed: nothing is waited for any more.
    Overdue,
}

/// One service as the table sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceState {
    pub phase: Phase,
    /// Number of the current or last run.
    pub run: u64,
    pub restarts: u32,
    pub restarts_by: RestartCounts,
    /// The last request that counted.
    pub request_id: u64,
    /// Why it is in its phase. Shared with the snapshot and the event.
    pub message: Arc<str>,
    /// It is tried again, and was not up since.
    pub(crate) retry: Option<Arc<Retry>>,
    /// Why it was not up, since it last was. Of a host in a fleet.
    pub(crate) failure: Option<Arc<Ended>>,
    /// How the current or last run ended, as far as it has.
    pub exit: Option<Exit>,
    /// The stop signal of its image, where that counts and not the service file's. For the crash limit, which does not
    /// ask containerd.
    pub(crate) stop_signal: Option<i32>,
    /// How often its gate went shut after its `pre` hooks since it was last spawned.
    pub(crate) broken_off: u32,
    /// Its file is gone: it is stopped, and forgotten once it rests.
    pub(crate) leaving: bool,
    /// It asked for its group to be restarted, for this reason.
    pub(crate) asked_group: Option<RestartReason>,
    /// A new spec waits; whether that has a `when`.
    pub(crate) new_spec: Option<bool>,
    pub(crate) host: Host,
    pub(crate) history: RestartHistory,
    /// When its process was last spawned, since PID 1's start.
    pub(crate) spawned_at: Duration,
    /// Until when an operator stopped it.
    pub stop_for: Option<Duration>,
}

/// Its phase, its stage of the way down, and whether `post` hooks are owed.
pub type Place = (Discriminant<Phase>, Option<Discriminant<Stage>>, bool);

impl ServiceState {
    pub fn new(will_start: bool) -> ServiceState {
        ServiceState {
            phase: Phase::Rest(Rest::Initialized { will_start }),
            run: 0,
            restarts: 0,
            restarts_by: RestartCounts::default(),
            request_id: 0,
            message: Arc::from(""),
            retry: None,
            failure: None,
            exit: None,
            stop_signal: None,
            broken_off: 0,
            leaving: false,
            asked_group: None,
            new_spec: None,
            host: Host::Runs,
            history: RestartHistory::default(),
            spawned_at: Duration::ZERO,
            stop_for: None,
        }
    }

    pub(super) fn tell(&mut self, message: impl Into<Arc<str>>, at: &mut Moment) {
        self.message = message.into();
        at.push(Effect::Tell);
    }

    /// As it is shown. Coarser than the phase.
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Rest(rest) => rest.state(),
            Phase::When => State::Waiting,
            Phase::Gate(gate) => gate.shown,
            Phase::Opening => State::Preparing,
            Phase::Pre { .. } | Phase::Spawning { .. } => State::Starting,
            Phase::Active(active) if active.readiness == ReadySignal::Awaited => State::Starting,
            Phase::Active(_) => State::Running,
            Phase::Down(down) => down.shown,
            Phase::Backoff { .. } => State::Backoff,
        }
    }

    /// The host is stopping: nothing is started any more.
    pub fn closing(&self) -> bool {
        self.host != Host::Runs
    }

    /// Ended successfully by itself, and its group has not stopped it since.
    pub fn finished(&self) -> bool {
        matches!(self.phase, Phase::Rest(Rest::Ended(Outcome::Finished, hold))
            if matches!(hold, Hold::Free | Hold::Somebody))
    }

    /// It has come to its end, and neither its restart policy nor its group starts it again. One that somebody has
    /// stopped has not.
    pub(crate) fn has_ended(&self) -> bool {
        let Phase::Rest(Rest::Ended(outcome, Hold::Free)) = self.phase else { return false };
        let is_asked = outcome == Outcome::Stopped { asked: true };
        !is_asked && self.asked_group.is_none() && !self.leaving && !self.closing()
    }

    /// At rest because it was asked to stop.
    pub fn stopped(&self) -> bool {
        let outcome = Outcome::Stopped { asked: true };
        matches!(self.phase, Phase::Rest(Rest::Ended(how, _)) if how == outcome)
    }

    /// At rest, and somebody does not want it to run.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped() || matches!(self.hold(), Hold::Somebody | Hold::Abandoned)
    }

    /// Running, and everything that says whether it is ready and healthy says so now.
    pub fn up(&self, rules: &Rules) -> bool {
        match rules.kind {
            ServiceKind::Oneshot => self.finished(),
            ServiceKind::Service => self
                .active()
                .is_some_and(|active| active.ready() && (!rules.has_checks || active.healthy == Some(true))),
        }
    }

    /// At rest, and nothing that is under way will change it. A successful one-shot is not down.
    pub fn down(&self, rules: &Rules) -> bool {
        let Phase::Rest(rest) = self.phase else { return false };
        match rest {
            Rest::Initialized { will_start } => !will_start,
            Rest::Ended(_, Hold::Group) => false,
            Rest::Ended(_, Hold::Free | Hold::Abandoned | Hold::Somebody) => {
                !(self.finished() && rules.kind == ServiceKind::Oneshot)
                    // It has asked its group for a restart and does not yet stop with it.
                    && (self.asked_group.is_none() || self.is_stopped() || self.closing())
            }
        }
    }

    /// Its start failed, and it is tried again only once what was wrong has changed.
    pub fn is_refused(&self) -> bool {
        matches!(self.phase, Phase::Rest(Rest::Ended(Outcome::Refused(_), _)))
            && !self.is_stopped()
            && !self.closing()
            && !self.leaving
    }

    /// Stands for the archives of images that must change before it is tried again.
    pub fn refused_archives(&self) -> Option<u32> {
        let Phase::Rest(Rest::Ended(Outcome::Refused(ErrorKind::Image { archives }), _)) = self.phase else {
            return None;
        };
        Some(archives)
    }

    /// The facts about its run while the process lives.
    pub fn active(&self) -> Option<Active> {
        if let Phase::Active(active) = self.phase { Some(active) } else { None }
    }

    /// Its main process, until that is known to have ended. Not every run has one.
    pub fn pid(&self) -> Option<i32> {
        self.main().filter(|pid| *pid > 0)
    }

    /// A run has begun, and is not known to have ended.
    pub fn runs(&self) -> bool {
        self.main().is_some()
    }

    /// [`Active::pid`], until its run is known to have ended.
    pub(super) fn main(&self) -> Option<i32> {
        match self.stage() {
            Some(Stage::PreStop { pid, .. } | Stage::StopDelay { pid, .. }) => Some(pid),
            Some(Stage::Ending { pid, .. }) => pid,
            Some(Stage::Clearing | Stage::Post | Stage::Closing) => None,
            None => self.active().map(|active| active.pid),
        }
    }

    /// The unmet conditions of its gate.
    pub fn missing(&self) -> &[Missing] {
        if let Phase::Gate(gate) = &self.phase { &gate.missing } else { &[] }
    }

    /// Whether its `post` hooks are owed.
    pub(crate) fn owes_post(&self) -> bool {
        matches!(
            self.phase,
            Phase::Pre { owes_post: true }
                | Phase::Spawning { owes_post: true }
                | Phase::Active(Active { owes_post: true, .. })
                | Phase::Down(Down { owes_post: true, .. })
        )
    }

    /// The part of the state that another incarnation of PID 1 must know before anything else is done.
    pub fn place(&self) -> Place {
        (discriminant(&self.phase), self.stage().map(|stage| discriminant(&stage)), self.owes_post())
    }

    pub(super) fn hold_mut(&mut self) -> Option<&mut Hold> {
        if let Phase::Rest(Rest::Ended(_, hold)) | Phase::Down(Down { hold, .. }) = &mut self.phase {
            return Some(hold);
        }
        None
    }

    /// The authority that decides whether it starts again.
    pub(crate) fn hold(&self) -> Hold {
        if let Phase::Rest(Rest::Ended(_, hold)) | Phase::Down(Down { hold, .. }) = self.phase {
            return hold;
        }
        Hold::Free
    }

    /// Whether the preparations stand.
    pub(super) fn is_open(&self) -> bool {
        self.has_opened() && self.phase != Phase::Opening && self.stage() != Some(Stage::Closing)
    }

    /// Whether there are preparations to undo, also where they are only half done.
    pub fn has_opened(&self) -> bool {
        match &self.phase {
            Phase::Rest(_) | Phase::When => false,
            Phase::Gate(Gate { opened, .. }) | Phase::Backoff { opened, .. } => *opened,
            Phase::Opening | Phase::Pre { .. } | Phase::Spawning { .. } => true,
            Phase::Active(_) | Phase::Down(_) => true,
        }
    }

    /// How far its way down has come.
    pub fn stage(&self) -> Option<Stage> {
        if let Phase::Down(down) = &self.phase { Some(down.stage) } else { None }
    }

    /// All deadlines that stand, each with what it is for.
    pub fn deadlines(&self) -> impl Iterator<Item = (Timer, Duration)> {
        let active = self.active();
        let stop_delay =
            if let Some(Stage::StopDelay { until, .. }) = self.stage() { Some(until) } else { None };
        let backoff = if let Phase::Backoff { until, .. } = self.phase { until } else { None };
        let all = [
            (Timer::Start, active.and_then(|active| active.start)),
            (Timer::Watchdog, active.and_then(|active| Some(active.watchdog?.until))),
            (Timer::StopDelay, stop_delay),
            (Timer::Backoff, backoff),
            (Timer::StopFor, self.stop_for),
        ];
        all.into_iter().filter_map(|(timer, at)| Some((timer, at?)))
    }

    /// Until when a stop whose signal was sent waits.
    pub fn stop_until(&self) -> Option<Duration> {
        if let Some(Stage::Ending { until, .. }) = self.stage() { until } else { None }
    }

    /// The reason why its last run ended, before another run.
    pub fn retry(&self) -> Option<&Arc<Retry>> {
        self.retry.as_ref().filter(|_| !matches!(self.phase, Phase::Rest(_) | Phase::Down(_)))
    }

    /// Why it is in its state, and what ended its last run where the state does not say it.
    pub fn reason(&self) -> Arc<str> {
        match self.retry() {
            Some(retry) if !matches!(self.phase, Phase::Backoff { .. }) => {
                format!("{}; the last run: {}", self.message, retry.ended).into()
            }
            _ => Arc::clone(&self.message),
        }
    }

    /// Its group has stopped it and is to start it again.
    pub fn awaits_group(&self) -> bool {
        self.hold() == Hold::Group
    }

    /// Its group was about to restart, or in the middle of it.
    pub fn group_restarts(&self) -> bool {
        self.awaits_group() || self.asked_group.is_some()
    }
}
