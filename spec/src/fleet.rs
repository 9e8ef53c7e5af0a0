//! The fleet of a host, and what services register in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The store of the fleet, and who the host is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetSpec {
    /// The members of etcd: `http://HOST:PORT` or `https://HOST:PORT`; at least one.
    pub endpoints: Vec<String>,
    /// The certificates of authorities that sign the members' certificates, in PEM.
    pub ca: Option<PathBuf>,
    /// The certificate of the host, in PEM; with its key.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// All keys of the fleet begin with it and a `/`.
    pub prefix: String,
    /// `None`: the name of the host.
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
}

impl FleetSpec {
    pub const PREFIX: &str = "/kelson/v1";
}

impl Default for FleetSpec {
    fn default() -> Self {
        FleetSpec {
            endpoints: Vec::new(),
            ca: None,
            certificate: None,
            key: None,
            prefix: FleetSpec::PREFIX.to_owned(),
            name: None,
            labels: BTreeMap::new(),
        }
    }
}

/// What a service registers while it is up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Registration {
    /// The name under which others find it.
    pub name: String,
    pub port: Option<u16>,
    pub tags: Vec<String>,
    /// `None`: the address of the host through which it reaches the store.
    pub address: Option<String>,
    pub meta: BTreeMap<String, String>,
}
