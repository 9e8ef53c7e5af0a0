//! How a state is told: recorded, then published, then an event.

use std::sync::Arc;
use std::time::SystemTime;

use kelson_runner::Exit;

use super::Core;
use crate::model::Snapshot;
use crate::service_runner::table::Phase;
use crate::state_store::Record;

impl Core {
    /// Remembers, publishes and tells the present state.
    pub(super) fn tell(&mut self) {
        if self.life.state != self.shown {
            self.shown = self.life.state;
            self.since = SystemTime::now();
        }
        self.publish();
        self.surroundings.events.add(
            &self.name,
            self.life.state,
            Arc::clone(&self.life.message),
            self.life.run,
        );
    }

    pub(super) fn note(&self, text: &str) {
        self.surroundings.events.add(&self.name, self.life.state, text, self.life.run);
    }

    /// Remembers and publishes the present state.
    pub(super) fn publish(&mut self) {
        let rules = self.rules();
        let up = self.life.up(&rules);
        if up && self.up_after.is_none() {
            self.up_after = Some(self.now());
        }
        if up && self.start_took_run != self.life.run {
            self.start_took_run = self.life.run;
            let took = self.now().saturating_sub(self.life.spawned_at());
            self.start_took = Some(took);
            self.totals.started(took);
        }
        self.record();
        let life = &self.life;
        self.publisher.send_replace(Snapshot {
            name: Arc::clone(&self.name),
            state: life.state,
            up,
            down: life.down(&rules),
            finished: life.finished,
            healthy: life.healthy,
            restarts: life.restarts,
            restarts_by: life.restarts_by,
            pid: life.pid,
            since: self.since,
            waiting_for: life.waiting_for.clone(),
            message: Arc::clone(&life.message),
            builtin: self.builtin,
            stopped: life.stopped,
            status_text: self.status_text.clone(),
            run: life.run,
            oneshot: rules.kind == kelson_spec::service::ServiceKind::Oneshot,
            group: self.group.clone(),
            required: self.spec.required,
            changed: self.new_spec.is_some(),
            ticket: life.ticket,
            spawned_after: self.spawned_after,
            up_after: self.up_after,
            start_took: self.start_took,
        });
        self.surroundings.registry.changed(&self.name);
    }

    fn record(&self) {
        let Some(store) = &self.surroundings.store else { return };
        let life = &self.life;
        store.record(
            &self.name,
            &Record {
                name: self.name.to_string(),
                state: life.state,
                run: life.run,
                pid: life.pid,
                start_time: if life.pid.is_some() { self.start_time } else { 0 },
                // Also what is only half prepared must be undone.
                opened: life.is_open() || matches!(life.phase, Phase::Opening | Phase::Closing),
                stopped: life.stopped
                    || matches!(life.phase, Phase::PreStop | Phase::StopDelay | Phase::Ending),
                finished: life.finished,
                restarts: life.restarts,
                exit: life.exit.map(|exit| match exit {
                    Exit::Status(status) => status,
                    Exit::Signal { signal, .. } => signal.saturating_neg(),
                    Exit::Lost => i32::MIN,
                }),
                since: self
                    .since
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .map(|since| since.as_secs())
                    .unwrap_or_default(),
            },
        );
    }
}
