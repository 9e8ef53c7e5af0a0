//! Taking connections, as many as there is room for, and letting them go at the end.

use std::future::Future;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kelson_helper::places::{Call, Place, Places};
use kelson_services::admission::{Admission, Standing};
use kelson_sys::boxed;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;

use super::ServerOptions;
use super::dispatch::Dispatch;
use super::vsock::{self, Vsock};

/// Clients at the same time. One that asks for nothing gives its place to one that does.
const CONNECTIONS: usize = 64;
/// Clients beyond them only get the reason why they are not served: at most this many, for at most this long.
const IN_PASSING: usize = 8;
const PASSING: Duration = Duration::from_secs(5);
/// Calls of one connection at the same time.
const STREAMS: u32 = 32;
/// The data that a connection may send ahead of being read, and that is held for it unread.
const WINDOW: u32 = 64 * 1024;
/// A client that does not answer a ping (it was stopped, say) gives its place up.
const PING: Duration = Duration::from_secs(60);
const PONG: Duration = Duration::from_secs(20);
/// How long the last words of streams may take when PID 1 ends.
const GRACE: Duration = Duration::from_secs(1);
/// Before the next try when the kernel has no descriptor or no memory for a connection.
const SHORTAGE: Duration = Duration::from_millis(200);
/// Then a client goes that has asked for nothing for so long; one that has just come may be about to.
const IDLE: Duration = Duration::from_secs(2);

/// Serves until `shutdown` is ready, then ends all connections within [`GRACE`].
pub async fn run(mut listener: UnixListener, options: ServerOptions, shutdown: impl Future<Output = ()>) {
    let admission = options.admission;
    let (closing, closed) = watch::channel(());
    let dispatch = Dispatch::new(
        options.manager,
        options.parts,
        options.health,
        options.host,
        options.audit,
        closed.clone(),
    );
    let places = Places::new(CONNECTIONS);
    let passing = Arc::new(Semaphore::new(IN_PASSING));
    let mut connections = JoinSet::new();
    let mut listeners = options.listeners;
    let vsock = options.vsock;
    let mut short = false;
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            Some(anew) = listeners.recv() => match UnixListener::from_std(anew) {
                Ok(anew) => listener = anew,
                Err(error) => tracing::error!("cannot wait for connections to the socket that was made again: {error}"),
            },
            accepted = accept(&listener, vsock.as_ref()) => match accepted {
                Ok((stream, passed_on)) => {
                    if std::mem::take(&mut short) {
                        tracing::info!("connections are taken again");
                    }
                    let standing = admission.judge(stream.as_fd());
                    // A refused one is served, so that it gets the reason.
                    if let Some(socket) = passed_on.filter(|_| !standing.refused()) {
                        if let Some(place) = places.take() {
                            let socket = socket.to_owned();
                            connections.spawn(boxed(async move {
                                // PID 1 does not see whether logd serves a call, and logd does not see a client that
                                // was stopped: so it makes room when another needs the place.
                                tokio::select! {
                                    () = vsock::pass_on(stream, socket) => {}
                                    () = place.given_away() => {}
                                }
                            }));
                        }
                    } else if let Some(place) = place(&standing, &places, &passing) {
                        connections.spawn(boxed(connection(stream, admission.clone(), standing, dispatch.clone(), closed.clone(), place)));
                    }
                }
                Err(error) => {
                    // Said once, however long it lasts.
                    if !std::mem::replace(&mut short, true) {
                        tracing::warn!("cannot take connections: {error}; trying again every {} ms", SHORTAGE.as_millis());
                    }
                    // The descriptor of one who asks for nothing may be what is missing.
                    places.make_room(IDLE);
                    tokio::select! {
                        () = &mut shutdown => break,
                        () = tokio::time::sleep(SHORTAGE) => {}
                    }
                }
            },
        }
    }
    drop(listener);
    drop(vsock);
    drop(closing);
    let emptied =
        tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    if emptied.is_err() {
        tracing::info!("{} clients did not read their last events in time", connections.len());
        connections.shutdown().await;
    }
}

/// The next connection of a client, and the socket to which it is passed on, where that is another one's.
async fn accept<'a>(
    listener: &UnixListener,
    vsock: Option<&'a Vsock>,
) -> io::Result<(UnixStream, Option<&'a Path>)> {
    let from_host = async {
        match vsock {
            Some(vsock) => vsock.accept().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        accepted = listener.accept() => Ok((accepted?.0, None)),
        accepted = from_host => accepted,
    }
}

/// Where a connection stands.
enum Seat {
    /// Until it ends, or asks for nothing while another wants the place.
    Place(Place),
    /// For a moment.
    Passing(OwnedSemaphorePermit),
}

/// A place for the connection. `None`: not even room to say why not, it is closed.
fn place(standing: &Standing, places: &Arc<Places>, passing: &Arc<Semaphore>) -> Option<Seat> {
    let place = if standing.refused() { None } else { places.take() };
    match place {
        Some(place) => Some(Seat::Place(place)),
        None => Some(Seat::Passing(Arc::clone(passing).try_acquire_owned().ok()?)),
    }
}

/// One connection until its end.
async fn connection(
    stream: UnixStream,
    admission: Admission,
    standing: Standing,
    dispatch: Dispatch,
    mut closed: watch::Receiver<()>,
    seat: Seat,
) {
    let standing = Arc::new(standing);
    let (place, passing) = match seat {
        Seat::Place(place) => (Some(Arc::new(place)), None),
        Seat::Passing(permit) => (None, Some(permit)),
    };
    let full = passing.is_some();
    let calls = place.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (dispatch, admission, standing) = (dispatch.clone(), admission.clone(), Arc::clone(&standing));
        let call = calls.as_ref().map(|place| place.call());
        let too_long = full && !standing.refused() && goes_on(request.uri().path());
        async move {
            let response = match too_long {
                true => too_many_clients().into_http(),
                false => dispatch.call(&admission, &standing, request).await,
            };
            Ok::<_, std::convert::Infallible>(response.map(|body| Body::new(UnderWay { body, _call: call })))
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(WINDOW as usize)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval((!full).then_some(PING))
        .keep_alive_timeout(PONG)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = tokio::time::sleep(PASSING), if full => return,
        () = async { match &place { Some(place) => place.given_away().await, None => std::future::pending().await } } => return,
        _ = closed.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a client's connection ended: {error}");
    }
}

/// Calls that last as long as their client likes.
fn goes_on(path: &str) -> bool {
    const LASTING: [&str; 9] = [
        "/kelson.v1.Services/Events",
        "/kelson.v1.Services/Wait",
        "/kelson.v1.Health/Watch",
        "/kelson.v1.Machine/Dmesg",
        "/kelson.v1.Exec/Run",
        "/kelson.v1.Inspect/Copy",
        "/kelson.v1.Inspect/ReadFile",
        "/kelson.v1.Inspect/WriteFile",
        "/grpc.health.v1.Health/Watch",
    ];
    LASTING.contains(&path)
}

fn too_many_clients() -> Status {
    Status::resource_exhausted(format!(
        "{CONNECTIONS} clients are being served, which is all that PID 1 serves at the same time: end some of them"
    ))
}

/// The body of an answer: the call is under way until it has been sent or given up.
struct UnderWay {
    body: Body,
    _call: Option<Call>,
}

impl hyper::body::Body for UnderWay {
    type Data = <Body as hyper::body::Body>::Data;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
