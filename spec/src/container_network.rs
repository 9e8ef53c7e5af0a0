//! The network of containers with `network: bridge`: `containerNetwork` of the machine file, and the addresses in it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kelson_sys::ipv4::mask;
use serde::{Deserialize, Serialize};

use crate::network::Prefixed;
use crate::places::places;

/// The bridge that joins containers, and its networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerNetworkSpec {
    /// The name of the interface.
    pub bridge: String,
    /// The network of IPv4.
    pub subnet: Prefixed,
    /// The network of IPv6.
    pub subnet6: Prefixed,
}

impl Default for ContainerNetworkSpec {
    fn default() -> ContainerNetworkSpec {
        let unique_local = Ipv6Addr::new(0xfd6b, 0x656c, 0x736f, 0, 0, 0, 0, 0);
        ContainerNetworkSpec {
            bridge: "kelson0".to_owned(),
            subnet: Prefixed(Ipv4Addr::new(10, 88, 0, 0).into(), 16),
            subnet6: Prefixed(unique_local.into(), 64),
        }
    }
}

impl ContainerNetworkSpec {
    /// The lengths that the prefix of IPv4 may have: there is room for a few containers at least.
    pub const LENGTHS: RangeInclusive<u8> = 8..=29;
    /// Those of IPv6: there is room for as many as IPv4 can have.
    pub const LENGTHS6: RangeInclusive<u8> = 8..=104;
    /// The place of the host itself.
    const HOST: u32 = 1;
    /// The first place of a container.
    const FIRST: u32 = 2;

    /// The host's own addresses, each with the length of its prefix.
    pub fn gateways(&self) -> [Prefixed; 2] {
        self.addresses(Self::HOST)
    }

    /// The addresses of a place.
    pub fn addresses(&self, place: u32) -> [Prefixed; 2] {
        [self.subnet, self.subnet6].map(|Prefixed(first, length)| {
            let address = match first {
                IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() | place).into(),
                IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | u128::from(place)).into(),
            };
            Prefixed(address, length)
        })
    }

    /// Whether an address is of one of its networks.
    pub fn holds(&self, address: IpAddr) -> bool {
        [self.subnet, self.subnet6].iter().any(|subnet| first_of(Prefixed(address, subnet.1)) == subnet.0)
    }

    /// The places that a service of this name tries, each once and the one that suits it best first.
    pub fn places(&self, service: &str) -> impl Iterator<Item = u32> + Clone + use<> {
        // All but the network, the host and the broadcast.
        let bits = u32::from(32_u8.saturating_sub(self.subnet.1));
        let count = 1_u32.checked_shl(bits).unwrap_or(0).saturating_sub(3).max(1);
        places(service, count).map(|place| place.saturating_add(Self::FIRST))
    }

    /// The name of the host's end of the cable to the container at a place.
    pub fn cable(place: u32) -> String {
        format!("kelson-{place:x}")
    }
}

/// The first address of a network.
pub fn first_of(Prefixed(address, length): Prefixed) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & mask(length)).into(),
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u32::from(128_u8.saturating_sub(length))).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// The folder in which services claim their places.
pub fn claims(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("addresses")
}

/// The file that containers have as `/etc/hosts`.
pub fn hosts(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("hosts")
}

/// The file of a service's network namespace.
pub fn namespace(runtime_dir: &Path, service: &str) -> PathBuf {
    runtime_dir.join("netns").join(service)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
}

impl Protocol {
    pub const NAMES: [(&str, Protocol); 2] = [("tcp", Protocol::Tcp), ("udp", Protocol::Udp)];

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

/// A port of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSpec {
    pub name: String,
    /// The port on which its program listens.
    pub container: u16,
    /// The port of the host that leads there; `None`: none does.
    pub host: Option<u16>,
    pub protocol: Protocol,
    /// The address of the host on which its port leads there; `None`: on all.
    #[serde(default)]
    pub address: Option<IpAddr>,
}

impl PortSpec {
    /// What leads to it from outside.
    pub fn published(&self) -> Option<Published> {
        let PortSpec { container, protocol, address, .. } = *self;
        self.host.map(|host| Published { host, container, protocol, address })
    }

    /// As it is a part of the name of a variable.
    pub fn variable(&self) -> String {
        self.name.to_ascii_uppercase().replace('-', "_")
    }
}

/// A port of the host that leads into a container: `8080:80/tcp`, or `8080:80/tcp@127.0.0.1` on one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    pub host: u16,
    pub container: u16,
    pub protocol: Protocol,
    pub address: Option<IpAddr>,
}

impl Published {
    /// Whether a packet could be for either.
    pub fn meets(&self, other: &Published) -> bool {
        let same_address = self.address.is_none() || other.address.is_none() || self.address == other.address;
        (self.host, self.protocol) == (other.host, other.protocol) && same_address
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.host, self.container, self.protocol.name())?;
        self.address.map_or(Ok(()), |address| write!(f, "@{address}"))
    }
}

/// A text is no [`Published`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no port of the host with one of a container, such as 8080:80/tcp")]
pub struct NotPublished;

impl FromStr for Published {
    type Err = NotPublished;

    fn from_str(text: &str) -> Result<Published, NotPublished> {
        let (ports, word) = text.split_once('/').ok_or(NotPublished)?;
        let (word, address) =
            word.split_once('@').map_or((word, None), |(word, address)| (word, Some(address)));
        let address = address.map(str::parse).transpose().map_err(|_| NotPublished)?;
        let (host, container) = ports.split_once(':').ok_or(NotPublished)?;
        let port = |text: &str| text.parse().map_err(|_| NotPublished);
        let known = Protocol::NAMES.into_iter().find(|(name, _)| *name == word);
        let (_, protocol) = known.ok_or(NotPublished)?;
        Ok(Published { host: port(host)?, container: port(container)?, protocol, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_tried_once_and_a_name_has_its_own() {
        let usual = ContainerNetworkSpec::default();
        let small = ContainerNetworkSpec { subnet: "192.0.2.8/29".parse().unwrap(), ..usual.clone() };
        let mut places: Vec<u32> = small.places("web").collect();
        assert_eq!(places, small.places("web").collect::<Vec<_>>());
        places.sort_unstable();
        // Neither the network (0), nor the host (1), nor the broadcast (7).
        assert_eq!(places, [2, 3, 4, 5, 6]);
        assert_eq!(usual.places("web").count(), 65_533);
        assert_ne!(usual.places("web").next(), usual.places("db").next());
        assert!(usual.places("web").all(|place| (2..=65_534).contains(&place)));
    }

    #[test]
    fn a_place_has_an_address_of_each_network() {
        let usual = ContainerNetworkSpec::default();
        let texts = |addresses: [Prefixed; 2]| addresses.map(|address| address.to_string());
        assert_eq!(texts(usual.addresses(0x102)), ["10.88.1.2/16", "fd6b:656c:736f::102/64"]);
        assert_eq!(texts(usual.gateways()), ["10.88.0.1/16", "fd6b:656c:736f::1/64"]);
        for (address, held) in [
            ("10.88.255.255", true),
            ("10.89.0.0", false),
            ("fd6b:656c:736f::ffff:0:0:1", true),
            ("fd6b:656c:736f:1::1", false),
        ] {
            assert_eq!(usual.holds(address.parse().unwrap()), held, "{address}");
        }
        for (text, first) in [("10.88.3.4/0", "0.0.0.0"), ("10.88.3.4/32", "10.88.3.4"), ("fd00::1/0", "::")]
        {
            assert_eq!(first_of(text.parse().unwrap()).to_string(), first);
        }
        // As long as the kernel takes it.
        let longest = ContainerNetworkSpec::cable((1 << 24) - 1);
        assert!(longest.len() < libc::IFNAMSIZ, "{longest}");
    }

    #[test]
    fn published_ports_survive_their_texts() {
        let port = PortSpec {
            name: "http-alt".to_owned(),
            container: 80,
            host: Some(8080),
            protocol: Protocol::Udp,
            address: None,
        };
        let published = port.published().unwrap();
        assert_eq!((published.to_string().as_str(), port.variable().as_str()), ("8080:80/udp", "HTTP_ALT"));
        assert_eq!("8080:80/udp".parse(), Ok(published));
        let of = |address: &str| Published { address: Some(address.parse().unwrap()), ..published };
        for (one, text) in
            [(of("127.0.0.1"), "8080:80/udp@127.0.0.1"), (of("2001:db8::1"), "8080:80/udp@2001:db8::1")]
        {
            assert_eq!((one.to_string().as_str(), text.parse()), (text, Ok(one)));
            assert!(one.meets(&published) && published.meets(&one) && one.meets(&one));
        }
        assert!(!of("127.0.0.1").meets(&of("192.0.2.1")));
        for wrong in
            ["80:80/tcp@", "80:80/tcp@a", "", "80", "80:80", "80:80/sctp", "80:x/tcp", "80:65536/tcp", "/tcp"]
        {
            assert_eq!(wrong.parse::<Published>(), Err(NotPublished), "{wrong}");
        }
        assert_eq!(PortSpec { host: None, ..port }.published(), None);
    }
}
