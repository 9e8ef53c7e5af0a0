//! Why kelson-apid could not start, or turned a client away.

use std::path::PathBuf;

use tonic::codegen::http::header::InvalidHeaderValue;

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

/// Why a client is turned away.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("refused: {0}")]
    Handshake(std::io::Error),
    #[error("refused: no handshake within {0} s")]
    Late(u64),
    #[error("refused: it sent no certificate")]
    NoCertificate,
    #[error("refused: its certificate is no longer trusted")]
    NotTrusted,
    #[error("refused: {0} clients are connected, which is all that are served at the same time")]
    Full(usize),
    #[error("refused: {0}")]
    Identity(#[from] InvalidHeaderValue),
}
