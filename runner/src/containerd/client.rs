//! The connection to containerd: lazy, made again by itself, every call with a deadline.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use prost::Message;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::error::ContainerdError;

/// Kelson's own namespace in containerd.
pub const NAMESPACE: &str = "kelson";

/// For calls that only read or write containerd's own records.
pub(super) const PROMPT: Duration = Duration::from_secs(10);
/// For calls that start a shim, runc and the first pages of a program: a slow machine is slow, not dead.
pub(super) const SLOW: Duration = Duration::from_secs(60);
/// A Unix socket is connected at once, or its owner hangs.
const CONNECT: Duration = Duration::from_secs(5);

/// containerd of this host. Cheap to clone: all clones share one connection.
#[derive(Debug, Clone)]
pub struct Containerd {
    channel: Channel,
    socket: Arc<str>,
    /// For names that are used once.
    numbers: Arc<AtomicU64>,
}

impl Containerd {
    /// Connects to the socket below this runtime folder with the first call, and again whenever the connection was
    /// lost. Must be called within a Tokio runtime.
    pub fn below(runtime_dir: &Path) -> Containerd {
        Containerd::at(&runtime_dir.join("containerd/containerd.sock"))
    }

    /// As [`Containerd::below`], for any socket.
    pub fn at(socket: &Path) -> Containerd {
        let socket: Arc<str> = Arc::from(socket.to_string_lossy().as_ref());
        let endpoint = Endpoint::from_shared(format!("unix:{socket}"))
            // It cannot be: a path needs no parsing.
            .unwrap_or_else(|_| Endpoint::from_static("unix:/"));
        // Another life of PID 1 used other numbers.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let first = u64::from(now.subsec_nanos()).saturating_add(now.as_secs().wrapping_mul(1_000_000_000));
        Containerd {
            channel: endpoint.connect_timeout(CONNECT).connect_lazy(),
            socket,
            numbers: Arc::new(AtomicU64::new(first)),
        }
    }

    /// A number that no other call gave, in this life of PID 1 nor as a rule in another.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// One call.
    pub(super) async fn call<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        within: Duration,
    ) -> Result<A, ContainerdError>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.timed(Request::new(request), path, within).await
    }

    /// One call whose results belong to a lease until something else refers to them.
    pub(super) async fn call_with_lease<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        lease: &str,
    ) -> Result<A, ContainerdError>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut request = Request::new(request);
        if let Ok(lease) = MetadataValue::try_from(lease) {
            request.metadata_mut().insert("containerd-lease", lease);
        }
        self.timed(request, path, PROMPT).await
    }

    /// One call that is answered when something happens: it ends with the connection, or by dropping it.
    pub(super) async fn call_long<Q, A>(&self, path: &'static str, request: Q) -> Result<A, ContainerdError>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.unary(Request::new(request), path).await.map_err(|status| self.error(&status))
    }

    async fn timed<Q, A>(
        &self,
        request: Request<Q>,
        path: &'static str,
        within: Duration,
    ) -> Result<A, ContainerdError>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        match timeout(within, self.unary(request, path)).await {
            Ok(result) => result.map_err(|status| self.error(&status)),
            Err(_) => Err(ContainerdError::Away(format!(
                "{} took longer than {within:?}",
                path.rsplit('/').next().unwrap_or(path)
            ))),
        }
    }

    /// A socket that is not there is the commonest reason, and tonic tells it as "tcp connect error".
    fn error(&self, status: &Status) -> ContainerdError {
        match ContainerdError::from_status(status) {
            ContainerdError::Away(_) if innermost(status).is_some() => {
                let why = innermost(status).unwrap_or_default();
                ContainerdError::Away(format!("{}: {why}", self.socket))
            }
            other => other,
        }
    }

    async fn unary<Q, A>(&self, mut request: Request<Q>, path: &'static str) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let codec = ProstCodec::<Q, A>::default();
        grpc.unary(request, PathAndQuery::from_static(path), codec).await.map(tonic::Response::into_inner)
    }
}

/// The system's own words, where a system call was the reason.
fn innermost(status: &Status) -> Option<String> {
    let mut at = std::error::Error::source(status);
    let mut found = None;
    while let Some(error) = at {
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && let Some(errno) = error.raw_os_error()
        {
            found = Some(crate::spawn::errno_text(errno));
        }
        at = error.source();
    }
    found
}
