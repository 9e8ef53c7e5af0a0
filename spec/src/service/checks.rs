//! Health checks: when they ask, and what.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub probe: Probe,
    pub initial_delay: Duration,
    pub interval: Duration,
    pub timeout: Duration,
    pub success_threshold: u32,
    pub failure_threshold: u32,
    /// Failures in a row that restart the service; 0: never.
    pub restart_after: u32,
    /// After a start, failures do not count for `restart_after`.
    pub grace: Duration,
    /// It only gates the start: the others begin once it has passed, and it is not asked again in that run.
    pub startup: bool,
}

impl Check {
    /// A check with the default of every key but its name and probe.
    pub fn new(name: &str, probe: Probe) -> Self {
        Check {
            name: name.to_owned(),
            initial_delay: Duration::from_secs(1),
            interval: probe.interval(),
            probe,
            timeout: Duration::from_secs(1),
            success_threshold: 1,
            failure_threshold: 3,
            restart_after: 0,
            grace: Duration::from_secs(10),
            startup: false,
        }
    }
}

/// The question of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Probe {
    Exec {
        command: Vec<String>,
    },
    #[cfg_attr(not(feature = "probes"), serde(skip))]
    Network(NetworkProbe),
    /// `csi.v1.Identity/Probe` of the storage plugin behind this Unix socket of the host.
    #[cfg_attr(not(feature = "probes"), serde(skip))]
    Csi {
        socket: PathBuf,
    },
}

impl Probe {
    /// That something takes connections on this port of the service's own loopback.
    pub fn tcp(port: u16) -> Self {
        Probe::Network(NetworkProbe { address: NetworkProbe::ADDRESS, port, asks: Asks::Tcp })
    }

    /// The word of the service file.
    pub fn kind(&self) -> &'static str {
        match self {
            Probe::Exec { .. } => "exec",
            Probe::Network(probe) => probe.kind(),
            Probe::Csi { .. } => "csi",
        }
    }

    /// `interval` where the file has none.
    pub fn interval(&self) -> Duration {
        match self {
            Probe::Exec { .. } | Probe::Network(_) => Duration::from_secs(5),
            Probe::Csi { .. } => Duration::from_secs(10),
        }
    }
}

/// The question that `kelson-probe` asks over the network, as its own user and in the network of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkProbe {
    pub address: IpAddr,
    pub port: u16,
    pub asks: Asks,
}

impl NetworkProbe {
    /// `address` where the file has none.
    pub const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// The word of the service file.
    pub fn kind(&self) -> &'static str {
        match self.asks {
            Asks::Tcp => "tcp",
            Asks::Http(_) => "http",
            Asks::Grpc(_) => "grpc",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asks {
    /// A connection, nothing more.
    Tcp,
    Http(HttpProbe),
    /// `grpc.health.v1.Health/Check`.
    Grpc(GrpcProbe),
}

/// One GET.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpProbe {
    /// With its query; begins with `/`.
    pub path: String,
    /// In the `Host` header and, with TLS, the name that is asked for. `None`: the address.
    pub host: Option<String>,
    pub headers: Vec<(String, String)>,
    /// Status codes that pass, each from the first to the last. Empty: 200 to 399.
    pub status: Vec<(u16, u16)>,
    /// A regular expression that must match somewhere in the first 64 KiB of the body.
    pub body: Option<String>,
    pub tls: Option<ProbeTls>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrpcProbe {
    /// Empty: the server as a whole.
    pub service: String,
    /// In `:authority` and, with TLS, the name that is asked for. `None`: the address.
    pub host: Option<String>,
    pub tls: Option<ProbeTls>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeTls {
    /// Certificates in PEM that may have signed the server's. `None`: its certificate is not looked at.
    pub ca: Option<String>,
}
