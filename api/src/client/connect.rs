//! Making a connection, with a sentence for each way in which it can fail.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use super::link::{Link, Sender};
use super::{CONNECT_TIMEOUT, Failure, TlsMaterial};

/// Makes the connection in time, and begins to speak HTTP/2 on it.
async fn begin<T>(
    http: http2::Builder<TokioExecutor>,
    connecting: impl Future<Output = Result<T, Failure>>,
) -> Result<Sender, Failure>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| {
        Err(Failure::NotReachable(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())))
    })?;
    let begun = http.handshake(TokioIo::new(stream)).await;
    let (sender, connection) =
        begun.map_err(|error| Failure::Lost(format!("the connection broke: {error}")))?;
    // Its errors are those of its calls.
    tokio::spawn(connection);
    Ok(sender)
}

pub fn unix(path: PathBuf) -> Link {
    Link::new(move || {
        let path = path.clone();
        let connecting =
            async move { UnixStream::connect(&path).await.map_err(|error| refused(&path, &error)) };
        Box::pin(begin(http2::Builder::new(TokioExecutor::new()), connecting))
    })
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
pub fn remote(host: &str, port: u16, _: &TlsMaterial) -> Result<Link, Failure> {
    Err(Failure::Failed(format!("{host}:{port} cannot be reached: this program was built without TLS")))
}

#[cfg(feature = "tls")]
pub fn remote(host: &str, port: u16, tls: &TlsMaterial) -> Result<Link, Failure> {
    use std::time::Duration;

    use hyper_util::rt::TokioTimer;
    use tokio::io::AsyncBufReadExt as _;

    /// While calls are under way the host is pinged this often, and is gone if it does not answer in time.
    const PING: Duration = Duration::from_secs(20);
    const PONG: Duration = Duration::from_secs(10);

    let connector = super::tls::connector(tls)?;
    let name = super::tls::server_name(host)?;
    let host = host.to_owned();
    Ok(Link::new(move || {
        let (host, connector, name) = (host.clone(), connector.clone(), name.clone());
        let connecting = async move {
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
            entered.await.map_err(|error| super::tls::handshake(&host, port, &error))
        };
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
        Box::pin(begin(http, connecting))
    }))
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
