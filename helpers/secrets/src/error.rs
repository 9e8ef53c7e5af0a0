//! Why a secret cannot be kept or given.

use std::io;
use std::path::{Path, PathBuf};

use kelson_spec::quote::error_text;
use kelson_spec::secrets::{LONGEST_VALUE, MOST_BYTES_OF_SOURCE, MOST_OF_SOURCE, wrong_name};

/// A sentence for an operator.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("{}: {}", .path.display(), error_text(.error))]
    File { path: PathBuf, error: io::Error },
    #[error("{}", wrong_name(.0))]
    Name(String),
    #[error("secret {0}: it has more than {LONGEST_VALUE} bytes")]
    TooLong(String),
    #[error("there is no secret {0}; kelsonctl secret list shows those of this host")]
    Unknown(String),
    #[error("secret {0}: it is damaged, or sealed with the key of another host; set it again")]
    Unopened(String),
    #[error("secret {0} is there twice")]
    Twice(String),
    #[error("a source has at most {MOST_OF_SOURCE} secrets, with {MOST_BYTES_OF_SOURCE} bytes together")]
    TooMuch,
    #[error(
        "secret {name} comes from the source {source_name}, which counts more than a value that is set here; change it there"
    )]
    OfSource { name: String, source_name: &'static str },
    #[error("secret {0}: it is sealed by a later version of Kelson")]
    Version(String),
    #[error(
        "{}: the key of the secrets is missing, and {sealed} is sealed with it; restore the key, or remove the secrets", .key.display()
    )]
    NoKey { key: PathBuf, sealed: String },
    #[error("{}: this is no key of secrets: it has 32 bytes, and only its owner can read it", .0.display())]
    WrongKey(PathBuf),
    #[error("the kernel gives no random numbers")]
    NoRandomness,
    #[error("{}: memory for the secrets cannot be mounted: {}", .path.display(), error_text(.error))]
    NoMemory { path: PathBuf, error: io::Error },
}

impl SecretError {
    /// For `map_err`: a call on this path has failed.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> SecretError + use<> {
        let path = path.to_owned();
        move |error| SecretError::File { path: path.clone(), error }
    }
}
