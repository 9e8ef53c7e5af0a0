//! The network of containers: `container.ports`, and `containerNetwork` of the machine file.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::network::{interface_name, network};
use super::values::{address, choice, name, number, word};
use crate::decode::quoted;
use kelson_spec::container_network::{ContainerNetworkSpec, PortSpec, Protocol};
use kelson_spec::network::Prefixed;

const PORTS: RangeInclusive<u16> = 1..=u16::MAX;

pub fn ports() -> Codec<Vec<PortSpec>> {
    Mapping::codec(port).list("a list of ports such as [{name: http, container: 80}]").but(|ports| {
        let mut all = ports.iter().enumerate();
        all.find_map(|(place, port)| {
            let before = || ports.iter().take(place);
            let published = port.published();
            let meets = |other: &PortSpec| {
                other.published().zip(published).is_some_and(|(one, other)| one.meets(&other))
            };
            if before().any(|other| other.name == port.name) {
                return Some(format!(
                    "two ports have the name {}; give each another one",
                    quoted(&port.name)
                ));
            }
            let host = port.host.filter(|_| before().any(meets))?;
            Some(format!("port {host} of the host stands here twice; keep one"))
        })
    })
}

fn port() -> Mapping<PortSpec> {
    let initial = || PortSpec {
        name: String::new(),
        container: 0,
        host: None,
        protocol: Protocol::default(),
        address: None,
    };
    keys! {
        Mapping::new("port", initial);
        needed "name" name = name(), "name: http",
            "its name, in the variable `KELSON_PORT_NAME`, where it is in capitals and has `_` for `-`";
        needed "container" container = number(PORTS), "container: 80", "the port on which the program listens";
        means "host" host = number(PORTS).optional(), "no port of the host leads to it",
            "the port of the host that leads to it. With `network: host` the program listens on this one";
        key "protocol" protocol = choice(Protocol::NAMES), "the protocol";
        means "address" address = address("; write that of the host, such as 127.0.0.1").optional(), "every address of the host",
            "the address of the host on which `host` leads there, with `network: bridge`: `127.0.0.1` for the host alone";
    }
    .check(|d, seen, port| {
        let wrong = match (port.address, port.host) {
            (Some(IpAddr::V6(Ipv6Addr::LOCALHOST)), _) => "the kernel sends nothing from ::1 to a container; write 127.0.0.1",
            (Some(address), _) if address.is_unspecified() => "without this key the port leads there from every address; remove it",
            (Some(_), None) => "no port of the host leads there; write host: PORT",
            _ => return,
        };
        d.at_key("address", |d| d.wrong(seen.position("address"), wrong));
    })
}

/// The bridge and its networks.
pub fn container_network() -> Mapping<ContainerNetworkSpec> {
    let of = |sample: &'static str, lengths: RangeInclusive<u8>, is_right: fn(IpAddr) -> bool| {
        word("network", super::network::PREFIXED, sample).parsed(
            move |text| {
                let subnet = network(text)?;
                let (least, most) = (lengths.start(), lengths.end());
                match is_right(subnet.0) && lengths.contains(&subnet.1) {
                    true => Ok(subnet),
                    false => Err(format!(
                        "{} is no network for containers; write such as {sample}, with a prefix from /{least} to /{most}",
                        quoted(text)
                    )),
                }
            },
            Prefixed::to_string,
        )
    };
    let bridge = interface_name().but(|name| {
        // It stands in the rules of nft as it is.
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        let sound = plain && !name.starts_with("kelson-");
        (!sound).then(|| {
            let name = quoted(name);
            format!("{name} is no name for the bridge; use letters, digits, ., _ and -, and do not begin with kelson-")
        })
    });
    let v4 = of("10.88.0.0/16", ContainerNetworkSpec::LENGTHS, |address| address.is_ipv4());
    let v6 = of("fd00:88::/64", ContainerNetworkSpec::LENGTHS6, |address| address.is_ipv6());
    keys! {
        Mapping::new("container-network", ContainerNetworkSpec::default);
        key "bridge" bridge = bridge, "the name of the bridge, which Kelson makes";
        key "subnet" subnet = v4, "the network of its IPv4 addresses, in which nothing else of the host has an address";
        key "subnet6" subnet6 = v6, "the network of its IPv6 addresses";
    }
    .strict()
}
