//! Leases of DHCPv6 as files, one for each interface, beside those of DHCPv4.

use std::io;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use kelson_proto::v1::{LeasedItem, NetworkLease6};
use kelson_sys::packet::Mac;

use super::lease::{Granted, Lease};
use super::remainder::Network;
use crate::lease::Moment;
use crate::record::{get, of_time, put, shown, to_time};

/// Writes the lease of an interface, or removes that of one that has none.
///
/// # Errors
/// When the folder cannot be written.
pub fn write(folder: &Path, interface: &str, hardware: Mac, lease: Option<&Lease>) -> io::Result<()> {
    put(&path(folder, interface), lease.map(|lease| record(lease, hardware)))
}

/// What of the lease that an earlier process wrote has not ended, if the interface is the same.
pub fn read(folder: &Path, interface: &str, hardware: Mac, now: Moment) -> Option<Lease> {
    let record: NetworkLease6 = get(&path(folder, interface))?;
    let mut lease = Some(()).filter(|()| record.hardware == shown(hardware)).and_then(|()| lease(&record))?;
    let had_items = !lease.items.is_empty();
    lease.items.retain(|item| item.valid > now);
    (!had_items || !lease.items.is_empty()).then_some(lease)
}

/// All prefixes that an earlier process wrote, also those that have ended.
pub fn prefixes(folder: &Path, interface: &str) -> Vec<Network> {
    let lease = get::<NetworkLease6>(&path(folder, interface)).and_then(|record| lease(&record));
    lease.iter().flat_map(Lease::prefixes).map(|item| (item.address, item.length)).collect()
}

fn path(folder: &Path, interface: &str) -> PathBuf {
    folder.join(format!("{interface}.lease6"))
}

fn record(lease: &Lease, hardware: Mac) -> NetworkLease6 {
    let item = |item: &Granted| LeasedItem {
        address: format!("{}/{}", item.address, item.length),
        preferred: to_time(item.preferred),
        end: to_time(item.valid),
    };
    NetworkLease6 {
        server: lease.from.to_string(),
        server_id: lease.server.clone(),
        renew: to_time(lease.renew),
        rebind: to_time(lease.rebind),
        addresses: lease.addresses().map(item).collect(),
        prefixes: lease.prefixes().map(item).collect(),
        name_servers: lease.name_servers.iter().map(ToString::to_string).collect(),
        search: lease.search.clone(),
        hardware: shown(hardware),
    }
}

/// `None`: this process would not have written it.
fn lease(record: &NetworkLease6) -> Option<Lease> {
    let item = |item: &LeasedItem| {
        let (address, length) = item.address.split_once('/')?;
        let (address, length) = (address.parse().ok()?, length.parse().ok().filter(|length| *length <= 128)?);
        let (preferred, valid) = (of_time(item.preferred)?, of_time(item.end)?);
        Some(Granted { address, length, preferred, valid, reason: None })
    };
    let items = record.addresses.iter().chain(&record.prefixes).map(item);
    let servers = record.name_servers.iter().map(|text| text.parse().ok());
    Some(Lease {
        server: record.server_id.clone(),
        from: record.server.parse().ok()?,
        items: items.collect::<Option<_>>()?,
        renew: of_time(record.renew)?,
        rebind: of_time(record.rebind)?,
        name_servers: servers.collect::<Option<Vec<Ipv6Addr>>>()?,
        search: record.search.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::message::testing::granted;
    use super::super::message::{Kind, Message, code};
    use super::*;

    #[test]
    fn a_lease_is_read_as_it_was_written_by_the_same_interface_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let now = Duration::from_millis(123_456);
        let mut message = Message::new(Kind::Reply, 1);
        message.options.put(code::SERVER, *b"server");
        message.options.put(code::NAME_SERVERS, [0x20; 16]);
        message.options.put(code::DOMAINS, *b"\x01a\x00");
        let addresses = [("2001:db8::7", 100, 200), ("2001:db8::8", u32::MAX, u32::MAX)];
        message.options.0.push(granted(7, (0, 0), &addresses));
        message.options.0.push(granted(7, (0, 0), &[("2001:db8:100::/56", 100, 300)]));
        let from = "fe80::1".parse().unwrap();
        let lease = Lease::read((&message, from), 7, None, (now, now)).unwrap();
        for lease in [&lease, &Lease::informed((&message, from), now)] {
            write(folder.path(), "eth0", own, Some(lease)).unwrap();
            assert_eq!(read(folder.path(), "eth0", own, now).as_ref(), Some(lease));
        }
        assert_eq!(read(folder.path(), "eth0", other, now), None);
        assert_eq!(read(folder.path(), "eth1", own, now), None);
        write(folder.path(), "eth0", own, Some(&lease)).unwrap();
        let later = read(folder.path(), "eth0", own, now + Duration::from_secs(200)).unwrap();
        assert_eq!((later.addresses().count(), later.prefixes().count()), (1, 1), "one has ended");
        fs::write(folder.path().join("eth0.lease6"), b"\xff\xff").unwrap();
        assert_eq!(read(folder.path(), "eth0", own, now), None);
        for _ in 0..2 {
            write(folder.path(), "eth0", own, None).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
