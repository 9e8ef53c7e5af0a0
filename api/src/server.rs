//! The gRPC server of PID 1 on `/run/kelson/init.sock`.
//!
//! A connection comes in ([`accept`]), its peer is judged once ([`Admission`]), each of its calls ([`caller`]) is
//! judged again and handed to the service it names ([`dispatch`]): Services, Machine, Exec, Metrics, health,
//! reflection. Everything is bounded: connections, calls of one connection, the size of a request, what is held for a
//! reader that is slow. Streams pull from the ring of events when their client has room, so a client that stops reading
//! costs one batch.

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

/// The parts of the server, and its admission.
pub struct ServerOptions {
    pub manager: Manager,
    pub images: ImageStore,
    pub inspector: Inspector,
    pub health: NodeHealth,
    pub host: Host,
    /// Decides who may connect.
    pub admission: Admission,
    /// Where it is written who changed what.
    pub audit: Audit,
    /// Listeners that take the place of the first one when its socket was removed and made again.
    pub listeners: mpsc::Receiver<UnixListener>,
}

/// Serves on a socket that is bound ([`bind`]) until `shutdown` is ready. PID 1 keeps it over its re-execution, so that
/// clients that connect meanwhile wait a moment and are not refused. The socket is left where it is.
///
/// Then no new call is taken, streams end after the last event, and a client that has not read that within a second is
/// cut off: no client holds the shutdown up.
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
