//! `time` of the machine file.

use std::net::{IpAddr, SocketAddr};

use super::mapping::{Mapping, keys};
use super::values::word;
use crate::decode::quoted;
use kelson_spec::machine::TimeSpec;

/// Where the time comes from.
pub fn time() -> Mapping<TimeSpec> {
    let pattern = r"^(\[[0-9A-Fa-f:.%]+\](:[0-9]+)?|[0-9A-Fa-f:.]+|[A-Za-z0-9._-]+(:[0-9]+)?)$";
    let server = word("server", pattern, "ntp.example.com").but(|text| {
        (!names_server(text)).then(|| {
            format!(
                "{} is not a server; write such as ntp.example.com, 192.0.2.1 or 192.0.2.1:123",
                quoted(text)
            )
        })
    });
    let empty = "this list is empty; write the name or the address of a server, or remove time";
    keys! {
        Mapping::new("time", || TimeSpec { servers: Vec::new() });
        needed "servers" servers = server.some("a list of servers", empty), "servers: [ntp.example.com]",
            "servers of NTP, as names or addresses, each with a port if that is not 123; `dhcp` stands for those that \
             [DHCP](howto/network.md#dhcp) gives. Kelson asks all of \
             them and ignores those that a majority contradicts; of two that differ, it follows the first";
    }
    .strict()
}

/// Whether the text is a name or an address, with or without a port.
fn names_server(text: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= 253
            && name.split('.').all(|label| {
                let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                (1..=63).contains(&label.len()) && label.bytes().all(sound)
            })
    };
    text.parse::<IpAddr>().is_ok()
        || text.parse::<SocketAddr>().is_ok_and(|address| address.port() > 0)
        || match text.rsplit_once(':') {
            Some((name, port)) => is_name(name) && is_port(port),
            None => is_name(text.strip_suffix('.').unwrap_or(text)),
        }
}
