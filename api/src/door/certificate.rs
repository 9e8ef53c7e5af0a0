//! Who a client is, from its certificate: the common name of its subject and the fingerprint.
//!
//! The certificate has been verified before it comes here, so this reads the one way in which X.509 lays it out (DER)
//! and gives up at anything else; the fingerprint is there in any case.

use crate::IDENTITY_MAX;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// Longest common name that is shown, in characters.
const NAME_MAX: usize = 64;

/// `CN=ann sha256:…`, printable ASCII and never longer than [`IDENTITY_MAX`].
pub fn identity(certificate: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let mut identity = match common_name(certificate) {
        Some(name) => format!("CN={name} sha256:"),
        None => "sha256:".to_owned(),
    };
    for byte in digest.as_ref() {
        identity.push_str(&format!("{byte:02x}"));
    }
    debug_assert!(identity.len() <= IDENTITY_MAX);
    identity
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

/// The last common name of the subject.
fn common_name(certificate: &[u8]) -> Option<String> {
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
    let mut found = None;
    while !names.is_empty() {
        let (mut set, after) = expect(SET, names)?;
        names = after;
        while !set.is_empty() {
            let (attribute, after) = expect(SEQUENCE, set)?;
            set = after;
            let (kind, text) = expect(OBJECT_IDENTIFIER, attribute)?;
            if kind == COMMON_NAME {
                let (_, text, _) = value(text)?;
                found = Some(printable(text));
            }
        }
    }
    found
}

/// What is not plain ASCII is shown as `?`; the fingerprint tells apart what that makes equal.
fn printable(text: &[u8]) -> String {
    let shown = String::from_utf8_lossy(text);
    shown.chars().take(NAME_MAX).map(|char| if matches!(char, ' '..='~') { char } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: Option<&str>) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Harbour");
        if let Some(name) = name {
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
        }
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_and_the_fingerprint() {
        let identity = identity(&made(Some("ann")));
        let fingerprint = identity.strip_prefix("CN=ann sha256:").expect(&identity);
        assert_eq!(fingerprint.len(), 64);
    }

    #[test]
    fn without_a_name_the_fingerprint() {
        assert!(identity(&made(None)).starts_with("sha256:"));
        assert!(identity(b"no certificate at all").starts_with("sha256:"));
    }

    #[test]
    fn a_name_cannot_break_out_or_grow() {
        assert!(identity(&made(Some("a\r\nbü"))).starts_with("CN=a??b? sha256:"));
        let long = identity(&made(Some(&"x".repeat(500))));
        assert!(long.len() <= IDENTITY_MAX, "{long}");
    }

    #[test]
    fn a_cut_certificate_is_no_trap() {
        let whole = made(Some("ann"));
        for end in 0..whole.len() {
            let _ = common_name(&whole[..end]);
        }
        assert_eq!(value(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(value(&[0x30, 0x80]), None);
    }
}
