//! The contents of a certificate of X.509: its holder and role, its validity, and whether it may sign.
//!
//! This reads the one way in which X.509 lays a certificate out (DER), and gives up at anything else. It judges nothing:
//! kelson-apid comes here with what TLS has verified, the command line with what lies in its own files.

use prost_types::Timestamp;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use kelson_proto::access::Role;

const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// id-at-organizationName, 2.5.4.10.
const ORGANISATION: [u8; 3] = [0x55, 0x04, 0x0a];
/// id-ce-subjectKeyIdentifier, 2.5.29.14.
const KEY_IDENTIFIER: [u8; 3] = [0x55, 0x1d, 0x0e];
/// id-ce-basicConstraints, 2.5.29.19.
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 0x13];
/// Longest common name that is shown, in characters.
const NAME_MAX: usize = 64;

/// The first certificate of a PEM text, as DER.
pub fn from_pem(pem: &[u8]) -> Option<Vec<u8>> {
    CertificateDer::from_pem_slice(pem).ok().map(|certificate| certificate.to_vec())
}

/// The parts of a certificate, as they lie in it.
#[derive(Debug, Clone, Copy)]
pub struct Certificate<'a> {
    /// The issuer: a name as a whole, to be compared.
    pub issuer: &'a [u8],
    /// The holder: a name as a whole, to be compared.
    pub subject: &'a [u8],
    /// The public key, with its kind.
    pub key: &'a [u8],
    validity: &'a [u8],
    extensions: &'a [u8],
}

/// The attributes of a subject.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The last one, as printable ASCII; what is not is shown as `?`.
    pub common_name: Option<String>,
    /// The highest of its roles.
    pub role: Option<Role>,
}

/// One word of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The object identifier, encoded.
    pub kind: &'a [u8],
    /// The kind of string that the text is: an ASN.1 tag.
    pub tag: u8,
    pub text: &'a [u8],
}

/// The seconds since 1970 between which a certificate holds, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub from: i64,
    pub until: i64,
}

impl<'a> Certificate<'a> {
    /// `None`: it is not laid out as it must be, and nothing of it counts.
    pub fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let (certificate, _) = expect(SEQUENCE, der)?;
        let (mut rest, _) = expect(SEQUENCE, certificate)?;
        if let Some((_, after)) = expect(VERSION, rest) {
            rest = after;
        }
        // Serial number, algorithm.
        for _ in 0..2 {
            (_, _, rest) = value(rest)?;
        }
        let (issuer, rest) = whole(rest)?;
        let (validity, rest) = expect(SEQUENCE, rest)?;
        let (subject, rest) = whole(rest)?;
        let (key, mut rest) = whole(rest)?;
        let mut extensions: &[u8] = &[];
        // Before the extensions there may be identifiers that nobody uses.
        while let Some((tag, content, after)) = value(rest) {
            if tag == EXTENSIONS {
                (extensions, _) = expect(SEQUENCE, content)?;
            }
            rest = after;
        }
        Some(Certificate { issuer, subject, key, validity, extensions })
    }

    pub fn subject(&self) -> Option<Subject> {
        let mut found = Subject::default();
        for attribute in self.attributes()? {
            if attribute.kind == COMMON_NAME {
                found.common_name = Some(printable(attribute.text));
            } else if attribute.kind == ORGANISATION {
                found.role = found.role.max(Role::named(attribute.text));
            }
        }
        Some(found)
    }

    /// The words of the subject, in its order.
    pub fn attributes(&self) -> Option<Vec<Attribute<'a>>> {
        let (mut names, _) = expect(SEQUENCE, self.subject)?;
        let mut found = Vec::new();
        while !names.is_empty() {
            let (mut set, after) = expect(SET, names)?;
            names = after;
            while !set.is_empty() {
                let (attribute, after) = expect(SEQUENCE, set)?;
                set = after;
                let (kind, text) = expect(OBJECT_IDENTIFIER, attribute)?;
                let (tag, text, _) = value(text)?;
                found.push(Attribute { kind, tag, text });
            }
        }
        Some(found)
    }

    pub fn validity(&self) -> Option<Validity> {
        let (tag, from, rest) = value(self.validity)?;
        let from = seconds(tag, from)?;
        let (tag, until, _) = value(rest)?;
        Some(Validity { from, until: seconds(tag, until)? })
    }

    /// Whether it says that it is one of a CA.
    pub fn is_ca(&self) -> bool {
        let constraints = self.extension(&BASIC_CONSTRAINTS).and_then(|content| expect(SEQUENCE, content));
        let is_ca = constraints.and_then(|(content, _)| expect(BOOLEAN, content));
        is_ca.is_some_and(|(is_ca, _)| is_ca != [0])
    }

    /// By what those that it signs name its key.
    pub fn key_identifier(&self) -> Option<&'a [u8]> {
        Some(expect(OCTETS, self.extension(&KEY_IDENTIFIER)?)?.0)
    }

    fn extension(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        let mut rest = self.extensions;
        while !rest.is_empty() {
            let (extension, after) = expect(SEQUENCE, rest)?;
            rest = after;
            let (kind, content) = expect(OBJECT_IDENTIFIER, extension)?;
            // Whether it is critical stands between them, if at all.
            let content = expect(BOOLEAN, content).map_or(content, |(_, content)| content);
            if kind == wanted {
                return Some(expect(OCTETS, content)?.0);
            }
        }
        None
    }
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

/// One value with its tag and length, and what comes after it.
fn whole(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, _, rest) = value(bytes)?;
    bytes.split_at_checked(bytes.len().checked_sub(rest.len())?)
}

/// Reads `YYMMDDHHMMSSZ` and `YYYYMMDDHHMMSSZ`; no other form may stand in a certificate.
fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => digits.split_at_checked(2)?,
        (GENERALIZED_TIME, 14) => digits.split_at_checked(4)?,
        _ => return None,
    };
    let year = match (tag, year.parse::<i64>().ok()?) {
        (UTC_TIME, year @ 0..50) => year.checked_add(2000)?,
        (UTC_TIME, year) => year.checked_add(1900)?,
        (_, year) => year,
    };
    let part = |at: usize| rest.get(at..at.checked_add(2)?)?.parse::<u8>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    Some(Timestamp::date_time(year, month, day, hour, minute, second).ok()?.seconds)
}

/// Replaces all but plain ASCII by `?`; a fingerprint tells apart the names that this makes equal.
fn printable(text: &[u8]) -> String {
    let shown = String::from_utf8_lossy(text);
    shown.chars().take(NAME_MAX).map(|char| if matches!(char, ' '..='~') { char } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(change: impl FnOnce(&mut rcgen::CertificateParams)) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn named(name: &str, organisations: &[&str]) -> Vec<u8> {
        made(|params| {
            for organisation in organisations {
                params.distinguished_name.push(rcgen::DnType::OrganizationName, *organisation);
            }
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
        })
    }

    fn subject(certificate: &[u8]) -> Subject {
        Certificate::read(certificate).unwrap().subject().unwrap()
    }

    #[test]
    fn a_role_is_an_organisation() {
        for role in Role::ALL {
            assert_eq!(subject(&named("ann", &[role.name()])).role, Some(role));
        }
        for other in ["os:Admin", "os:admin ", "os:adminx", "os:admi", ""] {
            assert_eq!(subject(&named("ann", &[other])).role, None, "{other:?}");
        }
        // A name is no role.
        let named = subject(&named("os:admin", &["Harbour"]));
        assert_eq!((named.role, named.common_name.as_deref()), (None, Some("os:admin")));
    }

    #[test]
    fn the_days_are_those_of_the_calendar() {
        let day = |year, month, day| rcgen::date_time_ymd(year, month, day);
        for (from, until) in [
            (day(2026, 11, 21), day(2100, 3, 1)),
            (day(2024, 2, 29), day(2024, 12, 31)),
            (day(1970, 1, 1), day(2049, 12, 31)),
        ] {
            let made = made(|params| (params.not_before, params.not_after) = (from, until));
            let validity = Certificate::read(&made).unwrap().validity().unwrap();
            assert_eq!(validity, Validity { from: from.unix_timestamp(), until: until.unix_timestamp() });
        }
        assert_eq!(seconds(UTC_TIME, b"261121094805Z"), Some(1_795_254_485));
        assert_eq!(seconds(GENERALIZED_TIME, b"20261121094805Z"), Some(1_795_254_485));
        for (tag, text) in [
            (UTC_TIME, &b"20261121094805Z"[..]),
            (UTC_TIME, b"2611210948Z"),
            (UTC_TIME, b"261121094805+0000"),
            (UTC_TIME, b"26112109480\xffZ"),
            (GENERALIZED_TIME, b"+0261121094805Z"),
            (OCTETS, b"261121094805Z"),
        ] {
            assert_eq!(seconds(tag, text), None, "{text:?}");
        }
    }

    #[test]
    fn a_ca_says_that_it_is_one() {
        use rcgen::{BasicConstraints, IsCa};
        let parts = |is_ca| {
            let made = made(|params| params.is_ca = is_ca);
            let read = Certificate::read(&made).unwrap();
            assert_eq!(read.issuer, read.subject);
            (read.is_ca(), read.key_identifier().map(<[u8]>::len))
        };
        assert_eq!(parts(IsCa::Ca(BasicConstraints::Unconstrained)), (true, Some(20)));
        assert_eq!(parts(IsCa::Ca(BasicConstraints::Constrained(0))), (true, Some(20)));
        assert!(!parts(IsCa::ExplicitNoCa).0);
        assert_eq!(parts(IsCa::NoCa), (false, None));
    }

    #[test]
    fn a_cut_or_foreign_text_is_no_trap() {
        let whole = named("ann", &["os:admin"]);
        for end in 0..whole.len() {
            if let Some(cut) = Certificate::read(&whole[..end]) {
                panic!("{end} bytes of {} are read as {cut:?}", whole.len());
            }
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0x55;
            if let Some(read) = Certificate::read(&other) {
                let _ = (read.subject(), read.validity(), read.is_ca(), read.key_identifier());
            }
        }
        assert_eq!(value(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(value(&[0x30, 0x80]), None);
        assert_eq!(from_pem(b"no certificate"), None);
    }
}
