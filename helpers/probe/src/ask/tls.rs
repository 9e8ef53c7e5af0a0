//! TLS of a check: whom it trusts, and what a refusal is called.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kelson_spec::service::ProbeTls;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use super::stream::Bytes;
use super::{Answer, Deadline, text};

/// What one check needs for its handshakes.
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// `protocol` is what is asked for in ALPN.
    pub fn new(
        tls: &ProbeTls,
        host: Option<&str>,
        address: SocketAddr,
        protocol: &[u8],
    ) -> Result<Tls, String> {
        let name = match host {
            Some(host) => ServerName::try_from(host.to_owned())
                .map_err(|_| format!("{host:?} is no name that a certificate can be for"))?,
            None => ServerName::from(address.ip()),
        };
        let provider = Arc::new(ring::default_provider());
        let verifier = verifier(tls, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        // Each asking sees the certificate anew: one that has expired is not carried on by a ticket.
        config.resumption = Resumption::disabled();
        Ok(Tls { config: Arc::new(config), name })
    }

    pub async fn connect(&self, stream: TcpStream, deadline: Deadline) -> Result<Box<dyn Bytes>, Answer> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let handshake = async {
            match connector.connect(self.name.clone(), stream).await {
                Ok(stream) => Ok(Box::new(stream) as Box<dyn Bytes>),
                Err(error) => Err(Answer::fails(refusal(&error, &self.name))),
            }
        };
        deadline.bounds("TLS handshake", handshake).await
    }
}

fn verifier(tls: &ProbeTls, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let algorithms = provider.signature_verification_algorithms;
    let Some(pem) = &tls.ca else { return Ok(Arc::new(Anybody(algorithms))) };
    let mut roots = RootCertStore::empty();
    let mut given = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("the CA cannot be read: {error}"))?;
        roots.add(certificate.clone()).map_err(|error| format!("the CA cannot be used: {error}"))?;
        given.push(certificate);
    }
    let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| format!("the CA cannot be used: {error}"))?;
    Ok(Arc::new(Given { chain, given }))
}

/// Trusts what the given certificates have signed, and those certificates themselves: a server that signed its own is
/// known by it, although it is a CA.
#[derive(Debug)]
struct Given {
    chain: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Given {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.chain.verify_server_cert(certificate, others, name, ocsp, now) {
            // Its times have been looked at before its role.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.given.contains(certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Looks at no certificate, as the service file wants it; that the peer holds its key is still seen.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Why a handshake failed.
fn refusal(error: &io::Error, name: &ServerName<'_>) -> Cow<'static, str> {
    let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "connection closed during the TLS handshake".into(),
            _ => text::io_error(error),
        };
    };
    match error {
        Error::InvalidCertificate(why) => certificate(why, name),
        Error::InvalidMessage(_) => "the answer is no TLS".into(),
        Error::NoCertificatesPresented => "the server shows no certificate".into(),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a certificate of the client".into()
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "the server speaks another protocol over TLS".into()
        }
        Error::AlertReceived(alert) => format!("the server refuses TLS: {alert:?}").into(),
        Error::PeerIncompatible(_) => {
            "the server's TLS is too old, or has nothing in common with ours".into()
        }
        other => format!("TLS failed: {other}").into(),
    }
}

fn certificate(why: &CertificateError, name: &ServerName<'_>) -> Cow<'static, str> {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate not valid yet".into()
        }
        // The latter: by one that is called like a given one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate is signed by none of the given CA's".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("certificate is not for {}", name.to_str()).into()
        }
        other => format!("certificate is not accepted: {other}").into(),
    }
}
