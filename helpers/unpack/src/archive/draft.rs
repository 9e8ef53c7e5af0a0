//! The images of an archive while they are gathered from its documents.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kelson_image::{Digest, Reference, is_tag};

use super::config::Config;
use super::error::Trouble;
use super::hasher::Hasher;
use super::image::{Blob, Candidate, Document, Listed, Unusable};
use super::manifest::{Descriptor, Manifest, OCI_MANIFEST};
use super::platform::Platform;
use super::store::{Located, Store};

/// Bytes of the manifests and configs of an archive, which are all held.
const MAX_DOCUMENTS: usize = 8 << 20;
/// Images and platforms in one archive.
const MAX_DESCRIPTORS: u32 = 4096;

/// An image, before its last name is known.
#[derive(Default)]
pub(super) struct Draft {
    /// Whole names.
    pub(super) names: Vec<Reference>,
    /// Tags alone.
    pub(super) tags: Vec<String>,
    pub(super) index: Option<Digest>,
    pub(super) candidates: Vec<Arc<Candidate>>,
    pub(super) unusable: Vec<Unusable>,
    /// There is an artifact among its manifests.
    pub(super) has_artifact: bool,
}

impl Draft {
    /// Whether nothing of it is an image.
    pub(super) fn is_artifact(&self) -> bool {
        self.has_artifact && !self.candidates.iter().any(|candidate| candidate.platform.is_some())
    }

    /// Whether the archive itself calls it something.
    pub(super) fn is_named(&self) -> bool {
        !self.names.is_empty() || !self.tags.is_empty()
    }

    /// Takes what a descriptor's annotation or a `docker save` calls the image. A text that is no name is
    /// passed over.
    pub(super) fn call(&mut self, name: &str) {
        if name.contains(['/', ':']) {
            self.names.extend(Reference::parse(name));
        } else if is_tag(name) {
            self.tags.push(name.to_owned());
        }
    }

    /// The image, with the archive's name where it has none of its own.
    pub(super) fn list(self, file_name: &str) -> Listed {
        let mut references = self.names;
        if references.is_empty() {
            references =
                self.tags.iter().filter_map(|tag| Reference::of_archive(file_name, Some(tag))).collect();
        }
        if references.is_empty() {
            references.extend(Reference::of_archive(file_name, None));
        }
        let mut seen = HashSet::new();
        references.retain(|name| seen.insert(name.clone()));
        Listed { references, index: self.index, candidates: self.candidates, unusable: self.unusable }
    }
}

/// Reads documents, within the bounds that hold for a whole archive.
pub(super) struct Documents<'a> {
    pub(super) store: &'a Store,
    held: usize,
    descriptors: u32,
    /// Manifests that have been read: one image with many names has many descriptors.
    read: HashMap<Digest, Arc<Candidate>>,
}

impl<'a> Documents<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Self { store, held: 0, descriptors: 0, read: HashMap::new() }
    }

    /// Counts one more descriptor.
    pub(super) fn count(&mut self) -> Result<(), Trouble> {
        self.descriptors = self.descriptors.saturating_add(1);
        match self.descriptors {
            ..=MAX_DESCRIPTORS => Ok(()),
            _ => Err(Trouble::TooMany { what: "images and platforms", most: u64::from(MAX_DESCRIPTORS) }),
        }
    }

    /// Takes note of bytes that stay in memory.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Trouble> {
        self.held = self.held.saturating_add(bytes);
        match self.held {
            ..=MAX_DOCUMENTS => Ok(()),
            _ => Err(Trouble::TooMany { what: "bytes of manifests and configs", most: MAX_DOCUMENTS as u64 }),
        }
    }

    /// Where a blob is, which must have the size that its descriptor says.
    fn locate(&self, digest: &Digest, size: u64) -> Result<Located, Trouble> {
        match self.store.needed(&blob_file(digest))? {
            located if located.size == size => Ok(located),
            Located { size: found, .. } => {
                Err(Trouble::Size { blob: format!("blob {digest}"), expected: size, found })
            }
        }
    }

    /// The bytes of a small blob, proved.
    pub(super) fn blob(&self, digest: &Digest, size: u64) -> Result<Vec<u8>, Trouble> {
        self.locate(digest, size)?;
        let bytes = self.store.needed_small(&blob_file(digest))?;
        prove(digest, &bytes)?;
        Ok(bytes)
    }

    /// The image or the artifact that a manifest describes.
    pub(super) fn candidate(
        &mut self,
        descriptor: &Descriptor,
        manifest: Manifest,
        bytes: Vec<u8>,
    ) -> Result<Arc<Candidate>, Trouble> {
        if let Some(candidate) = self.read.get(&descriptor.digest) {
            return Ok(candidate.clone());
        }
        let candidate = Arc::new(self.read_candidate(descriptor, manifest, bytes)?);
        self.hold(candidate.documents())?;
        self.read.insert(descriptor.digest, candidate.clone());
        Ok(candidate)
    }

    fn read_candidate(
        &self,
        descriptor: &Descriptor,
        manifest: Manifest,
        bytes: Vec<u8>,
    ) -> Result<Candidate, Trouble> {
        let file = format!("manifest {}", descriptor.digest);
        let is_image = manifest.is_of_image();
        let layers = || {
            let layers = manifest.layers.0.iter().map(|layer| self.layer(&manifest, &file, layer));
            layers.collect::<Result<Vec<_>, _>>()
        };
        let config = &manifest.config;
        let (platform, config_bytes, layers) = if is_image {
            let config_file = format!("config {}", config.digest);
            let config_bytes = self.blob(&config.digest, config.size)?;
            let settings = Config::parse(&config_file, &config_bytes)?;
            let layers = layers()?;
            let written = descriptor.platform.as_ref().and_then(|platform| platform.read());
            let platform = settings.platform_or(written, &config_file)?;
            settings.fits(descriptor.digest, layers.len())?;
            (platform, config_bytes, layers)
        } else {
            (Platform::default(), Vec::new(), layers()?)
        };
        let media_type =
            [&manifest.media_type, &descriptor.media_type].into_iter().find(|text| !text.is_empty());
        Ok(Candidate {
            platform,
            manifest: Document {
                media_type: media_type.map_or(OCI_MANIFEST, String::as_str).to_owned(),
                digest: descriptor.digest,
                bytes,
            },
            config: Document {
                media_type: manifest.config.media_type,
                digest: manifest.config.digest,
                bytes: config_bytes,
            },
            layers,
        })
    }

    fn layer(&self, manifest: &Manifest, file: &str, layer: &Descriptor) -> Result<Blob, Trouble> {
        let Descriptor { media_type, digest, size, .. } = layer;
        let name = manifest.file_of(layer, file)?.map(str::to_owned);
        let Located { place, .. } = self.locate(digest, *size)?;
        Ok(Blob { media_type: media_type.clone(), digest: *digest, size: *size, file: name, place })
    }
}

pub(super) fn blob_file(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

pub(super) fn prove(digest: &Digest, bytes: &[u8]) -> Result<(), Trouble> {
    Trouble::unless_same(*digest, Hasher::of(bytes))
}
