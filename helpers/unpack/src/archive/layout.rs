//! Images of an OCI layout: `oci-layout`, `index.json`, `blobs/sha256/…`.

use std::collections::HashMap;

use kelson_image::Digest;

use super::bounded::parse;
use super::draft::{Documents, Draft, blob_file, prove};
use super::error::Trouble;
use super::image::Unusable;
use super::manifest::{Descriptor, Form, Index, Manifest, Shape, is_index, is_manifest};
use super::store::Store;
use crate::trust::{Signature, TrustError, cosign};

/// Indexes within indexes: podman makes two, and nobody more.
const MAX_DEPTH: u32 = 4;

/// The images that `index.json` leads to. `None`: the archive has none.
pub(super) fn read_layout(documents: &mut Documents<'_>) -> Result<Option<Vec<Draft>>, Trouble> {
    let Some(bytes) = documents.store.small("index.json")? else { return Ok(None) };
    let Some(layout) = documents.store.small("oci-layout")? else { return Ok(None) };
    check_version(&layout)?;
    let index: Index = parse("index.json", &bytes)?;
    let mut walk = Walk { documents, drafts: Vec::new() };
    for descriptor in &index.manifests.0 {
        walk.descriptor(descriptor, &[], 0)?;
    }
    let mut drafts = walk.drafts;
    drafts.retain(|draft| !draft.candidates.is_empty() || !draft.unusable.is_empty());
    // What is attached to an image does not take its name from the archive.
    if drafts.len() > 1 {
        drafts.retain(|draft| draft.is_named() || !draft.is_artifact());
    }
    Ok(Some(merge(drafts)))
}

/// The signatures that an annotation beside the image of this digest leads to.
pub(super) fn signatures(store: &Store, signed: Digest) -> Result<Vec<Signature>, Trouble> {
    let Some(bytes) = store.small("index.json")? else { return Ok(Vec::new()) };
    let index: Index = parse("index.json", &bytes)?;
    let named = |one: &Descriptor| {
        let text = one.annotations.as_ref()?.signature.as_ref()?;
        Digest::parse(text).ok().filter(|_| one.digest == signed)
    };
    let Some(listed) = index.manifests.0.iter().find_map(named) else { return Ok(Vec::new()) };
    let file = blob_file(&listed);
    let bytes = store.needed_small(&file)?;
    prove(&listed, &bytes)?;
    let unread = |error: TrustError| Trouble::Json { file: file.clone(), text: error.to_string() };
    let of = |listed: cosign::Listed| {
        let statement = store.needed_small(&blob_file(&listed.digest))?;
        prove(&listed.digest, &statement)?;
        Ok(Signature { statement, signature: listed.signature })
    };
    cosign::list(&file, &bytes).map_err(unread)?.into_iter().map(of).collect()
}

fn check_version(bytes: &[u8]) -> Result<(), Trouble> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Layout {
        image_layout_version: String,
    }
    let Layout { image_layout_version: version } = parse("oci-layout", bytes)?;
    if version == "1" || version.starts_with("1.") {
        return Ok(());
    }
    let version: String = version.chars().take(40).collect();
    Err(Trouble::Unsupported {
        file: "oci-layout".to_owned(),
        text: format!("version {version:?} of the layout"),
    })
}

struct Walk<'a, 'b> {
    documents: &'a mut Documents<'b>,
    drafts: Vec<Draft>,
}

impl Walk<'_, '_> {
    /// Takes a descriptor in. It belongs to the images in `above`, by their place in `drafts`, and begins one of its own
    /// if it has a name, or if there is none above.
    fn descriptor(&mut self, descriptor: &Descriptor, above: &[usize], depth: u32) -> Result<(), Trouble> {
        self.documents.count()?;
        let annotations = descriptor.annotations.clone().unwrap_or_default();
        if annotations.attached.is_some() {
            return Ok(());
        }
        let mut images = above.to_vec();
        let written = annotations.name.or(annotations.ref_name);
        if above.is_empty() || written.is_some() {
            let mut draft = Draft::default();
            if let Some(name) = &written {
                draft.call(name);
            }
            images.push(self.drafts.len());
            self.drafts.push(draft);
        }
        match self.open(descriptor, &images, depth) {
            Ok(()) => Ok(()),
            // A fault of one image does not hide the others.
            Err(trouble) if trouble.is_of_one_image() => {
                let platform = descriptor.platform.as_ref().and_then(|platform| platform.read());
                self.for_each(&images, |draft| {
                    draft.unusable.push(Unusable { platform: platform.clone(), why: trouble.to_string() });
                });
                Ok(())
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Reads what a descriptor describes.
    fn open(&mut self, descriptor: &Descriptor, images: &[usize], depth: u32) -> Result<(), Trouble> {
        let known = descriptor.media_type.is_empty()
            || is_index(&descriptor.media_type)
            || is_manifest(&descriptor.media_type);
        if !known {
            return Ok(());
        }
        let bytes = self.documents.blob(&descriptor.digest, descriptor.size)?;
        let file = format!("blob {}", descriptor.digest);
        match parse::<Shape>(&file, &bytes)?.form() {
            Form::Index if !is_manifest(&descriptor.media_type) => {
                let depth = depth.saturating_add(1);
                if depth > MAX_DEPTH {
                    let text = format!("indexes in indexes deeper than {MAX_DEPTH}");
                    return Err(Trouble::Unsupported { file, text });
                }
                let index: Index = parse(&file, &bytes)?;
                drop(bytes);
                self.for_each(images, |draft| {
                    draft.index.get_or_insert(descriptor.digest);
                });
                for child in &index.manifests.0 {
                    self.descriptor(child, images, depth)?;
                }
                Ok(())
            }
            Form::Manifest if !is_index(&descriptor.media_type) => {
                let manifest: Manifest = parse(&file, &bytes)?;
                if !manifest.is_of_image() {
                    self.for_each(images, |draft| draft.has_artifact = true);
                }
                let candidate = self.documents.candidate(descriptor, manifest, bytes)?;
                self.for_each(images, |draft| draft.candidates.push(candidate.clone()));
                Ok(())
            }
            _ => {
                Err(Trouble::Json { file, text: "it is neither an index nor a manifest, or both".to_owned() })
            }
        }
    }

    fn for_each(&mut self, images: &[usize], mut act: impl FnMut(&mut Draft)) {
        for image in images {
            if let Some(draft) = self.drafts.get_mut(*image) {
                act(draft);
            }
        }
    }
}

/// One image with several names has several descriptors.
fn merge(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut merged: Vec<Draft> = Vec::new();
    let mut known: HashMap<(Option<Digest>, Vec<Digest>), usize> = HashMap::new();
    for draft in drafts {
        let manifests: Vec<Digest> =
            draft.candidates.iter().map(|candidate| candidate.manifest.digest).collect();
        if manifests.is_empty() {
            merged.push(draft);
            continue;
        }
        let place = *known.entry((draft.index, manifests)).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(other) => {
                other.names.extend(draft.names);
                other.tags.extend(draft.tags);
            }
            None => merged.push(draft),
        }
    }
    merged
}
