//! Making a connection, with a sentence for each way in which it can fail.

use std::future::Future;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use super::link::{Link, Sender};
use super::{CONNECT_TIMEOUT, Failure, Remote};

/// Makes the connection, and begins to speak HTTP/2 on it.
async fn begin<T>(
    http: http2::Builder<TokioExecutor>,
    connecting: impl Future<Output = Result<T, Failure>>,
) -> Result<Sender, Failure>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let begun = http.handshake(TokioIo::new(connecting.await?)).await;
    let (sender, connection) =
        begun.map_err(|error| Failure::Lost(format!("the connection broke: {error}")))?;
    // Its errors are those of its calls.
    kelson_sys::spawn(connection);
    Ok(sender)
}

pub fn unix(path: PathBuf) -> Link {
    Link::new(move || {
        let path = path.clone();
        let connecting = async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(&path)).await {
                Ok(connected) => connected.map_err(|error| refused(&path, &error)),
                Err(_) => Err(Failure::NotReachable(format!(
                    "{}: no connection within {} s",
                    path.display(),
                    CONNECT_TIMEOUT.as_secs()
                ))),
            }
        };
        Box::pin(begin(http2::Builder::new(TokioExecutor::new()), connecting))
    })
}

pub fn vsock(cid: u32, port: u32) -> Link {
    Link::new(move || {
        let connecting = async move {
            // It waits two seconds at most.
            let dialled = tokio::task::spawn_blocking(move || kelson_sys::vsock::dial(cid, port)).await;
            let dialled = dialled.map_err(Error::other).and_then(|dialled| dialled);
            dialled.and_then(UnixStream::from_std).map_err(|error| undialled(cid, port, &error))
        };
        Box::pin(begin(http2::Builder::new(TokioExecutor::new()), connecting))
    })
}

fn undialled(cid: u32, port: u32, error: &Error) -> Failure {
    let place = format!("vsock://{cid}:{port}");
    let local = cid == kelson_sys::vsock::LOCAL;
    Failure::NotReachable(match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            let module = if local { "vsock_loopback" } else { "vhost_vsock" };
            format!(
                "{place}: the kernel has no vsock; load its module, for instance with `modprobe {module}`"
            )
        }
        // A process of a machine has no way to a machine beside it.
        Some(libc::ENODEV) if local => {
            format!(
                "{place}: CID 1 is this machine itself, for which the kernel needs the module vsock_loopback"
            )
        }
        Some(libc::ENODEV | libc::EHOSTUNREACH | libc::ENETUNREACH) => format!(
            "{place}: no machine has CID {cid}; on the hypervisor's host, load the module vhost_vsock and give the \
             machine this CID"
        ),
        Some(libc::ECONNRESET | libc::ECONNREFUSED) => format!(
            "nobody listens on {place}: the port is another one, or the machine was started without \
             kelson.api=vsock:{port}"
        ),
        Some(libc::ETIMEDOUT) => {
            format!("{place} does not answer: no machine has CID {cid}, or it is still booting")
        }
        Some(libc::EACCES | libc::EPERM) => format!("{place}: this process may not use vsock: {error}"),
        _ => format!("{place}: {error}"),
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
pub fn remote(host: &str, port: u16, _: Remote<'_>) -> Result<Link, Failure> {
    Err(Failure::Failed(format!("{host}:{port} cannot be reached: this program was built without TLS")))
}

#[cfg(feature = "tls")]
pub fn remote(host: &str, port: u16, Remote { material, look_up }: Remote<'_>) -> Result<Link, Failure> {
    use std::time::Duration;

    use hyper_util::rt::TokioTimer;
    use tokio::io::AsyncBufReadExt as _;
    use tokio::time::{Instant, timeout_at};

    use super::tls::{closed, handshake, silent};
    use super::{Endpoint, resolver};

    /// While calls are under way the host is pinged this often, and is gone if it does not answer in time.
    const PING: Duration = Duration::from_secs(20);
    const PONG: Duration = Duration::from_secs(10);

    let connector = super::tls::connector(material)?;
    let name = super::tls::server_name(host)?;
    let host = host.to_owned();
    Ok(Link::new(move || {
        let (host, connector, name) = (host.clone(), connector.clone(), name.clone());
        let connecting = async move {
            let place = Endpoint::Remote { host: host.clone(), port }.to_string();
            let now = Instant::now();
            let end = now.checked_add(CONNECT_TIMEOUT).unwrap_or(now);
            let addresses = timeout_at(end, resolver::addresses(&host, look_up)).await;
            let addresses = addresses.unwrap_or_else(|_| Err(resolver::silent(&host)))?;
            let dialled = timeout_at(end, dial(&addresses, port, &place)).await;
            let stream = dialled.unwrap_or_else(|_| Err(unanswered(&place)))?;
            // A key press at a prompt should not wait for the next one.
            let _ = stream.set_nodelay(true);
            let greeted = timeout_at(end, connector.connect(name, stream)).await;
            let mut stream =
                greeted.map_err(|_| silent(&place))?.map_err(|error| handshake(&place, &error))?;
            // In TLS 1.3 the handshake is done for us before the machine has looked at our certificate. It speaks first
            // once it has let us in; by waiting for that frame we get its refusal instead of a broken connection.
            let entered = timeout_at(end, stream.fill_buf()).await;
            match entered
                .map_err(|_| unanswered(&place))?
                .map_err(|error| handshake(&place, &error))?
                .is_empty()
            {
                false => Ok(stream),
                true => Err(closed(&place)),
            }
        };
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
        Box::pin(begin(http, connecting))
    }))
}

#[cfg(feature = "tls")]
fn unanswered(place: &str) -> Failure {
    Failure::NotReachable(format!(
        "no connection to {place} within {} s: the machine is down, or a firewall is between",
        CONNECT_TIMEOUT.as_secs()
    ))
}

/// Tries the addresses of the host one after the other.
#[cfg(feature = "tls")]
async fn dial(
    addresses: &[std::net::IpAddr],
    port: u16,
    place: &str,
) -> Result<tokio::net::TcpStream, Failure> {
    let mut last = None;
    for address in addresses {
        match tokio::net::TcpStream::connect((*address, port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(Failure::NotReachable(match last {
        Some(error) if error.kind() == ErrorKind::ConnectionRefused => format!(
            "nobody listens on {place}: the port is another one, or the machine has no `api` in its machine.yaml"
        ),
        Some(error) => format!("{place} is not reachable: {error}"),
        None => format!("{place} has no address"),
    }))
}
