//! The options of router advertisements that the kernel leaves to programs: name servers and search domains (RFC 8106).
//!
//! Total: of whatever bytes come, an option is read or is not, and none is followed further than its own bytes.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::names;

const NAME_SERVERS: u8 = 25;
const DOMAINS: u8 = 31;
/// The unit of an option's length, in bytes.
const UNIT: usize = 8;

/// What a router says about names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    NameServer(Ipv6Addr),
    Domain(String),
}

/// The contents of these options, each with its lifetime; `None`: it has no end. A lifetime of zero takes it back.
pub fn read(mut options: &[u8]) -> Vec<(Advice, Option<Duration>)> {
    let mut all = Vec::new();
    while let Some(&[kind, units]) = options.first_chunk() {
        let length = usize::from(units).saturating_mul(UNIT);
        let Some((option, rest)) = options.split_at_checked(length).filter(|_| length > 0) else { break };
        options = rest;
        // Kind, length, two unused, lifetime in seconds.
        let Some((header, content)) = option.split_first_chunk::<UNIT>() else { break };
        let [_, _, _, _, lifetime @ ..] = *header;
        let lifetime = match u32::from_be_bytes(lifetime) {
            u32::MAX => None,
            seconds => Some(Duration::from_secs(seconds.into())),
        };
        match kind {
            NAME_SERVERS => {
                let (addresses, _) = content.as_chunks::<16>();
                let addresses = addresses.iter().map(|bytes| Ipv6Addr::from(*bytes));
                let hosts =
                    addresses.filter(|ip| !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback());
                all.extend(hosts.map(|host| (Advice::NameServer(host), lifetime)));
            }
            DOMAINS => {
                let domains = names::search_list(content).into_iter();
                all.extend(domains.map(|domain| (Advice::Domain(domain), lifetime)));
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
pub mod testing {
    /// An option with this lifetime.
    pub fn option(kind: u8, lifetime: u32, content: &[u8]) -> Vec<u8> {
        let mut option = vec![kind, 0, 0, 0];
        option.extend(lifetime.to_be_bytes());
        option.extend(content);
        option.resize(option.len().next_multiple_of(8), 0);
        option[1] = u8::try_from(option.len() / 8).unwrap();
        option
    }
}

#[cfg(test)]
mod tests {
    use super::testing::option;
    use super::*;

    #[test]
    fn name_servers_and_domains_have_lifetimes() {
        let one: Ipv6Addr = "2001:db8::53".parse().unwrap();
        let two: Ipv6Addr = "fe80::1".parse().unwrap();
        let options = [
            option(NAME_SERVERS, 600, &[one.octets(), two.octets()].concat()),
            option(200, 0, &[]),
            option(DOMAINS, u32::MAX, b"\x07example\x04test\x00\x01a\x00"),
        ];
        let seconds = Some(Duration::from_secs(600));
        assert_eq!(
            read(&options.concat()),
            [
                (Advice::NameServer(one), seconds),
                (Advice::NameServer(two), seconds),
                (Advice::Domain("example.test".to_owned()), None),
                (Advice::Domain("a".to_owned()), None),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_left_out() {
        let server = Ipv6Addr::LOCALHOST.octets();
        let bad = [
            option(NAME_SERVERS, 1, &server),
            option(NAME_SERVERS, 1, &[0; 16]),
            option(NAME_SERVERS, 1, &[0xff; 16]),
            option(NAME_SERVERS, 1, &[]),
            option(DOMAINS, 1, b"\x03a b\x00"),
            vec![NAME_SERVERS, 0, 1, 2, 3, 4, 5, 6],
        ];
        assert_eq!(read(&bad.concat()), []);
        let whole = option(NAME_SERVERS, 1, &[0x20; 16]);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), [], "{length}");
        }
        assert_eq!(read(&whole).len(), 1);
    }
}
