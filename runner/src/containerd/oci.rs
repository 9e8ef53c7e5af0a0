//! The container's specification as runc reads it (`config.json` of the OCI runtime specification): only what Kelson
//! sets. The crate that has all of it drags in a regex engine, half as much again as the whole of PID 1.

use serde::{Deserialize, Serialize};

use crate::seccomp::Profile;

/// The version of the specification whose words these are; runc 1.0 and later take it.
pub(super) const VERSION: &str = "1.0.2";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) oci_version: &'static str,
    pub(super) process: Process,
    pub(super) root: Root,
    pub(super) hostname: String,
    pub(super) mounts: Vec<Mount>,
    pub(super) linux: Linux,
}

/// Of a [`Spec`] the part that a further process takes over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Running {
    pub(super) process: Process,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    #[serde(default)]
    pub(super) terminal: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) console_size: Option<ConsoleSize>,
    pub(super) user: User,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) cwd: String,
    pub(super) capabilities: Capabilities,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rlimits: Vec<Rlimit>,
    pub(super) no_new_privileges: bool,
    pub(super) oom_score_adj: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConsoleSize {
    pub(super) height: u16,
    pub(super) width: u16,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) additional_gids: Vec<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Capabilities {
    pub(super) bounding: Vec<String>,
    pub(super) effective: Vec<String>,
    pub(super) permitted: Vec<String>,
    pub(super) inheritable: Vec<String>,
    pub(super) ambient: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rlimit {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) hard: u64,
    pub(super) soft: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Root {
    pub(super) path: &'static str,
    pub(super) readonly: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Mount {
    pub(super) destination: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) source: String,
    pub(super) options: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Linux {
    pub(super) cgroups_path: String,
    pub(super) namespaces: Vec<Namespace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rootfs_propagation: Option<&'static str>,
    pub(super) resources: Resources,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) devices: Vec<Device>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seccomp: Option<Profile>,
    pub(super) masked_paths: &'static [&'static str],
    pub(super) readonly_paths: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Namespace {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Resources {
    pub(super) devices: Vec<DeviceRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DeviceRule {
    pub(super) allow: bool,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) major: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) minor: Option<i64>,
    pub(super) access: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Device {
    pub(super) path: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) major: i64,
    pub(super) minor: i64,
    pub(super) file_mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}
