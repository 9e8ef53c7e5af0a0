//! How a state is reported: recorded, then published, then an event.

use std::sync::Arc;
use std::time::SystemTime;

use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use tokio::time::Instant;

use super::Core;
use crate::model::{Snapshot, State};
use crate::service_runner::table::Phase;
use crate::service_runner::words;
use crate::state_store::{Kind, Record};

impl Core {
    /// Remembers, publishes and tells the present state.
    pub(super) fn tell(&mut self) {
        let before = std::mem::replace(&mut self.shown, self.service.state());
        self.publish();
        self.host_context.events.add(
            &self.name,
            self.service.state(),
            Arc::clone(&self.service.message),
            self.service.run,
        );
        if const { OWN.has(Feature::Units) } && before != self.shown {
            self.follow_up();
        }
    }

    /// Has those started that its end is for.
    pub(super) fn follow_up(&self) {
        let (names, how) = match self.service.state() {
            State::Failed => (&self.spec.on_failure, "has failed"),
            State::Finished => (&self.spec.on_success, "has finished"),
            _ => return,
        };
        if !names.is_empty() && self.service.has_ended() {
            self.host_context.groups.start(names.clone(), format!("\"{}\" {how}: it is started", self.name));
        }
    }

    /// Reports what changes no state, beside the state that was reported last.
    pub(super) fn note(&self, text: &str) {
        self.host_context.events.add(&self.name, self.shown, text, self.service.run);
    }

    /// Remembers and publishes the present state.
    pub(super) fn publish(&mut self) {
        let rules = self.rules();
        let awaits_registration = self.awaits_registration(&rules);
        let is_up = self.service.up(&rules) && !awaits_registration;
        let up = is_up || self.listens();
        if up && self.up_after.is_none() {
            self.up_after = Some(self.now());
        }
        if is_up && self.start_took_run != self.service.run {
            self.start_took_run = self.service.run;
            let took = self.now().saturating_sub(self.service.spawned_at);
            self.start_took = Some(took);
            self.totals.started(took);
        }
        let entered = {
            let last = self.publisher.borrow();
            if last.state == self.service.state() {
                (last.since, last.entered)
            } else {
                (SystemTime::now(), Instant::now())
            }
        };
        self.record_in(entered);
        let withheld = self.withheld();
        let message = match awaits_registration {
            true => self.unregistered(withheld.as_deref()),
            false => self.service.reason(),
        };
        let (since, entered) = entered;
        let restart_at = match self.service.phase {
            Phase::Backoff { until, .. } => until.and_then(|until| self.instant(until)),
            _ => None,
        };
        let service = &self.service;
        self.publisher.send_replace(Snapshot {
            name: Arc::clone(&self.name),
            state: service.state(),
            up,
            awaits_registration,
            withheld,
            down: service.down(&rules),
            finished: service.finished(),
            healthy: service.active().and_then(|active| active.healthy),
            restarts: service.restarts,
            restarts_by: service.restarts_by,
            runs: service.runs(),
            pid: service.pid(),
            addresses: service.pid().map(|_| self.addresses.to_vec()).unwrap_or_default(),
            since,
            entered,
            retry: service.retry().cloned(),
            failure: service.failure.as_deref().map(|ended| Arc::new(words::failure(ended, &rules))),
            restart_at,
            missing: service.missing().to_vec(),
            message,
            builtin: self.builtin,
            stopped: service.stopped(),
            status_text: self.status_text.clone(),
            run: service.run,
            exit: service.exit,
            oneshot: rules.kind == kelson_spec::service::ServiceKind::Oneshot,
            group: self.group.clone(),
            required: self.spec.required,
            changed: self.new_spec.is_some(),
            spec: Some(Arc::clone(&self.spec)),
            refused: service.is_refused(),
            request_id: service.request_id,
            spawned_after: self.spawned_after,
            up_after: self.up_after,
            start_took: self.start_took,
        });
        self.host_context.registry.changed(&self.name);
        let run_end = &self.host_context.run_end;
        if service.has_ended() && run_end.is_by(&self.name, Some(&self.spec)) {
            run_end.ended(&self.publisher.borrow());
        }
    }

    /// Adds it to the registry, where the other services find it.
    pub(super) fn show(&self) {
        self.host_context.registry.add(Arc::clone(&self.name), self.publisher.subscribe());
    }

    /// Writes down where it stands, for the next incarnation of PID 1.
    pub(super) fn record(&mut self) {
        let entered = (self.publisher.borrow().since, self.publisher.borrow().entered);
        self.record_in(entered);
    }

    /// As [`Core::record`], where it entered its state at that time.
    fn record_in(&mut self, (since, entered): (SystemTime, Instant)) {
        self.recorded = Some(self.service.place());
        let Some(store) = &self.host_context.store else { return };
        let origin = self.host_context.origin;
        let since_start = |at: tokio::time::Instant| at.saturating_duration_since(origin);
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        store.record(
            &self.name,
            &Record {
                name: self.name.to_string(),
                builtin: self.builtin,
                service: self.service.clone(),
                start_time: if self.service.pid().is_some() { self.start_time } else { 0 },
                since: u64::try_from(since.as_nanos()).unwrap_or_default(),
                entered: Some(since_start(entered)),
                status_text: self.status_text.as_deref().map(str::to_owned),
                spawned_after: self.spawned_after,
                up_after: self.up_after,
                start_took: self.start_took,
                start_took_run: self.start_took_run,
                noted_runs: self
                    .dependency_watch
                    .as_ref()
                    .map(|dependency_watch| dependency_watch.runs())
                    .unwrap_or_default(),
            },
        );
    }

    /// Writes a spec down: the next incarnation of PID 1 goes on with it, and not with what the disk says by then.
    pub(super) fn write_down(&self, kind: Kind, spec: &ServiceSpec) {
        if let Some(store) = &self.host_context.store {
            store.write(kind, &self.name, spec);
        }
    }

    pub(super) fn discard_next_spec(&self) {
        if let Some(store) = &self.host_context.store {
            store.discard(Kind::NextSpec, &self.name);
        }
    }
}
