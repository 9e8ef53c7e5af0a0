//! Snapshots: layers unpacked one upon the other.

use std::collections::HashMap;
use std::time::Duration;

use api::diff_client::DiffClient;
use api::snapshots;
use containerd_client::services::v1 as api;
use containerd_client::types::Descriptor;
pub use containerd_client::types::Mount;
use snapshots::snapshots_client::SnapshotsClient;

use crate::{CallError, Containerd, PROMPT, Result, SLOW, call, found, there};

/// Names the snapshot that a key is to become, as containerd's own client says it.
const REFERENCE: &str = "containerd.io/snapshot.ref";
/// The slowest disk that is worth waiting for.
const BYTES_A_SECOND: u64 = 256 << 10;

/// How long a disk may take for so many bytes.
pub fn patience(size: u64) -> Duration {
    SLOW.saturating_add(Duration::from_secs(size.checked_div(BYTES_A_SECOND).unwrap_or(0)))
}

/// What an unpacked layer was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Of the uncompressed layer.
    pub digest: String,
}

impl Containerd {
    fn snapshots(&self) -> SnapshotsClient<tonic::transport::Channel> {
        SnapshotsClient::new(self.channel.clone())
    }

    /// Whether the snapshot is there and whole.
    pub async fn is_committed(&self, snapshotter: &str, name: &str) -> Result<bool> {
        let request = self.request(snapshots::StatSnapshotRequest {
            snapshotter: snapshotter.to_owned(),
            key: name.to_owned(),
        });
        let answer = found(call("Snapshots.Stat", PROMPT, self.snapshots().stat(request)).await)?;
        Ok(answer
            .and_then(|answer| answer.info)
            .is_some_and(|info| info.kind == snapshots::Kind::Committed as i32))
    }

    /// A writable snapshot upon `parent` that is to become `name`. `None`: `name` is there already.
    pub async fn prepare(
        &self,
        snapshotter: &str,
        key: &str,
        parent: &str,
        name: &str,
    ) -> Result<Option<Vec<Mount>>> {
        let request = self.request(snapshots::PrepareSnapshotRequest {
            snapshotter: snapshotter.to_owned(),
            key: key.to_owned(),
            parent: parent.to_owned(),
            labels: HashMap::from([(REFERENCE.to_owned(), name.to_owned())]),
        });
        let answer = there(call("Snapshots.Prepare", SLOW, self.snapshots().prepare(request)).await)?;
        Ok(answer.map(|answer| answer.mounts))
    }

    /// A writable snapshot upon nothing, of which nothing is to become.
    pub async fn prepare_empty(&self, snapshotter: &str, key: &str) -> Result<()> {
        let request = self.request(snapshots::PrepareSnapshotRequest {
            snapshotter: snapshotter.to_owned(),
            key: key.to_owned(),
            ..Default::default()
        });
        there(call("Snapshots.Prepare", SLOW, self.snapshots().prepare(request)).await).map(drop)
    }

    /// A snapshot to read `parent` by.
    pub async fn view(&self, snapshotter: &str, key: &str, parent: &str) -> Result<Vec<Mount>> {
        let request = self.request(snapshots::ViewSnapshotRequest {
            snapshotter: snapshotter.to_owned(),
            key: key.to_owned(),
            parent: parent.to_owned(),
            ..Default::default()
        });
        Ok(call("Snapshots.View", SLOW, self.snapshots().view(request)).await?.mounts)
    }

    /// Makes the whole snapshot `name` of a writable one; one that is there already is as good.
    pub async fn commit(&self, snapshotter: &str, key: &str, name: &str) -> Result<()> {
        let request = self.request(snapshots::CommitSnapshotRequest {
            snapshotter: snapshotter.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
            labels: HashMap::from([(REFERENCE.to_owned(), name.to_owned())]),
        });
        match call("Snapshots.Commit", SLOW, self.snapshots().commit(request)).await {
            Err(CallError::AlreadyExists) => self.remove_snapshot(snapshotter, key).await,
            // The answer to an earlier try was lost.
            Err(CallError::NotFound) if self.is_committed(snapshotter, name).await? => Ok(()),
            other => other.map(drop),
        }
    }

    pub async fn remove_snapshot(&self, snapshotter: &str, key: &str) -> Result<()> {
        let request = self.request(snapshots::RemoveSnapshotRequest {
            snapshotter: snapshotter.to_owned(),
            key: key.to_owned(),
        });
        found(call("Snapshots.Remove", SLOW, self.snapshots().remove(request)).await).map(drop)
    }

    /// Unpacks a layer of the content store to a writable snapshot.
    pub async fn apply(
        &self,
        media_type: &str,
        digest: &str,
        size: u64,
        mounts: Vec<Mount>,
    ) -> Result<Applied> {
        let diff = Descriptor {
            media_type: media_type.to_owned(),
            digest: digest.to_owned(),
            size: i64::try_from(size).unwrap_or(i64::MAX),
            annotations: HashMap::new(),
        };
        let request = self.request(api::ApplyRequest { diff: Some(diff), mounts, ..Default::default() });
        let within = patience(size);
        let mut client = DiffClient::new(self.channel.clone());
        let answer = call("Diff.Apply", within, client.apply(request)).await?;
        Ok(Applied { digest: answer.applied.unwrap_or_default().digest })
    }
}
