//! The files of an image as the source of a volume.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::registries::PullPolicy;

/// An image or an artifact, whose files a service reads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageSource {
    pub image: String,
    #[cfg_attr(not(feature = "pull"), serde(skip))]
    pub pull: PullPolicy,
    /// Once it is unpacked: the folders of its layers, the upper ones first.
    pub layers: Vec<PathBuf>,
}

impl ImageSource {
    /// The name of the file of a service's volumes that are images, below `containers/SERVICE` in the runtime folder. It has a
    /// line for each, and what is in it is not removed.
    pub const RECORD: &str = "volumes";
    /// No file of an image gets rights of the host.
    pub(super) const ALWAYS: [&str; 2] = ["nosuid", "nodev"];
}
