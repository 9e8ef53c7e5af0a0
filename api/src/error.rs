//! What can go wrong before a single call is answered.

use std::path::PathBuf;

/// Why the server or the door could not be opened. Each is a sentence an operator can act on.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("cannot make the socket {}: {source}; its directory must exist and be writable", path.display())]
    Socket { path: PathBuf, source: std::io::Error },
    #[error("cannot serve on the socket that was handed over: {0}")]
    Listener(std::io::Error),
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
