//! Why something that was asked for was not done.

use kelson_spec::MissingFeature;

/// The consequence of an error for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Another try may help, once something has changed that the sentence names.
    Retryable,
    /// No other try helps.
    Permanent,
    /// The caller has no right to it.
    Denied,
}

/// Each text is a sentence that an operator can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServicesError {
    /// There is no such service, or none any more.
    #[error("{0}")]
    Unknown(String),
    /// It cannot be done as things are.
    #[error("{0}")]
    NotNow(String),
    #[error("{0}")]
    Denied(String),
    /// The state that an earlier incarnation of PID 1 has left, or a part of it.
    #[error("{0}")]
    Untrusted(String),
}

impl From<MissingFeature> for ServicesError {
    fn from(missing: MissingFeature) -> ServicesError {
        ServicesError::NotNow(missing.to_string())
    }
}

impl ServicesError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            ServicesError::NotNow(_) => ErrorKind::Retryable,
            ServicesError::Unknown(_) | ServicesError::Untrusted(_) => ErrorKind::Permanent,
            ServicesError::Denied(_) => ErrorKind::Denied,
        }
    }
}
