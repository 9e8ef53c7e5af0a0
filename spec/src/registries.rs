//! The registries that images are pulled from: `registries` of the machine file, and `container.pull`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::names::is_host_name;

/// The longest name of a host, in characters.
const LONGEST_HOST: usize = 253;

/// How a host reaches registries, and how much room their images may take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegistriesSpec {
    /// Registries, and the hosts that are asked before each of them, in this order.
    pub mirrors: Vec<(String, Vec<String>)>,
    /// The file of the CAs that their certificates must lead to; `None`: [`Self::CA`].
    pub ca: Option<PathBuf>,
    /// `HOST:PORT` of an HTTP proxy through which all of them are asked.
    pub proxy: Option<String>,
    /// Registries that are asked without TLS.
    pub insecure: Vec<String>,
    /// Bytes that the pulled images may take; `None`: as many as the disk has.
    pub max_size: Option<u64>,
    /// The file of names and passwords, in the form of `docker login`.
    pub credentials: Option<PathBuf>,
    /// The secret of such a content.
    pub secret: Option<String>,
}

impl RegistriesSpec {
    /// Where distributions keep the CAs that they trust.
    pub const CA: &'static str = "/etc/ssl/certs/ca-certificates.crt";
    /// In the state folder: a folder of images that holds the layout of those that were pulled.
    pub const FOLDER: &'static str = "registries";
}

/// When an image is pulled before a start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullPolicy {
    /// Where no archive has it and it was not unpacked before.
    #[default]
    IfMissing,
    /// Before each preparation; an image that cannot be reached is started as it was pulled last.
    Always,
    Never,
}

impl PullPolicy {
    /// Each with its word in a service file.
    pub const NAMES: [(&'static str, PullPolicy); 3] =
        [("ifMissing", PullPolicy::IfMissing), ("always", PullPolicy::Always), ("never", PullPolicy::Never)];
}

/// Whether it is `HOST` or `HOST:PORT`, with a name or an IPv4 address.
pub fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "443"));
    let number = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    number && host.len() <= LONGEST_HOST && is_host_name(host, LONGEST_HOST, b"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_a_host_with_or_without_a_port() {
        for right in ["registry.example", "localhost:5000", "10.0.0.1", "a:1", "Registry.example:65535"] {
            assert!(is_registry(right), "{right}");
        }
        for wrong in
            ["", ":1", "a:", "a:0", "a:65536", "a:+1", "a/b", "http://a", "a.", "-a", "a b", "[::1]:5000"]
        {
            assert!(!is_registry(wrong), "{wrong}");
        }
    }
}
