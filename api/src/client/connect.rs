//! Making a connection, with a sentence for each way in which it can fail.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use super::{CONNECT_TIMEOUT, Failure, TlsMaterial};

type Connecting<T> = Pin<Box<dyn Future<Output = Result<TokioIo<T>, Failure>> + Send>>;

/// Makes a connection whenever the channel has none.
struct Connector<T>(Arc<dyn Fn() -> Connecting<T> + Send + Sync>);

impl<T: 'static> Service<Uri> for Connector<T> {
    type Response = TokioIo<T>;
    type Error = Failure;
    type Future = Connecting<T>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Connecting<T> {
        let connecting = (self.0)();
        Box::pin(async move {
            tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| {
                Err(Failure::NotReachable(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())))
            })
        })
    }
}

/// The authority is what a server expects to see; where we connect, the connector knows.
fn channel() -> Endpoint {
    Endpoint::from_static("http://kelson")
}

pub fn unix(path: PathBuf) -> Channel {
    let connect = move || -> Connecting<UnixStream> {
        let path = path.clone();
        Box::pin(async move {
            match UnixStream::connect(&path).await {
                Ok(stream) => Ok(TokioIo::new(stream)),
                Err(error) => Err(refused(&path, &error)),
            }
        })
    };
    channel().connect_with_connector_lazy(Connector(Arc::new(connect)))
}

fn refused(path: &Path, error: &Error) -> Failure {
    let path = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => Failure::Denied(format!(
            "{path} may not be opened by this user: call as root, for instance by sudo"
        )),
        ErrorKind::NotFound => Failure::NotReachable(format!(
            "there is no {path}: Kelson does not run here, or with another --runtime-dir (see --endpoint)"
        )),
        ErrorKind::ConnectionRefused => Failure::NotReachable(format!(
            "nobody serves {path}: it was left behind by a process that has ended"
        )),
        _ => Failure::NotReachable(format!("{path}: {error}")),
    }
}

#[cfg(not(feature = "tls"))]
pub fn remote(host: &str, port: u16, _: &TlsMaterial) -> Result<Channel, Failure> {
    Err(Failure::Failed(format!("{host}:{port} cannot be reached: this program was built without TLS")))
}

#[cfg(feature = "tls")]
pub fn remote(host: &str, port: u16, tls: &TlsMaterial) -> Result<Channel, Failure> {
    use tokio::io::AsyncBufReadExt as _;
    use tokio::net::TcpStream;

    let connector = super::tls::connector(tls)?;
    let name = super::tls::server_name(host)?;
    let host = host.to_owned();
    let connect = move || -> Connecting<tokio_rustls::client::TlsStream<TcpStream>> {
        let (host, connector, name) = (host.clone(), connector.clone(), name.clone());
        Box::pin(async move {
            let stream = dial(&host, port).await?;
            // A key press at a prompt should not wait for the next one.
            let _ = stream.set_nodelay(true);
            // In TLS 1.3 the handshake is done for us before the machine has looked at our certificate. It speaks first
            // once it has let us in; waiting for that word, we hear its no instead of a broken connection.
            let entered = async {
                let mut stream = connector.connect(name, stream).await?;
                match stream.fill_buf().await?.is_empty() {
                    false => Ok(stream),
                    true => Err(Error::new(ErrorKind::UnexpectedEof, "it closes the connection")),
                }
            };
            match entered.await {
                Ok(stream) => Ok(TokioIo::new(stream)),
                Err(error) => Err(super::tls::handshake(&host, port, &error)),
            }
        })
    };
    let channel = channel()
        .http2_keep_alive_interval(std::time::Duration::from_secs(20))
        .keep_alive_timeout(std::time::Duration::from_secs(10));
    Ok(channel.connect_with_connector_lazy(Connector(Arc::new(connect))))
}

/// Tries the addresses of the host one after the other.
#[cfg(feature = "tls")]
async fn dial(host: &str, port: u16) -> Result<tokio::net::TcpStream, Failure> {
    let mut last = None;
    for address in addresses(host)? {
        match tokio::net::TcpStream::connect((address, port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
    Err(Failure::NotReachable(format!("{host} port {port} is not reachable: {why}")))
}

/// An address, or a name of `/etc/hosts`: a static program has no resolver that can be relied on.
#[cfg(feature = "tls")]
fn addresses(host: &str) -> Result<Vec<std::net::IpAddr>, Failure> {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let found = in_hosts(&hosts, host);
    if !found.is_empty() {
        return Ok(found);
    }
    if host == "localhost" {
        return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    }
    Err(Failure::NotReachable(format!(
        "{host} has no entry in /etc/hosts, and names are looked up nowhere else: give its address, or add it there"
    )))
}

#[cfg(feature = "tls")]
fn in_hosts(hosts: &str, name: &str) -> Vec<std::net::IpAddr> {
    let lines = hosts.lines().filter_map(|line| line.split('#').next());
    let found = lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    found.collect()
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_hosts_file() {
        let hosts =
            "127.0.0.1 localhost\n# 10.9.9.9 edge\n10.0.0.1\tedge.lan Edge # ours\nbad edge\n::1 edge\n";
        let edge: Vec<std::net::IpAddr> = vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        assert_eq!(in_hosts(hosts, "edge"), edge);
        assert_eq!(in_hosts(hosts, "ours"), Vec::<std::net::IpAddr>::new());
        assert_eq!(addresses("10.1.2.3").unwrap(), ["10.1.2.3".parse::<std::net::IpAddr>().unwrap()]);
        assert!(matches!(addresses("no-such-name.invalid"), Err(Failure::NotReachable(_))));
    }
}
