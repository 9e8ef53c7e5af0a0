//! `mounts` and `disks`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

use super::{millis, some};

/// One mount. Sizes are bytes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    pub source: String,
    pub target: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// What of the file system is mounted.
    pub root: String,
    pub options: Vec<String>,
    /// Null, as those below, where there is no such number or nobody answered.
    pub size: Option<u64>,
    pub used: Option<u64>,
    pub available: Option<u64>,
    pub inodes: Option<u64>,
    pub inodes_used: Option<u64>,
    /// Why they are not known.
    pub trouble: Option<String>,
}

impl From<&v1::Mount> for Mount {
    fn from(mount: &v1::Mount) -> Mount {
        Mount {
            source: mount.source.clone(),
            target: mount.target.clone(),
            kind: mount.r#type.clone(),
            root: mount.root.clone(),
            options: mount.options.clone(),
            size: mount.size,
            used: mount.used,
            available: mount.available,
            inodes: mount.inodes,
            inodes_used: mount.inodes_used,
            trouble: some(&mount.trouble),
        }
    }
}

/// A disk, or a partition of one. Sizes are bytes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    pub name: String,
    /// Null: a whole disk.
    pub parent: Option<String>,
    pub size: u64,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub read_only: bool,
    pub removable: bool,
    pub rotational: bool,
    pub targets: Vec<String>,
    /// Null: it is not mounted.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub busy_ms: f64,
    /// The file behind a loop device.
    pub backing: Option<String>,
}

impl From<&v1::Disk> for Disk {
    fn from(disk: &v1::Disk) -> Disk {
        Disk {
            name: disk.name.clone(),
            parent: some(&disk.parent),
            size: disk.size,
            model: some(&disk.model),
            serial: some(&disk.serial),
            read_only: disk.read_only,
            removable: disk.removable,
            rotational: disk.rotational,
            targets: disk.targets.clone(),
            kind: some(&disk.r#type),
            read_bytes: disk.read_bytes,
            written_bytes: disk.written_bytes,
            busy_ms: millis(&disk.busy).unwrap_or_default(),
            backing: some(&disk.backing),
        }
    }
}
