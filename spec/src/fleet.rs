//! The fleet of a host, what services register in it and wait for in it, and which of them stop without it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::service::Check;

/// The store of the fleet, and who the host is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetSpec {
    /// The members of etcd: `http://HOST:PORT` or `https://HOST:PORT`; at least one, unless the store is Consul.
    pub endpoints: Vec<String>,
    /// The store is Consul instead.
    pub consul: Option<Consul>,
    /// The certificates of authorities that sign the members' certificates, in PEM.
    pub ca: Option<PathBuf>,
    /// The certificate of the host, in PEM; with its key.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The file with a token: the host asks for its certificate with it, and has its key itself.
    pub join: Option<PathBuf>,
    /// All keys of the fleet begin with it and a `/`.
    pub prefix: String,
    /// `None`: the name of the host.
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
}

impl FleetSpec {
    pub const PREFIX: &str = "/kelson/v1";
    /// The time of the lease of a host, which renews it at a third of it.
    pub const TTL: Duration = Duration::from_secs(30);
}

impl Default for FleetSpec {
    fn default() -> Self {
        FleetSpec {
            endpoints: Vec::new(),
            consul: None,
            ca: None,
            certificate: None,
            key: None,
            join: None,
            prefix: FleetSpec::PREFIX.to_owned(),
            name: None,
            labels: BTreeMap::new(),
        }
    }
}

/// The agent of Consul on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Consul {
    /// `http://HOST:PORT`.
    pub address: String,
    /// A file with the token of its calls.
    pub token: Option<PathBuf>,
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
    /// The service is up only once the store has confirmed it.
    pub required: bool,
    /// It is registered only while each of them passes. They decide about nothing else.
    pub checks: Vec<Check>,
}

/// Instances of a name that are registered in the fleet, on whatever host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Instances {
    /// As `register.name` has it.
    pub name: String,
    /// Those with this tag alone.
    pub tag: Option<String>,
    /// At least this number is there; more than zero.
    pub min: u32,
    /// While the store does not answer, its last answer counts for so long.
    pub stale_for: Duration,
}

impl Default for Instances {
    fn default() -> Self {
        Instances { name: String::new(), tag: None, min: 1, stale_for: Duration::from_secs(600) }
    }
}

/// `registered postgres with tag primary`.
impl fmt::Display for Instances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "registered {}", self.name)?;
        self.tag.iter().try_for_each(|tag| write!(f, " with tag {tag}"))
    }
}

/// When a service stops because the store of the fleet does not answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disconnect {
    /// So long after the last answer of the store to the registration of the host; more than zero. The time of a suspend
    /// counts, a change of the clock does not.
    pub stop_after: Duration,
    /// So long after the start of PID 1, as long as the store has not answered since the boot.
    pub startup_grace: Duration,
    pub on_reconnect: OnReconnect,
}

/// What becomes of a service that was stopped for this reason, with the next answer of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnReconnect {
    /// It starts again, unless somebody else has stopped it since.
    #[default]
    Start,
    /// It stays stopped until somebody starts it.
    Leave,
}

impl OnReconnect {
    pub const ALL: [OnReconnect; 2] = [OnReconnect::Start, OnReconnect::Leave];

    /// As the service file names it.
    pub fn name(self) -> &'static str {
        match self {
            OnReconnect::Start => "start",
            OnReconnect::Leave => "leave",
        }
    }
}
