//! The gRPC server of PID 1 on `/run/kelson/init.sock`.
//!
//! A connection comes in ([`accept`]), its peer is judged once ([`Admission`]), each of its calls ([`caller`]) is judged
//! again and handed to the service it names ([`dispatch`]): Services, Machine, Exec, Metrics, health,
//! reflection. Everything is
//! bounded: connections, calls of one connection, the size of a request, what is held for a reader that is slow.
//! Streams pull from the ring of events when their client has room, so a client that stops reading costs one batch.

mod accept;
mod audit;
mod caller;
mod dispatch;
mod events;
mod exec;
#[cfg(feature = "faults")]
mod faults;
mod health;
mod images;
mod inspect;
mod kmsg;
mod machine;
mod metrics;
mod model;
mod node_health;
mod reflection;
mod services;
mod socket;

use std::future::Future;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use kelson_services::Manager;
use kelson_services::admission::Admission;
use kelson_services::host::Host;
use kelson_services::images::ImageStore;
use kelson_services::inspect::Inspector;
use kelson_services::node_health::NodeHealth;

use tokio::sync::mpsc;

use crate::error::ApiError;
pub use audit::{Audit, NAME as AUDIT_LOG};
pub use socket::bind;

/// What the server serves, and to whom.
pub struct ServerOptions {
    /// Where the socket is, as a rule `/run/kelson/init.sock`.
    pub socket: PathBuf,
    pub manager: Manager,
    pub images: ImageStore,
    pub inspector: Inspector,
    pub health: NodeHealth,
    pub host: Host,
    /// Who may connect.
    pub admission: Admission,
    /// The group that may connect: `kelson`, or that of kelson-apid. `None`: that of PID 1.
    pub group: Option<u32>,
    /// Where it is written who changed what.
    pub audit: Audit,
    /// What takes the listener's place when its socket was removed and made again.
    pub listeners: mpsc::Receiver<UnixListener>,
}

/// Makes the socket and serves on it until `shutdown` is ready.
///
/// Then no new call is taken, streams end after the last event, and whoever has not read that within a second is
/// cut off: no client holds the shutdown up. The socket is removed.
///
/// # Errors
/// When the socket cannot be made.
pub async fn serve(options: ServerOptions, shutdown: impl Future<Output = ()>) -> Result<(), ApiError> {
    let listener = socket::bind(&options.socket, options.group)?;
    let path = options.socket.clone();
    let served = serve_on(listener, options, shutdown).await;
    // Clients are told "not there" at once, and not by a socket that nobody serves.
    let _ = std::fs::remove_file(path);
    served
}

/// As [`serve`], on a socket that is bound already ([`bind`]): PID 1 keeps it over its re-execution, so that clients
/// that connect meanwhile wait a moment and are not refused. The socket is left where it is.
///
/// # Errors
/// When the listener is not one that the event loop can wait for.
pub async fn serve_on(
    listener: UnixListener,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ApiError> {
    listener.set_nonblocking(true).map_err(ApiError::Listener)?;
    let listener = tokio::net::UnixListener::from_std(listener).map_err(ApiError::Listener)?;
    accept::run(listener, options, shutdown).await;
    Ok(())
}
