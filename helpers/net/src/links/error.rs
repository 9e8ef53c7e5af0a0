//! Why a part of the static settings is not in force.

use std::io;

use kelson_spec::network::Matches;

/// Why a part of the settings is not in force.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("{0} is not there")]
    Missing(Matches),
    #[error("{0}, which it is on, is not there")]
    NoParent(String),
    #[error("its member {0} is not there")]
    NoMember(String),
    #[error("{name} is there already, and is no {kind}")]
    Taken { name: String, kind: &'static str },
    #[error("{doing}: {error}")]
    Refused { doing: String, error: io::Error },
    #[error("the module of the kernel for a {kind} was not loaded: {reason}")]
    NoModule { kind: &'static str, reason: String },
}

impl LinkError {
    /// Whether it may pass by itself, once an interface appears.
    pub fn is_absence(&self) -> bool {
        matches!(self, LinkError::Missing(_) | LinkError::NoParent(_) | LinkError::NoMember(_))
    }
}
