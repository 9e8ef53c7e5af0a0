//! Mutual TLS of the API endpoint: TLS 1.3, ring, and a client certificate that the CA has signed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig, version};

use super::arguments::Arguments;
use super::early_clock::EarlyClock;
use super::material::Material;
use crate::error::ApidError;

/// The protocols that a client may offer: that of gRPC, and that of scrapers which know no other.
pub const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// The certificate that apid shows to clients, and the certificates that it trusts.
#[derive(Clone)]
pub struct Trust {
    pub acceptor: TlsAcceptor,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Trust {
    /// `arguments` name the files that the material is from.
    ///
    /// # Errors
    /// Names the file and says what it should hold.
    pub fn new(arguments: &Arguments, material: &Material) -> Result<Trust, ApidError> {
        let verifier = verifier(arguments, material)?;
        let acceptor = acceptor(arguments, material, Arc::clone(&verifier))?;
        Ok(Trust { acceptor, verifier })
    }

    /// Whether a handshake with this chain, the client's own certificate first, would succeed at this time.
    pub fn accepts(&self, chain: &[CertificateDer<'_>], at: Duration) -> bool {
        chain.split_first().is_some_and(|(leaf, between)| {
            self.verifier.verify_client_cert(leaf, between, UnixTime::since_unix_epoch(at)).is_ok()
        })
    }
}

fn verifier(arguments: &Arguments, material: &Material) -> Result<Arc<dyn ClientCertVerifier>, ApidError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("CA", &arguments.ca, &material.ca)? {
        roots.add(certificate).map_err(|error| {
            ApidError::Tls(format!(
                "the CA in {} is not a certificate that can sign: {error}",
                arguments.ca.display()
            ))
        })?;
    }
    let provider = Arc::new(ring::default_provider());
    let strict =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(|error| {
            ApidError::Tls(format!("the CA in {} cannot be used: {error}", arguments.ca.display()))
        })?;
    Ok(Arc::new(EarlyClock::of_the_kernel(strict)))
}

fn acceptor(
    arguments: &Arguments,
    material: &Material,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<TlsAcceptor, ApidError> {
    let chain = certificates("certificate", &arguments.certificate, &material.certificate)?;
    let key = key(&arguments.key, &material.key)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| ApidError::Tls(format!("TLS 1.3 cannot be set up: {error}")))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&error, arguments))?;
    config.alpn_protocols.extend([HTTP_2, HTTP_1].map(<[u8]>::to_vec));
    // Each connection shows its certificate again: a ticket would outlive one that has expired.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unusable(error: &Error, arguments: &Arguments) -> ApidError {
    let (certificate, key) = (arguments.certificate.display(), arguments.key.display());
    match error {
        Error::InconsistentKeys(_) => ApidError::Tls(format!(
            "the key in {key} is not that of the certificate in {certificate}: the first certificate in that file must \
             be the one that was made for this key"
        )),
        error => ApidError::Tls(format!(
            "the certificate in {certificate} with the key in {key} cannot be used: {error}"
        )),
    }
}

fn certificates(
    what: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ApidError> {
    match CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, PemError>>() {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(ApidError::Material {
            what,
            path: path.to_owned(),
            right: "it must be PEM, with whole sections from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----",
        }),
    }
}

fn key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, ApidError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| ApidError::Material {
        what: "key",
        path: path.to_owned(),
        right: "it must be PEM without a password, with a whole section from -----BEGIN PRIVATE KEY-----",
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder with a CA, a certificate that it signed with its key, and another key.
    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Files {
            let folder = tempfile::tempdir().unwrap();
            let mut ca = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
            ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let ca_key = rcgen::KeyPair::generate().unwrap();
            let ca_certificate = ca.self_signed(&ca_key).unwrap();
            let key = rcgen::KeyPair::generate().unwrap();
            let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let leaf = leaf.signed_by(&key, &rcgen::Issuer::new(ca, &ca_key)).unwrap();
            let other = rcgen::KeyPair::generate().unwrap();
            let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
            write("ca.pem", ca_certificate.pem());
            write("certificate.pem", leaf.pem());
            write("key.pem", key.serialize_pem());
            write("other-key.pem", other.serialize_pem());
            write("empty.pem", String::new());
            Files(folder)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn attempt(&self, ca: &str, certificate: &str, key: &str) -> Result<(), String> {
            let arguments = Arguments::of_files(self.path(ca), self.path(certificate), self.path(key));
            let made = Material::read(&arguments).and_then(|material| Trust::new(&arguments, &material));
            made.map(|_| ()).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn each_mistake_names_its_file() {
        let files = Files::new();
        files.attempt("ca.pem", "certificate.pem", "key.pem").unwrap();
        for (ca, certificate, key, file, problem) in [
            ("no.pem", "certificate.pem", "key.pem", "no.pem", "cannot read the CA"),
            ("empty.pem", "certificate.pem", "key.pem", "empty.pem", "BEGIN CERTIFICATE"),
            ("ca.pem", "no.pem", "key.pem", "no.pem", "cannot read the certificate"),
            ("ca.pem", "key.pem", "key.pem", "key.pem", "BEGIN CERTIFICATE"),
            ("ca.pem", "certificate.pem", "no.pem", "no.pem", "cannot read the key"),
            ("ca.pem", "certificate.pem", "ca.pem", "ca.pem", "BEGIN PRIVATE KEY"),
            ("ca.pem", "certificate.pem", "other-key.pem", "other-key.pem", "is not that of the certificate"),
        ] {
            let error = files.attempt(ca, certificate, key).expect_err(problem);
            assert!(error.contains(file) && error.contains(problem), "{error}");
        }
    }
}
