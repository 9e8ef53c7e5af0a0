//! Why an image may not run, in sentences for the operator.

use std::io;
use std::path::PathBuf;

use kelson_image::Digest;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum TrustError {
    #[error("no rule of images.verify holds for it; {{accept: true}} as the last one would let it run")]
    NoRule,
    #[error("images.verify rejects {}", .0.as_ref().map_or_else(|| "all images".to_owned(), |pattern| format!("{pattern:?}")))]
    Rejected(Option<String>),
    #[error("machine.yaml cannot be read, so nobody knows the rules of images.verify; correct it and reboot")]
    RulesUnread,
    #[error("images.verify wants it by its digest; {0}@sha256:… in the service file would be right")]
    Tag(String),
    #[error("the key {} cannot be read: {error}", path.display())]
    KeyFile { path: PathBuf, error: io::Error },
    #[error("the key {} is none of {kind}: {what}", path.display())]
    Key { path: PathBuf, kind: &'static str, what: &'static str },
    #[error("it has no signature by cosign, and {0} has to verify one")]
    Unsigned(String),
    #[error("{key} verifies none of its signatures: another key made them, or they were changed")]
    OtherKey { key: String },
    #[error("its signature by {key} is that of another image, {found}; one of {expected} would be right")]
    OtherDigest { key: String, found: Digest, expected: Digest },
    #[error(
        "its signature by {key} is for {found:?}, another repository; signedAs in its rule accepts such a one"
    )]
    OtherName { key: String, found: String },
    #[error("what {key} has signed is no statement of cosign about an image: {text}")]
    Statement { key: String, text: String },
    #[error("{file} is not the document of a signature: {text}")]
    Document { file: String, text: String },
    #[error("it is of a registry, and minisign signs archives; cosignKey in its rule would be right")]
    NoArchive,
    #[error("it is of the archive {}, and cosign signs images of registries; minisignKey in its rule would be right", .0.display())]
    NoRegistry(PathBuf),
    #[error("{} is a folder, and minisign signs files; pack it with tar", .0.display())]
    Folder(PathBuf),
    #[error("the signature {} cannot be read: {error}", path.display())]
    SignatureFile { path: PathBuf, error: io::Error },
    #[error("the signature {} is not right: {what}", path.display())]
    Minisign { path: PathBuf, what: &'static str },
    #[error("{} cannot be read: {error}", path.display())]
    Archive { path: PathBuf, error: io::Error },
}

impl TrustError {
    /// Whether another try fails as well, until a file has changed.
    pub fn lasts(&self) -> bool {
        !matches!(self, TrustError::Archive { .. })
    }

    /// How much is known, to tell the most of several: the higher, the nearer the signature was to a good one.
    pub(super) fn nearness(&self) -> u8 {
        match self {
            TrustError::OtherName { .. } => 3,
            TrustError::OtherDigest { .. } => 2,
            TrustError::Statement { .. } => 1,
            _ => 0,
        }
    }
}
