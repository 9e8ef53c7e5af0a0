//! How full volumes are: plugins are asked, or the file system where the plugin cannot say it.

use std::sync::Arc;

use kelson_proto::v1::{VolumePlugin, VolumeStatistics};
use kelson_spec::service::Attachment;
use kelson_sys::room::Room;
use kelson_sys::text::of_error;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::csi::v1 as csi;
use crate::csi::v1::node_service_capability::rpc::Type as Capability;
use crate::csi::v1::volume_usage::Unit;
use crate::job::{Failure, Subject};
use crate::plugins::{call, silence};
use crate::provider::node_capabilities;
use crate::world::{Host, seen_by};

/// The call of a plugin that says it.
const CALL: &str = "NodeGetVolumeStats";

/// What a plugin can say.
#[derive(Clone)]
struct Source {
    node: VolumePlugin,
    has_statistics: bool,
    has_condition: bool,
}

impl Host {
    /// Asks a plugin about its volumes, `at_once` side by side. All of it has the time of one question: what is not there by
    /// then is not known.
    pub async fn statistics(
        &self,
        plugin: &str,
        subjects: Vec<Subject>,
        at_once: usize,
    ) -> Vec<(String, VolumeStatistics)> {
        let deadline = Instant::now().checked_add(self.deadlines.identity).unwrap_or_else(Instant::now);
        let unknown = |failure: &Failure| VolumeStatistics {
            error: format!("{} of plugin {plugin}: {}", failure.step.unwrap_or(CALL), failure.text),
            ..VolumeStatistics::default()
        };
        let silent = Failure::before(&silence(self.deadlines.identity));
        let source = match timeout_at(deadline, self.source(plugin)).await {
            Ok(Ok(source)) => Ok(source),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(silent.clone().of("NodeGetCapabilities")),
        };
        let source = match source {
            Ok(source) => source,
            Err(failure) => {
                let all = subjects.into_iter().map(|subject| (subject.volume, unknown(&failure)));
                return all.collect();
            }
        };
        let permits = Arc::new(Semaphore::new(at_once.max(1)));
        let mut asked = JoinSet::new();
        let mut open: Vec<String> = Vec::new();
        for subject in subjects {
            open.push(subject.volume.clone());
            let (host, source, permits) = (self.clone(), source.clone(), Arc::clone(&permits));
            asked.spawn(async move {
                let _permit = permits.acquire_owned().await;
                (subject.volume.clone(), host.measure(&source, &subject).await)
            });
        }
        let mut found = Vec::new();
        // A task that panicked has ended this process, except in tests.
        while let Ok(Some(Ok((volume, measured)))) = timeout_at(deadline, asked.join_next()).await {
            open.retain(|one| *one != volume);
            found.push((volume, measured.unwrap_or_else(|failure| unknown(&failure))));
        }
        found.extend(open.into_iter().map(|volume| (volume, unknown(&silent))));
        found
    }

    async fn source(&self, plugin: &str) -> Result<Source, Failure> {
        let node = self.node(plugin).await?;
        let its = node_capabilities(&node, self.deadlines.identity).await;
        let its: Vec<Capability> =
            its.map_err(|refusal| refusal.failure.of("NodeGetCapabilities"))?.collect();
        let has = |capability| its.contains(&capability);
        let (has_statistics, has_condition) =
            (has(Capability::GetVolumeStats), has(Capability::VolumeCondition));
        Ok(Source { node, has_statistics, has_condition })
    }

    async fn measure(&self, source: &Source, subject: &Subject) -> Result<VolumeStatistics, Failure> {
        if !source.has_statistics {
            return self.look_at(subject).await;
        }
        let stage = subject.stage.as_ref().map(|stage| seen_by(stage, &source.node)).transpose()?;
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id: subject.id.clone(),
            volume_path: seen_by(&subject.place.target, &source.node)?,
            staging_target_path: stage.unwrap_or_default(),
        };
        let answer = call(&source.node, self.deadlines.identity, request).await?;
        Ok(read(answer, source.has_condition))
    }

    async fn look_at(&self, subject: &Subject) -> Result<VolumeStatistics, Failure> {
        if subject.place.usage.attachment == Attachment::Block {
            return Err(
                Failure::before("it does not have GET_VOLUME_STATS, and the volume is a device").last()
            );
        }
        let target = &subject.place.target;
        let room = self.rooms.room(target).await.map_err(|failure| failure.of("statvfs"))?;
        let room =
            room.map_err(|error| Failure::before(&format!("{target}: {}", of_error(&error))).of("statvfs"))?;
        let Room { size, used, available, inodes, inodes_used } = room;
        Ok(VolumeStatistics { size, used, available, inodes, inodes_used, ..VolumeStatistics::default() })
    }
}

/// An answer as an operator sees it. The plugin need not give each number.
fn read(answer: csi::NodeGetVolumeStatsResponse, has_condition: bool) -> VolumeStatistics {
    let mut statistics = VolumeStatistics::default();
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    for usage in answer.usage {
        let (total, used) = (number(usage.total), number(usage.used));
        match usage.unit() {
            Unit::Bytes => {
                statistics.size = total;
                statistics.used = used;
                statistics.available = number(usage.available);
            }
            Unit::Inodes => (statistics.inodes, statistics.inodes_used) = (total, used),
            Unit::Unknown => {}
        }
    }
    let condition = answer.volume_condition.filter(|condition| has_condition && condition.abnormal);
    if let Some(condition) = condition {
        // Its text is that of another program.
        let text = Failure::after(&condition.message).text;
        statistics.condition = if text.is_empty() { "abnormal".to_owned() } else { text };
    }
    statistics
}
