//! Why a source gives nothing.

use std::io;
use std::path::PathBuf;

use kelson_secrets::SecretError;
use kelson_spec::quote::error_text;

/// Why a source is skipped, as a sentence for an operator.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{place}, line {line}: {what}")]
    Bundle { place: String, line: usize, what: String },
    #[error("credential {name}: {what}")]
    Credential { name: String, what: String },
    #[error("{word}: {what}")]
    Word { word: String, what: &'static str },
    /// A name of a file, or too many of them.
    #[error("{0}")]
    Files(String),
    #[error("{0}")]
    Secret(#[from] SecretError),
    #[error("{} cannot be written: {}", .path.display(), error_text(.error))]
    Write { path: PathBuf, error: io::Error },
    #[error("{} cannot be read: {}", .path.display(), error_text(.error))]
    Read { path: PathBuf, error: io::Error },
}
