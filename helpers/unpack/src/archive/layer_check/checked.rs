//! The result of checking a layer: its description, or the reason for its refusal.

use kelson_image::Digest;
use thiserror::Error;

use crate::archive::headers::HeaderError;

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
    #[error("the process that takes its files has ended")]
    Unwanted,
    #[error("its symbolic links take more than {0} MiB")]
    Links(usize),
}

/// The description of a whole layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// Digest of the uncompressed tar; compare it with the config's.
    pub diff_id: Digest,
    /// Bytes of the uncompressed tar.
    pub size: u64,
    pub entries: u64,
}
