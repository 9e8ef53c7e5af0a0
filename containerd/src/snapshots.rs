//! Snapshots: layers unpacked one upon the other.

use std::collections::HashMap;
use std::time::Duration;

use api::snapshots;
use containerd_client::services::v1 as api;
use containerd_client::types::Descriptor;
pub use containerd_client::types::Mount;

use crate::calls::SLOW;
use crate::{Code, Containerd, Result, found, there};

/// Names the snapshot that a key is to become, as containerd's own client says it.
const REFERENCE: &str = "containerd.io/snapshot.ref";
/// The slowest disk that is worth waiting for.
const BYTES_A_SECOND: u64 = 256 << 10;

/// How long a disk may take to write `size` bytes.
pub fn write_timeout(size: u64) -> Duration {
    SLOW.saturating_add(Duration::from_secs(size.checked_div(BYTES_A_SECOND).unwrap_or(0)))
}

impl Containerd {
    /// Whether the snapshot is there and whole.
    pub async fn is_committed(&self, snapshotter: &str, name: &str) -> Result<bool> {
        let (snapshotter, key) = (snapshotter.to_owned(), name.to_owned());
        let answer = found(self.call(snapshots::StatSnapshotRequest { snapshotter, key }).await)?;
        Ok(answer
            .and_then(|answer| answer.info)
            .is_some_and(|info| info.kind == snapshots::Kind::Committed as i32))
    }

    /// A writable snapshot upon `parent`, or upon nothing.
    pub async fn prepare(&self, snapshotter: &str, key: &str, parent: &str) -> Result<()> {
        self.prepare_for(snapshotter, key, parent, HashMap::new()).await.map(drop)
    }

    /// A writable snapshot upon `parent` that is to become `name`. `None`: `name` is there already.
    pub async fn prepare_as(
        &self,
        snapshotter: &str,
        key: &str,
        parent: &str,
        name: &str,
    ) -> Result<Option<Vec<Mount>>> {
        there(self.prepare_for(snapshotter, key, parent, becomes(name)).await)
    }

    async fn prepare_for(
        &self,
        snapshotter: &str,
        key: &str,
        parent: &str,
        labels: HashMap<String, String>,
    ) -> Result<Vec<Mount>> {
        let (snapshotter, key, parent) = (snapshotter.to_owned(), key.to_owned(), parent.to_owned());
        Ok(self.call(snapshots::PrepareSnapshotRequest { snapshotter, key, parent, labels }).await?.mounts)
    }

    /// A snapshot to read `parent` by.
    pub async fn view(&self, snapshotter: &str, key: &str, parent: &str) -> Result<Vec<Mount>> {
        let (snapshotter, key, parent) = (snapshotter.to_owned(), key.to_owned(), parent.to_owned());
        let request = snapshots::ViewSnapshotRequest { snapshotter, key, parent, labels: HashMap::new() };
        Ok(self.call(request).await?.mounts)
    }

    /// How the snapshot is mounted.
    pub async fn snapshot_mounts(&self, snapshotter: &str, key: &str) -> Result<Vec<Mount>> {
        let (snapshotter, key) = (snapshotter.to_owned(), key.to_owned());
        Ok(self.call(snapshots::MountsRequest { snapshotter, key }).await?.mounts)
    }

    /// Makes the whole snapshot `name` of a writable one; one that is there already is as good.
    pub async fn commit(&self, snapshotter: &str, key: &str, name: &str) -> Result<()> {
        let request = snapshots::CommitSnapshotRequest {
            snapshotter: snapshotter.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
            labels: becomes(name),
        };
        match self.call(request).await {
            Err(error) if error.is(Code::AlreadyExists) => self.remove_snapshot(snapshotter, key).await,
            // The answer to an earlier try was lost.
            Err(error) if error.is(Code::NotFound) && self.is_committed(snapshotter, name).await? => Ok(()),
            other => other,
        }
    }

    pub async fn remove_snapshot(&self, snapshotter: &str, key: &str) -> Result<()> {
        let (snapshotter, key) = (snapshotter.to_owned(), key.to_owned());
        found(self.call(snapshots::RemoveSnapshotRequest { snapshotter, key }).await).map(drop)
    }

    /// Unpacks a layer of the content store to a writable snapshot. Returns the digest of the uncompressed layer.
    pub async fn apply(
        &self,
        media_type: &str,
        digest: &str,
        size: u64,
        mounts: Vec<Mount>,
    ) -> Result<String> {
        let diff = Descriptor {
            media_type: media_type.to_owned(),
            digest: digest.to_owned(),
            size: i64::try_from(size).unwrap_or(i64::MAX),
            annotations: HashMap::new(),
        };
        let request = api::ApplyRequest { diff: Some(diff), mounts, ..Default::default() };
        let answer = self.call_within(request, write_timeout(size)).await?;
        Ok(answer.applied.unwrap_or_default().digest)
    }
}

fn becomes(name: &str) -> HashMap<String, String> {
    HashMap::from([(REFERENCE.to_owned(), name.to_owned())])
}
