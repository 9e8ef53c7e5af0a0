//! Interfaces with their addresses, routes and leases: what rtnetlink says, and the records of `kelson-net`.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use kelson_proto::v1::{Advertised, LeasedItem, Link, LinkAddress, LinkRoute, NetworkLease, NetworkLease6};
use kelson_spec::builtin::LEASES;
use kelson_spec::quote::error_text;
use kelson_sys::netlink::{self, Address, Content, FOREVER, MAIN, RTPROT_DHCP, Route};
use kelson_sys::ordered;
use nix::time::{ClockId, clock_gettime};
use prost::Message;
use prost_types::Duration as Lasting;

use crate::answer::Unanswered;
use crate::system::bytes;

/// Of Linux's `rtnetlink.h`: the kernel itself, an operator at boot, an operator, router advertisements.
const KERNEL: u8 = 2;
const BOOT: u8 = 3;
const STATIC: u8 = 4;
const ADVERTISED: u8 = 9;

/// All interfaces, in the order of their numbers.
///
/// # Errors
/// When the kernel does not say it.
pub fn read() -> Result<Vec<Link>, Unanswered> {
    let dump = |kind| netlink::dump(kind).map_err(|error| failed(&error));
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map_err(|errno| failed(&errno.into()))?;
    let mut links = Vec::new();
    for content in dump(libc::RTM_GETLINK)? {
        if let Content::Link { link, .. } = content {
            links.push(Link {
                index: link.index,
                hardware: link.hardware.filter(|bytes| *bytes != [0; 6]).map(shown).unwrap_or_default(),
                up: link.flags & libc::IFF_UP.cast_unsigned() != 0,
                running: link.is_running(),
                mtu: link.mtu,
                lease: lease(Path::new(LEASES), &link.name, now.into()),
                lease6: lease6(Path::new(LEASES), &link.name, now.into()),
                advertised: advertised(Path::new(LEASES), &link.name, now.into()),
                name: link.name,
                ..Link::default()
            });
        }
    }
    ordered::sort_by_key(&mut links, |link| link.index);
    let prefixes: Vec<LeasedItem> =
        links.iter().flat_map(|link| &link.lease6).flat_map(|lease| lease.prefixes.clone()).collect();
    for content in dump(libc::RTM_GETADDR)? {
        if let Content::Address { address, .. } = content
            && let Some(link) = links.iter_mut().find(|link| link.index == address.index)
        {
            let address = entry(&address, link, &prefixes);
            link.addresses.extend(address);
        }
    }
    for content in dump(libc::RTM_GETROUTE)? {
        let (Content::DefaultRoute { route, .. } | Content::Route { route, .. }) = content else { continue };
        for link in links.iter_mut().filter(|link| route.interfaces.contains(&link.index)) {
            link.routes.extend((route.table == MAIN).then(|| route_entry(&route)));
        }
    }
    // A lease that is not in the kernel has ended.
    for link in &mut links {
        let addresses = &link.addresses;
        let is_there = |text: &String| addresses.iter().any(|address| address.address == *text);
        link.lease.take_if(|lease| !is_there(&lease.address));
        if let Some(lease) = &mut link.lease6 {
            lease.addresses.retain(|item| is_there(&item.address));
        }
    }
    Ok(links)
}

fn failed(error: &std::io::Error) -> Unanswered {
    Unanswered::Failed(format!("the kernel does not tell of the network: {}", error_text(error)))
}

fn shown(hardware: [u8; 6]) -> String {
    hardware.map(|byte| format!("{byte:02x}")).join(":")
}

/// The record of the interface's lease, if it has one that can be read, with the times that are left.
fn lease(folder: &Path, interface: &str, now: Duration) -> Option<NetworkLease> {
    let mut lease: NetworkLease = record(folder, interface, "lease")?;
    for time in [&mut lease.renew, &mut lease.rebind, &mut lease.end] {
        *time = left(*time, now);
    }
    Some(lease)
}

/// As [`lease`].
fn lease6(folder: &Path, interface: &str, now: Duration) -> Option<NetworkLease6> {
    let mut lease: NetworkLease6 = record(folder, interface, "lease6")?;
    for time in [&mut lease.renew, &mut lease.rebind] {
        *time = left(*time, now);
    }
    for item in lease.addresses.iter_mut().chain(&mut lease.prefixes) {
        (item.preferred, item.end) = (left(item.preferred, now), left(item.end, now));
    }
    Some(lease)
}

/// The record of what routers say, as [`lease`].
fn advertised(folder: &Path, interface: &str, now: Duration) -> Option<Advertised> {
    let mut advertised: Advertised = record(folder, interface, "advertised")?;
    for name in advertised.name_servers.iter_mut().chain(&mut advertised.search) {
        name.end = left(name.end, now);
    }
    Some(advertised)
}

fn record<T: Message + Default>(folder: &Path, interface: &str, kind: &str) -> Option<T> {
    T::decode(bytes(&folder.join(format!("{interface}.{kind}"))).ok()?.as_slice()).ok()
}

fn left(end: Option<Lasting>, now: Duration) -> Option<Lasting> {
    Duration::try_from(end?).ok()?.saturating_sub(now).try_into().ok()
}

/// `prefixes`: those of all leases of DHCPv6.
fn entry(address: &Address, link: &Link, prefixes: &[LeasedItem]) -> Option<LinkAddress> {
    let ip = address.ip()?;
    let text = format!("{ip}/{}", address.prefix);
    let temporary = address.valid != FOREVER;
    let origin = match ip {
        _ if link.lease.as_ref().is_some_and(|lease| lease.address == text) => "dhcp",
        _ if link.lease6.iter().flat_map(|lease| &lease.addresses).any(|item| item.address == text) => "dhcp",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local",
        IpAddr::V6(v6) if address.prefix == 64 && prefixes.iter().any(|item| is_within(v6, item)) => {
            "delegated"
        }
        IpAddr::V6(_) if temporary => "automatic",
        _ => "static",
    };
    let tentative = libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED;
    Some(LinkAddress {
        address: text,
        origin: origin.to_owned(),
        valid: temporary.then(|| Lasting { seconds: address.valid.into(), nanos: 0 }),
        tentative: address.flags & tentative != 0,
    })
}

/// Whether it is the address that the host gives itself in a network of this prefix: the first one.
fn is_within(address: Ipv6Addr, prefix: &LeasedItem) -> bool {
    let parsed = prefix.address.split_once('/');
    let parsed = parsed.and_then(|(prefix, length)| {
        Some((prefix.parse::<Ipv6Addr>().ok()?.to_bits(), 128_u32.checked_sub(length.parse().ok()?)?))
    });
    let first = |host: u32| address.to_bits().checked_shr(host);
    parsed.is_some_and(|(prefix, host)| {
        first(host) == prefix.checked_shr(host) && address.to_bits() & u128::from(u64::MAX) == 1
    })
}

fn route_entry(route: &Route) -> LinkRoute {
    let destination = route.destination.filter(|_| route.prefix > 0);
    LinkRoute {
        destination: destination.map_or_else(|| "default".to_owned(), |ip| format!("{ip}/{}", route.prefix)),
        gateway: route.gateway.map(|gateway| gateway.to_string()).unwrap_or_default(),
        metric: route.metric,
        origin: match route.protocol {
            KERNEL => "kernel".to_owned(),
            BOOT | STATIC => "static".to_owned(),
            ADVERTISED => "automatic".to_owned(),
            RTPROT_DHCP => "dhcp".to_owned(),
            other => other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_proto::v1::AdvertisedName;

    #[test]
    fn the_loopback_of_this_host_is_there() {
        let links = read().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!((lo.index, lo.hardware.as_str()), (1, ""));
        assert!(lo.mtu > 0 && lo.lease.is_none());
        if lo.up {
            let own = lo.addresses.iter().find(|address| address.address == "127.0.0.1/8").unwrap();
            assert_eq!((own.origin.as_str(), &own.valid), ("static", &None));
        }
    }

    #[test]
    fn addresses_and_routes_tell_where_they_come_from() {
        let address = |bytes: &[u8], prefix, valid| Address {
            index: 2,
            family: if bytes.len() == 4 { 2 } else { 10 },
            prefix,
            scope: 0,
            flags: 0,
            bytes: bytes.to_vec(),
            valid,
        };
        let lease = NetworkLease { address: "192.0.2.7/24".to_owned(), ..NetworkLease::default() };
        let item = |address: &str| LeasedItem { address: address.to_owned(), ..LeasedItem::default() };
        let lease6 = NetworkLease6 { addresses: vec![item("2001:db8::7/128")], ..NetworkLease6::default() };
        let link = Link { lease: Some(lease), lease6: Some(lease6), ..Link::default() };
        let prefixes = [item("2001:db8:100::/56")];
        let origin = |address: &Address| entry(address, &link, &prefixes).unwrap().origin;
        let v6 =
            |text: &str, prefix| origin(&address(&text.parse::<Ipv6Addr>().unwrap().octets(), prefix, 600));
        assert_eq!(v6("2001:db8::7", 128), "dhcp");
        assert_eq!(v6("2001:db8:100:3::1", 64), "delegated");
        assert_eq!(v6("2001:db8:100:3::2", 64), "automatic", "the kernel chose it");
        assert_eq!(v6("2001:db8:101::1", 64), "automatic");
        assert_eq!(origin(&address(&[192, 0, 2, 7], 24, 60)), "dhcp");
        assert_eq!(origin(&address(&[192, 0, 2, 8], 24, FOREVER)), "static");
        let mut local = [0; 16];
        (local[0], local[1]) = (0xfe, 0x80);
        assert_eq!(origin(&address(&local, 64, FOREVER)), "link-local");
        assert_eq!(origin(&address(&[0x20; 16], 64, 600)), "automatic");
        let route = Route {
            family: 2,
            table: MAIN,
            destination: None,
            prefix: 0,
            gateway: Some([192, 0, 2, 1].into()),
            metric: 1026,
            protocol: RTPROT_DHCP,
            interfaces: vec![2],
        };
        let shown = route_entry(&route);
        assert_eq!((shown.destination.as_str(), shown.origin.as_str()), ("default", "dhcp"));
        let far = Route { destination: Some([10, 0, 0, 0].into()), prefix: 8, protocol: 77, ..route };
        let shown = route_entry(&far);
        assert_eq!((shown.destination.as_str(), shown.origin.as_str()), ("10.0.0.0/8", "77"));
    }

    #[test]
    fn the_times_of_a_lease_are_those_that_are_left() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = |seconds| Some(Lasting { seconds, nanos: 0 });
        let record = NetworkLease { renew: seconds(50), end: seconds(160), ..NetworkLease::default() };
        std::fs::write(folder.path().join("eth0.lease"), record.encode_to_vec()).unwrap();
        let lease = |name| super::lease(folder.path(), name, Duration::from_secs(100));
        let left = lease("eth0").unwrap();
        assert_eq!((left.renew, left.rebind, left.end), (seconds(0), None, seconds(60)));
        assert_eq!(lease("eth1"), None);
        let item = LeasedItem { end: seconds(160), ..LeasedItem::default() };
        let record = NetworkLease6 { renew: seconds(50), prefixes: vec![item], ..NetworkLease6::default() };
        std::fs::write(folder.path().join("eth0.lease6"), record.encode_to_vec()).unwrap();
        let left = super::lease6(folder.path(), "eth0", Duration::from_secs(100)).unwrap();
        assert_eq!((left.renew, left.prefixes[0].end), (seconds(0), seconds(60)));
        let server = AdvertisedName { name: "2001:db8::53".to_owned(), end: seconds(160) };
        let record = Advertised { name_servers: vec![server], search: Vec::new() };
        std::fs::write(folder.path().join("eth0.advertised"), record.encode_to_vec()).unwrap();
        let advertised = advertised(folder.path(), "eth0", Duration::from_secs(100)).unwrap();
        assert_eq!(advertised.name_servers[0].end, seconds(60));
    }
}
