//! The container's specification as runc reads it (`config.json` of the OCI runtime specification): only what Kelson
//! sets. The crate that has all of it drags in a regex engine, half as much again as the whole of PID 1.

use serde::{Deserialize, Serialize};

use crate::seccomp::Profile;

/// The version of the specification whose words these are; runc 1.0 and later take it.
pub(crate) const VERSION: &str = "1.0.2";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) oci_version: &'static str,
    pub(crate) process: Process,
    pub(crate) root: Root,
    pub(crate) hostname: String,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) linux: Linux,
}

/// Of a [`Spec`] the part that a further process takes over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Running {
    pub(crate) process: Process,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    #[serde(default)]
    pub(crate) terminal: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) console_size: Option<ConsoleSize>,
    pub(crate) user: User,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) cwd: String,
    pub(crate) capabilities: Capabilities,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rlimits: Vec<Rlimit>,
    pub(crate) no_new_privileges: bool,
    pub(crate) oom_score_adj: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConsoleSize {
    pub(crate) height: u16,
    pub(crate) width: u16,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) additional_gids: Vec<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Capabilities {
    pub(crate) bounding: Vec<String>,
    pub(crate) effective: Vec<String>,
    pub(crate) permitted: Vec<String>,
    pub(crate) inheritable: Vec<String>,
    pub(crate) ambient: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rlimit {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) hard: u64,
    pub(crate) soft: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Root {
    pub(crate) path: &'static str,
    pub(crate) readonly: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Mount {
    pub(crate) destination: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) source: String,
    pub(crate) options: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Linux {
    pub(crate) cgroups_path: String,
    pub(crate) namespaces: Vec<Namespace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rootfs_propagation: Option<&'static str>,
    pub(crate) resources: Resources,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) devices: Vec<Device>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seccomp: Option<Profile>,
    pub(crate) masked_paths: &'static [&'static str],
    pub(crate) readonly_paths: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Namespace {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Resources {
    pub(crate) devices: Vec<DeviceRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DeviceRule {
    pub(crate) allow: bool,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) major: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) minor: Option<i64>,
    pub(crate) access: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Device {
    pub(crate) path: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) major: i64,
    pub(crate) minor: i64,
    pub(crate) file_mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}
