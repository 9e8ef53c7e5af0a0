//! What can be wrong with an archive, in sentences for the operator who has to find a better one.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::headers::HeaderError;
use super::{Digest, Platform, Reference};

/// What is wrong with an archive, and with which.
#[derive(Debug, Error)]
#[error("archive {}: {trouble}", archive.display())]
pub struct ArchiveError {
    pub archive: PathBuf,
    #[source]
    pub trouble: Trouble,
}

#[derive(Debug, Error)]
pub enum Trouble {
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
    #[error("its compression is broken: {0}")]
    Compression(String),
    #[error("is neither a file nor an OCI layout directory")]
    NotAFile,
    #[error("holds no images: index.json with oci-layout, or manifest.json, would be right ({0})")]
    Foreign(&'static str),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("is cut short: {entry} needs bytes up to {needed}, it ends at {found}")]
    CutShort { entry: String, needed: u64, found: u64 },
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
    #[error("image {image} has {layers} layers, but its config has {diff_ids} diff_ids")]
    Layers { image: String, layers: usize, diff_ids: usize },
    #[error("holds no image {wanted}; it holds {held}")]
    NoImage { wanted: Reference, held: String },
    #[error("image {image} is for {held} only, this host is {host}")]
    NoPlatform { image: String, held: String, host: Platform },
    #[error("was replaced while it was read")]
    Replaced,
}

impl Trouble {
    /// Whether the same bytes will have the same trouble tomorrow: a failing disk may recover.
    pub fn lasts(&self) -> bool {
        !matches!(self, Self::Io(_) | Self::Replaced)
    }
}

/// Why blobs could not be read to their end: the archive, or whoever took the bytes.
#[derive(Debug)]
pub enum ReadError<E> {
    Archive(ArchiveError),
    Sink(E),
}
