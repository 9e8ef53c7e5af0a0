//! The gRPC server of PID 1 on `/run/kelson/init.sock`, and on vsock where init was started so.
//!
//! A connection comes in ([`accept`]), its peer is judged once ([`Admission`]), each of its calls ([`caller`]) is
//! judged again and handed to the service it names ([`dispatch`]): Services, Machine, Exec, Metrics, health,
//! reflection. Everything is bounded: connections, calls of one connection, the size of a request, what is held for a
//! reader that is slow. Streams pull from the ring of events when their client has room, so a client that stops reading
//! costs one batch.

mod accept;
mod audit;
mod caller;
mod configuration;
mod dispatch;
mod events;
mod exec;
#[cfg(feature = "faults")]
mod faults;
mod fleet;
mod fleet_plans;
mod health;
mod images;
mod inspect;
mod kmsg;
mod machine;
mod metrics;
mod model;
mod node_health;
mod reflection;
mod route;
mod secrets;
mod services;
mod socket;
mod timers;
mod volumes;
mod vsock;

use std::future::Future;
use std::os::unix::net::UnixListener;

use kelson_proto::call::MESSAGE_MAX;
use kelson_proto::v1::fleet_server::FleetServer;
use kelson_proto::v1::images_server::ImagesServer;
use kelson_proto::v1::inspect_server::InspectServer;
use kelson_proto::v1::secrets_server::SecretsServer;
use kelson_proto::v1::timers_server::TimersServer;
use kelson_proto::v1::volumes_server::VolumesServer;
use kelson_services::Manager;
use kelson_services::admission::Admission;
use kelson_services::fleet::Fleet;
use kelson_services::host::Host;
use kelson_services::images::ImageStore;
use kelson_services::inspect::Inspector;
use kelson_services::node_health::NodeHealth;
use kelson_services::timers::Timers;
use kelson_services::volumes::Volumes;

use tokio::sync::{mpsc, watch};

use crate::error::ApiError;
pub use audit::{Audit, NAME as AUDIT_LOG};
use fleet::FleetApi;
use images::ImagesApi;
use inspect::InspectApi;
pub use route::Route;
use secrets::SecretsApi;
pub use socket::bind;
use timers::TimersApi;
use volumes::VolumesApi;
pub use vsock::Vsock;

/// Makes a service of the API that not every build has.
pub type Part = Box<dyn FnOnce(&Manager, &watch::Receiver<()>) -> Route + Send>;

/// The service Images.
pub fn images(images: ImageStore) -> Part {
    Box::new(|manager, _| {
        images.know(manager);
        let api = ImagesApi { manager: manager.clone(), images };
        Route::to(ImagesServer::new(api).max_decoding_message_size(MESSAGE_MAX))
    })
}

/// The reflection of all services, in both versions.
pub fn reflection() -> [Part; 2] {
    [
        Box::new(|_, _| Route::to_each(reflection::V1, reflection::v1)),
        Box::new(|_, _| Route::to_each(reflection::V1_ALPHA, reflection::v1alpha)),
    ]
}

/// The service Inspect.
pub fn inspect(inspector: Inspector) -> Part {
    Box::new(|manager, closed| {
        let api = InspectApi { manager: manager.clone(), inspector, closed: closed.clone() };
        Route::to(InspectServer::new(api).max_decoding_message_size(MESSAGE_MAX))
    })
}

/// The service Secrets.
pub fn secrets(host: Host) -> Part {
    Box::new(|_, _| Route::to(SecretsServer::new(SecretsApi { host }).max_decoding_message_size(MESSAGE_MAX)))
}

/// The service Timers.
pub fn timers(timers: &'static Timers) -> Part {
    Box::new(move |_, _| {
        Route::to(TimersServer::new(TimersApi { timers }).max_decoding_message_size(MESSAGE_MAX))
    })
}

/// The service Fleet.
pub fn fleet(fleet: Fleet) -> Part {
    Box::new(|_, _| Route::to(FleetServer::new(FleetApi { fleet }).max_decoding_message_size(MESSAGE_MAX)))
}

/// The service Volumes.
pub fn volumes(volumes: Volumes) -> Part {
    Box::new(|_, _| {
        Route::to(VolumesServer::new(VolumesApi { volumes }).max_decoding_message_size(MESSAGE_MAX))
    })
}

/// The parts of the server, and its admission.
pub struct ServerOptions {
    pub manager: Manager,
    /// Of services that not every build has ([`images`](fn@images), [`inspect`](fn@inspect)).
    pub parts: Vec<Part>,
    pub health: NodeHealth,
    pub host: Host,
    /// Decides who may connect.
    pub admission: Admission,
    /// Where it is written who changed what.
    pub audit: Audit,
    /// Listeners that take the place of the first one when its socket was removed and made again.
    pub listeners: mpsc::Receiver<UnixListener>,
    /// Where a hypervisor's host connects, if it may.
    pub vsock: Option<Vsock>,
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
