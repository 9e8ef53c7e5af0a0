//! Decides what is done to volumes: pure, without a clock, a disk or a plugin.
//!
//! Each claim of a service becomes a want at its volumes, one after the other. Each volume has one step under way at most,
//! and [`Volume::next`] says which comes next from what is wanted and what is done. The core undoes what no service wants. The
//! owner of a [`Core`] performs its actions, and reports the outcome of each step.

mod claim;
mod list;
mod outcome;
mod request;
mod volume;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use kelson_proto::v1::volumes_report::Report;
use tokio::time::Instant;

use crate::job::{Job, Outcome};
use crate::path::HostPath;
use crate::record::Record;
use claim::Claim;
pub use list::parts;
pub use volume::Key;
use volume::{Attached, Busy, Next, PublishState, Published, Stage, Volume, What, stage_path};

/// The times of the manager.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Volumes with a step under way.
    pub at_once: usize,
    /// For a claim, in all.
    pub claim: Duration,
    /// For the steps of a release before it is answered. The helper continues them after that.
    pub release: Duration,
    /// From a failed step to the next try; doubled each time.
    pub first_retry: Duration,
    /// At most, of a claim and of undoing.
    pub claim_retry: Duration,
    pub undo_retry: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            at_once: 100,
            claim: Duration::from_secs(120),
            // An unpublish, an unstage and a detach that all hang, of 30 s each.
            release: Duration::from_secs(95),
            first_retry: Duration::from_millis(500),
            claim_retry: Duration::from_secs(10),
            undo_retry: Duration::from_secs(300),
        }
    }
}

/// What the owner has to do.
#[derive(Debug)]
pub enum Action {
    Perform(Job),
    /// The step of this volume is not wanted any more.
    Cancel(String),
    Report(Report),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Volume(String),
    Claim(Key),
}

/// See the module.
#[derive(Debug)]
pub struct Core {
    limits: Limits,
    /// Of this host.
    boot: String,
    volumes: BTreeMap<String, Volume>,
    claims: BTreeMap<Key, Claim>,
    /// The volume that is published at each target, or may be.
    owners: HashMap<HostPath, String>,
    /// PID 1 has sent all claims.
    complete: bool,
    /// Volumes to be looked at.
    queue: VecDeque<String>,
    /// Some are of no use any more: what they are for is looked at once in vain.
    timers: BTreeSet<(Instant, Timer)>,
    running: usize,
    actions: VecDeque<Action>,
}

impl Core {
    pub fn new(records: BTreeMap<String, Record>, boot: String, limits: Limits) -> Core {
        let volumes: BTreeMap<String, Volume> =
            records.into_iter().map(|(name, record)| (name, Volume::of_record(record, &boot))).collect();
        let owned = |(name, volume): (&String, &Volume)| -> Vec<(HostPath, String)> {
            volume.published.keys().map(|target| (target.clone(), name.clone())).collect()
        };
        let owners = volumes.iter().flat_map(owned).collect();
        Core {
            limits,
            boot,
            volumes,
            claims: BTreeMap::new(),
            owners,
            complete: false,
            queue: VecDeque::new(),
            timers: BTreeSet::new(),
            running: 0,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do. The owner asks until there is none.
    pub fn action(&mut self, now: Instant) -> Option<Action> {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Some(action);
            }
            self.expire(now);
            if self.running >= self.limits.at_once || !self.look(now) {
                return self.actions.pop_front();
            }
        }
    }

    /// When [`Core::action`] has to be asked again, whatever else comes.
    pub fn wake(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A volume is claimed, or something of one is not undone.
    pub fn is_left(&self) -> bool {
        !self.volumes.is_empty()
    }

    /// A plugin has come or gone, or is another now: its volumes do not wait for their next try.
    pub fn plugin_changed(&mut self, id: &str) {
        let mut changed = Vec::new();
        for (name, volume) in &mut self.volumes {
            let is_its = volume.plugin == id || volume.wants.values().any(|want| want.plugin == id);
            if is_its {
                volume.facts = None;
                volume.wants.values_mut().for_each(|want| want.not_before = None);
                let attached = volume.attached.iter_mut().map(|attached| &mut attached.undo);
                let stages = volume.stages.values_mut().map(|stage| &mut stage.undo);
                let published = volume.published.values_mut().map(|one| &mut one.undo);
                attached.chain(stages).chain(published).for_each(|undo| undo.not_before = None);
                changed.push(name.clone());
            }
        }
        changed.iter().for_each(|name| self.touch(name));
    }

    /// The step of this volume has ended.
    pub fn done(&mut self, name: &str, outcome: Outcome, now: Instant) {
        self.running = self.running.saturating_sub(1);
        self.outcome(name, outcome, now);
        // At once and not by the queue: what has begun ends before other volumes begin.
        self.look_at(name, now);
    }

    /// Puts a volume into the queue.
    fn touch(&mut self, name: &str) {
        if let Some(volume) = self.volumes.get_mut(name)
            && !std::mem::replace(&mut volume.queued, true)
        {
            self.queue.push_back(name.to_owned());
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((_, timer)) = self.timers.pop_first()
        {
            match timer {
                Timer::Volume(name) => self.touch(&name),
                Timer::Claim(key) => self.check(&key, now),
            }
        }
    }

    /// Looks at the next volume of the queue. False: there is none.
    fn look(&mut self, now: Instant) -> bool {
        let Some(name) = self.queue.pop_front() else { return false };
        if let Some(volume) = self.volumes.get_mut(&name) {
            volume.queued = false;
            self.look_at(&name, now);
        }
        true
    }

    fn look_at(&mut self, name: &str, now: Instant) {
        let Some(volume) = self.volumes.get(name) else { return };
        if volume.busy.is_none() {
            match volume.next(name, self.complete, &self.owners, now) {
                Next::Do(what) => self.begin(name, what),
                Next::Wait(at) => self.timers.extend(at.map(|at| (at, Timer::Volume(name.to_owned())))),
            }
        }
        let waiting = |volume: &Volume| volume.waiting.iter().cloned().collect();
        let waiting: Vec<Key> = self.volumes.get(name).map(waiting).unwrap_or_default();
        waiting.iter().for_each(|key| self.check(key, now));
        if self.volumes.get(name).is_some_and(|volume| volume.is_over() && !volume.queued) {
            self.volumes.remove(name);
        }
    }

    /// Begins a step: from now on the state has it as possibly done.
    fn begin(&mut self, name: &str, what: What) {
        let Some(volume) = self.volumes.get_mut(name) else { return };
        let Some(step) = volume.step(name, &what) else { return };
        let mut was_there = true;
        let facts = volume.facts.clone();
        match (&what, &facts) {
            (What::Attach(_), Some(facts)) => {
                was_there = volume.attached.is_some();
                let node = facts.node.clone().unwrap_or_default();
                volume.attached.get_or_insert_with(|| Attached {
                    node,
                    context: None,
                    undo: Default::default(),
                });
            }
            (What::Stage(_, usage), Some(facts)) => {
                was_there = volume.stages.contains_key(usage);
                let path = stage_path(facts, name, usage);
                volume.stages.entry(usage.clone()).or_insert_with(|| Stage {
                    path,
                    done: false,
                    undo: Default::default(),
                });
            }
            (What::Publish(target), _) => {
                was_there = volume.published.contains_key(target);
                if let Some(want) = volume.wants.get(target) {
                    volume.published.entry(target.clone()).or_insert_with(|| Published {
                        key: want.key.clone(),
                        name: want.name.clone(),
                        usage: want.usage.clone(),
                        state: PublishState::Begun,
                        undo: Default::default(),
                    });
                    self.owners.insert(target.clone(), name.to_owned());
                }
            }
            (What::Unpublish(target), _) => {
                if let Some(one) = volume.published.get_mut(target) {
                    one.undo.begun = true;
                    one.state = PublishState::Begun;
                }
            }
            (What::Unstage(usage), _) => {
                if let Some(stage) = volume.stages.get_mut(usage) {
                    stage.undo.begun = true;
                    stage.done = false;
                }
            }
            (What::Detach, _) => {
                if let Some(attached) = &mut volume.attached {
                    attached.undo.begun = true;
                    attached.context = None;
                }
            }
            _ => {}
        }
        let writes = !matches!(what, What::Look(_) | What::Verify(_));
        let record = writes.then(|| volume.record(name, &self.boot));
        let unwritten = writes && std::mem::replace(&mut volume.unwritten, false);
        volume.busy = Some(Busy { what, name: step.name(), was_there, writes: unwritten, cancelled: false });
        self.running = self.running.saturating_add(1);
        self.actions.push_back(Action::Perform(Job { volume: name.to_owned(), step, record }));
    }
}
