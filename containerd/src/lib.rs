//! containerd, as `kelson-unpack` uses it: content, snapshots, images and leases of Kelson's namespace.
//!
//! Every call bears the namespace, most the lease that keeps what is made from garbage collection, and each has a
//! deadline. A connection that was lost is an error of its own kind ([`CallError::Away`]): all that is done here can be
//! done again, so whoever asked looks at what is there and goes on.

mod content;
mod error;
mod images;
mod leases;
mod snapshots;
mod stream;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use containerd_client::services::v1 as api;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

pub use error::CallError;
pub use images::Record;
pub use leases::Resource;
pub use snapshots::{Mount, patience};

/// Kelson's own namespace in containerd.
pub const NAMESPACE: &str = "kelson";

/// For calls that read or write containerd's own records, on a disk that may be slow.
const PROMPT: Duration = Duration::from_secs(30);
/// For calls that wait for the disk: a commit's sync, an apply, garbage collection. More comes on top for each byte.
const SLOW: Duration = Duration::from_secs(120);
/// A Unix socket is connected at once, or its owner hangs.
const CONNECT: Duration = Duration::from_secs(5);

pub type Result<T> = std::result::Result<T, CallError>;

/// containerd of this host. Cheap to clone: all clones share one connection.
#[derive(Clone)]
pub struct Containerd {
    channel: Channel,
    lease: Option<MetadataValue<Ascii>>,
}

/// Where layers are unpacked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshotter {
    pub name: String,
    /// Its folder, where containerd tells it.
    pub root: Option<String>,
}

impl Containerd {
    /// Connects with the first call, and again whenever the connection was lost.
    pub fn at(socket: &Path) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))
            .map_err(|_| CallError::Refused(format!("{} is no path of a socket", socket.display())))?
            .connect_timeout(CONNECT)
            // A layer's bytes come in large messages; the windows of HTTP/2 as they are would break each into four.
            .initial_stream_window_size(256 << 10)
            .initial_connection_window_size(1 << 20);
        Ok(Self { channel: endpoint.connect_lazy(), lease: None })
    }

    /// The same, with a lease that takes hold of all that is made.
    pub fn with_lease(&self, id: &str) -> Result<Self> {
        let lease = MetadataValue::try_from(id)
            .map_err(|_| CallError::Refused(format!("{id:?} cannot be the name of a lease")))?;
        Ok(Self { channel: self.channel.clone(), lease: Some(lease) })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
        if let Some(lease) = &self.lease {
            request.metadata_mut().insert("containerd-lease", lease.clone());
        }
        request
    }

    /// Makes Kelson's namespace where it is missing.
    pub async fn make_namespace(&self) -> Result<()> {
        let namespace = api::Namespace { name: NAMESPACE.to_owned(), ..Default::default() };
        let request = self.request(api::CreateNamespaceRequest { namespace: Some(namespace) });
        let mut client = api::namespaces_client::NamespacesClient::new(self.channel.clone());
        there(call("Namespaces.Create", PROMPT, client.create(request)).await).map(drop)
    }

    /// The best snapshotter that works on this host: overlayfs, or native where the kernel or the disk has none.
    pub async fn snapshotter(&self) -> Result<Snapshotter> {
        let filters = vec![String::from("type==io.containerd.snapshotter.v1")];
        let request = self.request(api::PluginsRequest { filters });
        let mut client = api::introspection_client::IntrospectionClient::new(self.channel.clone());
        let plugins = call("Introspection.Plugins", PROMPT, client.plugins(request)).await?.plugins;
        let usable = |name: &str| {
            plugins.iter().find(|plugin| plugin.id == name && plugin.init_err.is_none()).map(|plugin| {
                Snapshotter { name: plugin.id.clone(), root: plugin.exports.get("root").cloned() }
            })
        };
        usable("overlayfs").or_else(|| usable("native")).ok_or_else(|| {
            CallError::Refused(String::from(
                "containerd has no snapshotter that works: overlayfs in the kernel would be right",
            ))
        })
    }
}

/// One call with its deadline.
async fn call<T>(
    name: &'static str,
    within: Duration,
    work: impl Future<Output = std::result::Result<Response<T>, Status>>,
) -> Result<T> {
    match tokio::time::timeout(within, work).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(CallError::of(name, &status)),
        Err(_) => Err(CallError::Silent { call: name, within }),
    }
}

/// What is there already is as good as made.
fn there<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(made) => Ok(Some(made)),
        Err(CallError::AlreadyExists) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is not there is nothing.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(CallError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}
