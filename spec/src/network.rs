//! `network` of the machine file: interfaces, and what each has.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::wire;

/// The pattern of every interface of Ethernet that is a device.
pub const ANY: &str = "*";

/// What an interface has. In hexadecimal digits where it is a word of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceSpec {
    pub matches: Matches,
    /// `None`: the kernel finds it.
    #[cfg_attr(not(feature = "net"), serde(skip))]
    pub kind: Option<LinkKind>,
    /// The longest packet, in bytes.
    pub mtu: Option<u32>,
    /// Static ones.
    pub addresses: Vec<Prefixed>,
    /// Of the default route.
    pub gateway: Option<IpAddr>,
    #[cfg_attr(not(feature = "net"), serde(skip))]
    pub routes: Vec<RouteSpec>,
    #[cfg_attr(not(feature = "net"), serde(skip))]
    pub rules: Vec<RuleSpec>,
    pub dns: Vec<IpAddr>,
    /// `None`: it gets no address by DHCP.
    #[cfg_attr(not(feature = "net"), serde(skip))]
    pub dhcp: Option<DhcpSpec>,
    /// `None`: it asks no server of DHCPv6.
    #[cfg_attr(not(feature = "net"), serde(skip))]
    pub dhcp6: Option<Dhcp6Spec>,
    /// Whether the kernel takes in router advertisements; `None`: as the kernel does by itself.
    pub router_advertisements: Option<bool>,
}

impl InterfaceSpec {
    /// An interface that has nothing.
    pub fn new(matches: Matches) -> InterfaceSpec {
        InterfaceSpec {
            matches,
            kind: None,
            mtu: None,
            addresses: Vec::new(),
            gateway: None,
            routes: Vec::new(),
            rules: Vec::new(),
            dns: Vec::new(),
            dhcp: None,
            dhcp6: None,
            router_advertisements: None,
        }
    }

    /// Whether something of it is followed while the host runs.
    pub fn is_dynamic(&self) -> bool {
        self.dhcp.is_some() || self.dhcp6.is_some() || self.router_advertisements == Some(true)
    }

    /// One word of a command line.
    pub fn to_word(&self) -> String {
        // Nothing in it can fail to be written.
        let bytes = wire::encode(self).unwrap_or_default();
        bytes.iter().fold(String::new(), |mut word, byte| {
            let _ = write!(word, "{byte:02x}");
            word
        })
    }

    /// Reads what [`InterfaceSpec::to_word`] wrote; `None`: it is something else.
    pub fn from_word(word: &str) -> Option<InterfaceSpec> {
        let pairs = word.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).ok());
        let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
        wire::decode(&bytes?).ok()
    }

    /// Whether there is something to do for it at boot.
    pub fn is_static(&self) -> bool {
        self.kind.is_some()
            || self.mtu.is_some()
            || self.router_advertisements.is_some()
            || !(self.addresses.is_empty() && self.routes.is_empty() && self.rules.is_empty())
    }

    /// Whether it is for one interface only: an address cannot be on two.
    pub fn is_for_one(&self) -> bool {
        !(self.addresses.is_empty() && self.routes.is_empty())
    }

    /// The interfaces that are members of it.
    pub fn members(&self) -> &[String] {
        match &self.kind {
            Some(LinkKind::Bond(BondSpec { members, .. }) | LinkKind::Bridge(BridgeSpec { members, .. })) => {
                members
            }
            _ => &[],
        }
    }
}

impl Default for InterfaceSpec {
    fn default() -> InterfaceSpec {
        InterfaceSpec::new(Matches::Name(ANY.to_owned()))
    }
}

/// Which interfaces a mapping is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Matches {
    /// The one of this name, or each interface of Ethernet that is a device and whose name is of this pattern.
    Name(String),
    /// The hardware with this address.
    #[cfg_attr(not(feature = "net"), serde(skip))]
    Mac([u8; 6]),
    /// What this driver of the kernel drives.
    #[cfg_attr(not(feature = "net"), serde(skip))]
    Driver(String),
}

impl Matches {
    /// The name, where it is no pattern.
    pub fn name(&self) -> Option<&str> {
        match self {
            Matches::Name(name) if !is_pattern(name) => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for Matches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Matches::Name(name) => f.write_str(name),
            Matches::Mac(mac) => f.write_str(&mac_text(*mac)),
            Matches::Driver(driver) => write!(f, "driver {driver}"),
        }
    }
}

/// Whether a text stands for several names.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// An address of Ethernet as people read it.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Reads what [`mac_text`] writes, also in capital letters.
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes = text.split(':').map(|part| {
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
    });
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// A link that exists in software alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkKind {
    Vlan(VlanSpec),
    Bond(BondSpec),
    Bridge(BridgeSpec),
    Dummy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanSpec {
    pub id: u16,
    /// The name of the interface below it.
    pub on: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BondSpec {
    pub mode: BondMode,
    pub members: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeSpec {
    pub members: Vec<String>,
    /// Whether it speaks the spanning tree protocol.
    pub stp: bool,
}

/// How a bond uses its members, as the kernel numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BondMode {
    RoundRobin = 0,
    ActiveBackup = 1,
    BalanceXor = 2,
    Broadcast = 3,
    Lacp = 4,
    BalanceTlb = 5,
    BalanceAlb = 6,
}

impl BondMode {
    /// With the names that the kernel and other programs have for them.
    pub const ALL: [(&str, BondMode); 7] = [
        ("balance-rr", BondMode::RoundRobin),
        ("active-backup", BondMode::ActiveBackup),
        ("balance-xor", BondMode::BalanceXor),
        ("broadcast", BondMode::Broadcast),
        ("802.3ad", BondMode::Lacp),
        ("balance-tlb", BondMode::BalanceTlb),
        ("balance-alb", BondMode::BalanceAlb),
    ];
}

/// An address and the length of its prefix: `10.0.2.15/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefixed(pub IpAddr, pub u8);

impl fmt::Display for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

/// A text is no address with its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not an address with its prefix, such as 10.0.2.15/24")]
pub struct NotPrefixed;

impl FromStr for Prefixed {
    type Err = NotPrefixed;

    fn from_str(text: &str) -> Result<Prefixed, NotPrefixed> {
        let (address, prefix) = text.split_once('/').ok_or(NotPrefixed)?;
        let address: IpAddr = address.parse().map_err(|_| NotPrefixed)?;
        let prefix = crate::units::number(prefix).and_then(|prefix| u8::try_from(prefix).ok());
        let longest = if address.is_ipv4() { 32 } else { 128 };
        prefix.filter(|prefix| *prefix <= longest).map(|prefix| Prefixed(address, prefix)).ok_or(NotPrefixed)
    }
}

/// A static route of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSpec {
    /// A prefix of 0 is the default route.
    pub to: Prefixed,
    /// `None`: the destination is on the link itself.
    pub via: Option<IpAddr>,
    pub metric: u32,
    pub table: u32,
}

/// Packets from or to a network look into a table of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSpec {
    pub from: Option<Prefixed>,
    pub to: Option<Prefixed>,
    pub table: u32,
    /// The lowest is looked at first.
    pub priority: u32,
}

/// How an interface gets its address by DHCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DhcpSpec {
    /// Whether the link is asked for other hosts with the address before it is taken.
    pub probe: bool,
    /// Whether the host takes the name that the server gives.
    pub host_name: bool,
}

impl Default for DhcpSpec {
    fn default() -> DhcpSpec {
        DhcpSpec { probe: true, host_name: false }
    }
}

/// How an interface gets addresses, prefixes and names by DHCPv6.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dhcp6Spec {
    /// Servers are asked for an address also if no router tells of them.
    pub always: bool,
    /// The interfaces that each get a network of a delegated prefix.
    pub delegate: Vec<String>,
    /// The length of that prefix; `None`: as the server likes, if an interface gets a network of it.
    pub prefix_length: Option<u8>,
}

impl Dhcp6Spec {
    /// Servers are asked for what a router tells of.
    pub const AUTO: Dhcp6Spec = Dhcp6Spec { always: false, delegate: Vec::new(), prefix_length: None };

    /// The length of the prefix that is asked for, 0 for any; `None`: none is.
    pub fn prefix(&self) -> Option<u8> {
        self.prefix_length.or((!self.delegate.is_empty()).then_some(0))
    }
}

impl Default for Dhcp6Spec {
    fn default() -> Dhcp6Spec {
        Dhcp6Spec { always: true, ..Dhcp6Spec::AUTO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_their_texts() {
        for text in ["10.0.2.15/24", "fd00::1/64", "0.0.0.0/0"] {
            assert_eq!(text.parse::<Prefixed>().unwrap().to_string(), text);
        }
        for wrong in ["10.0.2.15", "10.0.2.15/33", "fd00::1/129", "10.0.2.15/+1", "x/8", "10.0.2.15/"] {
            assert_eq!(wrong.parse::<Prefixed>(), Err(NotPrefixed), "{wrong}");
        }
        assert_eq!(mac("52:54:00:12:34:aB").map(mac_text).as_deref(), Some("52:54:00:12:34:ab"));
        for wrong in ["52:54:00:12:34", "52:54:00:12:34:5g", "52:54:00:12:34:+5", "525400123456"] {
            assert_eq!(mac(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_name_is_told_from_a_pattern() {
        assert_eq!(Matches::Name("eth0".to_owned()).name(), Some("eth0"));
        for pattern in ["*", "eth*", "eth?", "eth[01]"] {
            assert_eq!(Matches::Name(pattern.to_owned()).name(), None, "{pattern}");
        }
        assert_eq!(Matches::Mac([2, 0, 0, 0, 0, 1]).to_string(), "02:00:00:00:00:01");
    }

    #[test]
    fn what_an_interface_has_decides_when_it_is_set_up() {
        let empty = InterfaceSpec::default();
        assert!(!empty.is_static() && !empty.is_for_one());
        let with_mtu = InterfaceSpec { mtu: Some(9000), ..empty.clone() };
        assert!(with_mtu.is_static() && !with_mtu.is_for_one());
        let with_address = InterfaceSpec { addresses: vec!["10.0.0.1/8".parse().unwrap()], ..empty.clone() };
        assert!(with_address.is_static() && with_address.is_for_one());
        let members = vec!["eth1".to_owned()];
        let bridge = LinkKind::Bridge(BridgeSpec { members: members.clone(), stp: false });
        let bridge = InterfaceSpec { kind: Some(bridge), ..empty };
        assert!(bridge.is_static());
        // The wire has a kind only in a build that can make one.
        let sent = if cfg!(feature = "net") { &bridge } else { &with_address };
        assert_eq!(InterfaceSpec::from_word(&sent.to_word()).as_ref(), Some(sent));
        assert_eq!(InterfaceSpec::from_word("eth0"), None);
        assert_eq!(bridge.members(), members);
    }
}
