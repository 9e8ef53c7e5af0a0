//! Starts by schedules, and how the schedules stand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use kelson_proto::v1::{Timer, TimerNext};
use kelson_spec::service::{Overlap, Schedule};

use super::Manager;
use crate::model::{Numbered as _, State};
use crate::service_runner::table::Input;

/// The schedules of services, by name.
pub type Schedules = BTreeMap<Arc<str>, Schedule>;

/// How the schedule of one service stands.
#[derive(Default)]
struct Standing {
    /// As the helper reported it last.
    next: Option<TimerNext>,
    /// A start waits for the end of the run.
    queued: bool,
    /// The run since which starts are left out; an event reported it.
    left_out: Option<u64>,
}

impl Manager {
    /// Starts a service at rest, once what conflicts with it has stopped.
    fn start_by_schedule(&self, name: &str) {
        let (manager, name) = (self.clone(), name.to_owned());
        kelson_sys::spawn(async move {
            manager.stop_conflicting(std::slice::from_ref(&name), &Input::Due).await;
            manager.tell(&name, Input::Due);
        });
    }

    /// The schedules of all services whose files are known.
    fn schedules(&self) -> Schedules {
        let entries = self.entries();
        let of = |(name, entry): (&Arc<str>, &super::Entry)| {
            Some((Arc::clone(name), entry.spec.as_ref()?.schedule().cloned()?))
        };
        entries.iter().filter_map(of).collect()
    }
}

/// How all schedules stand.
pub struct Standings {
    manager: Manager,
    services: Mutex<BTreeMap<String, Standing>>,
}

impl Standings {
    pub fn new(manager: Manager) -> Standings {
        Standings { manager, services: Mutex::default() }
    }

    fn services(&self) -> MutexGuard<'_, BTreeMap<String, Standing>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, next: TimerNext) {
        let (name, trouble) = (next.service.clone(), next.trouble.clone());
        let before = self.services().entry(name.clone()).or_default().next.replace(next);
        if !trouble.is_empty() && before.is_none_or(|before| before.trouble != trouble) {
            self.manager.service_event(&name, &format!("its schedule does not start it: {trouble}"));
        }
    }

    pub fn forget(&self, name: &str) {
        self.services().remove(name);
    }

    /// It is time to start a service.
    pub fn due(self: &Arc<Self>, name: &str, overlap: Overlap) {
        let Some(now) = self.manager.get(name) else { return };
        if self.manager.closing() {
            return;
        }
        if now.stopped && now.state == State::Stopped {
            if self.is_first_left_out(name, now.run) {
                self.manager.service_event(name, "its schedule does not start it: an operator stopped it");
            }
        } else if now.state.at_rest() {
            self.manager.start_by_schedule(name);
        } else {
            match overlap {
                Overlap::Forbid => {
                    if self.is_first_left_out(name, now.run) {
                        self.manager.service_event(
                            name,
                            "a start by its schedule is left out: the last run has not ended",
                        );
                    }
                }
                Overlap::Replace if now.state != State::Stopping => {
                    self.manager
                        .tell(name, Input::Replace { text: "its schedule starts it again".to_owned() });
                    // It may have ended meanwhile.
                    self.manager.tell(name, Input::Due);
                }
                Overlap::Replace | Overlap::Queue => self.start_after(name),
            }
        }
    }

    /// Whether no start since this run has been left out before: one event reports all of them.
    fn is_first_left_out(&self, name: &str, run: u64) -> bool {
        self.services().entry(name.to_owned()).or_default().left_out.replace(run) != Some(run)
    }

    /// Starts it once more when it has ended; one start waits at most.
    fn start_after(self: &Arc<Self>, name: &str) {
        if std::mem::replace(&mut self.services().entry(name.to_owned()).or_default().queued, true) {
            return;
        }
        self.manager.service_event(name, "a start by its schedule waits for the end of the last run");
        let (standings, name) = (Arc::clone(self), name.to_owned());
        kelson_sys::spawn(async move {
            if let Some(mut snapshot) = standings.manager.watch(&name) {
                // One that is removed meanwhile is not started.
                let _ = snapshot.wait_for(|now| now.state.at_rest()).await;
            }
            let waits =
                standings.services().get_mut(&name).map(|standing| std::mem::take(&mut standing.queued));
            if waits == Some(true) {
                standings.due(&name, Overlap::Forbid);
            }
        });
    }

    /// All that are known.
    pub fn schedules(&self) -> Schedules {
        self.manager.schedules()
    }

    /// The services with a schedule, sorted by name.
    pub fn list(&self) -> Vec<Timer> {
        let schedules = self.schedules();
        let known = self.services();
        let time = |micros: u64| {
            let time = UNIX_EPOCH.checked_add(Duration::from_micros(micros));
            time.map(prost_types::Timestamp::from)
        };
        let timer = |(name, schedule): (Arc<str>, Schedule)| {
            let next = known.get(&*name).and_then(|standing| standing.next.as_ref());
            Timer {
                next: next.and_then(|next| next.next).and_then(time),
                last: next.and_then(|next| next.last).and_then(time),
                schedule: schedule.to_string(),
                overlap: schedule.overlap.name().to_owned(),
                state: self.manager.get(&name).map_or(0, |now| now.state.number()),
                trouble: next.map(|next| next.trouble.clone()).unwrap_or_default(),
                service: name.to_string(),
            }
        };
        schedules.into_iter().map(timer).collect()
    }
}
