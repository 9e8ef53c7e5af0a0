//! What PID 1 asks for: claims, and their ends.

use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{VolumeStep, VolumesClaimed, VolumesReleased};
use prost::Message as _;
use tokio::time::Instant;

use super::claim::{Answer, Claim, State};
use super::volume::{Key, Undo, Volume, Want, What};
use super::{Action, Core, Timer};
use crate::usage::Use;

/// Bytes of the failures in one message to PID 1, which has names beside them.
const FAILURES_MAX: usize = 12 << 10;

impl Core {
    /// PID 1 is about to send all claims.
    pub fn resend(&mut self) {
        self.claims.values_mut().for_each(|claim| claim.sent = false);
    }

    /// PID 1 has sent all claims: others are released.
    pub fn complete(&mut self, now: Instant) {
        self.complete = true;
        let gone: Vec<Key> =
            self.claims.iter().filter(|(_, claim)| !claim.sent).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.undo(key, Answer::Nothing, None, now));
        self.resend();
        let names: Vec<String> = self.volumes.keys().cloned().collect();
        names.iter().for_each(|name| self.touch(name));
        let keys: Vec<Key> = self.claims.keys().cloned().collect();
        keys.iter().for_each(|key| self.check(key, now));
    }

    /// A service needs these volumes.
    pub fn claim(&mut self, key: Key, uses: Vec<Use>, now: Instant) {
        let mut until = now;
        if let Some(claim) = self.claims.get_mut(&key) {
            claim.sent = true;
            match &claim.state {
                State::Published => return self.claimed(&key, Vec::new()),
                State::Claiming { .. } => return,
                State::Undoing { answer: Answer::Claimed, .. } => return,
                // PID 1 has begun again, and wants it after all.
                State::Undoing { .. } => {}
            }
        }
        let earlier = self.earlier(&key);
        until = until.checked_add(self.limits.claim).unwrap_or(until);
        let state = State::Claiming { next: 0, until };
        let wanted = uses.clone();
        self.claims.insert(key.clone(), Claim { uses, state, sent: true });
        self.timers.insert((until, Timer::Claim(key.clone())));
        // All of them, so that none is undone that an earlier helper has published for it.
        for (index, one) in wanted.iter().enumerate() {
            self.want(&key, one, index == 0);
        }
        self.check(&key, now);
        earlier.iter().for_each(|key| self.undo(key, Answer::Nothing, None, now));
    }

    /// A claim that is no claim.
    pub fn refuse(&mut self, key: &Key, volume: &str, failure: String) {
        self.claimed(
            key,
            vec![VolumeStep {
                service: key.0.clone(),
                volume: volume.to_owned(),
                step: "claim".to_owned(),
                attempt: 1,
                failure,
                ..VolumeStep::default()
            }],
        );
    }

    /// A service uses these volumes no more.
    pub fn release(&mut self, key: Key, uses: Vec<Use>, now: Instant) {
        if !self.claims.contains_key(&key) {
            // PID 1 need not send a claim again before it releases it. What is left of it is known by an earlier number.
            self.earlier(&key).iter().for_each(|key| self.undo(key, Answer::Nothing, None, now));
            for one in &uses {
                if let Some(volume) = self.volumes.get_mut(&one.volume)
                    && !volume.wants.contains_key(&one.target)
                    && let Some(published) = volume.published.get_mut(&one.target)
                    && published.key.0 == key.0
                {
                    published.key = key.clone();
                }
            }
            self.claims.insert(key.clone(), Claim { uses, state: State::Published, sent: true });
        }
        self.undo(&key, Answer::Released, None, now);
    }

    fn earlier(&self, key: &Key) -> Vec<Key> {
        self.claims.range((key.0.clone(), 0)..key.clone()).map(|(key, _)| key.clone()).collect()
    }

    /// A step for a claim has failed, and no other try follows.
    pub(super) fn fail(&mut self, key: &Key, failure: VolumeStep, now: Instant) {
        self.undo(key, Answer::Claimed, Some(failure), now);
    }

    /// The claim is given up, whatever its state: all its volumes are undone at once, each in reverse.
    fn undo(&mut self, key: &Key, to: Answer, failure: Option<VolumeStep>, now: Instant) {
        let Some(claim) = self.claims.get_mut(key) else { return };
        if let State::Undoing { answer, .. } = &mut claim.state {
            *answer = if to == Answer::Nothing { *answer } else { to };
            return self.check(key, now);
        }
        let until = now.checked_add(self.limits.release).unwrap_or(now);
        claim.state = State::Undoing { until, answer: to, failures: failure.into_iter().collect() };
        let uses = claim.uses.clone();
        self.timers.insert((until, Timer::Claim(key.clone())));
        for one in &uses {
            let Some(volume) = self.volumes.get_mut(&one.volume) else { continue };
            volume.waiting.insert(key.clone());
            if volume.wants.get(&one.target).is_some_and(|want| want.key == *key) {
                volume.wants.remove(&one.target);
                if let Some(busy) = &mut volume.busy
                    && busy.what.target() == Some(&one.target)
                    && !std::mem::replace(&mut busy.cancelled, true)
                {
                    self.actions.push_back(Action::Cancel(one.volume.clone()));
                }
            }
            self.touch(&one.volume);
        }
        self.check(key, now);
    }

    fn want(&mut self, key: &Key, one: &Use, is_next: bool) {
        let volume = self.volumes.entry(one.volume.clone()).or_default();
        if volume.wants.is_empty() {
            volume.facts = None;
        }
        volume.waiting.insert(key.clone());
        let want = Want {
            key: key.clone(),
            name: one.name.clone(),
            plugin: one.plugin.clone(),
            usage: one.usage.clone(),
            is_next,
            attempt: 0,
            not_before: None,
            trouble: None,
        };
        volume.wants.insert(one.target.clone(), want);
        // What an earlier run of the service has is this one's.
        if let Some(published) = volume.published.get_mut(&one.target)
            && published.usage == one.usage
            && published.key != *key
        {
            published.key = key.clone();
            volume.unwritten = true;
        }
        self.touch(&one.volume);
    }

    /// Looks whether a claim has come further.
    pub(super) fn check(&mut self, key: &Key, now: Instant) {
        let Some(claim) = self.claims.get_mut(key) else { return };
        match &mut claim.state {
            State::Published => {}
            State::Claiming { next, until } => {
                let until = *until;
                let is_published = |one: &Use| {
                    let volume = self.volumes.get(&one.volume);
                    volume.is_some_and(|volume| volume.is_published(&one.target))
                };
                let is_done = claim.uses.get(*next).is_some_and(is_published);
                if is_done {
                    *next = next.saturating_add(1);
                }
                match claim.uses.get(*next).cloned() {
                    Some(one) if is_done => {
                        if let Some(volume) = self.volumes.get_mut(&one.volume)
                            && let Some(want) = volume.wants.get_mut(&one.target)
                        {
                            want.is_next = true;
                        }
                        self.touch(&one.volume);
                    }
                    Some(one) if until <= now => {
                        let failure = self.late(key, &one);
                        self.fail(key, failure, now);
                    }
                    Some(_) => {}
                    None => {
                        claim.state = State::Published;
                        self.claimed(key, Vec::new());
                        self.forget(key);
                    }
                }
            }
            State::Undoing { until, .. } => {
                let late = *until <= now;
                let Some(mut found) = self.undone(key, late) else { return };
                self.forget(key);
                let Some(Claim { state: State::Undoing { answer, mut failures, .. }, .. }) =
                    self.claims.remove(key)
                else {
                    return;
                };
                failures.append(&mut found);
                match answer {
                    Answer::Claimed => self.claimed(key, failures),
                    Answer::Released => self.actions.push_back(released(key, failures)),
                    Answer::Nothing => {}
                }
            }
        }
    }

    /// Nothing waits for changes of its volumes any more.
    fn forget(&mut self, key: &Key) {
        let uses = self.claims.get(key).map(|claim| claim.uses.clone()).unwrap_or_default();
        for one in uses {
            if let Some(volume) = self.volumes.get_mut(&one.volume)
                && volume.waiting.remove(key)
            {
                self.touch(&one.volume);
            }
        }
    }

    fn claimed(&mut self, (service, number): &Key, failures: Vec<VolumeStep>) {
        let (service, number, failures) = (service.clone(), *number, bounded(failures));
        self.actions.push_back(Action::Report(Report::Claimed(VolumesClaimed { service, number, failures })));
    }

    /// Why a claim has had its time.
    fn late(&self, key: &Key, one: &Use) -> VolumeStep {
        let volume = self.volumes.get(&one.volume);
        let want = volume.and_then(|volume| volume.wants.get(&one.target));
        if let Some(last) = want.and_then(|want| want.trouble.clone()) {
            return VolumeStep { again_ms: None, ..last };
        }
        if let Some(step) = volume.and_then(|volume| volume.record_undo.trouble.clone()) {
            return VolumeStep {
                failure: step.failure,
                attempt: 1,
                ..self.described(one, &key.0, &step.step)
            };
        }
        let blocking = volume.and_then(|volume| {
            let undo = |undo: &Undo| undo.trouble.clone().filter(|_| undo.begun);
            let published = volume.published.get(&one.target).and_then(|one| undo(&one.undo));
            let stage = volume.stages.get(&one.usage).and_then(|stage| undo(&stage.undo));
            let attached = || volume.attached.as_ref().and_then(|attached| undo(&attached.undo));
            published.or(stage).or_else(attached)
        });
        let owner = self.owners.get(&one.target).filter(|owner| **owner != one.volume);
        let within = format!("within {} s", self.limits.claim.as_secs());
        let failure = match (blocking, owner) {
            (Some(step), _) => format!(
                "what an earlier use of it has left is not undone {within}: {}: {}",
                step.step, step.failure
            ),
            (None, Some(owner)) => {
                format!("the volume {owner} is still published at {} {within}", one.target)
            }
            (None, None) => format!("it has not succeeded {within}"),
        };
        let busy = volume.and_then(|volume| volume.busy.as_ref()).map(|busy| busy.name);
        VolumeStep { failure, attempt: 1, ..self.described(one, &key.0, busy.unwrap_or("claim")) }
    }

    fn described(&self, one: &Use, service: &str, step: &str) -> VolumeStep {
        VolumeStep {
            service: service.to_owned(),
            name: one.name.clone(),
            volume: one.volume.clone(),
            plugin: one.plugin.clone(),
            volume_id: self.volumes.get(&one.volume).map(|volume| volume.id.clone()).unwrap_or_default(),
            step: step.to_owned(),
            ..VolumeStep::default()
        }
    }

    /// The failures of a claim all of whose steps of undoing have succeeded or were tried. `None`: some were not.
    /// `late`: they are not waited for.
    fn undone(&self, key: &Key, late: bool) -> Option<Vec<VolumeStep>> {
        if !self.complete && !late {
            return None;
        }
        let mut failures = Vec::new();
        for one in self.claims.get(key).map(|claim| claim.uses.as_slice()).unwrap_or_default() {
            let Some(volume) = self.volumes.get(&one.volume) else { continue };
            match untried(volume, key, one) {
                Ok(failure) => failures.extend(failure),
                Err(step) if late => {
                    let failure = format!("it has not ended within {} s", self.limits.release.as_secs());
                    failures.push(VolumeStep { failure, attempt: 1, ..self.described(one, &key.0, step) });
                }
                Err(_) => return None,
            }
        }
        Some(failures)
    }
}

/// Why what a claim has of a volume is not undone; nothing, where it is or another one uses it.
///
/// # Errors
/// The step that was not tried yet.
fn untried(volume: &Volume, key: &Key, one: &Use) -> Result<Option<VolumeStep>, &'static str> {
    let tried = |undo: &Undo, what: &What, step: &'static str| {
        let is_under_way = volume.busy.as_ref().is_some_and(|busy| busy.what == *what);
        if undo.has_failed() && !is_under_way { Ok(undo.trouble.clone()) } else { Err(step) }
    };
    if let Some(busy) = volume.busy.as_ref().filter(|busy| busy.cancelled)
        && busy.what.target() == Some(&one.target)
    {
        return Err(busy.name);
    }
    if let Some(published) = volume.published.get(&one.target).filter(|published| published.key == *key) {
        return tried(&published.undo, &What::Unpublish(one.target.clone()), "NodeUnpublishVolume");
    }
    if let Some(stage) = volume.stages.get(&one.usage)
        && !volume.is_used(&one.usage)
    {
        return tried(&stage.undo, &What::Unstage(one.usage.clone()), "NodeUnstageVolume");
    }
    match &volume.attached {
        Some(attached)
            if volume.stages.is_empty() && volume.published.is_empty() && volume.wants.is_empty() =>
        {
            tried(&attached.undo, &What::Detach, "ControllerUnpublishVolume")
        }
        _ => Ok(None),
    }
}

fn released((service, number): &Key, failures: Vec<VolumeStep>) -> Action {
    let (service, number, failures) = (service.clone(), *number, bounded(failures));
    Action::Report(Report::Released(VolumesReleased { service, number, failures }))
}

/// Those that fit into a message.
fn bounded(mut failures: Vec<VolumeStep>) -> Vec<VolumeStep> {
    let mut bytes = 0_usize;
    failures.retain(|failure| {
        bytes = bytes.saturating_add(failure.encoded_len());
        bytes <= FAILURES_MAX
    });
    failures
}
