//! Why kelson-apid could not start.

use std::path::PathBuf;

/// Each is a sentence an operator can act on.
#[derive(Debug, thiserror::Error)]
pub enum ApidError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("cannot read the {what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} holds no {what}: {right}", path.display())]
    Material { what: &'static str, path: PathBuf, right: &'static str },
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Usage(String),
    #[error("cannot set up the event loop or its signals: {0}")]
    Runtime(std::io::Error),
}
