//! One request over one connection: TCP, a proxy where there is one, TLS, HTTP/1.1.

use std::io::{self, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use kelson_resolver::Resolver;
use kelson_sys::text::harmless;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::error::PullError;
use crate::place::Place;

/// Of TCP with one address, of TLS, of a proxy.
const CONNECT: Duration = Duration::from_secs(5);
/// From a request to the head of its answer.
const HEAD: Duration = Duration::from_secs(30);
/// Addresses of a name that are tried.
const ADDRESSES: usize = 3;
/// Bytes of the head of an answer, and how many lines it may have.
const HEAD_MAX: usize = 64 << 10;
const LINES_MAX: usize = 128;
/// Bytes of a proxy's answer.
const PROXY_MAX: usize = 8 << 10;
const AGENT: HeaderValue = HeaderValue::from_static(concat!("kelson-pull/", env!("CARGO_PKG_VERSION")));

/// The network, as this host reaches registries.
pub struct Network {
    resolver: Resolver,
    tls: TlsConnector,
    /// `HOST:PORT`.
    proxy: Option<Place>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Network {
    /// `authorities`: the CAs in PEM, none where no registry is asked by TLS.
    ///
    /// # Errors
    /// What is wrong with the CAs.
    pub fn new(resolver: Resolver, authorities: &[u8], proxy: Option<&str>) -> Result<Network, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_reader_iter(BufReader::new(authorities)) {
            // Those of a distribution may hold one that is not known here.
            roots.add_parsable_certificates(certificate.ok());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let proxy = proxy.map(|proxy| Place::at(proxy, false, String::new()));
        Ok(Network { resolver, tls: TlsConnector::from(Arc::new(config)), proxy })
    }

    /// Asks for a place; the body of the answer is still to come.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn get(&self, place: &Place, headers: HeaderMap) -> Result<Response<Incoming>, PullError> {
        let host = place.authority();
        let stream = self.connect(place).await?;
        let cut =
            |text: String| PullError::Cut { host: host.clone(), what: "the connection".to_owned(), text };
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_MAX)
            .max_headers(LINES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| cut(error.to_string()))?;
        // It ends with the body, or when the body is dropped; its error is that of the body.
        tokio::spawn(connection);
        let target =
            if self.proxy.is_some() && !place.secure { place.to_string() } else { place.path.clone() };
        let unfit = |_| PullError::Unreachable { host: host.clone(), text: format!("{place} is no address") };
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = target.parse::<Uri>().map_err(|_| ()).map_err(unfit)?;
        *request.headers_mut() = headers;
        let own = HeaderValue::try_from(host.as_str()).map_err(|_| ()).map_err(unfit)?;
        request.headers_mut().insert(HOST, own);
        request.headers_mut().insert(USER_AGENT, AGENT);
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        match timeout(HEAD, sender.send_request(request)).await {
            Ok(answer) => answer.map_err(|error| cut(error.to_string())),
            Err(_) => Err(cut(format!("no answer within {} s", HEAD.as_secs()))),
        }
    }

    async fn connect(&self, place: &Place) -> Result<Box<dyn Stream>, PullError> {
        let first = self.proxy.as_ref().unwrap_or(place);
        let mut stream = self.reach(first).await?;
        if !place.secure {
            return Ok(Box::new(stream));
        }
        let host = place.authority();
        if self.proxy.is_some() {
            let tunnel = timeout(CONNECT.saturating_mul(2), tunnel(&mut stream, place)).await;
            let text = match tunnel {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("no answer".to_owned()),
            };
            if let Some(text) = text {
                let text = format!("the proxy {}: {text}", first.authority());
                return Err(PullError::Unreachable { host, text });
            }
        }
        let plain = place.host.trim_matches(['[', ']']);
        let untrusted = |text: String| PullError::Untrusted { host: host.clone(), text };
        let name = ServerName::try_from(plain.to_owned()).map_err(|error| untrusted(error.to_string()))?;
        match timeout(CONNECT.saturating_mul(2), self.tls.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(match error.get_ref().and_then(|error| error.downcast_ref()) {
                Some(error) => untrusted(refusal(error)),
                None => PullError::Unreachable { host, text: format!("TLS: {error}") },
            }),
            Err(_) => Err(PullError::Unreachable { host, text: "TLS: no answer".to_owned() }),
        }
    }

    async fn reach(&self, place: &Place) -> Result<TcpStream, PullError> {
        let name = place.host.trim_matches(['[', ']']).to_owned();
        let resolver = self.resolver.clone();
        let found = tokio::task::spawn_blocking(move || resolver.addresses(&name)).await;
        let unreachable = |text: String| PullError::Unreachable { host: place.authority(), text };
        let addresses =
            found.map_err(|_| PullError::Thread)?.map_err(|error| unreachable(error.to_string()))?;
        let mut last = "it has no address".to_owned();
        for address in addresses.into_iter().take(ADDRESSES) {
            match one(address, place.port).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        Err(unreachable(last))
    }
}

async fn one(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let connected = timeout(CONNECT, TcpStream::connect(SocketAddr::new(address, port))).await;
    connected.unwrap_or_else(|_| Err(io::Error::other(format!("no answer within {} s", CONNECT.as_secs()))))
}

/// Has a proxy open a way to a server.
async fn tunnel(stream: &mut TcpStream, place: &Place) -> io::Result<()> {
    let target = format!("{}:{}", place.host, place.port);
    stream.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_MAX {
            return Err(io::Error::other("its answer is too long"));
        }
        // What follows the head belongs to the server.
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => {
            let line: String = harmless(line, None).take(100).collect();
            Err(io::Error::other(format!("it answers {line:?}")))
        }
    }
}

/// Why TLS failed, for an operator.
fn refusal(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate leads to none of the CAs; name its CA in registries.ca of the machine file"
                .to_owned()
        }
        other => other.to_string(),
    }
}
