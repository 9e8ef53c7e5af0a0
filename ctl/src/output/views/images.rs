//! `images`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

/// One line of `images`.
#[derive(Debug, Clone, Serialize)]
pub struct Image {
    pub reference: String,
    pub digest: String,
    /// Null: no archive holds it, only containerd.
    pub archive: Option<String>,
    pub platform: String,
    /// Bytes.
    pub size: u64,
    pub unpacked: bool,
    /// Null: it can be used.
    pub trouble: Option<String>,
    /// The services whose files name it.
    pub services: Vec<String>,
}

impl From<&v1::Image> for Image {
    fn from(image: &v1::Image) -> Image {
        let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Image {
            reference: image.reference.clone(),
            digest: image.digest.clone(),
            archive: known(&image.archive),
            platform: image.platform.clone(),
            size: image.size,
            unpacked: image.unpacked,
            trouble: known(&image.trouble),
            services: image.services.clone(),
        }
    }
}

/// The result of `images prune`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prune {
    /// True: nothing was removed, these would be.
    pub dry_run: bool,
    pub images: Vec<PrunedImage>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PrunedImage {
    pub reference: String,
    /// Bytes of its blobs; other images may still need some of them.
    pub size: u64,
}

impl From<&v1::PrunedImage> for PrunedImage {
    fn from(image: &v1::PrunedImage) -> PrunedImage {
        PrunedImage { reference: image.reference.clone(), size: image.size }
    }
}
