//! The description of an image in its archive, checked: manifest, config and the places of its layers.

use std::sync::Arc;

use kelson_image::{Digest, Reference};

use super::config::Config;
use super::error::Trouble;
use super::platform::Platform;

/// One image of an archive, with all its platforms.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The names under which a service can ask for it, in their shortest form.
    pub references: Vec<Reference>,
    /// The digest of the index that holds its platforms, where there is one.
    pub index: Option<Digest>,
    pub(super) candidates: Vec<Arc<Candidate>>,
    pub(super) unusable: Vec<Unusable>,
}

/// A platform of an image that the archive names but does not hold whole.
#[derive(Debug, Clone)]
pub(super) struct Unusable {
    /// `None`: nobody knows.
    pub(super) platform: Option<Platform>,
    pub(super) why: String,
}

/// One platform of an image.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) platform: Platform,
    pub(super) manifest: Document,
    pub(super) config: Document,
    pub(super) layers: Vec<Blob>,
}

impl Candidate {
    pub(super) fn image(&self, listed: &Listed) -> Result<Image, Trouble> {
        let mut settings = Config::default();
        if self.platform.is_some() {
            settings = Config::parse("its config", &self.config.bytes)?;
        } else {
            // Its layers are proved as they are.
            settings.diff_ids = self.layers.iter().map(|layer| layer.digest).collect();
        }
        let layers = self.layers.iter().cloned().zip(&settings.diff_ids);
        Ok(Image {
            references: listed.references.clone(),
            index: listed.index,
            platform: self.platform.clone(),
            manifest: self.manifest.clone(),
            config: self.config.clone(),
            layers: layers.map(|(blob, diff_id)| Layer { blob, diff_id: *diff_id }).collect(),
            settings,
        })
    }

    /// Bytes that its documents take.
    pub(super) fn documents(&self) -> usize {
        self.manifest.bytes.len().saturating_add(self.config.bytes.len())
    }

    /// Bytes of all its blobs.
    pub(super) fn size(&self) -> u64 {
        let layers = self.layers.iter().map(|layer| layer.size);
        layers.fold(self.documents() as u64, u64::saturating_add)
    }
}

impl Listed {
    /// Its name in a message.
    pub fn name(&self) -> String {
        self.references.first().map_or_else(|| "without a name".to_owned(), Reference::to_string)
    }

    /// The platform of it that suits `host` best; the first where several do as well.
    pub(super) fn best(&self, host: &Platform, digest: Option<Digest>) -> Result<&Candidate, Trouble> {
        let asked = |candidate: &Candidate| digest == Some(candidate.manifest.digest);
        let only = self.candidates.iter().any(|candidate| asked(candidate));
        let suits = |candidate: &Candidate| host.suits(&candidate.platform);
        // Of those that do as well the last is taken, so they go backwards.
        let best = self
            .candidates
            .iter()
            .rev()
            .filter(|candidate| (!only || asked(candidate)) && suits(candidate).is_some())
            .max_by_key(|candidate| suits(candidate));
        if let Some(best) = best {
            return Ok(best);
        }
        let broken = self.unusable.iter().find(|unusable| {
            unusable.platform.as_ref().is_none_or(|platform| host.suits(platform).is_some())
        });
        Err(match broken {
            Some(broken) => Trouble::Unusable { image: self.name(), why: broken.why.clone() },
            None => Trouble::NoPlatform { image: self.name(), held: self.platforms(), host: host.clone() },
        })
    }

    /// `linux/arm64, linux/riscv64`.
    fn platforms(&self) -> String {
        let held = self.candidates.iter().map(|candidate| &candidate.platform);
        let broken = self.unusable.iter().filter_map(|unusable| unusable.platform.as_ref());
        let mut names: Vec<String> = Vec::new();
        for platform in held.chain(broken).map(Platform::to_string) {
            if !names.contains(&platform) && names.len() < 16 {
                names.push(platform);
            }
        }
        names.join(", ")
    }

    /// Whether a service that asks for `wanted` may mean it.
    pub(super) fn is_meant_by(&self, wanted: &Reference) -> bool {
        let manifests = self.candidates.iter().map(|candidate| candidate.manifest.digest);
        let digests: Vec<Digest> = self.index.into_iter().chain(manifests).collect();
        self.references.iter().any(|name| wanted.means(name, &digests))
    }
}

/// An image for one platform. Its documents have been checked against their digests; its layers have not been read.
#[derive(Debug, Clone)]
pub struct Image {
    pub references: Vec<Reference>,
    pub index: Option<Digest>,
    /// None: it is an artifact.
    pub platform: Platform,
    /// As it stands in the archive, or made of a `docker save` archive's: always with the same bytes for the same archive.
    pub manifest: Document,
    pub config: Document,
    /// The settings of the config.
    pub settings: Config,
    pub layers: Vec<Layer>,
}

impl Image {
    /// Bytes of all its blobs: manifest, config and layers, compressed as they are in the archive.
    pub fn size(&self) -> u64 {
        let documents = [&self.manifest, &self.config].map(|document| document.bytes.len() as u64);
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
    /// The digest of the uncompressed layer, as the config has it; [`LayerCheck`](super::LayerCheck) tells the truth. Of an
    /// artifact that of the blob, since it has no such config.
    pub diff_id: Digest,
}

/// A blob that can be read with [`Archive::read`](super::Archive::read).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    /// The name of the file that it is, of an artifact. `None`: it is a tar.
    pub file: Option<String>,
    pub(super) place: Place,
}

/// Where the bytes of a blob are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// At this offset of the uncompressed tar.
    Offset(u64),
    /// A file below the directory.
    File(String),
}
