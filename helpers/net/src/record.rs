//! Leases as files, one for each interface: for the next process, and for `kelsonctl network`.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_proto::v1::{LinkRoute, NetworkLease};
use kelson_sys::packet::Mac;
use prost::Message as _;

use crate::lease::{Lease, Moment, NEVER, Route};

const DEFAULT: &str = "default";

/// Writes the lease of an interface, or removes that of one that has none. Who reads sees the old file or the new one.
///
/// # Errors
/// When the folder cannot be written.
pub fn write(folder: &Path, interface: &str, hardware: Mac, lease: Option<&Lease>) -> io::Result<()> {
    let path = path(folder, interface);
    match lease {
        Some(lease) => replace(&path, &record(lease, hardware).encode_to_vec()),
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
}

/// The lease that an earlier process wrote, if the interface is the same and the lease has not ended.
pub fn read(folder: &Path, interface: &str, hardware: Mac, now: Moment) -> Option<Lease> {
    let record = NetworkLease::decode(fs::read(path(folder, interface)).ok()?.as_slice()).ok()?;
    let lease = Some(()).filter(|()| record.hardware == shown(hardware)).and_then(|()| lease(&record))?;
    (lease.end > now).then_some(lease)
}

/// Gives a file this content at once.
///
/// # Errors
/// When the folder cannot be written.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, content)?;
    fs::rename(new, path)
}

fn path(folder: &Path, interface: &str) -> PathBuf {
    folder.join(format!("{interface}.lease"))
}

/// As people read it.
pub fn shown(hardware: Mac) -> String {
    hardware.map(|byte| format!("{byte:02x}")).join(":")
}

fn record(lease: &Lease, hardware: Mac) -> NetworkLease {
    let time = |moment: Moment| Some(moment).filter(|moment| *moment < NEVER)?.try_into().ok();
    let texts = |addresses: &[Ipv4Addr]| addresses.iter().map(ToString::to_string).collect();
    let route = |route: &Route| LinkRoute {
        destination: match route.prefix {
            0 => DEFAULT.to_owned(),
            prefix => format!("{}/{prefix}", route.destination),
        },
        gateway: route.gateway.map(|gateway| gateway.to_string()).unwrap_or_default(),
        ..LinkRoute::default()
    };
    NetworkLease {
        address: format!("{}/{}", lease.address, lease.prefix),
        server: lease.server.to_string(),
        renew: time(lease.renew),
        rebind: time(lease.rebind),
        end: time(lease.end),
        routes: lease.routes.iter().map(route).collect(),
        name_servers: texts(&lease.name_servers),
        search: lease.search.clone(),
        mtu: lease.mtu.unwrap_or_default(),
        host_name: lease.host_name.clone().unwrap_or_default(),
        ntp_servers: texts(&lease.ntp_servers),
        hardware: shown(hardware),
    }
}

/// `None`: this process would not have written it.
fn lease(record: &NetworkLease) -> Option<Lease> {
    let (address, prefix) = network(&record.address)?;
    let time = |time: &Option<prost_types::Duration>| match time {
        None => Some(NEVER),
        Some(time) => Duration::try_from(*time).ok(),
    };
    let route = |route: &LinkRoute| {
        let (destination, prefix) = match route.destination.as_str() {
            DEFAULT => (Ipv4Addr::UNSPECIFIED, 0),
            text => network(text)?,
        };
        let gateway = Some(route.gateway.as_str()).filter(|text| !text.is_empty());
        Some(Route { destination, prefix, gateway: gateway.map(str::parse).transpose().ok()? })
    };
    let addresses = |texts: &[String]| texts.iter().map(|text| text.parse().ok()).collect::<Option<Vec<_>>>();
    Some(Lease {
        address,
        prefix,
        server: record.server.parse().ok()?,
        renew: time(&record.renew)?,
        rebind: time(&record.rebind)?,
        end: time(&record.end)?,
        routes: record.routes.iter().map(route).collect::<Option<_>>()?,
        name_servers: addresses(&record.name_servers)?,
        search: record.search.clone(),
        mtu: Some(record.mtu).filter(|mtu| *mtu > 0),
        host_name: Some(record.host_name.clone()).filter(|name| !name.is_empty()),
        ntp_servers: addresses(&record.ntp_servers)?,
    })
}

fn network(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
    Some((address.parse().ok()?, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::testing::ack;
    use crate::message::code;

    #[test]
    fn a_lease_is_read_as_it_was_written_by_the_same_interface_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let options: &[(u8, &[u8])] = &[
            (code::ROUTES, &[0, 192, 0, 2, 9, 24, 10, 1, 1, 0, 0, 0, 0]),
            (code::NAME_SERVER, &[9, 9, 9, 9]),
            (code::NTP_SERVER, &[192, 0, 2, 3]),
            (code::MTU, &[5, 0]),
            (code::HOST_NAME, b"edge"),
            (code::DOMAIN_NAME, b"example.com"),
        ];
        let now = Duration::from_millis(123_456);
        for message in [ack(600, options), ack(u32::MAX, &[])] {
            let lease = Lease::read(&message, now).unwrap();
            write(folder.path(), "eth0", own, Some(&lease)).unwrap();
            assert_eq!(read(folder.path(), "eth0", own, now), Some(lease));
        }
        assert_eq!(read(folder.path(), "eth0", other, now), None);
        assert_eq!(read(folder.path(), "eth1", own, now), None);
        let lease = Lease::read(&ack(600, &[]), now).unwrap();
        write(folder.path(), "eth0", own, Some(&lease)).unwrap();
        assert_eq!(read(folder.path(), "eth0", own, lease.end), None, "it has ended");
        fs::write(folder.path().join("eth0.lease"), b"\xff\xff").unwrap();
        assert_eq!(read(folder.path(), "eth0", own, now), None);
        for _ in 0..2 {
            write(folder.path(), "eth0", own, None).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
