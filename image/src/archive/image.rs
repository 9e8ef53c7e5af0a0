//! What an archive says about an image, checked: manifest, config and where its layers lie.

use super::config::Config;
use super::{Digest, Platform, Reference};

/// One image of an archive, with all its platforms.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The names under which a service can ask for it, in their shortest form.
    pub references: Vec<Reference>,
    /// The digest of the index that holds its platforms, where there is one.
    pub index: Option<Digest>,
    pub(super) candidates: Vec<Candidate>,
}

/// One platform of an image.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) platform: Platform,
    pub(super) manifest: Document,
    pub(super) config: Document,
    pub(super) layers: Vec<Blob>,
}

/// An image for one platform. Its documents have been checked against their digests; its layers have not been read.
#[derive(Debug, Clone)]
pub struct Image {
    pub references: Vec<Reference>,
    pub index: Option<Digest>,
    pub platform: Platform,
    /// As it stands in the archive, or made of a `docker save` archive's: always with the same bytes for the same archive.
    pub manifest: Document,
    pub config: Document,
    /// What the config says.
    pub settings: Config,
    pub layers: Vec<Layer>,
}

impl Image {
    /// Bytes of all its blobs: manifest, config and layers, compressed as they are in the archive.
    pub fn size(&self) -> u64 {
        let documents = [&self.manifest, &self.config].map(|d| d.bytes.len() as u64);
        let layers = self.layers.iter().map(|layer| layer.blob.size);
        documents.into_iter().chain(layers).fold(0, u64::saturating_add)
    }
}

/// A blob of JSON, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub media_type: String,
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub blob: Blob,
    /// The digest of the uncompressed layer, as the config has it; [`LayerCheck`](super::LayerCheck) tells the truth.
    pub diff_id: Digest,
}

/// A blob that can be read with [`Archive::read`](super::Archive::read).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    pub(super) place: Place,
}

/// Where the bytes of a blob are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// At this offset of the uncompressed tar.
    Offset(u64),
    /// A file below the directory.
    File(String),
}
