//! Leases as files, one for each interface: for the next process, and for `kelsonctl network`.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_proto::v1::{LinkRoute, NetworkLease};
use kelson_sys::packet::Mac;
use kelson_sys::removed;
use prost::Message;

use crate::lease::{Lease, Moment, NEVER, Route};

const DEFAULT: &str = "default";

/// Writes the lease of an interface, or removes that of one that has none. Who reads sees the old file or the new one.
///
/// # Errors
/// When the folder cannot be written.
pub fn write(folder: &Path, interface: &str, hardware: Mac, lease: Option<&Lease>) -> io::Result<()> {
    put(&path(folder, interface), lease.map(|lease| record(lease, hardware)))
}

/// Gives a file this record, or removes it if there is none.
///
/// # Errors
/// When the folder cannot be written.
pub fn put(path: &Path, record: Option<impl Message>) -> io::Result<()> {
    match record {
        Some(record) => replace(path, &record.encode_to_vec()),
        None => removed(fs::remove_file(path)),
    }
}

/// The record in a file; `None`: there is none that makes sense.
pub fn get<R: Message + Default>(path: &Path) -> Option<R> {
    R::decode(fs::read(path).ok()?.as_slice()).ok()
}

/// A moment in a record; `None` is [`NEVER`].
pub fn to_time(moment: Moment) -> Option<prost_types::Duration> {
    (moment < NEVER).then(|| moment.try_into().ok())?
}

/// What [`to_time`] made; `None`: it would not have made it.
pub fn of_time(time: Option<prost_types::Duration>) -> Option<Moment> {
    time.map_or(Some(NEVER), |time| Duration::try_from(time).ok())
}

/// The lease that an earlier process wrote, if the interface is the same and the lease has not ended.
pub fn read(folder: &Path, interface: &str, hardware: Mac, now: Moment) -> Option<Lease> {
    let record: NetworkLease = get(&path(folder, interface))?;
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
        renew: to_time(lease.renew),
        rebind: to_time(lease.rebind),
        end: to_time(lease.end),
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
        renew: of_time(record.renew)?,
        rebind: of_time(record.rebind)?,
        end: of_time(record.end)?,
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
