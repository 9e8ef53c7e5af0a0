//! The errors of an archive, in sentences for the operator who has to find a better one.

use std::io;
use std::path::PathBuf;

use kelson_image::{Digest, Reference};
use thiserror::Error;

use super::headers::HeaderError;
use super::platform::Platform;

/// An error of an archive, and its path.
#[derive(Debug, Error)]
#[error("archive {}: {trouble}", archive.display())]
pub struct ArchiveError {
    pub archive: PathBuf,
    pub trouble: Box<Trouble>,
}

#[derive(Debug, Error)]
pub enum Trouble {
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
    #[error("its compression is broken: {0}")]
    Compression(String),
    #[error("is neither a file nor an OCI layout directory")]
    NotAFile,
    #[error("is no archive of images: it has neither index.json and oci-layout, nor manifest.json{0}")]
    Foreign(&'static str),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("is cut short: {entry} needs bytes up to {needed}, it ends at {found}")]
    CutShort { entry: String, needed: u64, found: u64 },
    #[error(
        "the name of its entry {0} is absolute, no text or holds a .. part: names begin at the archive's top"
    )]
    Outside(String),
    #[error("holds more than {most} {what}")]
    TooMany { what: &'static str, most: u64 },
    #[error("{file} has {size} bytes, at most {most} are read of a file of JSON")]
    LargeJson { file: String, size: u64, most: u64 },
    #[error("{file} is not what it should be: {text}")]
    Json { file: String, text: String },
    #[error("{file} asks for {text}, which is not supported")]
    Unsupported { file: String, text: String },
    #[error("{file} is missing{hint}")]
    Missing { file: String, hint: &'static str },
    #[error("{blob} has {found} bytes, {expected} would be right")]
    Size { blob: String, expected: u64, found: u64 },
    #[error("{blob} is damaged: its digest is {found}, {expected} would be right")]
    Digest { blob: String, expected: Digest, found: Digest },
    #[error("image {manifest} has {layers} layers, but its config has {diff_ids} diff_ids")]
    Layers { manifest: Digest, layers: usize, diff_ids: usize },
    #[error("image {image} cannot be used: {why}")]
    Unusable { image: String, why: String },
    #[error("holds no image {wanted}; it holds {held}")]
    NoImage { wanted: Reference, held: String },
    #[error("image {0} is an artifact, which has no program; use it as a volume")]
    Artifact(Reference),
    #[error("image {image} is for {held} only, this host is {host}")]
    NoPlatform { image: String, held: String, host: Platform },
}

impl Trouble {
    /// Whether the same bytes will have the same trouble tomorrow: a failing disk may recover.
    pub fn lasts(&self) -> bool {
        !matches!(self, Self::Io(_))
    }

    /// The trouble with a blob that has another digest than it is called by.
    pub(super) fn unless_same(expected: Digest, found: Digest) -> Result<(), Self> {
        match expected == found {
            true => Ok(()),
            false => Err(Self::Digest { blob: format!("blob {expected}"), expected, found }),
        }
    }

    /// Whether the archive's other images may be sound.
    pub(super) fn is_of_one_image(&self) -> bool {
        !matches!(self, Self::Io(_) | Self::Compression(_) | Self::CutShort { .. } | Self::TooMany { .. })
    }
}

/// Why blobs could not be read to their end: the archive, or the consumer of the bytes.
#[derive(Debug)]
pub enum ReadError<E> {
    Archive(ArchiveError),
    Sink(E),
}
