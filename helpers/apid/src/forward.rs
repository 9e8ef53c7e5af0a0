//! Forwarding one call to the socket of its service.
//!
//! Each call has a connection of its own to the Unix socket, which costs some hundred microseconds. So remote clients that
//! are idle cost PID 1 nothing, a stream that is read slowly holds up no other one, and the first call after PID 1 has
//! re-executed itself is found at once.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::{HOST, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Request, Response, Uri};

use super::limiter::Limiter;
use super::peer::Peer;
use super::relay::{Connection, Relay};
use super::term::Calls;
use kelson_proto::access::{self, Role};
use kelson_proto::call::{IDENTITY, INIT_SOCKET, LOG_SOCKET, ROLE};

/// Calls at the same time to each of the sockets: fewer than PID 1 serves, so that there is always room on the host.
const CALLS: usize = 48;
/// The data that may be under way unread, in bytes.
pub const WINDOW: u32 = 64 * 1024;

/// On whose behalf calls are made.
#[derive(Debug, Clone)]
pub struct Caller {
    identity: HeaderValue,
    pub role: Option<Role>,
}

impl Caller {
    /// # Errors
    /// When its name cannot stand in a header.
    pub fn new(peer: &Peer) -> Result<Caller, InvalidHeaderValue> {
        Ok(Caller { identity: HeaderValue::from_str(&peer.identity)?, role: peer.role })
    }

    /// Says so to PID 1.
    pub fn introduce(&self, headers: &mut HeaderMap) {
        headers.insert(HeaderName::from_static(IDENTITY), self.identity.clone());
        if let Some(role) = self.role {
            headers.insert(HeaderName::from_static(ROLE), HeaderValue::from_static(role.name()));
        }
    }
}

/// One of the sockets.
struct Target {
    path: PathBuf,
    /// The process that serves it.
    name: &'static str,
    calls: Arc<Semaphore>,
}

/// The way to the sockets.
pub struct Forward {
    init: Target,
    logs: Target,
    limiter: Limiter,
    /// Its sender is dropped when the endpoint closes.
    closed: watch::Receiver<()>,
}

impl Forward {
    pub fn new(runtime_dir: PathBuf, limiter: Limiter, closed: watch::Receiver<()>) -> Forward {
        let target = |socket: &str, name| Target {
            path: runtime_dir.join(socket),
            name,
            calls: Arc::new(Semaphore::new(CALLS)),
        };
        Forward {
            init: target(INIT_SOCKET, "PID 1"),
            logs: target(LOG_SOCKET, "kelson-logd"),
            limiter,
            closed,
        }
    }

    /// Answers one call; that it could not be forwarded is an answer too. Dropping it ends the call.
    pub async fn call(&self, caller: &Caller, calls: Calls, request: Request<Incoming>) -> Response<Body> {
        match self.forward(caller, request).await {
            Ok((response, connection)) => {
                response.map(|body| Body::new(Relay::new(body, connection, calls, self.closed.clone())))
            }
            Err(status) => status.into_http(),
        }
    }

    /// A connection to PID 1 for a call of kelson-apid itself.
    pub async fn init(&self) -> Result<(SendRequest<Body>, Connection), Status> {
        connect(&self.init).await
    }

    /// PID 1 never hears of it.
    fn tell_denied(&self, caller: &Caller, path: &str) {
        let role = caller.role.map_or("no role", Role::name);
        let who = String::from_utf8_lossy(caller.identity.as_bytes());
        self.limiter.tell(&format!("{who} ({role}) was denied {}", access::method(path)));
    }

    async fn forward(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<(Response<Incoming>, Connection), Status> {
        let path = request.uri().path();
        access::check(path, caller.role).inspect_err(|_| self.tell_denied(caller, path))?;
        let target = if path.starts_with("/kelson.v1.Logs/") { &self.logs } else { &self.init };
        let request = rewrite(request, caller)?;
        let (mut sender, held) = connect(target).await?;
        let response = sender.send_request(request).await.map_err(|error| broken(target, &error))?;
        Ok((response, held))
    }
}

/// A connection for one call. It is closed when what stands for it is dropped.
async fn connect<B>(target: &Target) -> Result<(SendRequest<B>, Connection), Status>
where
    B: hyper::body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let call = Arc::clone(&target.calls).try_acquire_owned().map_err(|_| {
        Status::resource_exhausted(format!(
            "{CALLS} calls to {} are under way through this endpoint, which is the limit: end some of them",
            target.name
        ))
    })?;
    let stream = UnixStream::connect(&target.path).await.map_err(|error| unreachable(target, &error))?;
    let held = Connection::new(&stream).map_err(|error| unreachable(target, &error))?;
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(WINDOW as usize)
        .max_header_list_size(16 * 1024)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(target, &error))?;
    // It ends with the call: there is no second one on it.
    tokio::spawn(async move {
        let _ = connection.await;
        drop(call);
    });
    Ok((sender, held))
}

/// The same request, on behalf of the client, and with nothing that the client says of itself.
fn rewrite(request: Request<Incoming>, caller: &Caller) -> Result<Request<Incoming>, Status> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    parts.uri = Uri::builder()
        .scheme("http")
        .authority("kelson")
        .path_and_query(path)
        .build()
        .map_err(|error| Status::invalid_argument(format!("the path of the call is not one: {error}")))?;
    introduce(&mut parts.headers, caller);
    // Nothing that this process knows of the connection goes on.
    parts.extensions.clear();
    Ok(Request::from_parts(parts, body))
}

/// All names that begin with `kelson-` belong to kelson-apid.
fn introduce(headers: &mut HeaderMap, caller: &Caller) {
    let own = |name: &&HeaderName| name.as_str().starts_with("kelson-") || **name == HOST;
    let own: Vec<HeaderName> = headers.keys().filter(own).cloned().collect();
    for name in own {
        headers.remove(name);
    }
    caller.introduce(headers);
}

fn unreachable(target: &Target, error: &std::io::Error) -> Status {
    let (name, path) = (target.name, target.path.display());
    Status::unavailable(match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            format!(
                "{name} does not serve {path} now: it is being started or has ended; try again in a moment"
            )
        }
        ErrorKind::WouldBlock => {
            format!("{name} has no room for another call on {path} now; try again in a moment")
        }
        _ => format!("{name} is not reachable on {path}: {error}"),
    })
}

fn broken(target: &Target, error: &hyper::Error) -> Status {
    Status::unavailable(format!("{} ended the connection before it answered: {error}", target.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_of_itself_is_dropped() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [(IDENTITY, "CN=root"), (IDENTITY, "CN=other"), (ROLE, "os:admin"), ("te", "trailers")]
        {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut of = |role| {
            introduce(&mut headers, &Caller { identity: HeaderValue::from_static("CN=ann"), role });
            let values = |name| headers.get_all(name).iter().cloned().collect::<Vec<_>>();
            [values(IDENTITY), values(ROLE), values("te")]
        };
        let told: [Vec<&str>; 3] = [vec!["CN=ann"], vec![], vec!["trailers"]];
        assert_eq!(of(None), told);
        assert_eq!(of(Some(Role::Reader))[1], ["os:reader"]);
    }
}
