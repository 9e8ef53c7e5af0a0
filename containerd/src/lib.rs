//! The client of containerd, for PID 1 and for `kelson-unpack`: containers, tasks, images, content, snapshots and
//! leases of Kelson's namespace.
//!
//! The connection is made with the first call, and again whenever it was lost. Every call carries the namespace, with
//! [`Containerd::with_lease`] also the lease that keeps what is made from garbage collection, and has a deadline
//! (`calls`). [`CallError`] tells a containerd that is away, where another try may help, from one that refused.

mod calls;
mod containers;
mod content;
mod error;
mod health;
mod images;
mod leases;
mod snapshots;
mod stream;
mod tasks;
#[cfg(feature = "testing")]
pub mod testing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use containerd_client::services::v1 as api;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use calls::{Call, Deadlines};
pub use containers::NewContainer;
pub use error::CallError;
pub use images::Record;
pub use leases::Resource;
pub use snapshots::{Mount, write_timeout};
pub use tasks::{Streams, TaskProcess};
pub use tonic::Code;

/// Kelson's own namespace in containerd.
pub const NAMESPACE: &str = "kelson";

/// A Unix socket is connected at once, or its owner hangs.
const CONNECT: Duration = Duration::from_secs(5);

pub type Result<T> = std::result::Result<T, CallError>;

/// containerd of this host. Cheap to clone: all clones share one connection.
#[derive(Debug, Clone)]
pub struct Containerd {
    channel: Channel,
    socket: Arc<str>,
    lease: Option<MetadataValue<Ascii>>,
    deadlines: Deadlines,
    /// For names that are used once.
    numbers: Arc<AtomicU64>,
}

/// Where layers are unpacked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshotter {
    pub name: String,
    /// Its folder, where containerd tells it.
    pub root: Option<String>,
}

impl Containerd {
    /// The containerd whose socket is below this runtime folder.
    pub fn below(runtime_dir: &Path) -> Self {
        Self::at(&runtime_dir.join("containerd/containerd.sock"))
    }

    /// The `state` folder of that containerd.
    pub fn state_folder(runtime_dir: &Path) -> PathBuf {
        runtime_dir.join("containerd/state")
    }

    /// The folder in which it prepares the task of this container.
    pub fn bundle(runtime_dir: &Path, container: &str) -> PathBuf {
        let tasks = Self::state_folder(runtime_dir).join("io.containerd.runtime.v2.task");
        tasks.join(NAMESPACE).join(container)
    }

    /// Connects with the first call, and again whenever the connection was lost. Must be called within a Tokio runtime.
    pub fn at(socket: &Path) -> Self {
        let socket: Arc<str> = Arc::from(socket.to_string_lossy().as_ref());
        let endpoint = Endpoint::from_shared(format!("unix:{socket}"))
            // It cannot be: a path needs no parsing.
            .unwrap_or_else(|_| Endpoint::from_static("unix:/"))
            .connect_timeout(CONNECT)
            // A layer's bytes come in large messages; the windows of HTTP/2 as they are would break each into four.
            .initial_stream_window_size(256 << 10)
            .initial_connection_window_size(1 << 20);
        // Another incarnation of PID 1 used other numbers.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let first = u64::from(now.subsec_nanos()).saturating_add(now.as_secs().wrapping_mul(1_000_000_000));
        Self {
            channel: endpoint.connect_lazy(),
            socket,
            lease: None,
            deadlines: Deadlines::PROMPT,
            numbers: Arc::new(AtomicU64::new(first)),
        }
    }

    /// The same, with the deadlines of a helper, which can wait for a slow disk.
    pub fn patient(self) -> Self {
        Self { deadlines: Deadlines::PATIENT, ..self }
    }

    /// The same, with a lease that holds everything that is made.
    pub fn with_lease(&self, id: &str) -> Result<Self> {
        let refused = |_| CallError::Refused {
            call: "Leases.Create",
            code: Code::InvalidArgument,
            text: format!("{id:?} cannot be the name of a lease"),
        };
        Ok(Self { lease: Some(MetadataValue::try_from(id).map_err(refused)?), ..self.clone() })
    }

    /// A number that no other call returned, in this incarnation of PID 1 nor as a rule in another.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
        if let Some(lease) = &self.lease {
            request.metadata_mut().insert("containerd-lease", lease.clone());
        }
        request
    }

    /// One call, with the deadline of its kind.
    async fn call<Q: Call>(&self, request: Q) -> Result<Q::Answer> {
        self.call_within(request, self.deadlines.of(Q::KIND)).await
    }

    async fn call_within<Q: Call>(&self, request: Q, within: Duration) -> Result<Q::Answer> {
        self.timed(Q::PATH, within, self.unary(request)).await
    }

    /// One call that is answered when something happens: it ends with the connection, or by dropping it.
    async fn call_long<Q: Call>(&self, request: Q) -> Result<Q::Answer> {
        self.unary(request).await.map_err(|status| CallError::of(Q::PATH, &self.socket, &status))
    }

    async fn timed<T>(
        &self,
        call: &'static str,
        within: Duration,
        work: impl Future<Output = std::result::Result<T, Status>>,
    ) -> Result<T> {
        match timeout(within, work).await {
            Ok(answer) => answer.map_err(|status| CallError::of(call, &self.socket, &status)),
            Err(_) => Err(CallError::Silent { call, within }),
        }
    }

    async fn unary<Q: Call>(&self, request: Q) -> std::result::Result<Q::Answer, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let codec = ProstCodec::<Q, Q::Answer>::default();
        let path = PathAndQuery::from_static(Q::PATH);
        grpc.unary(self.request(request), path, codec).await.map(tonic::Response::into_inner)
    }

    /// Makes Kelson's namespace where it is missing.
    pub async fn make_namespace(&self) -> Result<()> {
        let namespace = api::Namespace { name: NAMESPACE.to_owned(), ..Default::default() };
        there(self.call(api::CreateNamespaceRequest { namespace: Some(namespace) }).await).map(drop)
    }

    /// The best snapshotter that works on this host: overlayfs, or native where the kernel or the disk has none.
    pub async fn snapshotter(&self) -> Result<Snapshotter> {
        let filters = vec![String::from("type==io.containerd.snapshotter.v1")];
        let plugins = self.call(api::PluginsRequest { filters }).await?.plugins;
        let usable = |name: &str| {
            plugins.iter().find(|plugin| plugin.id == name && plugin.init_err.is_none()).map(|plugin| {
                Snapshotter { name: plugin.id.clone(), root: plugin.exports.get("root").cloned() }
            })
        };
        usable("overlayfs").or_else(|| usable("native")).ok_or(CallError::NoSnapshotter)
    }
}

/// Treats an object that exists already as made.
fn there<T>(result: Result<T>) -> Result<Option<T>> {
    unless(result, Code::AlreadyExists)
}

/// Treats an object that does not exist as `None`.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    unless(result, Code::NotFound)
}

fn unless<T>(result: Result<T>, code: Code) -> Result<Option<T>> {
    match result {
        Err(error) if error.is(code) => Ok(None),
        other => other.map(Some),
    }
}
