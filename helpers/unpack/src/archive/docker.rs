//! Images of a `docker save`: `manifest.json`, configs and layers by file names of its own.
//!
//! Such an archive holds no manifest in the sense of the specification, so one is made, always the same for the same
//! files. The digest of a layer that is not compressed is its diff_id, which the config knows; one that is compressed
//! must be read to be named.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use kelson_image::{Digest, Reference};
use serde::Deserialize;

use super::bounded::{List, parse};
use super::config::{Config, MAX_LAYERS};
use super::draft::{Documents, Draft, prove};
use super::error::Trouble;
use super::hasher::Hasher;
use super::image::{Blob, Candidate, Document, Place, Unusable};
use super::manifest::{MadeDescriptor, MadeManifest, OCI_CONFIG, OCI_LAYER, OCI_MANIFEST};
use super::packing::Packing;
use super::store::{BlobSink, Located, Stop};

const FILE: &str = "manifest.json";
/// Images in one archive.
const MAX_IMAGES: usize = 256;
/// Names of one image.
const MAX_NAMES: usize = 256;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    config: String,
    #[serde(default)]
    repo_tags: List<String, MAX_NAMES>,
    layers: List<String, MAX_LAYERS>,
}

impl Item {
    fn names(&self) -> impl Iterator<Item = Reference> {
        self.repo_tags.0.iter().filter_map(|name| Reference::parse(name).ok())
    }
}

/// Adds what `manifest.json` says to the images of the layout, if there is one. `None`: there is no such file.
pub(super) fn read_docker(
    documents: &mut Documents<'_>,
    layout: Option<Vec<Draft>>,
) -> Result<Option<Vec<Draft>>, Trouble> {
    let Some(bytes) = documents.store.small(FILE)? else { return Ok(layout) };
    let items: List<Item, MAX_IMAGES> = parse(FILE, &bytes)?;
    drop(bytes);
    let mut drafts = layout.unwrap_or_default();
    let compressed = compressed(documents, &items.0)?;
    for item in items.0 {
        documents.count()?;
        let made = match make(documents, &item, &compressed) {
            Err(trouble) if !trouble.is_of_one_image() => return Err(trouble),
            made => made,
        };
        // The same image stands in the layout too: only names may be missing there.
        if let Ok(made) = &made {
            let config = made.config.digest;
            let same =
                |draft: &&mut Draft| draft.candidates.iter().any(|known| known.config.digest == config);
            let mut known = drafts.iter_mut().filter(same).peekable();
            if known.peek().is_some() {
                for draft in known.filter(|draft| draft.names.is_empty()) {
                    draft.names.extend(item.names());
                }
                continue;
            }
        }
        let mut draft = Draft::default();
        draft.names.extend(item.names());
        match made {
            Ok(candidate) => {
                documents.hold(candidate.documents())?;
                draft.candidates.push(Arc::new(candidate));
                // The layout's part of this image is not whole.
                drafts.retain(|other| {
                    !other.candidates.is_empty() || !other.names.iter().any(|name| draft.names.contains(name))
                });
            }
            // The layout may have more of it.
            Err(_)
                if drafts.iter().any(|other| draft.names.iter().any(|name| other.names.contains(name))) =>
            {
                continue;
            }
            Err(trouble) => draft.unusable.push(Unusable { platform: None, why: trouble.to_string() }),
        }
        drafts.push(draft);
    }
    Ok(Some(drafts))
}

/// The digests of all compressed layers, by one pass.
fn compressed(documents: &Documents<'_>, items: &[Item]) -> Result<HashMap<Place, Digest>, Trouble> {
    let mut found = HashMap::new();
    for name in items.iter().flat_map(|item| &item.layers.0) {
        // A layout's blobs bear their digests as names.
        if name.starts_with("blobs/sha256/") {
            continue;
        }
        if let Some(Located { place, size, packing }) = documents.store.find(name)?
            && packing != Packing::Plain
        {
            let blob = Blob {
                media_type: String::new(),
                digest: Hasher::of(&[]),
                size,
                file: None,
                place: place.clone(),
            };
            found.insert(place, blob);
        }
    }
    let blobs: Vec<Blob> = found.into_values().collect();
    let mut digests = HashMap::new();
    if blobs.is_empty() {
        return Ok(digests);
    }
    let measure = |blob: &Blob, digest| {
        digests.insert(blob.place.clone(), digest);
        Ok(())
    };
    match documents.store.stream(&blobs.iter().collect::<Vec<_>>(), &mut Unread, measure) {
        Ok(()) => Ok(digests),
        Err(Stop::Trouble(trouble)) => Err(trouble),
        Err(Stop::Sink(never)) => match never {},
    }
}

/// Takes blobs of which only the digest is asked.
struct Unread;

impl BlobSink for Unread {
    type Error = Infallible;

    fn begin(&mut self, _: &Blob) -> Result<bool, Infallible> {
        Ok(true)
    }

    fn bytes(&mut self, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn end(&mut self, _: &Blob) -> Result<(), Infallible> {
        Ok(())
    }
}

fn make(
    documents: &Documents<'_>,
    item: &Item,
    compressed: &HashMap<Place, Digest>,
) -> Result<Candidate, Trouble> {
    let store = documents.store;
    let bytes = store.needed_small(&item.config)?;
    if let Some(digest) = digest_of_name(&item.config) {
        prove(&digest, &bytes)?;
    }
    let config = Config::parse(&item.config, &bytes)?;
    let mut layers = Vec::new();
    for (index, name) in item.layers.0.iter().enumerate() {
        let Located { place, size, packing } = store.needed(name)?;
        let end = match packing {
            Packing::Plain => "",
            Packing::Gzip => "+gzip",
            Packing::Zstd => "+zstd",
        };
        let digest = match packing {
            Packing::Plain => config.diff_ids.get(index).copied(),
            _ => compressed.get(&place).copied().or_else(|| digest_of_name(name)),
        };
        let Some(digest) = digest else { continue };
        layers.push(Blob { media_type: format!("{OCI_LAYER}{end}"), digest, size, file: None, place });
    }
    // Those whose digest nobody tells are missing.
    config.fits(Hasher::of(&bytes), item.layers.0.len())?;
    config.fits(Hasher::of(&bytes), layers.len())?;
    let platform = config.platform_or(None, &item.config)?;
    let config_document = Document { media_type: OCI_CONFIG.to_owned(), digest: Hasher::of(&bytes), bytes };
    let manifest = manifest(&config_document, &layers)?;
    Ok(Candidate { platform, manifest, config: config_document, layers })
}

/// The digest in `<digest>.json` and `blobs/sha256/<digest>`.
fn digest_of_name(name: &str) -> Option<Digest> {
    let last = name.rsplit('/').next()?;
    Digest::from_hex(last.split('.').next()?)
}

fn manifest(config: &Document, layers: &[Blob]) -> Result<Document, Trouble> {
    let made = MadeManifest {
        schema_version: 2,
        media_type: OCI_MANIFEST,
        config: MadeDescriptor {
            media_type: &config.media_type,
            digest: config.digest,
            size: config.bytes.len() as u64,
        },
        layers: layers
            .iter()
            .map(|Blob { media_type, digest, size, .. }| MadeDescriptor {
                media_type,
                digest: *digest,
                size: *size,
            })
            .collect(),
    };
    let bytes = serde_json::to_vec(&made)
        .map_err(|error| Trouble::Json { file: FILE.to_owned(), text: error.to_string() })?;
    Ok(Document { media_type: OCI_MANIFEST.to_owned(), digest: Hasher::of(&bytes), bytes })
}
