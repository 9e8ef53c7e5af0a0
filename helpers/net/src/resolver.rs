//! The file of name servers, which has one owner: those of the machine file first, then those of the leases, then those of
//! router advertisements.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use kelson_helper::log::line;

use crate::lease::Lease;
use crate::record;
use crate::routers::{self, Routers};
use crate::v6;

/// In the folder of the leases; `/run/kelson/resolv.conf` leads to it.
pub const FILE: &str = "resolv.conf";
/// One address on each line: for a service that keeps the clock right.
const NTP_FILE: &str = "ntp-servers";
/// The C library takes no more.
const SERVERS: usize = 3;
const DOMAINS: usize = 6;

/// Writes both files.
pub fn write(
    folder: &Path,
    configured: &[IpAddr],
    leases: &[&Lease],
    six: &[(&str, &v6::lease::Lease)],
    routers: &Routers,
) {
    let ntp = leases.iter().flat_map(|lease| &lease.ntp_servers);
    let ntp: String = ntp.map(|server| format!("{server}\n")).collect();
    for (file, content) in [(FILE, text(configured, leases, six, routers)), (NTP_FILE, ntp)] {
        let path = folder.join(file);
        if std::fs::read_to_string(&path).is_ok_and(|before| before == content) {
            continue;
        }
        if let Err(error) = record::replace(&path, content.as_bytes()) {
            line(format_args!("{}: {error}", path.display()));
        }
    }
}

fn text(
    configured: &[IpAddr],
    leases: &[&Lease],
    six: &[(&str, &v6::lease::Lease)],
    routers: &Routers,
) -> String {
    let leased = leases.iter().flat_map(|lease| lease.name_servers.iter().map(ToString::to_string));
    let leased_by_v6 = six.iter().flat_map(|(interface, lease)| {
        lease.name_servers.iter().map(move |server| routers::scoped(*server, interface))
    });
    let all = configured
        .iter()
        .map(ToString::to_string)
        .chain(leased)
        .chain(leased_by_v6)
        .chain(routers.name_servers());
    let servers = first(all, SERVERS);
    let leased = leases.iter().flat_map(|lease| &lease.search);
    let leased = leased.chain(six.iter().flat_map(|(_, lease)| &lease.search));
    let domains = first(leased.chain(routers.domains()).cloned(), DOMAINS);
    let mut text = String::from(
        "# Written by Kelson from the machine file, from leases of DHCP and from router advertisements.\n",
    );
    for server in servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !domains.is_empty() {
        let _ = writeln!(text, "search {}", domains.join(" "));
    }
    text
}

/// The first of them, each once.
fn first<T: PartialEq>(all: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if found.len() < most && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advertisement::testing::option;
    use crate::lease::Moment;
    use crate::lease::testing::ack;
    use crate::message::code;

    #[test]
    fn servers_of_the_machine_file_come_first_and_each_once() {
        let lease = |options: &[(u8, &[u8])]| Lease::read(&ack(600, options), Default::default()).unwrap();
        let one = lease(&[(code::NAME_SERVER, &[9, 9, 9, 9, 1, 1, 1, 1]), (code::DOMAIN_NAME, b"a.example")]);
        let two = lease(&[(code::NAME_SERVER, &[8, 8, 8, 8]), (code::NTP_SERVER, &[192, 0, 2, 3])]);
        let configured: [IpAddr; 1] = ["1.1.1.1".parse().unwrap()];
        let folder = tempfile::tempdir().unwrap();
        let mut routers = Routers::new(folder.path());
        write(folder.path(), &configured, &[&one, &two], &[], &routers);
        let read = |file| std::fs::read_to_string(folder.path().join(file)).unwrap();
        let expected = "nameserver 1.1.1.1\nnameserver 9.9.9.9\nnameserver 8.8.8.8\nsearch a.example\n";
        assert!(read(FILE).ends_with(expected), "{}", read(FILE));
        assert_eq!(read(NTP_FILE), "192.0.2.3\n");
        write(folder.path(), &[], &[], &[], &routers);
        assert_eq!((read(FILE).lines().count(), read(NTP_FILE).as_str()), (1, ""));
        routers.look([(2, "eth0", false)].into_iter(), Moment::ZERO);
        routers.take(2, &option(25, 100, &[0x20; 16]), Moment::ZERO);
        routers.take(2, &option(31, 100, b"\x01b\x07example\x00"), Moment::ZERO);
        write(folder.path(), &configured, &[&one], &[], &routers);
        let expected = "nameserver 9.9.9.9\nnameserver 2020:2020:2020:2020:2020:2020:2020:2020\nsearch a.example b.example\n";
        assert!(read(FILE).ends_with(expected), "{}", read(FILE));
    }
}
