//! `network` of the machine file.

use std::net::IpAddr;

use super::at::At;
use super::codec::{Codec, part};
use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::{address, boolean, choice, number, some_text, word};
use crate::decode::{Decoder, quoted};
use crate::schema::Kind;
use kelson_spec::container_network::first_of;
use kelson_spec::features::Feature;
use kelson_spec::network::{
    BondMode, BondSpec, BridgeSpec, Dhcp6Spec, DhcpSpec, InterfaceSpec, LinkKind, Matches, Prefixed,
    RouteSpec, RuleSpec, VlanSpec, is_pattern, mac, mac_text,
};
use kelson_sys::ipv4::same_network;
use kelson_sys::netlink::MAIN;

/// The longest name of an interface, in bytes.
const LONGEST_INTERFACE: usize = 15;
/// The kinds of links that Kelson makes.
const KINDS: [&str; 4] = ["vlan", "bond", "bridge", "dummy"];
/// IPv4 wants no less.
const LEAST_MTU: u32 = 68;
const MOST_MTU: u32 = 65_536;
/// Before that of the table `main`.
const PRIORITY: u32 = 1000;

/// An interface, or several.
pub fn interface() -> Mapping<InterfaceSpec> {
    let name_at = At::new(
        |spec: &InterfaceSpec| match &spec.matches {
            Matches::Name(name) => Some(name.clone()),
            _ => None,
        },
        |spec, name| spec.matches = Matches::Name(name),
    );
    let mac_at = At::new(
        |spec: &InterfaceSpec| match spec.matches {
            Matches::Mac(mac) => Some(mac),
            _ => None,
        },
        |spec, mac| spec.matches = Matches::Mac(mac),
    );
    let driver_at = At::new(
        |spec: &InterfaceSpec| match &spec.matches {
            Matches::Driver(driver) => Some(driver.clone()),
            _ => None,
        },
        |spec, driver| spec.matches = Matches::Driver(driver),
    );
    // Shown as `addresses`.
    let address_at = At::new(|_: &InterfaceSpec| None, |spec, address| spec.addresses.push(address));
    let vlan_at = At::new(
        |spec: &InterfaceSpec| match &spec.kind {
            Some(LinkKind::Vlan(vlan)) => Some(vlan.clone()),
            _ => None,
        },
        |spec, vlan| spec.kind = Some(LinkKind::Vlan(vlan)),
    );
    let bond_at = At::new(
        |spec: &InterfaceSpec| match &spec.kind {
            Some(LinkKind::Bond(bond)) => Some(bond.clone()),
            _ => None,
        },
        |spec, bond| spec.kind = Some(LinkKind::Bond(bond)),
    );
    let bridge_at = At::new(
        |spec: &InterfaceSpec| match &spec.kind {
            Some(LinkKind::Bridge(bridge)) => Some(bridge.clone()),
            _ => None,
        },
        |spec, bridge| spec.kind = Some(LinkKind::Bridge(bridge)),
    );
    let dummy_at = At::new(
        |spec: &InterfaceSpec| (spec.kind == Some(LinkKind::Dummy)).then_some(()),
        |spec, ()| spec.kind = Some(LinkKind::Dummy),
    );
    keys! {
        Mapping::new("interface", InterfaceSpec::default);
        alternative "interface" (name_at) = interface_pattern(),
            "the name of the interface, at most 15 characters, or a pattern such as `eth*`: each Ethernet \
             interface of that name that is a device";
        alternative "mac" (mac_at) = part(Feature::Net, hardware), "instead of a name: the address of its hardware";
        alternative "driver" (driver_at) = part(Feature::Net, driver),
            "instead of a name: the kernel's driver of the device, such as `igb`";
        means "vlan" (vlan_at) if Net = Mapping::codec(vlan), "none", "make the interface: a VLAN";
        means "bond" (bond_at) if Net = Mapping::codec(bond), "none", "make the interface: a bond of others";
        means "bridge" (bridge_at) if Net = Mapping::codec(bridge), "none", "make the interface: a bridge";
        means "dummy" (dummy_at) if Net = Mapping::codec(|| Mapping::new("dummy", || ())), "none",
            "`{}`: make the interface, which leads nowhere and carries addresses";
        means "mtu" mtu = number(LEAST_MTU..=MOST_MTU).optional(), "the driver's, or that of DHCP",
            "the longest packet, in bytes";
        means "address" (address_at) = prefixed(), "none",
            "a static IPv4 or IPv6 address with the length of its prefix";
        key "addresses" addresses = prefixed().list("a list of addresses"),
            "several static addresses, instead of `address`";
        means "gateway" gateway = address("").optional(), "none",
            "a default route through it. It must be within the network of an address, or link-local (IPv6)";
        key "routes" routes if Net = Mapping::codec(route).list("a list of routes"), "static routes";
        key "rules" rules if Net = Mapping::codec(rule).list("a list of rules"),
            "policy rules: packets that look into another table of routes";
        key "dns" dns = address("").list("a list of addresses"),
            "name servers, which Kelson writes to `/run/kelson/resolv.conf`, before those that DHCP gives. It \
             makes `/etc/resolv.conf` a link to this file, unless that is a link to another one";
        means "dhcp" dhcp if Net = dhcp(), "`false`",
            "`true`: an IPv4 address [by DHCP](howto/network.md#dhcp), besides static ones";
        means "dhcp6" dhcp6 if Net = dhcp6(), "`false`",
            "`true`: IPv6 addresses [by DHCPv6](howto/network.md#dhcpv6), besides static ones. `auto`: what the \
             router advertisements say";
        means "routerAdvertisements" router_advertisements if Net = boolean().optional(), "the kernel's",
            "`true`: IPv6 addresses and routes [by router advertisements](howto/network.md#router-advertisements), \
             also on a router, and their name servers. `false`: none of them";
    }
    .one_of(&["interface", "mac", "driver"])
    .check(check)
}

fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut InterfaceSpec) {
    if seen.has("address") && seen.has("addresses") {
        seen.exclude(d, "address", "addresses", "address and addresses");
    }
    let mut kinds = KINDS.into_iter().filter(|kind| seen.has(kind));
    if let (Some(one), Some(other)) = (kinds.next(), kinds.next()) {
        seen.exclude(d, one, other, format_args!("{one} and {other}"));
    }
    if let Some(kind) = KINDS.into_iter().find(|kind| seen.has(kind))
        && spec.matches.name().is_none()
        && ["interface", "mac", "driver"].into_iter().filter(|key| seen.is_right(key)).count() == 1
    {
        seen.wrong_key(d, kind, "an interface that Kelson makes needs a name; write interface: NAME");
        spec.kind = None;
    }
    let judged = !seen.is_wrong("address") && !seen.is_wrong("addresses");
    if let Some(gateway) = spec.gateway
        && judged
        && !spec.addresses.iter().any(|address| reaches(*address, gateway))
    {
        let text = match spec.addresses.as_slice() {
            [] if spec.dhcp.is_some() => "gateway belongs to address; DHCP brings its own".to_owned(),
            [] => "gateway belongs to address; write one such as 192.0.2.7/24".to_owned(),
            [_] => format!("{gateway} is not within the network of address"),
            _ => format!("{gateway} is not within the network of an address"),
        };
        seen.wrong_value(d, "gateway", text);
        spec.gateway = None;
    }
}

/// The name of an interface of the network.
pub fn interface_name() -> Codec<String> {
    word("name of an interface", "^[!-.0-9;-~]{1,15}$", "eth0").but(|text| {
        let sound = is_name(text) && !is_pattern(text);
        (!sound).then(|| format!("{} is not the name of an interface, such as eth0", quoted(text)))
    })
}

fn interface_pattern() -> Codec<String> {
    word("name or pattern of interfaces", "^[!-.0-9;-~]{1,15}$", "eth0").but(|text| {
        (!is_name(text)).then(|| format!("{} is not the name of an interface, such as eth0", quoted(text)))
    })
}

fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_INTERFACE
        && !matches!(text, "." | "..")
        && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':')
}

fn hardware() -> Codec<[u8; 6]> {
    word("address of Ethernet", "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$", "52:54:00:12:34:56").parsed(
        |text| {
            let wrong = || format!("{} is not an address such as 52:54:00:12:34:56", quoted(text));
            mac(text).ok_or_else(wrong)
        },
        |mac| mac_text(*mac),
    )
}

fn driver() -> Codec<String> {
    word("driver", "^[A-Za-z0-9_-]+$", "virtio_net").but(|text| {
        let sound = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        (!sound).then(|| format!("{} is not the name of a driver, such as virtio_net", quoted(text)))
    })
}

fn vlan() -> Mapping<VlanSpec> {
    keys! {
        Mapping::new("vlan", || VlanSpec { id: 0, on: String::new() });
        needed "id" id = number(1..=4094), "id: 5", "the number of the VLAN";
        needed "on" on = interface_name(), "on: eth0", "the interface whose packets carry the number";
    }
    .strict()
}

fn bond() -> Mapping<BondSpec> {
    keys! {
        Mapping::new("bond", || BondSpec { mode: BondMode::ActiveBackup, members: Vec::new() });
        key "mode" mode = choice(BondMode::ALL), "how it uses its members";
        needed "members" members = members(), "members: [eth1, eth2]", "the interfaces that it consists of";
    }
}

fn bridge() -> Mapping<BridgeSpec> {
    keys! {
        Mapping::new("bridge", || BridgeSpec { members: Vec::new(), stp: false });
        key "members" members = members(), "the interfaces that it connects";
        key "stp" stp = boolean(), "it speaks the spanning tree protocol";
    }
}

fn members() -> Codec<Vec<String>> {
    interface_name().list("a list of names")
}

fn route() -> Mapping<RouteSpec> {
    let initial = || RouteSpec { to: Prefixed([0, 0, 0, 0].into(), 0), via: None, metric: 0, table: MAIN };
    keys! {
        Mapping::new("route", initial);
        needed "to" to = destination(), "to: 198.51.100.0/24", "a network, or `default`";
        means "via" via = address("").optional(), "the network is on the link itself",
            "the router. One outside the networks of the static addresses is taken to be on the link";
        key "metric" metric = number(0..=u32::MAX),
            "of several routes to the same network, the kernel takes the one with the lowest. 0: the kernel's";
        key "table" table = number(1..=u32::MAX), "the table that it belongs to. 254: the one called `main`";
    }
    .check(|d, seen, route| {
        let Some(via) = route.via else { return };
        if route.to.0.is_ipv6() == via.is_ipv6() {
            return;
        }
        if seen.get("to").is_some_and(|node| node.is("default")) {
            route.to = Prefixed([0; 16].into(), 0);
        } else if seen.is_right("to") {
            seen.wrong_value(d, "via", format!("{via} is of another family than {}", route.to));
        }
    })
    .strict()
}

fn rule() -> Mapping<RuleSpec> {
    keys! {
        Mapping::new("rule", || RuleSpec { from: None, to: None, table: MAIN, priority: PRIORITY });
        means "from" from = destination().optional(), "from anywhere", "the network that packets come from. Without `from` and `to` the rule is for all of IPv4";
        means "to" to = destination().optional(), "to anywhere", "the network that packets go to";
        needed "table" table = number(1..=u32::MAX), "table: 1000", "the table of routes that they look into";
        key "priority" priority = number(1..=32_765),
            "the rule with the lowest comes first. The kernel's own rules have 0, 32766 and 32767";
    }
    .check(|d, seen, rule| match (rule.from, rule.to) {
        (None, None) => rule.from = Some(Prefixed([0, 0, 0, 0].into(), 0)),
        (Some(from), Some(to)) if from.0.is_ipv6() != to.0.is_ipv6() => {
            seen.wrong_value(d, "to", format!("{to} is of another family than {from}"));
        }
        _ => {}
    })
    .strict()
}

/// Whether, and how.
fn dhcp() -> Codec<Option<DhcpSpec>> {
    let mapping = Mapping::codec(|| {
        keys! {
            Mapping::new("dhcp", DhcpSpec::default);
            key "hostname" host_name = boolean(),
                "the host takes [the name that the server gives](howto/network.md#the-name-of-the-host)";
            key "probe" probe = boolean(),
                "before Kelson uses an address, it asks the link for 4 to 7 s whether another host has it (RFC 5227)";
        }
    });
    let kind = mapping.kind.clone();
    mapping
        .optional()
        .around(|d, node, inner| match node.scalar() {
            Some(_) if node.is("true") => Some(Some(DhcpSpec::default())),
            Some(_) if node.is("false") => Some(None),
            Some(text) => {
                d.refuse(node, format_args!("{} is not true; write true, or {{probe: false}}", quoted(text)))
            }
            None => inner(d, node),
        })
        .of_kind(move || Kind::Either(vec![Kind::Boolean, kind()]))
}

/// Whether, and how.
fn dhcp6() -> Codec<Option<Dhcp6Spec>> {
    let mapping = Mapping::codec(|| {
        let auto_at = At::new(|spec: &Dhcp6Spec| Some(!spec.always), |spec, auto: bool| spec.always = !auto);
        keys! {
            Mapping::new("dhcp6", Dhcp6Spec::default);
            key "auto" (auto_at) = boolean(),
                "servers are asked for what a router tells of: addresses, or names alone";
            key "delegate" delegate = members(),
                "interfaces that each get a network of 64 bits, and its first address, of a prefix that a server delegates";
            means "prefixLength" prefix_length = number(16..=64).optional(), "the server's",
                "the length of the prefix that the server is asked for, also if no interface gets a network of it";
        }
    });
    let kind = mapping.kind.clone();
    mapping
        .optional()
        .around(|d, node, inner| match node.scalar() {
            Some("true") => Some(Some(Dhcp6Spec::default())),
            Some("false") => Some(None),
            Some("auto") => Some(Some(Dhcp6Spec::AUTO)),
            Some(text) => {
                d.refuse(node, format_args!("{} is not true or auto; write one of them", quoted(text)))
            }
            None => inner(d, node),
        })
        .of_kind(move || Kind::Either(vec![Kind::Boolean, Kind::Choice(vec!["auto"]), kind()]))
}

/// The pattern of an address with its prefix.
pub const PREFIXED: &str = "^[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]*/[0-9]+$";

/// An address with its prefix.
fn prefixed() -> Codec<Prefixed> {
    word("address with its prefix", PREFIXED, "192.0.2.15/24").parsed(
        |text| {
            text.parse().map_err(|_| {
                format!("{} is not an address with its prefix; write such as 10.0.2.15/24", quoted(text))
            })
        },
        Prefixed::to_string,
    )
}

/// A network, or `default`.
fn destination() -> Codec<Prefixed> {
    let form = Kind::Form(crate::schema::form("network", PREFIXED, "198.51.100.0/24"));
    let kind = move || Kind::Either(vec![Kind::Choice(vec!["default"]), form.clone()]);
    some_text().of_kind(kind).parsed(
        |text| match text.as_str() {
            "default" => Ok(Prefixed([0, 0, 0, 0].into(), 0)),
            text => network(text),
        },
        Prefixed::to_string,
    )
}

pub fn network(text: &str) -> Result<Prefixed, String> {
    let known: Prefixed = text
        .parse()
        .map_err(|_| format!("{} is not a network; write such as 198.51.100.0/24", quoted(text)))?;
    let right = Prefixed(first_of(known), known.1);
    if right == known { Ok(known) } else { Err(format!("{known} is not a whole network; write {right}")) }
}

fn mask_of_ipv6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128_u32.saturating_sub(prefix.into())).unwrap_or(0)
}

/// Whether the kernel takes `gateway` for an interface of this address: within its network, or link-local.
fn reaches(Prefixed(own, prefix): Prefixed, gateway: IpAddr) -> bool {
    match (own, gateway) {
        // To a single address every gateway is outside; an author who writes one knows that.
        (IpAddr::V4(own), IpAddr::V4(gateway)) if prefix < 32 => same_network(own, gateway, prefix),
        (IpAddr::V6(own), IpAddr::V6(gateway)) if prefix < 128 => {
            (own.to_bits() ^ gateway.to_bits()) & mask_of_ipv6(prefix) == 0 || gateway.is_unicast_link_local()
        }
        (own, gateway) => own.is_ipv4() == gateway.is_ipv4(),
    }
}
