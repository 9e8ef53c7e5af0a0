//! Health checks: when they ask, and what.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How much of a volume of the service is free, where it sees it.
    #[cfg_attr(not(feature = "volumes"), serde(skip))]
    Volume(VolumeProbe),
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
            Probe::Volume(_) => "volume",
        }
    }

    /// `interval` where the file has none.
    pub fn interval(&self) -> Duration {
        match self {
            Probe::Exec { .. } | Probe::Network(_) => Duration::from_secs(5),
            Probe::Csi { .. } => Duration::from_secs(10),
            Probe::Volume(_) => Duration::from_secs(30),
        }
    }
}

/// That enough of a volume is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeProbe {
    /// By the name that the service has for it.
    pub volume: String,
    pub free_at_least: Share,
}

/// A part of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Share {
    /// Of the space that a user without privileges can use, and of the inodes.
    Percent(u8),
    Bytes(u64),
}

impl Share {
    /// Reads `5%`, or a size such as `1Gi`; neither may be zero.
    pub fn from_word(text: &str) -> Option<Share> {
        match text.strip_suffix('%') {
            Some(number) => {
                let percent = units::number(number).and_then(|percent| u8::try_from(percent).ok())?;
                (1..=100).contains(&percent).then_some(Share::Percent(percent))
            }
            None => units::size(text).filter(|bytes| *bytes > 0).map(Share::Bytes),
        }
    }

    /// As [`Share::from_word`] reads it.
    pub fn to_word(&self) -> String {
        match self {
            Share::Percent(percent) => format!("{percent}%"),
            Share::Bytes(bytes) => units::size_text(*bytes),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_a_size() {
        for (text, share) in [
            ("5%", Share::Percent(5)),
            ("100%", Share::Percent(100)),
            ("1Gi", Share::Bytes(1 << 30)),
            ("10M", Share::Bytes(10_000_000)),
        ] {
            assert_eq!(Share::from_word(text), Some(share), "{text}");
            assert_eq!(share.to_word(), text);
        }
        for text in ["0%", "101%", "5 %", "-5%", "0", "", "%", "5.5%", "1 Gi", "half"] {
            assert_eq!(Share::from_word(text), None, "{text}");
        }
    }
}
