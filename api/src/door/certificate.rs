//! Who a client is, from its certificate: the common name of its subject, the fingerprint, and the role that an
//! organisation of its subject gives it.
//!
//! The certificate has been verified before it comes here, so this reads the one way in which X.509 lays it out (DER)
//! and gives up at anything else; the fingerprint is there in any case.

use std::net::SocketAddr;

use crate::IDENTITY_MAX;
use crate::access::Role;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// id-at-organizationName, 2.5.4.10.
const ORGANISATION: [u8; 3] = [0x55, 0x04, 0x0a];
/// Longest common name that is shown, in characters.
const NAME_MAX: usize = 64;

/// Who has connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// `CN=ann sha256:… from 192.0.2.7:40001`, printable ASCII and never longer than [`IDENTITY_MAX`].
    pub identity: String,
    /// The highest of its roles.
    pub role: Option<Role>,
}

impl Peer {
    pub fn of(certificate: &[u8], address: SocketAddr) -> Peer {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let subject = subject(certificate).unwrap_or_default();
        let mut identity = match subject.common_name {
            Some(name) => format!("CN={name} sha256:"),
            None => "sha256:".to_owned(),
        };
        for byte in digest.as_ref() {
            identity.push_str(&format!("{byte:02x}"));
        }
        identity.push_str(&format!(" from {address}"));
        debug_assert!(identity.len() <= IDENTITY_MAX);
        Peer { identity, role: subject.role }
    }
}

/// What is read of a certificate's subject.
#[derive(Debug, Default, PartialEq, Eq)]
struct Subject {
    /// The last one.
    common_name: Option<String>,
    role: Option<Role>,
}

/// One value: its tag, what is in it, and what comes after it.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (
                digits
                    .iter()
                    .try_fold(0usize, |sum, digit| sum.checked_mul(256)?.checked_add(usize::from(*digit)))?,
                rest,
            )
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of the value that must bear this tag, and what comes after it.
fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = value(bytes)?;
    (found == tag).then_some((content, rest))
}

/// `None`: it is not laid out as it must be, and nothing of it counts.
fn subject(certificate: &[u8]) -> Option<Subject> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (mut rest, _) = expect(SEQUENCE, certificate)?;
    if let Some((_, after)) = expect(VERSION, rest) {
        rest = after;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        (_, _, rest) = value(rest)?;
    }
    let (mut names, _) = expect(SEQUENCE, rest)?;
    let mut found = Subject::default();
    while !names.is_empty() {
        let (mut set, after) = expect(SET, names)?;
        names = after;
        while !set.is_empty() {
            let (attribute, after) = expect(SEQUENCE, set)?;
            set = after;
            let (kind, text) = expect(OBJECT_IDENTIFIER, attribute)?;
            let (_, text, _) = value(text)?;
            if kind == COMMON_NAME {
                found.common_name = Some(printable(text));
            } else if kind == ORGANISATION {
                found.role = found.role.max(Role::named(text));
            }
        }
    }
    Some(found)
}

/// What is not plain ASCII is shown as `?`; the fingerprint tells apart what that makes equal.
fn printable(text: &[u8]) -> String {
    let shown = String::from_utf8_lossy(text);
    shown.chars().take(NAME_MAX).map(|char| if matches!(char, ' '..='~') { char } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: Option<&str>, organisations: &[&str]) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for organisation in organisations {
            params.distinguished_name.push(rcgen::DnType::OrganizationName, *organisation);
        }
        if let Some(name) = name {
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
        }
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn peer(certificate: &[u8]) -> Peer {
        Peer::of(certificate, "192.0.2.7:40001".parse().unwrap())
    }

    #[test]
    fn the_common_name_the_fingerprint_and_where_from() {
        let Peer { identity, role } = peer(&made(Some("ann"), &["Harbour"]));
        let rest = identity.strip_prefix("CN=ann sha256:").expect(&identity);
        let (fingerprint, from) = rest.split_once(' ').unwrap();
        assert_eq!((fingerprint.len(), from), (64, "from 192.0.2.7:40001"));
        assert_eq!(role, None);
    }

    #[test]
    fn without_a_name_the_fingerprint() {
        assert!(peer(&made(None, &[])).identity.starts_with("sha256:"));
        let stranger = peer(b"no certificate at all");
        assert!(stranger.identity.starts_with("sha256:") && stranger.role.is_none(), "{stranger:?}");
    }

    #[test]
    fn a_role_is_an_organisation() {
        for role in Role::ALL {
            assert_eq!(peer(&made(Some("ann"), &[role.name()])).role, Some(role));
        }
        for other in ["os:Admin", "os:admin ", "os:adminx", "os:admi", ""] {
            assert_eq!(peer(&made(Some("ann"), &[other])).role, None, "{other:?}");
        }
        // A name is no role.
        assert_eq!(peer(&made(Some("os:admin"), &["Harbour"])).role, None);
    }

    #[test]
    fn a_name_cannot_break_out_or_grow() {
        assert!(peer(&made(Some("a\r\nbü"), &[])).identity.starts_with("CN=a??b? sha256:"));
        let address = "[fe80:1111:2222:3333:4444:5555:6666:7777%4294967295]:65535".parse().unwrap();
        let long = Peer::of(&made(Some(&"x".repeat(500)), &[]), address);
        assert!(long.identity.len() <= IDENTITY_MAX, "{long:?}");
    }

    #[test]
    fn a_cut_certificate_is_no_trap() {
        let whole = made(Some("ann"), &["os:admin"]);
        for end in 0..whole.len() {
            let _ = subject(&whole[..end]);
        }
        assert_eq!(value(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(value(&[0x30, 0x80]), None);
    }
}
