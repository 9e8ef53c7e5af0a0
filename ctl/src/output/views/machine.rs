//! What concerns the machine as a whole, as programs read it.

use std::collections::BTreeMap;

use kelson_proto::v1;
use serde::Serialize;

use super::super::time;
use super::Service;
use super::health::Health;

/// The result of `version`.
#[derive(Debug, Clone, Serialize)]
pub struct Version {
    pub client: &'static str,
    /// Null where it was not asked or did not answer.
    pub server: Option<ServerVersion>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ServerVersion {
    pub version: String,
    pub mode: String,
    pub hostname: String,
    pub kernel: String,
    pub started: Option<String>,
    /// How often PID 1 has executed itself anew since, as it was asked to.
    pub reexecs: u32,
    /// How often it has crashed since, and gone on.
    pub crashes: u32,
}

impl From<&v1::VersionResponse> for ServerVersion {
    fn from(version: &v1::VersionResponse) -> ServerVersion {
        ServerVersion {
            version: version.version.clone(),
            mode: version.mode.clone(),
            hostname: version.hostname.clone(),
            kernel: version.kernel.clone(),
            started: version.started.as_ref().map(time::rfc3339),
            reexecs: version.reexecs,
            crashes: version.crashes,
        }
    }
}

/// The host at a glance: `status` without a name.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    #[serde(flatten)]
    pub version: ServerVersion,
    pub uptime_ms: Option<f64>,
    pub health: Health,
    /// How many services are up.
    pub up: usize,
    /// How many services are in each state; only states that occur.
    pub states: BTreeMap<&'static str, u32>,
    /// Services that failed, are restarted after a failure, or are unhealthy.
    pub failed: Vec<Service>,
    /// Services that wait for a condition.
    pub waiting: Vec<Service>,
}

/// What `reboot`, `poweroff` and `halt` say first.
#[derive(Debug, Clone, Serialize)]
pub struct Shutdown {
    pub message: String,
}

/// What `reexec` says.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reexec {
    pub program: String,
    /// The one that ran before.
    pub old_version: String,
    pub version: String,
    pub reexecs: u32,
}
