//! Why a pull failed, in sentences for the operator.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kelson_image::{Digest, ReferenceError};
use kelson_secrets::SecretError;
use kelson_sys::units;
use kelson_unpack::archive::{Platform, Trouble};
use kelson_unpack::trust::TrustError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum PullError {
    #[error("the question of PID 1 cannot be read: {0}")]
    Question(String),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error("{0:?} names no registry; a name such as registry.example/{0} would be right")]
    NoRegistry(String),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{place}: {text}")]
    Content { place: String, text: String },
    #[error("registries.secret of the machine file: {0}")]
    Secret(#[from] SecretError),
    #[error("TLS cannot be used: {0}")]
    Tls(String),
    #[error("{host} cannot be reached: {text}")]
    Unreachable { host: String, text: String },
    #[error("{host} cannot be trusted: {text}")]
    Untrusted { host: String, text: String },
    #[error("{host} answers with status {status} to {what}; try again later")]
    Busy { host: String, status: u16, what: String, after: Option<Duration> },
    #[error("{host} answers with status {status} to {what}")]
    Status { host: String, status: u16, what: String },
    #[error("{host} does not give {what}: {why}")]
    Denied { host: String, what: String, why: &'static str },
    #[error("{host} does not have {what}")]
    Missing { host: String, what: String },
    #[error("{0}")]
    Trust(TrustError),
    #[error("{host}: {error}")]
    Signature { host: String, error: TrustError },
    #[error("{host} redirects {what} to {to}, which is not followed: {why}")]
    Redirect { host: String, what: String, to: String, why: &'static str },
    #[error("{host} cut {what} off: {text}")]
    Cut { host: String, what: String, text: String },
    #[error("{host}: {what} has more than {most} bytes, at most that would be right")]
    Long { host: String, what: String, most: u64 },
    #[error("{host}: {what} has {found} bytes, {expected} would be right")]
    Length { host: String, what: String, expected: u64, found: u64 },
    #[error("{host}: {what} is damaged: its digest is {found}, {expected} would be right")]
    Digest { host: String, what: String, expected: Digest, found: Digest },
    #[error("{1}: {0}")]
    Document(Box<Trouble>, String),
    #[error("{host}: the image is for {held} only, this host is {wanted}")]
    Platform { host: String, held: String, wanted: Platform },
    #[error(
        "the image needs {}, and there is room for {}: {}",
        units::size(*.needed), units::size(*.room),
        if *.disk { "`kelsonctl images prune` makes room, or a larger disk" } else { "`kelsonctl images prune` makes room, or a larger registries.maxSize" }
    )]
    Room { needed: u64, room: u64, disk: bool },
    #[error("the folder of pulled images: {0}")]
    Store(#[from] io::Error),
    #[error("{0}")]
    Sources(String, bool),
    #[error("a thread ended before its work was done")]
    Thread,
}

impl PullError {
    /// Whether the same may succeed in a moment; after which time, where the registry says so.
    pub fn passes(&self) -> Option<Option<Duration>> {
        match self {
            PullError::Busy { after, .. } => Some(*after),
            PullError::Unreachable { .. } | PullError::Cut { .. } => Some(None),
            _ => None,
        }
    }

    /// Whether it is a matter of this host, and no other registry would help.
    pub fn is_own(&self) -> bool {
        matches!(self, PullError::Room { .. } | PullError::Store(_) | PullError::Thread | PullError::Tls(_))
    }

    /// Whether a part that has arrived may still serve another try.
    pub fn keeps_parts(&self) -> bool {
        match self {
            PullError::Sources(_, keeps) => *keeps,
            other => other.passes().is_some() || other.is_own(),
        }
    }
}
