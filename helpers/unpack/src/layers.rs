//! Layers, one upon the other, from blobs to snapshots.

use std::collections::BTreeSet;
use std::path::Path;

use kelson_containerd::{CallError, Resource, Snapshotter, write_timeout};
use kelson_image::Digest;
use tokio::sync::watch;

use crate::Context;
use crate::archive::Image;
use crate::durable;
use crate::error::{LayerOf, UnpackError};
use crate::lease::Lease;

/// Unpacks the layers of an image in their order, each as soon as its blob is there. A layer that stands is left as it
/// is; of several processes that want the same one, one unpacks it and the others wait.
pub async fn unpack(
    context: &Context,
    lease: &Lease,
    name: &str,
    image: &Image,
    chain_ids: &[Digest],
    snapshotter: &Snapshotter,
    mut there: watch::Receiver<BTreeSet<Digest>>,
) -> Result<(), UnpackError> {
    let containerd = &lease.containerd;
    let (snapshotter, folder) = (snapshotter.name.as_str(), snapshotter.root.as_deref().map(Path::new));
    let mut parent = String::new();
    let layers = image.layers.len();
    for (number, (layer, chain_id)) in (1..).zip(image.layers.iter().zip(chain_ids)) {
        let at = || Box::new(LayerOf { image: name.to_owned(), layer: number, layers, archive: None });
        let in_layer = |error: CallError| UnpackError::InLayer { at: at(), error };
        let blob = &layer.blob;
        there.wait_for(|there| there.contains(&blob.digest)).await.map_err(|_| UnpackError::Thread)?;
        context.reporter.at_layer(number);
        let chain = chain_id.to_string();
        let _lock = context.locks.take(&format!("chain-{snapshotter}-{}", chain_id.hex())).await?;
        lease.hold(Resource::Snapshot { snapshotter, name: &chain }).await?;
        if !containerd.is_committed(snapshotter, &chain).await.map_err(in_layer)? {
            let key = lease.name(&format!("extract-{}", chain_id.hex()));
            // Left by a try of this same process that lost its connection.
            containerd.remove_snapshot(snapshotter, &key).await.map_err(in_layer)?;
            let mounts = containerd.prepare_as(snapshotter, &key, &parent, &chain).await.map_err(in_layer)?;
            if let Some(mounts) = mounts {
                let digest = blob.digest.to_string();
                let applied =
                    containerd.apply(&blob.media_type, &digest, blob.size, mounts).await.map_err(in_layer)?;
                if applied != layer.diff_id.to_string() {
                    return Err(UnpackError::DiffId {
                        at: at(),
                        expected: layer.diff_id.to_string(),
                        found: applied,
                    });
                }
                durable::sync(folder, write_timeout(blob.size))
                    .await
                    .map_err(|error| UnpackError::Sync { at: at(), error })?;
                containerd.commit(snapshotter, &key, &chain).await.map_err(in_layer)?;
            }
        }
        parent = chain;
    }
    Ok(())
}
