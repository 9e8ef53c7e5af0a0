//! The documents of the OCI image specification, as far as they lead from names to layers.

use kelson_image::Digest;
use serde::{Deserialize, Serialize};

use super::bounded::List;
use super::config::MAX_LAYERS;
use super::error::Trouble;
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
    /// The name of the file that a layer of an artifact is.
    #[serde(rename = "org.opencontainers.image.title")]
    title: Option<String>,
    /// `true`: that is a folder, and the layer a tar of it. So ORAS writes folders.
    #[serde(rename = "io.deis.oras.content.unpack")]
    unpack: Option<String>,
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

impl Manifest {
    /// Whether it is that of an image. The others are of artifacts.
    pub fn is_of_image(&self) -> bool {
        is_config(&self.config.media_type)
    }

    /// The name of the file that a layer is. `None`: it is a tar. `file`: where the manifest is, for the error.
    ///
    /// The titles of an artifact go before its media types: ORAS gives each file the type of a tar.
    ///
    /// # Errors
    /// It is something else, or the name leads out of its folder.
    pub fn file_of<'a>(&self, layer: &'a Descriptor, file: &str) -> Result<Option<&'a str>, Trouble> {
        let media_type = layer.media_type.as_str();
        let unsupported = |text| Trouble::Unsupported { file: file.to_owned(), text };
        let annotations = layer.annotations.as_ref().filter(|_| !self.is_of_image());
        let title = annotations.and_then(|annotations| {
            annotations.title.as_deref().filter(|_| annotations.unpack.as_deref() != Some("true"))
        });
        match title {
            Some(title) if is_within(title) => Ok(Some(title)),
            Some(title) => {
                let title: String = title.chars().take(100).collect();
                Err(unsupported(format!("a file with the name {title:?}, which leads out of its folder")))
            }
            None if is_layer(media_type) || (!self.is_of_image() && is_tar(media_type)) => Ok(None),
            None => Err(unsupported(format!("a layer of the type {media_type:?}"))),
        }
    }
}

/// Whether the name of a file stays below its folder, as that of an entry of a tar has to.
fn is_within(name: &str) -> bool {
    let mut parts = name.split('/').filter(|part| !matches!(*part, "" | ".")).peekable();
    !name.starts_with('/') && !name.ends_with('/') && parts.peek().is_some() && parts.all(|part| part != "..")
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

fn is_config(media_type: &str) -> bool {
    [OCI_CONFIG, DOCKER_CONFIG].contains(&media_type)
}

fn is_layer(media_type: &str) -> bool {
    LAYERS.contains(&uncompressed(media_type))
}

/// Whether others call a tar so, in an artifact.
fn is_tar(media_type: &str) -> bool {
    uncompressed(media_type).strip_suffix("tar").is_some_and(|rest| rest.ends_with(['.', '+', '/', '-']))
}

fn uncompressed(media_type: &str) -> &str {
    let plain = ["+gzip", "+zstd", ".gzip"].iter().find_map(|end| media_type.strip_suffix(end));
    plain.unwrap_or(media_type)
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
    fn a_layer_of_an_artifact_is_a_tar_or_a_file() {
        let of = |config: &str, media_type: &str, annotations: serde_json::Value| {
            let digest = Digest::new([1; 32]);
            let text = serde_json::json!({
                "config": {"mediaType": config, "digest": digest, "size": 2},
                "layers": [{"mediaType": media_type, "digest": digest, "size": 1, "annotations": annotations}],
            });
            let manifest: Manifest = serde_json::from_value(text).unwrap();
            let found = manifest.file_of(&manifest.layers.0[0], "manifest");
            found.map(|file| file.map(str::to_owned)).map_err(|error| error.to_string())
        };
        const EMPTY: &str = "application/vnd.oci.empty.v1+json";
        let titled = |title: &str| serde_json::json!({"org.opencontainers.image.title": title});
        let none = || serde_json::json!({});
        let file = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(of(EMPTY, OCI_LAYER, none()), Ok(None));
        assert_eq!(of(EMPTY, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", none()), Ok(None));
        assert_eq!(of(EMPTY, "application/x-tar", none()), Ok(None));
        assert_eq!(of(EMPTY, OCI_LAYER, titled("a.txt")), file("a.txt"), "as ORAS writes it");
        assert_eq!(of(EMPTY, "text/plain", titled("./a/b..c")), file("./a/b..c"));
        assert_eq!(of(OCI_CONFIG, OCI_LAYER, titled("a.txt")), Ok(None), "images have tars alone");
        let mut folder = titled("a");
        folder["io.deis.oras.content.unpack"] = "true".into();
        assert_eq!(of(EMPTY, OCI_LAYER, folder), Ok(None));
        for wrong in ["", ".", "..", "/etc/passwd", "a/../../b", "a/", "a/.."] {
            let error = of(EMPTY, "text/plain", titled(wrong)).unwrap_err();
            assert!(error.contains("leads out of its folder"), "{wrong}: {error}");
        }
        for (config, media_type) in
            [(EMPTY, "text/x-avatar"), (EMPTY, EMPTY), (OCI_CONFIG, "application/x-tar")]
        {
            let error = of(config, media_type, none()).unwrap_err();
            assert!(error.contains(&format!("{media_type:?}")), "{error}");
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
