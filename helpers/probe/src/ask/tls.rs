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

use super::answer::{Answer, Deadline, Unaskable};
use super::stream::{self, Bytes};
use super::text;

/// The material that one check needs for its handshakes.
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
    ) -> Result<Tls, Unaskable> {
        let name = match host {
            Some(host) => {
                ServerName::try_from(host.to_owned()).map_err(|_| Unaskable::TlsName(host.to_owned()))?
            }
            None => ServerName::from(address.ip()),
        };
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Verifier::new(tls, &provider)?);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(Unaskable::Tls)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        // Each question verifies the certificate again: one that has expired is not carried on by a ticket.
        config.resumption = Resumption::disabled();
        Ok(Tls { config: Arc::new(config), name })
    }

    async fn connect(&self, stream: TcpStream, deadline: Deadline) -> Result<Box<dyn Bytes>, Answer> {
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

/// Trusts what the given certificates have signed, and those certificates themselves: a server that signed its own is
/// known by it, although it is a CA. Without them it looks at no certificate, as the service file wants it; that the peer
/// holds its key is still seen.
#[derive(Debug)]
struct Verifier {
    given: Option<(Arc<WebPkiServerVerifier>, Vec<CertificateDer<'static>>)>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn new(tls: &ProbeTls, provider: &Arc<CryptoProvider>) -> Result<Verifier, Unaskable> {
        let algorithms = provider.signature_verification_algorithms;
        let Some(pem) = &tls.ca else { return Ok(Verifier { given: None, algorithms }) };
        let mut roots = RootCertStore::empty();
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(Unaskable::CaText)?;
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(Unaskable::Ca)?;
        }
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(Unaskable::Chain)?;
        Ok(Verifier { given: Some((chain, certificates)), algorithms })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some((chain, given)) = &self.given else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, others, name, ocsp, now) {
            // Its times have been looked at before its role.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if given.contains(certificate) => {
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
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Connects, with TLS where `tls` says how.
pub async fn connect(
    address: SocketAddr,
    tls: Option<&Tls>,
    deadline: Deadline,
) -> Result<Box<dyn Bytes>, Answer> {
    let stream = stream::connect(address, deadline).await?;
    match tls {
        Some(tls) => tls.connect(stream, deadline).await,
        None => Ok(Box::new(stream)),
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
