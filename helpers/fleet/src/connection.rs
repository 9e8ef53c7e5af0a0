//! A connection with one member of etcd.
//!
//! etcd-client can balance between members, but a member that is down then fails every second call. Here a session has one
//! member; the next session has the next one.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Channel, Client};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kelson_resolver::Resolver;
use kelson_spec::fleet::FleetSpec;
use kelson_sys::text::of_error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tonic::body::Body;
use tonic::codegen::http::uri::{Authority, Scheme, Uri};
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Context, Poll, Service, StdError};
use tower::util::BoxCloneSyncService;

use crate::received::{Counted, Received};

/// Between the error of a call and the end of its connection.
const END: Duration = Duration::from_millis(50);
/// Addresses of a name that are tried.
const ADDRESSES: usize = 3;
/// For one of them: time for a packet and one more.
const ATTEMPT: Duration = Duration::from_millis(1500);

/// Closed when it is dropped.
pub struct Connection {
    pub client: Client,
    /// The address of the host.
    pub address: IpAddr,
    pub received: Received,
    task: JoinHandle<hyper::Result<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// With the endpoint of this number. Names, certificates and keys are read again each time.
    ///
    /// # Errors
    /// For an operator: what failed.
    pub async fn new(spec: &FleetSpec, endpoint: usize) -> Result<Connection, String> {
        let endpoint = spec.endpoints.get(endpoint).ok_or("fleet.endpoints of the machine file is empty")?;
        let unfit =
            || format!("{endpoint} in fleet.endpoints of the machine file is no http:// or https:// URL");
        let uri: Uri = endpoint.parse().map_err(|_| unfit())?;
        let (scheme, authority) = (uri.scheme().ok_or_else(unfit)?, uri.authority().ok_or_else(unfit)?);
        let is_secure = *scheme == Scheme::HTTPS;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if is_secure { 443 } else { 80 });

        let stream = reach(&host, port).await?;
        let address = stream.local_addr().map_err(|error| of_error(&error))?.ip();
        // A renewal is a packet of its own.
        let _ = stream.set_nodelay(true);
        let received = Received::default();
        let stream = received.of(stream);
        let stream: Box<dyn Stream> = match is_secure {
            true => Box::new(secure(spec, &host, stream).await?),
            false => Box::new(stream),
        };
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| error.to_string())?;
        let task = kelson_sys::spawn(connection);
        let carrier = Carrier { sender, scheme: scheme.clone(), authority: authority.clone() };
        let channel = Channel::Custom(BoxCloneSyncService::new(carrier));
        let options = etcd_client::ConnectOptions::new().with_require_leader(true);
        let client = Client::from_channel(channel, Some(options)).await.map_err(|error| text(&error))?;
        Ok(Connection { client, address, received, task })
    }
}

impl Connection {
    /// What failed with a call, for an operator. A connection that has ended knows it best: a member refuses a certificate
    /// only after the handshake.
    pub async fn text(&mut self, error: &etcd_client::Error) -> String {
        if let Ok(Ok(Err(error))) = timeout(END, &mut self.task).await
            && let Some(text) = of_system(&error)
        {
            return text;
        }
        text(error)
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// # Errors
/// Of the last address.
pub async fn reach(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses = match host.parse() {
        Ok(address) => vec![address],
        Err(_) => {
            let name = host.to_owned();
            let found = in_thread(move || Resolver::of_host().addresses(&name)).await?;
            found.map_err(|error| error.to_string())?
        }
    };
    let mut last = "it has no address".to_owned();
    for address in addresses.into_iter().take(ADDRESSES) {
        match timeout(ATTEMPT, TcpStream::connect(SocketAddr::new(address, port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = of_error(&error),
            Err(_) => last = no_answer(ATTEMPT),
        }
    }
    Err(last)
}

async fn secure(spec: &FleetSpec, host: &str, stream: Counted) -> Result<impl Stream + use<>, String> {
    let of = spec.clone();
    let config = in_thread(move || config(&of)).await??;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    connected.map_err(|error| of_system(&error).unwrap_or_default())
}

fn config(spec: &FleetSpec) -> Result<ClientConfig, String> {
    let ca = spec
        .ca
        .as_deref()
        .ok_or("fleet.ca of the machine file is missing, so no certificate can be verified")?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", ca.display()))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match (&spec.certificate, &spec.key) {
        (Some(certificate), Some(key)) => {
            let pem = read(key)?;
            let private =
                PrivateKeyDer::from_pem_slice(&pem).map_err(|error| format!("{}: {error}", key.display()))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private)
                .map_err(|error| format!("{}: {error}", certificate.display()))?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(format!("{}: there is no certificate in it", path.display()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// # Errors
/// With the path.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {}", path.display(), of_error(&error)))
}

/// A disk or a name server may hang.
///
/// # Errors
/// The thread has ended.
pub async fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

pub fn no_answer(time: Duration) -> String {
    format!("no answer within {} s", time.as_secs_f32())
}

/// What failed, for an operator.
pub fn text(error: &etcd_client::Error) -> String {
    let etcd_client::Error::GRpcStatus(status) = error else { return error.to_string() };
    of_system(status).unwrap_or_else(|| status.message().to_owned())
}

/// The error of the system, or of TLS, that another error comes from.
fn of_system(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            let tls = error.get_ref().and_then(|error| error.downcast_ref());
            return Some(tls.map_or_else(|| of_error(error), refusal));
        }
        cause = error.source();
    }
    None
}

fn refusal(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "TLS: its certificate leads to none of the authorities in the file of `ca`".to_owned()
        }
        Error::AlertReceived(alert) => {
            format!("TLS: it refuses the certificate of this client ({alert:?})")
        }
        other => format!("TLS: {other}"),
    }
}

/// Carries the calls of etcd-client.
#[derive(Clone)]
struct Carrier {
    sender: SendRequest<Body>,
    scheme: Scheme,
    authority: Authority,
}

impl Service<Request<Body>> for Carrier {
    type Response = Response<Body>;
    type Error = StdError;
    type Future = kelson_helper::BoxFuture<'static, Result<Response<Body>, StdError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        self.sender.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut parts = request.uri().clone().into_parts();
        (parts.scheme, parts.authority) = (Some(self.scheme.clone()), Some(self.authority.clone()));
        // The path is that of a method, so it always fits.
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        let answer = self.sender.send_request(request);
        Box::pin(async move { Ok(answer.await?.map(Body::new)) })
    }
}
