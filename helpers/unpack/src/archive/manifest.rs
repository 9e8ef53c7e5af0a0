//! The documents of the OCI image specification, as far as they lead from names to layers.

use kelson_image::Digest;
use serde::{Deserialize, Serialize};

use super::bounded::List;
use super::config::MAX_LAYERS;
use super::platform::Platform;

pub(super) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const LAYERS: [&str; 5] = [
    OCI_LAYER,
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
];

/// Manifests that one index lists.
const MAX_MANIFESTS: usize = 1024;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    pub platform: Option<WrittenPlatform>,
    #[serde(default)]
    pub annotations: Option<Annotations>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct WrittenPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

impl WrittenPlatform {
    /// `None`: it says nothing.
    pub fn read(&self) -> Option<Platform> {
        let said = |word: &str| !word.is_empty() && word != "unknown";
        (said(&self.os) && said(&self.architecture))
            .then(|| Platform::new(&self.os, &self.architecture, self.variant.as_deref().unwrap_or_default()))
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct Annotations {
    /// A whole name, as containerd and docker write it.
    #[serde(rename = "io.containerd.image.name")]
    pub name: Option<String>,
    /// A tag or a whole name.
    #[serde(rename = "org.opencontainers.image.ref.name")]
    pub ref_name: Option<String>,
    /// The type of a builder's attachment to images: no image itself.
    #[serde(rename = "vnd.docker.reference.type")]
    pub attached: Option<String>,
    /// The digest of the document that lists the signatures of this image, which was pulled with it.
    #[serde(rename = "kelson.signature")]
    pub signature: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub manifests: List<Descriptor, MAX_MANIFESTS>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    #[serde(default)]
    pub media_type: String,
    pub config: Descriptor,
    #[serde(default)]
    pub layers: List<Descriptor, MAX_LAYERS>,
}

/// The shape of a document, by its own description.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shape {
    #[serde(default)]
    media_type: String,
    manifests: Option<serde::de::IgnoredAny>,
    layers: Option<serde::de::IgnoredAny>,
    config: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Index,
    Manifest,
    /// Both at once: two readers would see two images.
    Both,
    Neither,
}

impl Shape {
    pub fn form(&self) -> Form {
        match (self.manifests.is_some(), self.layers.is_some() || self.config.is_some()) {
            (true, true) => Form::Both,
            (true, false) => Form::Index,
            (false, true) => Form::Manifest,
            (false, false) if is_index(&self.media_type) => Form::Index,
            (false, false) => Form::Neither,
        }
    }
}

pub fn is_index(media_type: &str) -> bool {
    [OCI_INDEX, DOCKER_INDEX].contains(&media_type)
}

pub fn is_manifest(media_type: &str) -> bool {
    [OCI_MANIFEST, DOCKER_MANIFEST].contains(&media_type)
}

pub fn is_config(media_type: &str) -> bool {
    [OCI_CONFIG, DOCKER_CONFIG].contains(&media_type)
}

pub fn is_layer(media_type: &str) -> bool {
    let plain = ["+gzip", "+zstd", ".gzip"].iter().find_map(|end| media_type.strip_suffix(end));
    LAYERS.contains(&plain.unwrap_or(media_type))
}

/// A manifest that is made here.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MadeManifest<'a> {
    pub(super) schema_version: u8,
    pub(super) media_type: &'a str,
    pub(super) config: MadeDescriptor<'a>,
    pub(super) layers: Vec<MadeDescriptor<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MadeDescriptor<'a> {
    pub(super) media_type: &'a str,
    pub digest: Digest,
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_images_are_known_from_other_blobs() {
        for (media_type, layer) in [
            ("application/vnd.oci.image.layer.v1.tar", true),
            ("application/vnd.oci.image.layer.v1.tar+gzip", true),
            ("application/vnd.oci.image.layer.v1.tar+zstd", true),
            ("application/vnd.docker.image.rootfs.diff.tar.gzip", true),
            ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", true),
            ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", true),
            ("application/vnd.oci.image.layer.v1.tar+gzip+encrypted", false),
            ("application/vnd.in-toto+json", false),
            ("", false),
        ] {
            assert_eq!(is_layer(media_type), layer, "{media_type}");
        }
    }

    #[test]
    fn a_document_that_is_both_is_told() {
        for (text, form) in [
            (r#"{"manifests":[]}"#, Form::Index),
            (r#"{"config":{},"layers":[]}"#, Form::Manifest),
            (r#"{"config":{},"manifests":[]}"#, Form::Both),
            (r#"{}"#, Form::Neither),
        ] {
            assert_eq!(serde_json::from_str::<Shape>(text).unwrap().form(), form, "{text}");
        }
    }
}
