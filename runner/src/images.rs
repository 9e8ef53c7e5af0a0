//! Where containers get their images from.

use serde::{Deserialize, Serialize};

use crate::runner::{BoxFuture, RunnerError};

/// Has images unpacked. Implemented above, where an unpack can be told to the operator.
pub trait Images: Send + Sync {
    /// The image, complete in containerd, and what its config says; unpacked now where that is missing. `user` is the
    /// service file's, looked up in the image's own files instead of the config's. Dropping the future ends the work.
    fn prepare<'a>(
        &'a self,
        service: &'a str,
        image: &'a str,
        user: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ImageConfig, RunnerError>>;

    /// Returns once the archives are no longer those for which this number stands, and have come to rest. Never, where
    /// there are none.
    fn changed(&self, archives: u32) -> BoxFuture<'_, ()> {
        let _ = archives;
        Box::pin(std::future::pending())
    }
}

/// An image that is ready to run.
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
    /// `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Empty: `/`.
    pub working_directory: String,
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    pub home: Option<String>,
    pub stop_signal: Option<i32>,
    /// Files of the host that a container with its network is given to read: `/etc/hosts`, `/etc/resolv.conf`.
    pub host_files: Vec<String>,
    /// Stands for the archives as they were when it was prepared.
    #[serde(skip)]
    pub archives: u32,
}
