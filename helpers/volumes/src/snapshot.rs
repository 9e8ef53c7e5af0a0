//! Snapshots, which the controllers of plugins make and keep. Kelson keeps no list of its own.

use kelson_proto::v1::{CreateSnapshotRequest, ListSnapshotsResponse, VolumeSnapshot};
use kelson_spec::volume_file::VolumeFile;
use prost::Message as _;
use tonic::Code;

use crate::csi::v1 as csi;
use crate::csi::v1::controller_service_capability::rpc::Type as Capability;
use crate::job::Failure;
use crate::plugins::{Refusal, call};
use crate::world::{Host, undone};

/// Entries that a plugin is asked for at once.
const ENTRIES: i32 = 64;
/// Bytes of the entries of an answer: a message to PID 1 has at most [`kelson_helper::transport::FROM_HELPER`].
const PAGE_MAX: usize = 12 << 10;

impl Host {
    pub async fn create_snapshot(
        &self,
        file: &VolumeFile,
        asked: &CreateSnapshotRequest,
    ) -> Result<VolumeSnapshot, Failure> {
        let controller = self.controller_with(&file.plugin, Capability::CreateDeleteSnapshot).await?;
        let request = csi::CreateSnapshotRequest {
            source_volume_id: file.id.clone(),
            name: asked.name.clone(),
            secrets: self.secrets(file).await?,
            parameters: asked.parameters.clone(),
        };
        match call(&controller, self.deadlines.action, request).await {
            Ok(made) => Ok(shown(&file.plugin, made.snapshot.unwrap_or_default())),
            Err(Refusal { code: Some(Code::AlreadyExists), failure }) => {
                let name = &asked.name;
                let text = format!(
                    "the plugin has another snapshot with the name {name:?}: choose another name; {}",
                    failure.text
                );
                Err(Failure::after(&text).last())
            }
            Err(refusal) => Err(refusal.failure),
        }
    }

    pub async fn delete_snapshot(&self, file: &VolumeFile, id: &str) -> Result<(), Failure> {
        let controller = self.controller_with(&file.plugin, Capability::CreateDeleteSnapshot).await?;
        let request =
            csi::DeleteSnapshotRequest { snapshot_id: id.to_owned(), secrets: self.secrets(file).await? };
        undone(call(&controller, self.deadlines.action, request).await)
    }

    /// Those of the volume; of all, where the file has no id. `token`: where the answer before has ended.
    pub async fn list_snapshots(
        &self,
        file: &VolumeFile,
        token: &str,
    ) -> Result<ListSnapshotsResponse, Failure> {
        let controller = self.controller_with(&file.plugin, Capability::ListSnapshots).await?;
        let (passed, starting_token) = token.split_once(' ').unwrap_or(("0", ""));
        let passed = passed.parse().map_err(|_| Failure::before("the token is none of a list").last())?;
        let request = csi::ListSnapshotsRequest {
            max_entries: ENTRIES,
            starting_token: starting_token.to_owned(),
            source_volume_id: file.id.clone(),
            secrets: self.secrets(file).await?,
            ..Default::default()
        };
        let answer = call(&controller, self.deadlines.step, request).await?;
        let all = answer.entries.into_iter();
        let all = all.map(|entry| shown(&file.plugin, entry.snapshot.unwrap_or_default()));
        Ok(page(all, passed, starting_token, &answer.next_token))
    }
}

/// As much of a plugin's answer as fits into a message. The plugin is asked for the same again for the rest: it may have given
/// more than it was asked for.
fn page(
    all: impl ExactSizeIterator<Item = VolumeSnapshot>,
    passed: usize,
    asked: &str,
    follows: &str,
) -> ListSnapshotsResponse {
    let (count, mut bytes, mut snapshots) = (all.len(), 0_usize, Vec::new());
    for snapshot in all.skip(passed) {
        bytes = bytes.saturating_add(snapshot.encoded_len()).saturating_add(4);
        if bytes > PAGE_MAX && !snapshots.is_empty() {
            break;
        }
        snapshots.push(snapshot);
    }
    let ended = passed.saturating_add(snapshots.len());
    let next = match (ended < count, follows) {
        (true, _) => format!("{ended} {asked}"),
        // A plugin that repeats its token would be asked for ever.
        (false, follows) if follows.is_empty() || follows == asked => String::new(),
        (false, follows) => format!("0 {follows}"),
    };
    ListSnapshotsResponse { snapshots, next }
}

fn shown(plugin: &str, snapshot: csi::Snapshot) -> VolumeSnapshot {
    VolumeSnapshot {
        id: snapshot.snapshot_id,
        plugin: plugin.to_owned(),
        volume_id: snapshot.source_volume_id,
        size: u64::try_from(snapshot.size_bytes).unwrap_or_default(),
        created: snapshot.creation_time,
        ready: snapshot.ready_to_use,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_comes_in_pages_that_fit() {
        let snapshot = |number: usize| VolumeSnapshot {
            id: format!("{number:0>128}"),
            volume_id: "v".repeat(128),
            ..VolumeSnapshot::default()
        };
        let all: Vec<VolumeSnapshot> = (0..500).map(snapshot).collect();
        let (mut seen, mut token) = (Vec::new(), "0 a".to_owned());
        while let Some((passed, asked)) = token.split_once(' ').filter(|(_, asked)| *asked == "a") {
            let page = page(all.iter().cloned(), passed.parse().unwrap(), asked, "b");
            assert!(page.encoded_len() < 14 << 10);
            seen.extend(page.snapshots);
            token = page.next;
        }
        assert_eq!((seen == all, token.as_str()), (true, "0 b"));
        assert_eq!(page(all.into_iter().take(3).collect::<Vec<_>>().into_iter(), 0, "b", "b").next, "");
    }
}
