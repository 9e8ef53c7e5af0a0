//! The record of a [`ServiceState`], the one place that knows both, and what this version makes of what a later one has written.

mod next;

use std::sync::Arc;
use std::time::Duration;

use kelson_proto::state::v1 as stored;
use kelson_runner::ErrorKind;
use kelson_runner::restart::{Failures, RestartHistory};
use kelson_sys::text::start_of;

use super::numbers::{Numbered as _, exit_of_stored, exit_to_stored, nanos};
use crate::model::{RestartCounts, RestartReason, Retry, State};
use crate::service_runner::table::{
    Active, After, Down, Ended, Gate, Hold, Host, Outcome, Phase, ReadySignal, Rest, ServiceState, Stage,
    Watchdog,
};

impl ServiceState {
    /// Fills in what the table knows.
    pub(crate) fn store(&self, record: &mut stored::ServiceRecord) {
        record.state = self.state().number();
        record.phase = phase_number(&self.phase).into();
        record.run = self.run;
        record.pid = self.pid().unwrap_or_default();
        match &self.phase {
            Phase::Rest(Rest::Initialized { will_start }) => record.will_start = *will_start,
            Phase::Rest(Rest::Ended(Outcome::Refused(kind), _)) => {
                let text = String::new();
                record.after =
                    Some(After::Rest { outcome: Outcome::Refused(*kind), text }.to_stored(Hold::Free));
            }
            Phase::Active(active) => {
                record.ready = active.ready();
                record.healthy = active.healthy;
                record.proven = active.proven;
                record.start_timer = active.start.map(nanos);
                record.watchdog = active.watchdog.map(|watchdog| nanos(watchdog.interval));
                record.watchdog_timer = active.watchdog.map(|watchdog| nanos(watchdog.until));
            }
            Phase::Down(down) => {
                match down.stage {
                    Stage::PreStop { delays, .. } => record.delays = delays,
                    Stage::StopDelay { until, .. } => record.stop_delay_timer = Some(nanos(until)),
                    Stage::Ending { until, .. } => record.stop_until = until.map(nanos),
                    Stage::Clearing | Stage::Post | Stage::Closing => {}
                }
                record.after = Some(down.after.to_stored(down.hold));
            }
            Phase::Backoff { until, .. } => record.backoff_timer = until.map(nanos),
            Phase::Rest(Rest::Ended(..))
            | Phase::When
            | Phase::Gate(_)
            | Phase::Opening
            | Phase::Pre { .. }
            | Phase::Spawning { .. } => {}
        }
        record.stop_for_timer = self.stop_for.map(nanos);
        record.restarts = self.restarts;
        record.restarts_by = self.restarts_by.to_stored();
        record.stopped = self.stopped();
        record.unwanted = matches!(self.hold(), Hold::Somebody | Hold::Abandoned);
        record.finished = self.finished();
        record.request_id = self.request_id;
        record.message = self.message.to_string();
        record.exit = self.exit.map(exit_to_stored);
        record.stop_signal =
            self.stop_signal.and_then(|signal| u32::try_from(signal).ok()).unwrap_or_default();
        record.opened = self.has_opened() && !matches!(self.phase, Phase::Opening);
        record.owes_post = self.owes_post();
        record.broken_off = self.broken_off;
        record.retry = self
            .retry
            .as_deref()
            .map(|Retry { ended, budget }| stored::Retry { ended: ended.clone(), budget: budget.clone() });
        record.failure = self.failure.as_deref().map(Ended::to_stored);
        record.leaving = self.leaving;
        record.awaits_group = self.awaits_group();
        record.asked_group = self.asked_group.map(RestartReason::number).unwrap_or_default();
        record.new_spec_has_when = self.new_spec;
        record.closing = self.closing();
        record.spawned_at = nanos(self.spawned_at);
        let mut before = 0;
        for Failures { at, count } in self.history.entries() {
            let at = nanos(at);
            record.failures.push(at.saturating_sub(before));
            record.failure_counts.push(count);
            before = at;
        }
        if record.failure_counts.iter().all(|count| *count == 1) {
            record.failure_counts.clear();
        }
        record.doublings = self.history.doublings();
        record.escalated = self.history.escalated;
    }

    /// The service that a record tells of. A phase that this version does not know is `Err`; another stands for it then.
    pub(crate) fn of_stored(record: &stored::ServiceRecord) -> (ServiceState, Result<(), i32>) {
        let Some(phase) = phase(record) else {
            return (ServiceState::of_stored(&in_known_phase(record)).0, Err(record.phase));
        };
        let mut before = Duration::ZERO;
        let mut counts = record.failure_counts.iter().copied();
        let failures = record.failures.iter().map(|since| {
            before = before.saturating_add(Duration::from_nanos(*since));
            Failures { at: before, count: counts.next().unwrap_or(1) }
        });
        let mut service = ServiceState {
            phase,
            run: record.run,
            restarts: record.restarts,
            restarts_by: RestartCounts::of_stored(&record.restarts_by),
            request_id: record.request_id,
            message: Arc::from(record.message.as_str()),
            retry: record
                .retry
                .clone()
                .map(|stored::Retry { ended, budget }| Arc::new(Retry { ended, budget })),
            failure: record.failure.as_ref().map(|ended| Arc::new(Ended::of_stored(ended))),
            exit: record.exit.as_ref().map(exit_of_stored),
            stop_signal: u8::try_from(record.stop_signal).ok().filter(|signal| *signal > 0).map(Into::into),
            broken_off: record.broken_off,
            leaving: record.leaving,
            asked_group: asked(record.asked_group),
            new_spec: record.new_spec_has_when,
            host: if record.closing { Host::Stops } else { Host::Runs },
            history: RestartHistory::of(failures, record.doublings),
            spawned_at: Duration::from_nanos(record.spawned_at),
            stop_for: record.stop_for_timer.map(Duration::from_nanos),
        };
        service.history.escalated = record.escalated;
        (service, Ok(()))
    }

    /// Failures that count against its budget.
    #[cfg(test)]
    pub(crate) fn failures(&self) -> usize {
        self.history.failures()
    }

    /// Shortens what may be long. No failure is forgotten.
    pub(crate) fn shorten(&mut self, text: usize, failures: usize) {
        self.message = start_of(&self.message, text).into();
        self.retry = self.retry.take().map(|retry| {
            Arc::new(Retry { ended: start_of(&retry.ended, text).to_owned(), budget: retry.budget.clone() })
        });
        self.history.coarsen(failures);
        if let Some(failure) = &mut self.failure {
            Arc::make_mut(failure).shorten(text);
        }
        if let Phase::Down(Down { after, .. }) = &mut self.phase {
            match after {
                After::Decide(ended) => ended.shorten(text),
                After::Rest { text: said, .. } => *said = start_of(said, text).to_owned(),
                After::Again(_) | After::Gate => {}
            }
        }
    }
}

pub(crate) fn phase_number(phase: &Phase) -> stored::Phase {
    match phase {
        Phase::Rest(_) => stored::Phase::Rest,
        Phase::When => stored::Phase::When,
        Phase::Gate(_) => stored::Phase::Gate,
        Phase::Opening => stored::Phase::Opening,
        Phase::Pre { .. } => stored::Phase::Pre,
        Phase::Spawning { .. } => stored::Phase::Spawning,
        Phase::Active(_) => stored::Phase::Active,
        Phase::Down(down) => match down.stage {
            Stage::PreStop { .. } => stored::Phase::PreStop,
            Stage::StopDelay { .. } => stored::Phase::StopDelay,
            Stage::Ending { .. } => stored::Phase::Ending,
            Stage::Clearing => stored::Phase::Clearing,
            Stage::Post => stored::Phase::Post,
            Stage::Closing => stored::Phase::Closing,
        },
        Phase::Backoff { .. } => stored::Phase::Backoff,
    }
}

/// `None`: this version does not know it.
fn phase(record: &stored::ServiceRecord) -> Option<Phase> {
    let time = |nanos: Option<u64>| nanos.map(Duration::from_nanos);
    let (owes_post, opened, pid) = (record.owes_post, record.opened, record.pid);
    let shown = state(record.state, record.stopped).unwrap_or_default();
    Some(match stored::Phase::try_from(record.phase).ok()? {
        stored::Phase::Unspecified => return None,
        stored::Phase::Rest => Phase::Rest(rest(record)),
        stored::Phase::When => Phase::When,
        stored::Phase::Gate => Phase::Gate(Gate { shown, missing: Vec::new(), opened }),
        stored::Phase::Opening => Phase::Opening,
        stored::Phase::Pre => Phase::Pre { owes_post },
        stored::Phase::Spawning => Phase::Spawning { owes_post },
        stored::Phase::Active => Phase::Active(active(record)),
        stored::Phase::PreStop => down(record, Stage::PreStop { delays: record.delays, pid }),
        // One without a deadline has waited for long enough.
        stored::Phase::StopDelay => {
            let until = time(record.stop_delay_timer).unwrap_or_default();
            down(record, Stage::StopDelay { until, pid })
        }
        stored::Phase::Ending => {
            let (until, pid) = (time(record.stop_until), Some(pid).filter(|pid| *pid > 0));
            down(record, Stage::Ending { until, forced: false, pid })
        }
        stored::Phase::Clearing => down(record, Stage::Clearing),
        stored::Phase::Post => down(record, Stage::Post),
        stored::Phase::Closing => down(record, Stage::Closing),
        stored::Phase::Backoff => Phase::Backoff { until: time(record.backoff_timer), opened },
    })
}

/// In place of a phase that this version does not know: with a process it runs; without one its state tells how far it
/// had come.
fn in_known_phase(record: &stored::ServiceRecord) -> stored::ServiceRecord {
    let mut record = record.clone();
    record.ready = true;
    let phase = match state(record.state, record.stopped) {
        _ if record.pid > 0 => stored::Phase::Active,
        Some(State::Initialized | State::Finished | State::Failed | State::Skipped | State::Stopped) => {
            stored::Phase::Rest
        }
        Some(State::Waiting | State::Preparing | State::Starting) => stored::Phase::Gate,
        Some(State::Backoff) => stored::Phase::Backoff,
        Some(State::Running | State::Stopping) | None => {
            record.state = stored::State::Stopping.into();
            let text = "its run ended in a phase that this version of Kelson does not know".to_owned();
            let unknown = After::not_started(text, ErrorKind::Retryable);
            record.after.get_or_insert(unknown.to_stored(Hold::Free));
            stored::Phase::Clearing
        }
    };
    record.phase = phase.into();
    record
}

fn rest(record: &stored::ServiceRecord) -> Rest {
    let Some(mut outcome) = outcome(record.state, record.stopped) else {
        return Rest::Initialized { will_start: record.will_start };
    };
    if outcome == Outcome::Failed
        && let Some(After::Rest { outcome: refused @ Outcome::Refused(_), .. }) =
            record.after.as_ref().map(After::of_stored)
    {
        outcome = refused;
    }
    Rest::Ended(outcome, hold(record))
}

/// `None`: this is no state at rest after a start.
fn outcome(number: i32, stopped: bool) -> Option<Outcome> {
    match state(number, stopped)? {
        State::Finished => Some(Outcome::Finished),
        State::Failed => Some(Outcome::Failed),
        State::Skipped => Some(Outcome::Skipped),
        State::Stopped => Some(Outcome::Stopped { asked: stopped }),
        _ => None,
    }
}

fn active(record: &stored::ServiceRecord) -> Active {
    let readiness = match State::of_number(record.state) {
        _ if record.ready => ReadySignal::Given,
        Some(State::Running) => ReadySignal::TakenBack,
        _ => ReadySignal::Awaited,
    };
    let until = record.watchdog_timer.map(Duration::from_nanos).unwrap_or_default();
    Active {
        pid: record.pid,
        readiness,
        healthy: record.healthy,
        proven: record.proven,
        start: record.start_timer.map(Duration::from_nanos),
        watchdog: record
            .watchdog
            .map(|interval| Watchdog { interval: Duration::from_nanos(interval), until }),
        owes_post: record.owes_post,
    }
}

fn down(record: &stored::ServiceRecord, stage: Stage) -> Phase {
    let without = || After::Rest {
        outcome: Outcome::Failed,
        text: "ended without a reason (please report this)".to_owned(),
    };
    Phase::Down(Down {
        stage,
        after: record.after.as_ref().map_or_else(without, After::of_stored),
        hold: hold(record),
        shown: state(record.state, record.stopped).unwrap_or(State::Stopping),
        owes_post: record.owes_post,
    })
}

fn hold(record: &stored::ServiceRecord) -> Hold {
    // A success that does not count.
    let lapsed = record.state() == stored::State::Finished && !record.finished;
    match (record.unwanted, record.awaits_group) {
        (true, false) if !lapsed => Hold::Somebody,
        (false, true) => Hold::Group,
        (false, false) if !lapsed => Hold::Free,
        (true | false, true | false) => Hold::Abandoned,
    }
}

fn refusal(kind: ErrorKind) -> Option<stored::Refusal> {
    match kind {
        ErrorKind::Retryable => None,
        ErrorKind::Permanent => Some(stored::Refusal { archives: None }),
        ErrorKind::Image { archives } => Some(stored::Refusal { archives: Some(archives) }),
    }
}

fn kind(refusal: Option<&stored::Refusal>) -> ErrorKind {
    match refusal {
        None => ErrorKind::Retryable,
        Some(stored::Refusal { archives: None }) => ErrorKind::Permanent,
        Some(stored::Refusal { archives: Some(archives) }) => ErrorKind::Image { archives: *archives },
    }
}

/// A release that knows no state `stopped` has written that of one that has finished.
fn state(number: i32, stopped: bool) -> Option<State> {
    State::of_number(number).map(|state| match state {
        State::Finished if stopped => State::Stopped,
        state => state,
    })
}

/// 0: it did not ask.
fn asked(reason: i32) -> Option<RestartReason> {
    (reason != 0).then(|| RestartReason::of_number(reason).unwrap_or(RestartReason::Check))
}
