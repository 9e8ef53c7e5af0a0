//! `network` of the machine file.

use std::net::IpAddr;

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::values::{address, boolean, word};
use crate::decode::quoted;
use crate::schema::Kind;
use kelson_spec::features::Feature;
use kelson_spec::machine::{DhcpSpec, HARDWARE, InterfaceSpec};
use kelson_sys::ipv4::same_network;

/// The longest name of an interface, in bytes.
const LONGEST_INTERFACE: usize = 15;

/// An interface with a static address, or one by DHCP.
pub fn interface() -> Mapping<InterfaceSpec> {
    let network_at = At::new(
        |interface: &InterfaceSpec| Some((interface.address?, interface.prefix)),
        |interface, (address, prefix)| {
            interface.address = Some(address);
            interface.prefix = prefix;
        },
    );
    let initial = || InterfaceSpec {
        interface: String::new(),
        address: None,
        prefix: 0,
        gateway: None,
        dns: Vec::new(),
        dhcp: None,
    };
    let dhcp = Mapping::codec(dhcp);
    let kind = dhcp.kind.clone();
    let dhcp = dhcp
        .around(|d, node, inner| match node.scalar() {
            Some(_) if node.is("true") => Some(DhcpSpec { probe: true }),
            Some(_) if node.is("false") => {
                d.refuse(node, "the interface has no address; write dhcp: true, or address: 10.0.2.15/24")
            }
            Some(text) => {
                d.refuse(node, format_args!("{} is not true; write true, or {{probe: false}}", quoted(text)))
            }
            None => inner(d, node),
        })
        .of_kind(move || Kind::Either(vec![Kind::Boolean, kind()]))
        .optional();
    keys! {
        Mapping::new("interface", initial);
        needed "interface" interface = interface_name(), "interface: eth0", "the name of the interface, at most 15 \
             characters; with `dhcp`, `\"*\"` stands for each Ethernet interface that is a device and has no \
             mapping of its own";
        alternative "address" (network_at) = network(), "an IPv4 or IPv6 address with the length of its prefix";
        means "gateway" gateway = address("").optional(), "none",
            "a default route through it. It must be within the network of `address`, or link-local (IPv6)";
        key "dns" dns = address("").list("a list of addresses"),
            "name servers, which Kelson writes to `/run/kelson/resolv.conf`, before those that DHCP gives. It \
             makes `/etc/resolv.conf` a link to this file, unless that is a link to another one";
        alternative "dhcp" dhcp = dhcp, "`true`: an IPv4 address [by DHCP](howto/network.md#dhcp)";
    }
    .one_of(&["address", "dhcp"])
    .check(|d, seen, interface| {
        let address = interface.address.map(|address| (address, interface.prefix));
        if let Some(gateway) = interface.gateway
            && (seen.is_right("address") || seen.is_right("dhcp"))
            && !address.is_some_and(|(address, prefix)| reaches(address, prefix, gateway))
        {
            let text = match address {
                Some(_) => format!("{gateway} is not within the network of address"),
                None => "gateway belongs to address; DHCP brings its own".to_owned(),
            };
            seen.wrong_value(d, "gateway", text);
            interface.gateway = None;
        }
        if address.is_some() && interface.interface == HARDWARE {
            seen.wrong_value(d, "interface", "several interfaces cannot have the same address; write a name");
        }
    })
    .needs(Feature::Net, &["dhcp"])
}

/// The name of an interface of the network.
pub fn interface_name() -> Codec<String> {
    word("name of an interface", "^[!-.0-9;-~]{1,15}$", "eth0").but(|text| {
        let sound = text.len() <= LONGEST_INTERFACE
            && !matches!(text.as_str(), "." | "..")
            && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':');
        (!sound).then(|| format!("{} is not the name of an interface, such as eth0", quoted(text)))
    })
}

fn dhcp() -> Mapping<DhcpSpec> {
    keys! {
        Mapping::new("dhcp", || DhcpSpec { probe: true });
        key "probe" probe = boolean(),
            "before Kelson uses an address, it asks the link for 4 to 7 s whether another host has it (RFC 5227)";
    }
}

fn network() -> Codec<(IpAddr, u8)> {
    let pattern = "^[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]*/[0-9]+$";
    word("address with its prefix", pattern, "192.0.2.15/24").parsed(
        |text| {
            let parsed = text.split_once('/').and_then(|(address, prefix)| {
                let address: IpAddr = address.parse().ok()?;
                let longest = if address.is_ipv4() { 32 } else { 128 };
                let prefix = u8::try_from(kelson_spec::units::number(prefix)?).ok()?;
                (prefix <= longest).then_some((address, prefix))
            });
            parsed.ok_or_else(|| {
                format!("{} is not an address with its prefix; write such as 10.0.2.15/24", quoted(text))
            })
        },
        |(address, prefix)| format!("{address}/{prefix}"),
    )
}

/// Whether the kernel takes `gateway` for an interface of this address: within its network, or link-local.
fn reaches(own: IpAddr, prefix: u8, gateway: IpAddr) -> bool {
    match (own, gateway) {
        // To a single address every gateway is outside; an author who writes one knows that.
        (IpAddr::V4(own), IpAddr::V4(gateway)) if prefix < 32 => same_network(own, gateway, prefix),
        (IpAddr::V6(own), IpAddr::V6(gateway)) if prefix < 128 => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            own.to_bits() & mask == gateway.to_bits() & mask || gateway.is_unicast_link_local()
        }
        (own, gateway) => own.is_ipv4() == gateway.is_ipv4(),
    }
}
