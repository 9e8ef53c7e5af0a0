//! The identity of a client, from its certificate: the common name of its subject, the fingerprint, and the
//! role that an organisation of its subject gives it.
//!
//! The certificate has been verified before it comes here. Of one that cannot be read the fingerprint is there all the
//! same.

use std::net::SocketAddr;

use crate::certificate::Certificate;
use kelson_proto::access::Role;
use kelson_proto::call::IDENTITY_MAX;

/// The client of a connection.
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
        let subject = Certificate::read(certificate).and_then(|read| read.subject()).unwrap_or_default();
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
    fn the_role_is_that_of_the_certificate() {
        assert_eq!(peer(&made(Some("ann"), &["os:operator"])).role, Some(Role::Operator));
        assert_eq!(peer(&made(Some("os:admin"), &[])).role, None);
    }

    #[test]
    fn a_name_cannot_break_out_or_grow() {
        assert!(peer(&made(Some("a\r\nbü"), &[])).identity.starts_with("CN=a??b? sha256:"));
        let address = "[fe80:1111:2222:3333:4444:5555:6666:7777%4294967295]:65535".parse().unwrap();
        let long = Peer::of(&made(Some(&"x".repeat(500)), &[]), address);
        assert!(long.identity.len() <= IDENTITY_MAX, "{long:?}");
    }
}
