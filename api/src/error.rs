//! The errors before a single call is answered.

use std::path::PathBuf;

/// Why the server could not be opened. Each is a sentence an operator can act on.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("cannot make the socket {}: {source}; its directory must exist and be writable", path.display())]
    Socket { path: PathBuf, source: std::io::Error },
    #[error("cannot serve on the socket that was handed over: {0}")]
    Listener(std::io::Error),
}
