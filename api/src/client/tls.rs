//! Mutual TLS of the client: TLS 1.3, ring, nothing but the CA of the context trusted.

use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore, version};

use super::TlsMaterial;
use super::failure::{Failure, of_tls};

/// # Errors
/// [`Failure::Failed`] when the material is not PEM or the key is that of another certificate.
pub fn connector(material: &TlsMaterial) -> Result<TlsConnector, Failure> {
    let wrong =
        |what: &str, why: &dyn std::fmt::Display| Failure::Failed(format!("{what} of the context: {why}"));
    let mut roots = RootCertStore::empty();
    for certificate in certificates("the CA", &material.ca)? {
        roots.add(certificate).map_err(|error| wrong("the CA", &error))?;
    }
    let chain = certificates("the certificate", &material.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&material.key).map_err(|error| wrong("the key", &error))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| wrong("TLS", &error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| wrong("the certificate and the key", &error))?;
    config.alpn_protocols.push(b"h2".to_vec());
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Failure::Failed(format!(
            "{what} of the context holds no certificate: it must be PEM, with -----BEGIN CERTIFICATE-----"
        ))),
        Err(error) => Err(Failure::Failed(format!("{what} of the context is not PEM: {error}"))),
    }
}

/// # Errors
/// [`Failure::Failed`] when no certificate could bear this name.
pub fn server_name(host: &str) -> Result<ServerName<'static>, Failure> {
    ServerName::try_from(host.to_owned()).map_err(|_| Failure::Failed(format!("{host} is no name of a host")))
}

/// Why the handshake failed.
pub fn handshake(place: &str, error: &std::io::Error) -> Failure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner.and_then(of_tls) {
        Some(Failure::NotReachable(why)) => Failure::NotReachable(format!("{place}: {why}")),
        Some(failure) => failure,
        None if matches!(inner, Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol)) => {
            Failure::NotReachable(format!("{place} speaks TLS, but not as Kelson does: {error}"))
        }
        None => no_tls(place, &error.to_string()),
    }
}

/// It took the connection and never answered.
pub fn silent(place: &str) -> Failure {
    no_tls(place, &format!("it says nothing within {} s", super::CONNECT_TIMEOUT.as_secs()))
}

/// It closed the connection without a word, after the handshake.
pub fn closed(place: &str) -> Failure {
    Failure::NotReachable(format!(
        "{place} speaks TLS and closes the connection: it has too many connections, or is no Kelson"
    ))
}

fn no_tls(place: &str, why: &str) -> Failure {
    Failure::NotReachable(format!(
        "{place} does not speak TLS, so that Kelson does not listen there, but something else: {why}"
    ))
}
