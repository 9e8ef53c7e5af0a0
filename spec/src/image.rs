//! The known facts about an image that is ready to run.

use serde::{Deserialize, Serialize};

/// An image that is ready to run, and what its config says, with users looked up in its own files.
///
/// The record of a container in containerd holds it as JSON, also for other releases: a name stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageConfig {
    /// The reference under which containerd knows it.
    pub image: String,
    /// The snapshot that a container's own is prepared from; empty for an image without layers.
    pub chain_id: String,
    pub snapshotter: String,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    /// `NAME=VALUE`, as the config has them.
    pub environment: Vec<String>,
    /// Empty: `/`.
    pub working_directory: String,
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// `HOME` of that user, where the image's passwd knows it.
    pub home: Option<String>,
    /// Number of the signal that asks it to stop, where the config names one.
    pub stop_signal: Option<i32>,
    /// Files of the host that a container with a network is given to read: `/etc/hosts`, `/etc/resolv.conf`.
    pub host_files: Vec<String>,
    /// Where PID 1 runs the container itself: the folder of layers, those of the image in it, the highest first, and the
    /// folder for what the container writes.
    pub store: String,
    pub layers: Vec<String>,
    pub writable: String,
    /// Stands for the archives as they were when it was prepared.
    #[serde(skip)]
    pub archives: u32,
}
