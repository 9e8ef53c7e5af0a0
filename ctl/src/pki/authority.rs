//! A CA that lies in files, ours or one that another program made.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_apid::certificate::{self, Attribute, Certificate, Validity};
use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, Issuer, KeyIdMethod, KeyPair, PublicKeyData,
};

use super::{Algorithm, Holder, Pair, generate, not_made, params, span, stamp};
use crate::failure::Failure;
use crate::output::time;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
const KEY: &str = "-----BEGIN PRIVATE KEY-----";

/// A CA with its key.
pub struct Authority {
    /// Its certificates as PEM, and nothing else of their file.
    pub pem: String,
    path: PathBuf,
    key_path: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// Its name, as it must stand in what it signs.
    subject: Vec<u8>,
    validity: Validity,
    /// It says by what its key is named; what it signs says the same.
    has_key_identifier: bool,
}

impl Authority {
    /// Reads the folder that `gen ca` made, or the file of a certificate; the key lies beside it where `key` does not
    /// say otherwise.
    ///
    /// # Errors
    /// Names the file and says what it should hold.
    pub fn read(path: &Path, key: Option<&Path>) -> Result<Authority, Failure> {
        let path = if path.is_dir() { path.join("ca.pem") } else { path.to_owned() };
        let key_path = key.map_or_else(|| path.with_extension("key"), Path::to_owned);
        let wrong = |why: &str| Failure::Failed(format!("{}: {why}", path.display()));
        let text = read(&path, "the CA's certificate")?;
        let key = read(&key_path, "the CA's key")?;
        let der = certificate::from_pem(text.as_bytes()).ok_or_else(|| {
            wrong("it holds no certificate; it must be PEM, with -----BEGIN CERTIFICATE-----")
        })?;
        let found = Certificate::read(&der).ok_or_else(|| wrong("its certificate is damaged"))?;
        let validity =
            found.validity().ok_or_else(|| wrong("its certificate does not say until when it holds"))?;
        if !found.is_ca() {
            return Err(wrong(
                "it is the certificate of somebody, not of a CA, and nobody would trust what it signs",
            ));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if validity.until <= i64::try_from(now).unwrap_or(i64::MAX) {
            return Err(wrong(&format!(
                "the CA has expired on {}; make another by `kelsonctl gen ca`",
                time::rfc3339(&stamp(validity.until))
            )));
        }
        // Other programs put other sections before it.
        let section = key.find(KEY).map_or("", |at| &key[at..]);
        let key = KeyPair::from_pem(section).map_err(|_| {
            Failure::Failed(format!(
                "{}: it holds no key that can sign; it must be PEM without a password, with -----BEGIN PRIVATE \
                 KEY-----, of P-256, P-384, Ed25519 or RSA (`openssl pkcs8 -topk8 -nodes` makes it so)",
                key_path.display()
            ))
        })?;
        if key.subject_public_key_info() != found.key {
            return Err(Failure::Failed(format!(
                "the key in {} is not that of the certificate in {}",
                key_path.display(),
                path.display()
            )));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name =
            found.attributes().and_then(|all| name(&all)).ok_or_else(|| unusual(&path))?;
        if let Some(identifier) = found.key_identifier() {
            params.key_identifier_method = KeyIdMethod::PreSpecified(identifier.to_vec());
        }
        Ok(Authority {
            pem: certificates(&text),
            issuer: Issuer::new(params, key),
            subject: found.subject.to_vec(),
            validity,
            has_key_identifier: found.key_identifier().is_some(),
            path,
            key_path,
        })
    }

    /// Whether a file is one of its own two, under whatever name.
    pub fn owns(&self, path: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        real(path).is_some_and(|path| {
            [&self.path, &self.key_path].iter().any(|own| real(own) == Some(path.clone()))
        })
    }

    /// Makes a key, and signs a certificate for it. It ends with the CA's own at the latest.
    pub fn issue(
        &self,
        name: &str,
        holder: Holder<'_>,
        algorithm: Algorithm,
        valid: Duration,
    ) -> Result<Pair, Failure> {
        let key = generate(algorithm)?;
        let (certificate, span) = self.certify(name, holder, &key, valid)?;
        let is_cut = span.until == self.validity.until;
        Ok(Pair { certificate, key: key.serialize_pem(), until: stamp(span.until), is_cut })
    }

    /// Signs a certificate for the key of somebody else, in PEM, and says how long it holds: as [`Authority::issue`].
    pub fn certify(
        &self,
        name: &str,
        holder: Holder<'_>,
        key: &impl PublicKeyData,
        valid: Duration,
    ) -> Result<(String, Validity), Failure> {
        let span = span(valid, Some(self.validity));
        let mut params = params(span);
        holder.describe(name, &mut params)?;
        params.use_authority_key_identifier_extension = self.has_key_identifier;
        let made = params.signed_by(key, &self.issuer).map_err(|error| not_made(&error))?;
        // Written in another way than the CA writes it, its name would lead nobody to the CA.
        if Certificate::read(made.der()).is_none_or(|made| made.issuer != self.subject) {
            return Err(unusual(&self.path));
        }
        Ok((made.pem(), span))
    }
}

fn read(path: &Path, what: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::Failed(format!("cannot read {what} {}: {error}", path.display())))
}

fn unusual(path: &Path) -> Failure {
    Failure::Failed(format!(
        "{}: the CA's subject has a form that cannot be written again (two words of one kind, or an unusual alphabet); \
         use a CA with a plain name, such as one of `kelsonctl gen ca`",
        path.display()
    ))
}

/// The name as it is written in what the CA signs.
fn name(attributes: &[Attribute<'_>]) -> Option<DistinguishedName> {
    let mut name = DistinguishedName::new();
    for attribute in attributes {
        let text = || std::str::from_utf8(attribute.text).ok();
        let value = match attribute.tag {
            0x0c => DnValue::Utf8String(text()?.to_owned()),
            0x13 => DnValue::PrintableString(PrintableString::try_from(text()?).ok()?),
            0x14 => DnValue::TeletexString(TeletexString::try_from(text()?).ok()?),
            0x16 => DnValue::Ia5String(Ia5String::try_from(text()?).ok()?),
            0x1e => DnValue::BmpString(BmpString::from_utf16be(attribute.text.to_vec()).ok()?),
            _ => return None,
        };
        name.push(DnType::from_oid(&numbers(attribute.kind)?), value);
    }
    Some(name)
}

/// The numbers of an object identifier: seven bits a byte, the first two numbers in one.
fn numbers(encoded: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for byte in encoded {
        number = number.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first);
                number -= first * 40;
            }
            numbers.push(std::mem::take(&mut number));
        }
    }
    Some(numbers)
}

/// The certificates of a PEM text, line by line: a key beside them goes nowhere.
fn certificates(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines().map(str::trim_end) {
        inside |= line == BEGIN;
        if inside {
            out.push_str(line);
            out.push('\n');
        }
        inside &= line != END;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_identifiers() {
        assert_eq!(numbers(&[0x55, 0x04, 0x03]), Some(vec![2, 5, 4, 3]));
        // pkcs-9-at-emailAddress and id-domainComponent.
        let email = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x01];
        assert_eq!(numbers(&email), Some(vec![1, 2, 840, 113_549, 1, 9, 1]));
        let component = [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19];
        assert_eq!(numbers(&component), Some(vec![0, 9, 2342, 19_200_300, 100, 1, 25]));
        assert_eq!(numbers(&[0xff; 12]), None);
    }

    #[test]
    fn a_key_beside_the_certificate_stays_where_it_is() {
        let text = "a note\r\n-----BEGIN CERTIFICATE-----\r\nMIIB\r\n-----END CERTIFICATE-----\r\n\
            -----BEGIN PRIVATE KEY-----\nMIIS\n-----END PRIVATE KEY-----\n";
        assert_eq!(certificates(text), "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    }
}
