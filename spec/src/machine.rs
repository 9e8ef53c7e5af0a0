//! The machine file: what `/etc/kelson/machine.yaml` says; every key of it is optional.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::service::{Resources, RestartSpec};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineSpec {
    pub hostname: Option<String>,
    pub modules: Vec<String>,
    /// Key in dotted form and value, in the file's order.
    pub sysctl: Vec<(String, String)>,
    pub network: Vec<InterfaceSpec>,
    pub mounts: Vec<MountSpec>,
    /// `None`: no apid.
    pub api: Option<ApiSpec>,
    pub builtins: Vec<BuiltinSpec>,
    /// The total deadline of a shutdown.
    pub shutdown_timeout: Duration,
    pub images: Vec<PathBuf>,
}

impl Default for MachineSpec {
    fn default() -> Self {
        MachineSpec {
            hostname: None,
            modules: Vec::new(),
            sysctl: Vec::new(),
            network: Vec::new(),
            mounts: Vec::new(),
            api: None,
            builtins: Vec::new(),
            shutdown_timeout: Duration::from_secs(60),
            images: vec![PathBuf::from("/usr/share/kelson/images")],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceSpec {
    pub interface: String,
    pub address: IpAddr,
    pub prefix: u8,
    pub gateway: Option<IpAddr>,
    pub dns: Vec<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSpec {
    /// A device path, `LABEL=…`, `UUID=…`, or what the file system takes (`tmpfs`).
    pub source: String,
    pub target: PathBuf,
    pub fs_type: String,
    pub options: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiSpec {
    /// `address:port`, never empty.
    pub listen: Vec<String>,
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a machine file changes of a built-in service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuiltinSpec {
    pub name: String,
    pub enabled: Option<bool>,
    pub environment: Vec<(String, String)>,
    pub restart: Option<RestartSpec>,
    pub resources: Option<Resources>,
}
