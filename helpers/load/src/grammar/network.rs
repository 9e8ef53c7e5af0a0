//! `network` of the machine file.

use std::net::IpAddr;

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::values::{address, boolean, word};
use crate::decode::quoted;
use kelson_spec::machine::InterfaceSpec;

/// The longest name of an interface, in bytes.
const LONGEST_INTERFACE: usize = 15;

/// An interface with a static address.
pub fn static_interface() -> Codec<InterfaceSpec> {
    Mapping::codec(interface).around(|d, node, inner| match node.get("dhcp").filter(|dhcp| dhcp.is("true")) {
        Some(dhcp) => {
            let text = "DHCP is not supported; write an address such as address: 10.0.2.15/24";
            d.at_key("dhcp", |d| d.refuse(dhcp, text))
        }
        None => inner(d, node),
    })
}

fn interface() -> Mapping<InterfaceSpec> {
    let device = word("name of an interface", "^[!-.0-9;-~]{1,15}$", "eth0").but(|text| {
        let sound = text.len() <= LONGEST_INTERFACE
            && !matches!(text.as_str(), "." | "..")
            && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':');
        (!sound).then(|| format!("{} is not the name of an interface, such as eth0", quoted(text)))
    });
    let network_at = At::new(
        |interface: &InterfaceSpec| Some((interface.address, interface.prefix)),
        |interface, (address, prefix)| {
            interface.address = address;
            interface.prefix = prefix;
        },
    );
    let initial = || InterfaceSpec {
        interface: String::new(),
        address: IpAddr::from([0, 0, 0, 0]),
        prefix: 0,
        gateway: None,
        dns: Vec::new(),
    };
    let dhcp = At::new(|_: &InterfaceSpec| Some(false), |_, _| {});
    keys! {
        Mapping::new("interface", initial);
        needed "interface" interface = device, "interface: eth0", "the name of the interface, at most 15 \
             characters";
        needed "address" (network_at) = network(), "address: 10.0.2.15/24", "an IPv4 or IPv6 address \
             with the length of its prefix";
        means "gateway" gateway = address("").optional(), "none",
            "a default route through it. It must be within the network of `address`, or link-local (IPv6)";
        key "dns" dns = address("").list("a list of addresses"),
            "name servers, which Kelson writes to `/run/kelson/resolv.conf`. It makes `/etc/resolv.conf` \
             a link to this file, unless that is a link to another one";
        key "dhcp" (dhcp) = boolean(), "`true` is refused: DHCP is not supported";
    }
    .check(|d, seen, interface| {
        if let Some(gateway) = interface.gateway
            && seen.is_right("address")
            && !reaches(interface.address, interface.prefix, gateway)
        {
            let text = format!("{gateway} is not within the network of address");
            seen.wrong_value(d, "gateway", text);
            interface.gateway = None;
        }
    })
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
        (IpAddr::V4(own), IpAddr::V4(gateway)) if prefix < 32 => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            own.to_bits() & mask == gateway.to_bits() & mask
        }
        (IpAddr::V6(own), IpAddr::V6(gateway)) if prefix < 128 => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            own.to_bits() & mask == gateway.to_bits() & mask || gateway.is_unicast_link_local()
        }
        (own, gateway) => own.is_ipv4() == gateway.is_ipv4(),
    }
}
