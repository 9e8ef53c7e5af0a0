//! A small PKI: a CA, and the certificates that it signs for people and for machines.
//!
//! There is no list of what was revoked: certificates of people are valid for weeks, and are made again.

mod authority;

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_apid::certificate::Validity;
use kelson_proto::access::Role;
use prost_types::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::failure::Failure;
use crate::output::time;
pub use authority::Authority;

/// The length of a day.
pub const DAY: Duration = Duration::from_secs(86_400);

/// A machine whose clock is behind takes what was made just now.
const BEHIND: Duration = Duration::from_secs(3600);

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Algorithm {
    /// ECDSA, which every client takes
    P256,
    /// Not for clients built on BoringSSL, such as Python's grpcio
    Ed25519,
}

/// A certificate with its key, both as PEM.
#[derive(Debug)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
    pub until: Timestamp,
    /// It would have been longer, had the CA not ended then.
    pub is_cut: bool,
}

/// Whom a certificate is for.
#[derive(Debug, Clone, Copy)]
pub enum Holder<'a> {
    /// Somebody who calls, in this role.
    Client(Role),
    /// A machine that is called by these names and addresses.
    Server(&'a [String]),
    /// A user of the store of a fleet, who has no role at machines.
    Member,
}

/// Makes a CA that signs people and machines, but no other CA.
pub fn authority(name: &str, algorithm: Algorithm, valid: Duration) -> Result<Pair, Failure> {
    let span = span(valid, None);
    let mut params = params(span);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = generate(algorithm)?;
    let certificate = params.self_signed(&key).map_err(|error| not_made(&error))?;
    let until = stamp(span.until);
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem(), until, is_cut: false })
}

impl Holder<'_> {
    fn describe(self, name: &str, params: &mut CertificateParams) -> Result<(), Failure> {
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        match self {
            Holder::Client(role) => {
                params.distinguished_name.push(DnType::OrganizationName, role.name());
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            }
            Holder::Member => params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            Holder::Server(hosts) => {
                params.subject_alt_names =
                    CertificateParams::new(hosts).map_err(|error| not_made(&error))?.subject_alt_names;
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }
        }
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(())
    }
}

/// From now on for this long, but no longer than the CA's own certificate holds.
fn span(valid: Duration, authority: Option<Validity>) -> Validity {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let now = seconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let ours = Validity {
        from: now.saturating_sub(seconds(BEHIND)).max(0),
        until: now.saturating_add(seconds(valid)),
    };
    match authority {
        Some(whole) => Validity { from: ours.from.max(whole.from), until: ours.until.min(whole.until) },
        None => ours,
    }
}

fn params(span: Validity) -> CertificateParams {
    let at = |seconds: i64| {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    (params.not_before, params.not_after) = (at(span.from), at(span.until));
    params
}

fn generate(algorithm: Algorithm) -> Result<KeyPair, Failure> {
    let made = KeyPair::generate_for(match algorithm {
        Algorithm::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
        Algorithm::Ed25519 => &rcgen::PKCS_ED25519,
    });
    made.map_err(|error| Failure::Failed(format!("cannot make a key: {error}")))
}

fn not_made(error: &rcgen::Error) -> Failure {
    Failure::Failed(format!("cannot make the certificate: {error}"))
}

fn stamp(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

fn wrong(what: &str) -> Failure {
    Failure::Usage(what.to_owned())
}

/// Reads how long a certificate holds.
///
/// # Errors
/// A sentence that says what would be right.
pub fn parse_valid(text: &str) -> Result<Duration, Failure> {
    match time::parse(text)? {
        valid if valid < Duration::from_secs(60) => Err(wrong("that is less than a minute")),
        valid if valid > 36_500 * DAY => Err(wrong("that is more than 100 years (36500d)")),
        valid => Ok(valid),
    }
}

/// Reads a common name, of which the names of files are made.
///
/// # Errors
/// A sentence that says what would be right.
pub fn parse_name(text: &str) -> Result<String, Failure> {
    if text.is_empty() || text.chars().count() > 64 {
        Err(wrong("a name has 1 to 64 characters"))
    } else if text.starts_with(['.', '-']) || text.contains(|c: char| c == '/' || c.is_control()) {
        Err(wrong(
            "files are named by it: it has no / and no control characters, and begins with neither . nor -",
        ))
    } else {
        Ok(text.to_owned())
    }
}

/// Reads the name or the address of a machine.
///
/// # Errors
/// A sentence that says what would be right.
pub fn parse_host(text: &str) -> Result<String, Failure> {
    let word = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name that ends in a number is an address, or a mistake in one.
    let number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let last = text.rsplit('.').next().unwrap_or_default();
    if text.parse::<IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(word) && !number(last)) {
        Ok(text.to_owned())
    } else {
        Err(wrong(
            "it is neither an address nor a name of a machine, such as 192.0.2.7, 2001:db8::7 or edge-1.example \
             (without a port)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_machines() {
        for good in ["192.0.2.7", "2001:db8::7", "edge-1", "edge_1.example.com", "7.edge"] {
            assert_eq!(parse_host(good).as_deref(), Ok(good));
        }
        for bad in
            ["", "192.0.2.7:50000", "[::1]", "192.0.2.256", "a..b", "-a", "a b", "edge.", "ü", "*.edge"]
        {
            assert!(parse_host(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_of_people_name_files() {
        for good in ["ann", "Ann Smith", "ann@example.com", "::1"] {
            assert_eq!(parse_name(good).as_deref(), Ok(good));
        }
        for bad in ["", "../ann", "a/b", ".ann", "-ann", "a\nb", &"x".repeat(65)] {
            assert!(parse_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn spans_of_life() {
        assert_eq!(parse_valid("30d"), Ok(30 * DAY));
        assert_eq!(parse_valid("12h"), Ok(DAY / 2));
        for bad in ["0s", "59s", "36501d", "30", "soon"] {
            assert!(parse_valid(bad).is_err(), "{bad:?}");
        }
        let ours = span(DAY, None);
        assert_eq!(ours.until - ours.from, 86_400 + 3600);
        let whole = Validity { from: ours.from + 60, until: ours.until - 60 };
        assert_eq!(span(DAY, Some(whole)), whole, "nothing outlives the CA");
    }
}
