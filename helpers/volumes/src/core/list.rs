//! The volumes as an operator sees them.

use std::collections::BTreeSet;

use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{self, VolumeStage, VolumeStatistics, VolumeStep, VolumeUser, VolumesList};

use tokio::time::Instant;

use super::Core;
use super::outcome::milliseconds;
use super::volume::Volume;
use crate::gauges::Subjects;
use crate::job::{InUse, Place, Subject};
use crate::path::HostPath;
use crate::usage::Usage;

/// Bytes of the volumes in one message, which has at most [`kelson_helper::transport::FROM_HELPER`].
const PART_MAX: usize = 14 << 10;
/// Users in one entry: with the longest texts they fit into a message.
const USERS_MAX: usize = 8;

impl Core {
    /// All volumes that are in use or to be undone, with what `statistics` has of each, in as many messages as it takes.
    pub fn list(
        &self,
        number: u64,
        now: Instant,
        statistics: impl Fn(&str) -> Option<VolumeStatistics>,
    ) -> Vec<Report> {
        let entries = self.volumes.iter().filter(|(_, volume)| !volume.is_over());
        let of = |(name, volume): (&String, &Volume)| {
            let statistics = statistics(name);
            pieces(name, volume, now)
                .into_iter()
                .map(move |piece| v1::Volume { statistics: statistics.clone(), ..piece })
        };
        parts(entries.flat_map(of), |volumes, more| Report::List(VolumesList { number, volumes, more }))
    }

    /// The volumes that are published.
    pub fn subjects(&self) -> Subjects {
        let mut subjects = Subjects::new();
        for (name, volume) in &self.volumes {
            let InUse { place, stage, .. } = self.in_use(name);
            if let Some(place) = place {
                let subject = Subject { volume: name.clone(), id: volume.id.clone(), place, stage };
                subjects.entry(volume.plugin_name()).or_default().push(subject);
            }
        }
        subjects
    }
}

impl Core {
    /// How a volume is in use.
    pub fn in_use(&self, name: &str) -> InUse {
        let Some(volume) = self.volumes.get(name) else { return InUse::default() };
        let services: BTreeSet<&String> = volume.wants.values().map(|want| &want.key.0).collect();
        let done = volume.published.iter().find(|(target, _)| volume.is_published(target));
        let place = done.map(|(target, one)| Place { target: target.clone(), usage: one.usage.clone() });
        let stage = place.as_ref().and_then(|place| volume.stages.get(&place.usage));
        InUse {
            services: services.into_iter().cloned().collect(),
            is_left: !volume.is_undone(),
            is_known: !volume.is_over(),
            stage: stage.map(|stage| stage.path.clone()),
            place,
        }
    }
}

/// Entries in messages, of which each is short enough.
pub fn parts<T: prost::Message>(
    entries: impl Iterator<Item = T>,
    message: impl Fn(Vec<T>, bool) -> Report,
) -> Vec<Report> {
    let (mut reports, mut part, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
    for entry in entries {
        let more = entry.encoded_len().saturating_add(4);
        bytes = bytes.saturating_add(more);
        if bytes > PART_MAX && !part.is_empty() {
            reports.push(message(std::mem::take(&mut part), true));
            bytes = more;
        }
        part.push(entry);
    }
    reports.push(message(part, false));
    reports
}

/// One volume; with many users in several entries, each with some of them.
fn pieces(name: &str, volume: &Volume, now: Instant) -> Vec<v1::Volume> {
    let mut pieces = Vec::new();
    let entry = |stage: Option<VolumeStage>| v1::Volume {
        name: name.to_owned(),
        plugin: volume.plugin_name(),
        id: volume.id.clone(),
        stages: stage.into_iter().collect(),
        step: volume.busy.as_ref().map(|busy| busy.name.to_owned()).unwrap_or_default(),
        statistics: None,
    };
    for usage in volume.usages() {
        let stage = volume.stage(usage, now);
        let users = volume.users(usage, now);
        if users.is_empty() {
            pieces.push(entry(Some(stage.clone())));
        }
        pieces.extend(
            users
                .chunks(USERS_MAX)
                .map(|users| entry(Some(VolumeStage { users: users.to_vec(), ..stage.clone() }))),
        );
    }
    if pieces.is_empty() {
        pieces.push(entry(None));
    }
    pieces
}

impl Volume {
    fn plugin_name(&self) -> String {
        let wanted = self.wants.values().map(|want| &want.plugin);
        std::iter::once(&self.plugin).chain(wanted).find(|name| !name.is_empty()).cloned().unwrap_or_default()
    }

    fn usages(&self) -> BTreeSet<&Usage> {
        let published = self.published.values().map(|one| &one.usage);
        self.stages.keys().chain(published).chain(self.wants.values().map(|want| &want.usage)).collect()
    }

    fn stage(&self, usage: &Usage, now: Instant) -> VolumeStage {
        let stage = self.stages.get(usage);
        let unstaged = self.facts.as_ref().is_some_and(|facts| !facts.stages);
        // The attachment is undone with the last stage, and has no entry of its own.
        let undo = stage.map(|stage| &stage.undo).or(self.attached.as_ref().map(|attached| &attached.undo));
        let tries = undo.map(|undo| tries(undo.trouble.as_ref(), undo.not_before, now)).unwrap_or_default();
        VolumeStage {
            access: usage.access.name().to_owned(),
            attachment: usage.attachment.name().to_owned(),
            read_only: usage.read_only,
            mount_flags: usage.mount_flags.clone().unwrap_or_default(),
            staged: stage.map_or(unstaged, |stage| stage.done),
            users: Vec::new(),
            trouble: tries.trouble,
            attempt: tries.attempt,
            again_ms: tries.again_ms,
        }
    }

    fn users(&self, usage: &Usage, now: Instant) -> Vec<VolumeUser> {
        let targets: BTreeSet<&HostPath> = self.published.keys().chain(self.wants.keys()).collect();
        let of = |target: &HostPath| {
            let published = self.published.get(target).filter(|one| one.usage == *usage);
            let want = self.wants.get(target).filter(|want| want.usage == *usage);
            let key = want.map(|want| &want.key).or(published.map(|one| &one.key))?;
            let failed = want.filter(|want| want.trouble.is_some());
            let failed = failed.map(|want| tries(want.trouble.as_ref(), want.not_before, now));
            let undo = || published.map(|one| tries(one.undo.trouble.as_ref(), one.undo.not_before, now));
            let tries = failed.or_else(undo).unwrap_or_default();
            Some(VolumeUser {
                service: key.0.clone(),
                path: target.to_string(),
                published: published.is_some(),
                released: want.is_none(),
                trouble: tries.trouble,
                attempt: tries.attempt,
                again_ms: tries.again_ms,
            })
        };
        targets.into_iter().filter_map(of).collect()
    }
}

/// How the last step failed, and when it is tried again.
#[derive(Debug, Default)]
struct Tries {
    trouble: String,
    attempt: u32,
    again_ms: Option<u32>,
}

fn tries(failed: Option<&VolumeStep>, not_before: Option<Instant>, now: Instant) -> Tries {
    let Some(step) = failed else { return Tries::default() };
    let again = not_before.filter(|at| step.again_ms.is_some() && *at > now);
    Tries {
        trouble: format!("{}: {}", step.step, step.failure),
        attempt: step.attempt,
        again_ms: again.map(|at| milliseconds(at.saturating_duration_since(now))),
    }
}
