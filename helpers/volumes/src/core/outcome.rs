//! What the end of a step means.

use std::sync::Arc;
use std::time::Duration;

use kelson_proto::v1::VolumeStep;
use kelson_proto::v1::volumes_report::Report;
use kelson_spec::volume_file::Opaque;
use tokio::time::Instant;

use super::volume::{Busy, PublishState, Undo, Volume, What};
use super::{Action, Core};
use crate::job::{Facts, Failure, Outcome};

impl Core {
    pub(super) fn outcome(&mut self, name: &str, outcome: Outcome, now: Instant) {
        let Some(busy) = self.volumes.get_mut(name).and_then(|volume| volume.busy.take()) else { return };
        match outcome {
            Outcome::Failed(failure) => self.failed(name, &busy, failure, now),
            Outcome::Looked(facts) => self.looked(name, &busy, facts, now),
            Outcome::Present(present) => self.verified(name, &busy, present),
            Outcome::Attached(context) => {
                if let Some(attached) = self.volumes.get_mut(name).and_then(|volume| volume.attached.as_mut())
                {
                    attached.context = Some(Arc::new(Opaque(context)));
                }
                self.succeeded(name, &busy);
            }
            Outcome::Done { note } => {
                self.actions.extend(note.map(|note| Action::Report(Report::Trouble(note))));
                self.succeeded(name, &busy);
            }
        }
        self.disown(name);
    }

    fn looked(&mut self, name: &str, busy: &Busy, facts: Facts, now: Instant) {
        let Some(volume) = self.volumes.get_mut(name) else { return };
        let (plugin, id) = (&facts.file.plugin, &facts.file.id);
        if volume.is_undone() {
            (volume.plugin, volume.id) = (plugin.clone(), id.clone());
        } else if (&volume.plugin, &volume.id) != (plugin, id) {
            let text = format!(
                "its file names {id:?} of the plugin {plugin:?} now, but {:?} of {:?} is in use under its name: stop \
                 the services that use it, or give the other one a file of its own",
                volume.id, volume.plugin
            );
            return self.failed(name, busy, Failure::before(&text).last().of("file"), now);
        }
        volume.facts = Some(Arc::new(facts));
        self.succeeded(name, busy);
    }

    fn verified(&mut self, name: &str, busy: &Busy, present: bool) {
        let What::Verify(target) = &busy.what else { return };
        if let Some(volume) = self.volumes.get_mut(name)
            && let Some(published) = volume.published.get_mut(target)
        {
            published.state = if present { PublishState::Done } else { PublishState::Begun };
            if !present {
                volume.unwritten = true;
            }
        }
    }

    fn succeeded(&mut self, name: &str, busy: &Busy) {
        let Some(volume) = self.volumes.get_mut(name) else { return };
        let mut step = described(volume, name, busy);
        let want = busy.what.target().and_then(|target| volume.wants.get_mut(target));
        let mut failed = 0;
        if let Some(want) = want {
            (failed, want.attempt, want.trouble) = (want.attempt, 0, None);
        }
        match &busy.what {
            What::Stage(_, usage) => {
                if let Some(stage) = volume.stages.get_mut(usage) {
                    stage.done = true;
                }
            }
            What::Publish(target) => {
                if let Some(published) = volume.published.get_mut(target) {
                    published.state = PublishState::Done;
                    volume.unwritten = true;
                }
            }
            What::Unpublish(target) => {
                failed = volume.published.remove(target).map_or(0, |one| one.undo.attempt);
                volume.left.push(target.clone());
                volume.unwritten = true;
            }
            What::Unstage(usage) => {
                failed = volume.stages.remove(usage).map_or(0, |stage| stage.undo.attempt);
                volume.unwritten = true;
            }
            What::Detach => {
                failed = volume.attached.take().map_or(0, |attached| attached.undo.attempt);
                volume.unwritten = true;
            }
            What::Record => (failed, volume.record_undo) = (volume.record_undo.attempt, Undo::default()),
            What::Look(_) | What::Verify(_) | What::Attach(_) => {}
        }
        step.attempt = failed.saturating_add(1);
        if failed > 0 || !matches!(busy.what, What::Look(_) | What::Verify(_) | What::Record) {
            self.actions.push_back(Action::Report(Report::Step(step)));
        }
    }

    fn failed(&mut self, name: &str, busy: &Busy, failure: Failure, now: Instant) {
        let limits = self.limits;
        let Some(volume) = self.volumes.get_mut(name) else { return };
        let mut step = described(volume, name, busy);
        if !failure.reached && !busy.was_there {
            match &busy.what {
                What::Attach(_) => volume.attached = None,
                What::Stage(_, usage) => drop(volume.stages.remove(usage)),
                What::Publish(target) => {
                    volume.published.remove(target);
                    volume.left.push(target.clone());
                }
                _ => {}
            }
        }
        if !failure.reached && !matches!(busy.what, What::Look(_) | What::Verify(_)) {
            // What was to be written may not be.
            volume.unwritten = true;
        }
        if failure.unstaged
            && let What::Publish(target) = &busy.what
            && let Some(want) = volume.wants.get(target)
            && let Some(stage) = volume.stages.get_mut(&want.usage)
        {
            stage.done = false;
        }
        if let Some(what) = failure.step {
            what.clone_into(&mut step.step);
        }
        step.failure = failure.text;
        let is_undo = busy.what.target().is_none();
        // (tries, since when, why) of what the step was for. `None`: nobody wants it any more.
        let tries = match &busy.what {
            What::Unpublish(target) => volume.published.get_mut(target).map(|one| one.undo.tries()),
            What::Unstage(usage) => volume.stages.get_mut(usage).map(|stage| stage.undo.tries()),
            What::Detach => volume.attached.as_mut().map(|attached| attached.undo.tries()),
            What::Record => Some(volume.record_undo.tries()),
            // Cancelled, the claim it was for is given up; a want that is there now is of another one.
            _ if busy.cancelled => None,
            of_want => of_want
                .target()
                .and_then(|target| volume.wants.get_mut(target))
                .map(|want| (&mut want.attempt, &mut want.not_before, &mut want.trouble)),
        };
        let mut lost = false;
        if let Some((attempt, not_before, trouble)) = tries {
            *attempt = attempt.saturating_add(1);
            let most = if is_undo { limits.undo_retry } else { limits.claim_retry };
            let wait = retry(limits.first_retry, *attempt, most);
            lost = failure.is_final && !is_undo;
            step.attempt = *attempt;
            step.again_ms = (!lost).then(|| milliseconds(wait));
            *not_before = now.checked_add(wait);
            *trouble = Some(step.clone());
            self.actions.push_back(Action::Report(Report::Step(step.clone())));
        }
        let key = busy.what.target().and_then(|target| volume.wants.get(target)).map(|want| want.key.clone());
        if lost && let Some(key) = key {
            self.fail(&key, step, now);
        }
    }

    /// What a volume has left is free for another one, once its record says so: a later helper would undo there what it has.
    fn disown(&mut self, name: &str) {
        let Some(volume) = self.volumes.get_mut(name).filter(|volume| !volume.unwritten) else { return };
        let mut free = std::mem::take(&mut volume.left);
        free.retain(|target| !volume.published.contains_key(target));
        for target in free {
            if self.owners.get(&target).is_some_and(|owner| owner == name) {
                self.owners.remove(&target);
            }
            let wanting = |volume: &Volume| volume.wants.contains_key(&target);
            let names = self.volumes.iter().filter(|(_, volume)| wanting(volume));
            let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
            names.iter().for_each(|name| self.touch(name));
        }
    }
}

impl Undo {
    fn tries(&mut self) -> (&mut u32, &mut Option<Instant>, &mut Option<VolumeStep>) {
        (&mut self.attempt, &mut self.not_before, &mut self.trouble)
    }
}

/// The pause after this try: the first one, doubled each time, and never more than `most`.
fn retry(first: Duration, attempt: u32, most: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1))).min(most)
}

pub fn milliseconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis()).unwrap_or(u32::MAX)
}

fn described(volume: &Volume, name: &str, busy: &Busy) -> VolumeStep {
    let target = match &busy.what {
        What::Unpublish(target) => Some(target),
        other => other.target(),
    };
    let want = target.and_then(|target| volume.wants.get(target)).map(|want| (&want.key, &want.name));
    let published = target
        .and_then(|target| volume.published.get(target))
        .map(|published| (&published.key, &published.name));
    let of = if busy.what.target().is_some() { want } else { published };
    let plugin = target.and_then(|target| volume.wants.get(target)).map(|want| &want.plugin);
    VolumeStep {
        service: of.map(|(key, _)| key.0.clone()).unwrap_or_default(),
        name: of.map(|(_, name)| name.clone()).unwrap_or_default(),
        volume: name.to_owned(),
        plugin: plugin.unwrap_or(&volume.plugin).clone(),
        volume_id: volume.id.clone(),
        step: busy.name.to_owned(),
        ..VolumeStep::default()
    }
}
