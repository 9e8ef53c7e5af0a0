//! A layer, checked while its bytes pass on their way to containerd.
//!
//! containerd unpacks the layer with root's power, and guards itself against most of what is refused here. This is the
//! second lock, and it speaks plainly: what is wrong is known before anything of the layer is unpacked.

mod entries;
mod paths;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
mod tests;
mod unpacking;

use entries::Entries;
use kelson_image::Digest;
use thiserror::Error;
use unpacking::Unpacking;

use super::headers::HeaderError;

/// Why a layer is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayerError {
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("its compression is broken: {0}")]
    Compression(String),
    #[error("it unpacks to {needed} bytes or more, the disk has {space}")]
    Space { needed: u64, space: u64 },
    #[error("its tar is cut short at byte {at}, in {inside}")]
    CutShort { at: u64, inside: String },
    #[error("the name of its entry {entry} {why}: names begin at the image's root and stay below it")]
    Name { entry: String, why: &'static str },
    #[error("its entry {0} would replace the root, which can only be a directory")]
    Root(String),
    #[error("its hard link {entry} to {target} is refused: the target {why}")]
    Target { entry: String, target: String, why: &'static str },
    #[error("its entry {entry} is refused: the symbolic link {link} to {target} on its way {why}")]
    Through { entry: String, link: String, target: String, why: &'static str },
    #[error("its entry {entry} is of the type '{kind}', which no image layer holds")]
    Kind { entry: String, kind: String },
    #[error("its symbolic links take more than {0} MiB")]
    Links(usize),
}

/// What a whole layer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// Digest of the uncompressed tar; compare it with the config's.
    pub diff_id: Digest,
    /// Bytes of the uncompressed tar.
    pub size: u64,
    pub entries: u64,
}

/// Checks a layer that is fed to it in pieces, compressed as it is in the archive. Its memory is bounded whatever the
/// layer holds. After an error every further call gives the same error.
pub struct LayerCheck(Unpacking);

impl LayerCheck {
    /// `space`: bytes that the disk has; a layer that unpacks to more is refused as soon as that is known.
    pub fn new(space: u64) -> Self {
        Self(Unpacking::new(Entries::new(space)))
    }

    /// Takes the next bytes of the layer.
    pub fn update(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        self.0.update(bytes)
    }

    /// All bytes of the layer have passed.
    pub fn finish(self) -> Result<Checked, LayerError> {
        self.0.finish()?.finish()
    }
}
