//! What a container is to be like: the specification that runc reads, too, of which only what Kelson writes is known here,
//! and where the files of the image are.

use serde::Deserialize;

/// The message of PID 1.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub rootfs: Rootfs,
    pub config: Config,
}

/// The message about a further process.
#[derive(Debug, Deserialize)]
pub struct Further {
    pub process: Process,
    /// It is under Kelson's default profile of seccomp, as the main process.
    pub is_filtered: bool,
}

/// Of what the root of the container is made.
#[derive(Debug, Deserialize)]
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

#[derive(Debug, Deserialize)]
pub struct Config {
    pub process: Process,
    pub root: Root,
    pub hostname: String,
    pub mounts: Vec<Mount>,
    pub linux: Linux,
}

#[derive(Debug, Deserialize)]
pub struct Root {
    pub readonly: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    pub user: User,
    pub args: Vec<String>,
    pub env: Vec<String>,
    pub cwd: String,
    pub capabilities: Capabilities,
    #[serde(default)]
    pub rlimits: Vec<Rlimit>,
    pub no_new_privileges: bool,
    pub oom_score_adj: i32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    #[serde(default)]
    pub additional_gids: Vec<u32>,
}

/// Names such as `CAP_CHOWN`.
#[derive(Debug, Deserialize)]
pub struct Capabilities {
    pub bounding: Vec<String>,
    pub effective: Vec<String>,
    pub ambient: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Rlimit {
    /// `RLIMIT_NOFILE`.
    #[serde(rename = "type")]
    pub kind: String,
    pub hard: u64,
    pub soft: u64,
}

#[derive(Debug, Deserialize)]
pub struct Mount {
    pub destination: String,
    /// `bind`, or the type of a file system.
    #[serde(rename = "type")]
    pub kind: String,
    pub source: String,
    pub options: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Linux {
    /// The folder of the service's cgroup.
    pub cgroups_path: String,
    pub namespaces: Vec<Namespace>,
    pub rootfs_propagation: Option<String>,
    pub resources: Resources,
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Its rules are those of Kelson's default profile.
    pub seccomp: Option<serde::de::IgnoredAny>,
    pub masked_paths: Vec<String>,
    pub readonly_paths: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Resources {
    pub devices: Vec<DeviceRule>,
}

#[derive(Debug, Deserialize)]
pub struct DeviceRule {
    pub allow: bool,
    /// `c` or `b`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub major: Option<i64>,
    pub minor: Option<i64>,
    /// Letters of `rwm`.
    pub access: String,
}

#[derive(Debug, Deserialize)]
pub struct Namespace {
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    pub path: String,
    /// `c` or `b`.
    #[serde(rename = "type")]
    pub kind: String,
    pub major: u64,
    pub minor: u64,
    pub file_mode: u32,
    pub uid: u32,
    pub gid: u32,
}
