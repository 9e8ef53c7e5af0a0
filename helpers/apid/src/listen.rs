//! Taking connections from strangers, in numbers that are bounded at each step.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, StatusCode, Version};

use super::arguments::Arguments;
use super::forward::{Caller, Forward, WINDOW};
use super::limiter::{Handshake, Limiter};
use super::metrics::{self, Metrics};
use super::page;
use super::peer::Peer;
use super::term::{Calls, Due, Guard};
use super::tls::Trust;
use super::{say, tls};
use crate::error::{ApidError, Refusal};
use kelson_proto::access::Role;

/// Clients at the same time.
const CONNECTIONS: usize = 256;
/// Strangers at the same time: those whose certificate has yet to come.
const HANDSHAKES: usize = 64;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Calls of one connection at the same time.
const STREAMS: u32 = 32;
/// From the request to the last byte of the answer, where a connection takes one alone.
const ONE_REQUEST: Duration = metrics::LIMIT;
/// A client that does not answer a ping has gone.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// How long streams may take to end when the endpoint closes.
const GRACE: Duration = Duration::from_secs(1);
/// Before the next try when there is no descriptor or no memory for a connection.
const SHORTAGE: Duration = Duration::from_millis(200);

/// The parts that all connections share.
struct Endpoint {
    trust: watch::Receiver<Trust>,
    /// After this time a connection takes no new calls.
    lifetime: Duration,
    forward: Forward,
    metrics: Metrics,
    connections: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    limiter: Limiter,
    /// Its sender is dropped when the endpoint closes.
    closed: watch::Receiver<()>,
}

impl Endpoint {
    /// Answers a call, or cuts it when the connection's term ends.
    async fn answer(&self, caller: &Caller, calls: Calls, request: Request<Incoming>) -> Response<Body> {
        let mut response = tokio::select! {
            response = self.ask(caller, &calls, request) => response,
            status = calls.clone().cut() => status.into_http(),
        };
        calls.note(response.headers_mut());
        response
    }

    async fn ask(&self, caller: &Caller, calls: &Calls, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() == metrics::PATH {
            return self.metrics.answer(&self.forward, caller, &request).await;
        }
        if page::is_for_people(&request) {
            return match request.uri().path() {
                page::PATH => page::answer(request.method()),
                _ => metrics::plain(
                    StatusCode::NOT_FOUND,
                    format!("there is {} and {} for GET; all else is gRPC\n", page::PATH, metrics::PATH),
                ),
            };
        }
        if request.version() != Version::HTTP_2 {
            return metrics::plain(StatusCode::NOT_FOUND, "gRPC needs HTTP/2\n".to_owned());
        }
        self.forward.call(caller, calls.clone(), request).await
    }
}

/// A listening endpoint: it takes connections until [`Open::close`].
pub struct Open {
    accepting: JoinSet<()>,
    closing: watch::Sender<()>,
}

impl Open {
    /// Takes nobody in any more, and ends the streams of those who are connected.
    pub async fn close(mut self) {
        drop(self.closing);
        while self.accepting.join_next().await.is_some() {}
    }
}

/// Takes connections. Each is judged by what is trusted at its moment, and again whenever that changes.
///
/// # Errors
/// When an address cannot be listened on.
pub fn open(arguments: &Arguments, trust: watch::Receiver<Trust>) -> Result<Open, ApidError> {
    let (closing, closed) = watch::channel(());
    let limiter = Limiter::new();
    let endpoint = Arc::new(Endpoint {
        trust,
        lifetime: arguments.lifetime,
        forward: Forward::new(arguments.runtime_dir.clone(), limiter.clone(), closed.clone()),
        metrics: Metrics::new(),
        connections: Arc::new(Semaphore::new(CONNECTIONS)),
        handshakes: Arc::new(Semaphore::new(HANDSHAKES)),
        limiter,
        closed,
    });
    let listeners = arguments.listen.iter().copied().map(listen).collect::<Result<Vec<_>, _>>()?;
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(listener, Arc::clone(&endpoint)));
    }
    Ok(Open { accepting, closing })
}

fn listen(address: SocketAddr) -> Result<TcpListener, ApidError> {
    let bound = StdListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    let listener = bound.map_err(|source| ApidError::Listen { address: address.to_string(), source })?;
    // With port 0 the kernel chooses one: say which.
    let address = listener.local_addr().unwrap_or(address);
    say(&format!("listening on {address}"));
    Ok(listener)
}

/// Takes connections until the endpoint closes.
async fn accept(listener: TcpListener, endpoint: Arc<Endpoint>) {
    let mut closed = endpoint.closed.clone();
    let mut connections = JoinSet::new();
    loop {
        // A connection that finds no room here waits in the kernel's queue, at most as long as a handshake
        // may take.
        let next = async {
            let handshake = Arc::clone(&endpoint.handshakes).acquire_owned().await;
            (handshake, listener.accept().await)
        };
        tokio::select! {
            _ = closed.changed() => break,
            Some(_) = connections.join_next() => {}
            (handshake, accepted) = next => match (handshake, accepted) {
                (Ok(handshake), Ok((stream, peer))) => {
                    let stranger = match endpoint.limiter.enter(peer.ip()) {
                        Ok(stranger) => stranger,
                        Err(too_many) => {
                            endpoint.limiter.tell(&format!("{peer}: {too_many}"));
                            continue;
                        }
                    };
                    let endpoint = Arc::clone(&endpoint);
                    connections.spawn(async move {
                        if let Err(why) = connection(&endpoint, stream, peer, (handshake, stranger)).await {
                            endpoint.limiter.tell(&format!("{peer}: {why}"));
                        }
                    });
                }
                (_, Err(error)) => {
                    say(&format!("cannot take a connection: {error}; trying again"));
                    tokio::select! {
                        _ = closed.changed() => break,
                        () = tokio::time::sleep(SHORTAGE) => {}
                    }
                }
                (Err(_), _) => break,
            },
        }
    }
    drop(listener);
    let emptied =
        tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    if emptied.is_err() {
        connections.shutdown().await;
    }
}

/// One connection until its end; `Err` says why it was refused.
async fn connection(
    endpoint: &Arc<Endpoint>,
    stream: TcpStream,
    peer: SocketAddr,
    handshake: (OwnedSemaphorePermit, Handshake),
) -> Result<(), Refusal> {
    let mut closed = endpoint.closed.clone();
    let _ = stream.set_nodelay(true);
    let acceptor = endpoint.trust.borrow().acceptor.clone();
    let accepting = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
    let accepted = tokio::select! {
        accepted = accepting => accepted,
        _ = closed.changed() => return Ok(()),
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(Refusal::Handshake(error)),
        Err(_) => return Err(Refusal::Late(HANDSHAKE.as_secs())),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
    let known = Peer::of(chain.first().ok_or(Refusal::NoCertificate)?, peer);
    let guard = Guard::new(chain, endpoint.trust.clone(), endpoint.lifetime);
    let mut guard = guard.ok_or(Refusal::NotTrusted)?;
    // A client that does not name its protocol speaks HTTP/1.1: so do clients of a plain HTTP library.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2);
    let place = Arc::clone(&endpoint.connections).try_acquire_owned();
    let _place = place.map_err(|_| Refusal::Full(CONNECTIONS))?;
    drop(handshake);
    let role = known.role.map_or("no role", Role::name);
    say(&format!("{} ({role}) has connected", known.identity));
    let caller = Caller::new(&known)?;
    let calls = guard.calls();
    let service = hyper::service::service_fn(|request| {
        let (endpoint, caller, calls) = (Arc::clone(endpoint), caller.clone(), calls.clone());
        async move { Ok::<_, std::convert::Infallible>(endpoint.answer(&caller, calls, request).await) }
    });
    if !is_http2 {
        // One request, for those who read metrics and know no HTTP/2; it is over when they have, or soon after.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE)
            .keep_alive(false)
            .max_buf_size(16 * 1024)
            .auto_date_header(false)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            _ended = tokio::time::timeout(ONE_REQUEST, connection) => {}
            _ = closed.changed() => {}
            () = async { while guard.next().await == Due::Renewal {} } => {}
        }
        return Ok(());
    }
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(WINDOW as usize)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    loop {
        tokio::select! {
            _ended = connection.as_mut() => return Ok(()),
            _ = closed.changed() => {
                connection.as_mut().graceful_shutdown();
                let _ended = connection.await;
                return Ok(());
            }
            due = guard.next() => {
                // The client hears that it is to make its next calls elsewhere; those that it has go on.
                connection.as_mut().graceful_shutdown();
                if let Due::End(end) = due {
                    say(&format!("{}: {end}", known.identity));
                    // A client that does not read is not waited for.
                    let _ended = tokio::time::timeout(GRACE, connection).await;
                    return Ok(());
                }
            }
        }
    }
}
