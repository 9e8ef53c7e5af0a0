//! The layers of one image: their digests, their places, and the errors that name them.

use std::collections::HashMap;

use kelson_containerd::CallError;
use kelson_image::Digest;

use crate::archive::{Archive, Image, LayerError};
use crate::error::{LayerOf, UnpackError};

/// The label by which containerd knows what a layer unpacks to.
const UNCOMPRESSED: &str = "containerd.io/uncompressed";

/// The known facts about the image's layers.
pub struct Plan {
    pub image: String,
    pub archive: std::path::PathBuf,
    pub layers: usize,
    /// Digest, number from 1, and what the config says that it unpacks to.
    pub known: HashMap<Digest, (usize, Digest)>,
    pub space: u64,
}

impl Plan {
    pub fn new(name: &str, archive: &Archive, image: &Image, space: u64) -> Self {
        let mut known = HashMap::new();
        for (number, layer) in (1..).zip(&image.layers) {
            known.entry(layer.blob.digest).or_insert((number, layer.diff_id));
        }
        Self {
            image: name.to_owned(),
            archive: archive.path().to_owned(),
            layers: image.layers.len(),
            known,
            space,
        }
    }

    pub fn number(&self, digest: &Digest) -> usize {
        self.known.get(digest).map_or(0, |(number, _)| *number)
    }

    pub fn labels(&self, digest: &Digest) -> HashMap<String, String> {
        let known = self.known.get(digest);
        known.map(|(_, diff_id)| (UNCOMPRESSED.to_owned(), diff_id.to_string())).into_iter().collect()
    }

    pub fn at(&self, layer: usize, archive: bool) -> Box<LayerOf> {
        Box::new(LayerOf {
            image: self.image.clone(),
            layer,
            layers: self.layers,
            archive: archive.then(|| self.archive.clone()),
        })
    }

    pub fn in_layer(&self, layer: usize, error: CallError) -> UnpackError {
        UnpackError::InLayer { at: self.at(layer, false), error }
    }

    pub fn bad_layer(&self, digest: &Digest, error: LayerError) -> UnpackError {
        UnpackError::Layer { at: self.at(self.number(digest), true), error: Box::new(error) }
    }
}
