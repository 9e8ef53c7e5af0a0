//! What is known of one volume, and which step comes next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kelson_proto::v1::VolumeStep;
use tokio::time::Instant;

use crate::job::{Context, Facts, Place, Provided, Step};
use crate::path::HostPath;
use crate::record::{self, Record};
use crate::usage::Usage;

/// The service and the number of a claim.
pub type Key = (String, u64);

/// A volume that is in use, or to be undone.
#[derive(Debug, Default)]
pub struct Volume {
    pub plugin: String,
    /// By which the plugin knows it. Empty: its file was not read yet.
    pub id: String,
    pub attached: Option<Attached>,
    pub stages: BTreeMap<Usage, Stage>,
    pub published: BTreeMap<HostPath, Published>,
    /// Where services want it.
    pub wants: BTreeMap<HostPath, Want>,
    /// `None`: to be looked at before the next step for a service.
    pub facts: Option<Arc<Facts>>,
    pub busy: Option<Busy>,
    /// The record is another than the state.
    pub unwritten: bool,
    pub record_undo: Undo,
    /// Where it was published, and may still be by its record.
    pub left: Vec<HostPath>,
    /// Claims that wait for a change here.
    pub waiting: BTreeSet<Key>,
    /// It is in the queue of those to be looked at.
    pub queued: bool,
}

/// How it stands with something that is done, or was begun: what was never begun has no entry.
#[derive(Debug, Default)]
pub struct Undo {
    /// Its undoing has begun, so it is of no use until that has succeeded.
    pub begun: bool,
    /// Failed tries.
    pub attempt: u32,
    pub not_before: Option<Instant>,
    pub trouble: Option<VolumeStep>,
}

#[derive(Debug)]
pub struct Attached {
    pub node: String,
    /// `None`: the controller has to be asked, again or for the first time.
    pub context: Option<Context>,
    pub undo: Undo,
}

#[derive(Debug)]
pub struct Stage {
    pub path: HostPath,
    pub done: bool,
    pub undo: Undo,
}

#[derive(Debug)]
pub struct Published {
    pub key: Key,
    pub name: String,
    pub usage: Usage,
    pub state: PublishState,
    pub undo: Undo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishState {
    /// The call was made, or is about to be.
    Begun,
    /// The record has it as done.
    Recorded,
    Done,
}

#[derive(Debug)]
pub struct Want {
    pub key: Key,
    pub name: String,
    pub plugin: String,
    pub usage: Usage,
    /// The volumes before it in the claim are published. Until then nothing is done for it, and nothing of it undone.
    pub is_next: bool,
    /// Failed tries of the step that comes next.
    pub attempt: u32,
    pub not_before: Option<Instant>,
    pub trouble: Option<VolumeStep>,
}

/// The step under way.
#[derive(Debug)]
pub struct Busy {
    pub what: What,
    pub name: &'static str,
    /// What the step is about was there before it.
    pub was_there: bool,
    /// It writes a state that the record does not have yet.
    pub writes: bool,
    pub cancelled: bool,
}

/// What is done, by keys of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Look(HostPath),
    Verify(HostPath),
    Attach(HostPath),
    Stage(HostPath, Usage),
    Publish(HostPath),
    Unpublish(HostPath),
    Unstage(Usage),
    Detach,
    Record,
}

impl What {
    /// The want for which it is done.
    pub fn target(&self) -> Option<&HostPath> {
        match self {
            What::Look(target)
            | What::Verify(target)
            | What::Attach(target)
            | What::Stage(target, _)
            | What::Publish(target) => Some(target),
            What::Unpublish(_) | What::Unstage(_) | What::Detach | What::Record => None,
        }
    }
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Do(What),
    /// Nothing before this time, or before something else changes.
    Wait(Option<Instant>),
}

impl Undo {
    /// It has failed, and is to be tried again.
    pub fn has_failed(&self) -> bool {
        self.begun && self.attempt > 0
    }
}

impl Volume {
    /// The state of a volume of the records, of this boot or of an earlier one.
    pub fn of_record(record: Record, boot: &str) -> Volume {
        let here = record.boot == boot;
        let stages = record
            .stages
            .into_iter()
            .map(|staged| (staged.usage, Stage { path: staged.path, done: false, undo: Undo::default() }));
        let published = record.published.into_iter().map(|one| {
            let state = if here && one.done { PublishState::Recorded } else { PublishState::Begun };
            let key = (one.service, one.number);
            let undo = Undo::default();
            (one.target, Published { key, name: one.name, usage: one.usage, state, undo })
        });
        Volume {
            plugin: record.plugin,
            id: record.id,
            attached: record.node.map(|node| Attached { node, context: None, undo: Undo::default() }),
            stages: stages.collect(),
            published: published.collect(),
            ..Volume::default()
        }
    }

    pub fn record(&self, name: &str, boot: &str) -> Record {
        let stages = self.stages.iter();
        let stages =
            stages.map(|(usage, stage)| record::Staged { usage: usage.clone(), path: stage.path.clone() });
        let published = self.published.iter().map(|(target, one)| record::Published {
            service: one.key.0.clone(),
            number: one.key.1,
            name: one.name.clone(),
            usage: one.usage.clone(),
            target: target.clone(),
            done: one.state != PublishState::Begun,
        });
        Record {
            plugin: self.plugin.clone(),
            id: self.id.clone(),
            node: self.attached.as_ref().map(|attached| attached.node.clone()),
            stages: stages.collect(),
            published: published.collect(),
            ..Record::new(boot, name)
        }
    }

    /// Nothing is to be undone.
    pub fn is_undone(&self) -> bool {
        self.attached.is_none() && self.stages.is_empty() && self.published.is_empty()
    }

    /// Nothing has to be remembered of it.
    pub fn is_over(&self) -> bool {
        self.is_undone()
            && self.wants.is_empty()
            && self.busy.is_none()
            && !self.unwritten
            && self.waiting.is_empty()
    }

    /// The service that wants it here has it, and the record says so: a later helper must not need the plugin to know.
    pub fn is_published(&self, target: &HostPath) -> bool {
        let is_written = !self.unwritten && self.busy.as_ref().is_none_or(|busy| !busy.writes);
        let published = self.published.get(target);
        let is_done = |one: &Published| one.state == PublishState::Done && !one.undo.begun;
        let wanted = self.wants.get(target);
        is_written
            && published.is_some_and(|one| is_done(one) && wanted.is_some_and(|want| want.usage == one.usage))
    }

    /// A service has it published with this usage, or wants that.
    pub fn is_used(&self, usage: &Usage) -> bool {
        self.published.values().any(|one| one.usage == *usage)
            || self.wants.values().any(|want| want.usage == *usage)
    }

    /// The next step. `complete`: all claims are known, so that others may be undone. `owners`: the volume that is
    /// published at each target.
    ///
    /// Undoing comes first and in reverse: no service waits for it in vain, and a target has to be free for the next one.
    pub fn next(&self, name: &str, complete: bool, owners: &HashMap<HostPath, String>, now: Instant) -> Next {
        let mut wake = None;
        let mut is_due = |at: Option<Instant>| match at {
            Some(at) if at > now => {
                wake = Some(wake.map_or(at, |wake: Instant| wake.min(at)));
                false
            }
            _ => true,
        };
        if complete && let Some(what) = self.next_undo(&mut is_due) {
            return Next::Do(what);
        }
        // A claim is answered once the record has what was done for it.
        if self.unwritten && is_due(self.record_undo.not_before) {
            return Next::Do(What::Record);
        }
        for (target, want) in &self.wants {
            if owners.get(target).is_some_and(|owner| owner != name) {
                continue;
            }
            if let Some(what) = self.next_for(target, want)
                && is_due(want.not_before)
            {
                return Next::Do(what);
            }
        }
        Next::Wait(wake)
    }

    fn next_undo(&self, is_due: &mut impl FnMut(Option<Instant>) -> bool) -> Option<What> {
        for (target, one) in self.published.iter().rev() {
            let wanted = self.wants.get(target).is_some_and(|want| want.usage == one.usage);
            if (!wanted || one.undo.begun) && is_due(one.undo.not_before) {
                return Some(What::Unpublish(target.clone()));
            }
        }
        for (usage, stage) in self.stages.iter().rev() {
            // Undoing that has begun continues: by the interface nothing may be published from a stage that may be gone.
            let published = self.published.values().any(|one| one.usage == *usage);
            let free = if stage.undo.begun { !published } else { !self.is_used(usage) };
            if free && is_due(stage.undo.not_before) {
                return Some(What::Unstage(usage.clone()));
            }
        }
        let attached = self.attached.as_ref()?;
        let free = self.stages.is_empty()
            && self.published.is_empty()
            && (self.wants.is_empty() || attached.undo.begun);
        (free && is_due(attached.undo.not_before)).then_some(What::Detach)
    }

    /// The next step on the way to what a service wants. `None`: it has it, or something has to be undone first.
    fn next_for(&self, target: &HostPath, want: &Want) -> Option<What> {
        if let Some(one) = self.published.get(target) {
            if one.undo.begun || one.usage != want.usage || one.state == PublishState::Done {
                return None;
            }
            if one.state == PublishState::Recorded {
                return Some(What::Verify(target.clone()));
            }
        }
        if !want.is_next {
            return None;
        }
        let Some(facts) = &self.facts else { return Some(What::Look(target.clone())) };
        if facts.node.is_some() {
            match &self.attached {
                Some(attached) if attached.undo.begun => return None,
                Some(attached) if attached.context.is_some() => {}
                _ => return Some(What::Attach(target.clone())),
            }
        }
        if facts.stages {
            match self.stages.get(&want.usage) {
                Some(stage) if stage.undo.begun => return None,
                Some(stage) if stage.done => {}
                _ => return Some(What::Stage(target.clone(), want.usage.clone())),
            }
        }
        Some(What::Publish(target.clone()))
    }

    /// The step with all that it needs. `None`: the state has no such thing, which `next` rules out.
    pub fn step(&self, name: &str, what: &What) -> Option<Step> {
        let of = || Provided { plugin: self.plugin.clone(), id: self.id.clone() };
        let context =
            || self.attached.as_ref().and_then(|attached| attached.context.clone()).unwrap_or_default();
        let published = |target: &HostPath| {
            let usage = self.published.get(target)?.usage.clone();
            Some(Place { target: target.clone(), usage })
        };
        Some(match what {
            What::Look(_) => Step::Look,
            What::Verify(target) => Step::Verify(published(target)?),
            What::Attach(target) => {
                Step::Attach { facts: self.facts.clone()?, usage: self.wants.get(target)?.usage.clone() }
            }
            What::Stage(_, usage) => {
                let facts = self.facts.clone()?;
                let stage = stage_path(&facts, name, usage);
                Step::Stage { facts, context: context(), stage, usage: usage.clone() }
            }
            What::Publish(target) => {
                let facts = self.facts.clone()?;
                let usage = self.wants.get(target)?.usage.clone();
                let stage = facts.stages.then(|| stage_path(&facts, name, &usage));
                let place = Place { target: target.clone(), usage };
                Step::Publish { facts, context: context(), stage, place }
            }
            What::Unpublish(target) => Step::Unpublish { of: of(), place: published(target)? },
            What::Unstage(usage) => Step::Unstage { of: of(), stage: self.stages.get(usage)?.path.clone() },
            What::Detach => Step::Detach { of: of(), node: self.attached.as_ref()?.node.clone() },
            What::Record => Step::Record,
        })
    }
}

/// The folder of a stage on the host.
pub fn stage_path(facts: &Facts, volume: &str, usage: &Usage) -> HostPath {
    facts.folder.join("staging").join(volume).join(&usage.folder())
}
