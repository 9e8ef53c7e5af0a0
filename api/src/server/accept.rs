//! Taking connections, as many as there is room for, and letting them go at the end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::ServerOptions;
use super::caller::{Admission, Standing};
use super::dispatch::Dispatch;

/// Clients at the same time.
const CONNECTIONS: usize = 64;
/// Clients that are only told why they are not served, at the same time and at most so long.
const REFUSALS: usize = 8;
const REFUSAL: Duration = Duration::from_secs(5);
/// Calls of one connection at the same time.
const STREAMS: u32 = 32;
/// What a connection may send ahead of being read, and what is held for it unread.
const WINDOW: u32 = 64 * 1024;
/// A client that does not answer a ping (it was stopped, say) gives its place up.
const PING: Duration = Duration::from_secs(60);
const PONG: Duration = Duration::from_secs(20);
/// How long the last words of streams may take when PID 1 ends.
const GRACE: Duration = Duration::from_secs(1);
/// Before the next try when the kernel has no descriptor or no memory for a connection.
const SHORTAGE: Duration = Duration::from_millis(200);

/// Serves until `shutdown` is ready, then ends all connections within [`GRACE`].
pub async fn run(listener: UnixListener, options: ServerOptions, shutdown: impl Future<Output = ()>) {
    let admission = Admission { own_uid: nix::unistd::geteuid().as_raw(), apid_uid: options.apid_uid };
    let (closing, closed) = watch::channel(());
    let dispatch =
        Dispatch::new(options.manager, options.images, options.health, options.host, closed.clone());
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let standing = admission.judge(stream.peer_cred());
                    if let Some((permit, standing)) = place(standing, &places, &refusals) {
                        connections.spawn(connection(stream, standing, dispatch.clone(), closed.clone(), permit));
                    }
                }
                Err(error) => {
                    tracing::warn!("cannot take a connection: {error}; trying again");
                    tokio::select! {
                        () = &mut shutdown => break,
                        () = tokio::time::sleep(SHORTAGE) => {}
                    }
                }
            },
        }
    }
    drop(listener);
    drop(closing);
    let emptied =
        tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
    if emptied.is_err() {
        tracing::info!("{} clients did not read their last events in time", connections.len());
        connections.shutdown().await;
    }
}

/// A place for the connection. `None`: not even room to say why not, it is closed.
fn place(
    standing: Standing,
    places: &Arc<Semaphore>,
    refusals: &Arc<Semaphore>,
) -> Option<(OwnedSemaphorePermit, Standing)> {
    if matches!(standing, Standing::Refused(_)) {
        return Some((Arc::clone(refusals).try_acquire_owned().ok()?, standing));
    }
    if let Ok(permit) = Arc::clone(places).try_acquire_owned() {
        return Some((permit, standing));
    }
    let permit = Arc::clone(refusals).try_acquire_owned().ok()?;
    Some((
        permit,
        Standing::Full(format!(
            "{CONNECTIONS} clients are connected, which is all that PID 1 serves at the same time: end some of them"
        )),
    ))
}

/// One connection until its end.
async fn connection(
    stream: UnixStream,
    standing: Standing,
    dispatch: Dispatch,
    mut closed: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
) {
    let served = !standing.refused();
    let standing = Arc::new(standing);
    let service = hyper::service::service_fn(move |request| {
        let (dispatch, standing) = (dispatch.clone(), Arc::clone(&standing));
        async move { Ok::<_, std::convert::Infallible>(dispatch.call(&standing, request).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(WINDOW as usize)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(16 * 1024)
        .keep_alive_interval(served.then_some(PING))
        .keep_alive_timeout(PONG)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = tokio::time::sleep(REFUSAL), if !served => return,
        _ = closed.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a client's connection ended: {error}");
    }
}
