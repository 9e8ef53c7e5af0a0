//! The API on the host's socket.

use std::time::Duration;

use kelson_api::server::{self, AUDIT_LOG, Audit, ServerOptions};
use kelson_services::collector::{Collector, Copying, LogOptions};
use kelson_services::state_store::KeptDescriptor;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::environment;
use super::listeners::Listeners;
use crate::error::{At as _, Error, Result};

/// How long clients have to read the last events.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(2);

/// The server, in a task of its own.
pub(super) struct Api {
    close: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Api {
    /// Serves on `listener`, and on what takes its place, once all services are there: clients wait until then. Without
    /// a listener the host runs on all the same.
    /// `None`: there is no folder for one.
    pub(super) fn open(
        server: ServerOptions,
        listeners: Listeners,
        listener: Option<Result<KeptDescriptor>>,
    ) -> Api {
        let (close, closed) = oneshot::channel::<()>();
        let socket = listeners.socket.clone();
        let task = kelson_sys::spawn(async move {
            let Some(listener) = listener else {
                // The requests of the server end with it.
                let _ = closed.await;
                return drop(server);
            };
            let shutdown = async {
                let _ = closed.await;
            };
            let served = async {
                let listener = listener?;
                let ours = environment::for_server(&listener).at(socket.display())?;
                server.manager.taken_in().await;
                tokio::select! {
                    served = server::serve_on(ours, server, shutdown) => served.map_err(Error::from),
                    () = listeners.keep(listener) => Ok(()),
                }
            };
            if let Err(error) = served.await {
                tracing::error!("the API is not served: {error}");
            }
            // Clients get "not there" at once, and do not wait at a socket that nobody serves.
            let _ = std::fs::remove_file(socket);
        });
        Api { close, task }
    }

    /// Ends the server once its clients have read the last events, or their time is over.
    pub(super) async fn close(self) {
        let _ = self.close.send(());
        let _ = tokio::time::timeout(LAST_WORDS, self.task).await;
    }
}

/// The log of who changed what. Without it the calls are served all the same, and are in the kernel log.
pub(super) fn audit(collector: &Collector) -> Audit {
    let options = LogOptions {
        max_size: 1 << 20,
        max_files: 5,
        rate_limit: None,
        console: false,
        copy: Copying::Nothing,
    };
    // It is no service, and has no runs.
    let pipes = collector.pipes(AUDIT_LOG, 0, options);
    pipes.and_then(Audit::new).unwrap_or_else(|error| {
        tracing::error!("who changes what is not in the log {AUDIT_LOG}: {error}");
        Audit::default()
    })
}
