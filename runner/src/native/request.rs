//! The requests to `kelson-container`, written by PID 1 and read by the helper.

use kelson_spec::id_range::IdRange;
use serde::{Deserialize, Serialize};

use crate::container::oci::{Process, Spec};

/// To become the main process of a container.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    pub rootfs: Rootfs,
    pub config: Spec,
    /// It has a user namespace with these ids of the host.
    pub ids: Option<IdRange>,
    /// It is under Kelson's default profile of seccomp.
    pub is_filtered: bool,
}

/// Of what the root of the container is made.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rootfs {
    /// The folder of the layers.
    pub store: String,
    /// Folders in it, the highest layer first.
    pub layers: Vec<String>,
    /// The folder for what the container writes: `upper` and `work` are made in it.
    pub writable: String,
    /// Where the root is put together; made if it is missing.
    pub point: String,
}

/// To become one more process of a container.
#[derive(Debug, Serialize, Deserialize)]
pub struct Further {
    pub process: Process,
    /// As for the main process. An earlier release has written none.
    #[serde(default)]
    pub ids: Option<IdRange>,
    /// As for the main process.
    pub is_filtered: bool,
}

impl Further {
    /// The user and the group of the host that its pipes are to belong to, so that it can open `/dev/stdout`. `None`: root's.
    pub(super) fn pipe_owner(&self) -> Option<(u32, u32)> {
        let on_host = |id| IdRange::of_host(self.ids, id);
        let owner = on_host(self.process.user.uid).zip(on_host(self.process.user.gid));
        owner.filter(|owner| *owner != (0, 0))
    }
}
