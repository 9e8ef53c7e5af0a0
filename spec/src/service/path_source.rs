//! A path of the host as the source of a volume, and the folder that is made where nothing is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A folder or a file of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PathSource {
    pub path: PathBuf,
    /// `None`: it has to be there.
    pub create: Option<NewFolder>,
}

/// The folder that is made where a source is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewFolder {
    /// User and group. `None`: those of the service.
    pub owner: Option<(u32, u32)>,
    pub mode: u32,
}

impl Default for NewFolder {
    fn default() -> Self {
        NewFolder { owner: None, mode: 0o755 }
    }
}
