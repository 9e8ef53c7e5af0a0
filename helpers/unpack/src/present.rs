//! The parts of an image that containerd has.

use kelson_containerd::{Containerd, Record};
use kelson_image::Digest;
use serde::Deserialize;

use crate::archive::{Config, Platform};
use crate::chain::chain_ids;
use crate::error::UnpackError;

/// Bytes of JSON that are read at most.
const MOST_JSON: usize = 4 << 20;
const MOST_LAYERS: usize = 512;

/// An image whose manifest and config containerd has.
#[derive(Debug, Clone)]
pub struct Present {
    /// Of the manifest for this host.
    pub digest: Digest,
    pub settings: Config,
    pub chain_ids: Vec<Digest>,
    /// Bytes of all its blobs.
    pub size: u64,
    /// All its blobs are there, and its layers are unpacked.
    pub complete: bool,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: Digest,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    /// Where it is an index.
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

/// Looks for all of an image; `None` if its manifest or config is missing.
pub async fn look(
    containerd: &Containerd,
    record: &Record,
    snapshotter: &str,
    host: &Platform,
) -> Result<Option<Present>, UnpackError> {
    let damaged = |text: String| UnpackError::Damaged { image: record.name.clone(), text };
    let parse = |bytes: &[u8]| -> Result<Manifest, UnpackError> {
        let manifest: Manifest =
            serde_json::from_slice(bytes).map_err(|error| damaged(format!("its manifest: {error}")))?;
        match manifest.layers.len() {
            0..=MOST_LAYERS => Ok(manifest),
            layers => Err(damaged(format!("it has {layers} layers"))),
        }
    };
    let Some(bytes) = containerd.read_blob(&record.digest, MOST_JSON).await? else { return Ok(None) };
    let (mut digest, mut manifest) = (record.digest.clone(), parse(&bytes)?);
    let mut size = bytes.len() as u64;
    if manifest.config.is_none() {
        let suits = |one: &&Descriptor| one.platform.as_ref().and_then(|platform| host.suits(platform));
        let Some(best) = manifest.manifests.iter().filter(|one| suits(one).is_some()).max_by_key(suits)
        else {
            return Ok(None);
        };
        digest = best.digest.to_string();
        let Some(bytes) = containerd.read_blob(&digest, MOST_JSON).await? else { return Ok(None) };
        manifest = parse(&bytes)?;
        size = bytes.len() as u64;
    }
    let digest = Digest::parse(&digest).map_err(|error| damaged(error.to_string()))?;
    let Some(config) = manifest.config else {
        return Err(damaged(String::from("its manifest names no config")));
    };
    let name = config.digest.to_string();
    let Some(bytes) = containerd.read_blob(&name, MOST_JSON).await? else { return Ok(None) };
    let settings = Config::parse("its config", &bytes).map_err(|trouble| damaged(trouble.to_string()))?;
    if settings.diff_ids.len() != manifest.layers.len() {
        return Err(damaged(String::from("its config names other layers than its manifest")));
    }
    let chain_ids = chain_ids(&settings.diff_ids);
    size = size.saturating_add(config.size);
    let mut complete = true;
    for layer in &manifest.layers {
        size = size.saturating_add(layer.size);
        complete = complete && containerd.blob(&layer.digest.to_string()).await?.is_some();
    }
    for id in &chain_ids {
        complete = complete && containerd.is_committed(snapshotter, &id.to_string()).await?;
    }
    Ok(Some(Present { digest, settings, chain_ids, size, complete }))
}
