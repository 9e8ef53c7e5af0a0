//! The calls of containerd's services: path, answer and deadline of each request.

use std::time::Duration;

use containerd_client::services::v1::{self as api, snapshots};
use prost::Message;

/// The longest that a disk is waited for. More comes on top for each byte.
pub(crate) const SLOW: Duration = Duration::from_secs(120);

/// The event that a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// containerd's own records.
    Records,
    /// The disk: a commit's sync, garbage collection.
    Disk,
    /// A shim, runc and the first pages of a program: a slow machine is slow, not dead.
    Shim,
}

/// How long calls may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadlines {
    pub(crate) records: Duration,
    pub(crate) disk: Duration,
}

impl Deadlines {
    /// PID 1 asks again rather than wait.
    pub(crate) const PROMPT: Self = Self { records: Duration::from_secs(10), disk: Duration::from_secs(10) };
    /// A helper can wait for a slow disk.
    pub(crate) const PATIENT: Self = Self { records: Duration::from_secs(30), disk: SLOW };
    const SHIM: Duration = Duration::from_secs(60);

    pub(crate) fn of(&self, kind: Kind) -> Duration {
        match kind {
            Kind::Records => self.records,
            Kind::Disk => self.disk,
            Kind::Shim => Self::SHIM,
        }
    }
}

/// A request, which names its call.
pub(crate) trait Call: Message + Send + Sync + 'static {
    type Answer: Message + Default + Send + Sync + 'static;
    const PATH: &'static str;
    const KIND: Kind;
}

macro_rules! calls {
    ($($kind:ident $path:literal $request:ty => $answer:ty;)*) => {$(
        impl Call for $request {
            type Answer = $answer;
            const PATH: &'static str = concat!("/containerd.services.", $path);
            const KIND: Kind = Kind::$kind;
        }
    )*};
}

calls! {
    Records "containers.v1.Containers/Create" api::CreateContainerRequest => api::CreateContainerResponse;
    Records "containers.v1.Containers/Delete" api::DeleteContainerRequest => ();
    Records "containers.v1.Containers/Get" api::GetContainerRequest => api::GetContainerResponse;
    Records "containers.v1.Containers/Update" api::UpdateContainerRequest => api::UpdateContainerResponse;
    Disk "content.v1.Content/Abort" api::AbortRequest => ();
    Records "content.v1.Content/Info" api::InfoRequest => api::InfoResponse;
    Records "content.v1.Content/Update" api::UpdateRequest => api::UpdateResponse;
    Disk "diff.v1.Diff/Apply" api::ApplyRequest => api::ApplyResponse;
    Records "images.v1.Images/Create" api::CreateImageRequest => api::CreateImageResponse;
    Disk "images.v1.Images/Delete" api::DeleteImageRequest => ();
    Records "images.v1.Images/Get" api::GetImageRequest => api::GetImageResponse;
    Records "images.v1.Images/List" api::ListImagesRequest => api::ListImagesResponse;
    Records "images.v1.Images/Update" api::UpdateImageRequest => api::UpdateImageResponse;
    Records "introspection.v1.Introspection/Plugins" api::PluginsRequest => api::PluginsResponse;
    Records "leases.v1.Leases/AddResource" api::AddResourceRequest => ();
    Records "leases.v1.Leases/Create" api::CreateRequest => api::CreateResponse;
    Disk "leases.v1.Leases/Delete" api::DeleteRequest => ();
    Records "leases.v1.Leases/List" api::ListRequest => api::ListResponse;
    Records "namespaces.v1.Namespaces/Create" api::CreateNamespaceRequest => api::CreateNamespaceResponse;
    Disk "snapshots.v1.Snapshots/Commit" snapshots::CommitSnapshotRequest => ();
    Records "snapshots.v1.Snapshots/Mounts" snapshots::MountsRequest => snapshots::MountsResponse;
    Disk "snapshots.v1.Snapshots/Prepare" snapshots::PrepareSnapshotRequest => snapshots::PrepareSnapshotResponse;
    Disk "snapshots.v1.Snapshots/Remove" snapshots::RemoveSnapshotRequest => ();
    Records "snapshots.v1.Snapshots/Stat" snapshots::StatSnapshotRequest => snapshots::StatSnapshotResponse;
    Disk "snapshots.v1.Snapshots/View" snapshots::ViewSnapshotRequest => snapshots::ViewSnapshotResponse;
    Records "tasks.v1.Tasks/CloseIO" api::CloseIoRequest => ();
    Shim "tasks.v1.Tasks/Create" api::CreateTaskRequest => api::CreateTaskResponse;
    Records "tasks.v1.Tasks/Delete" api::DeleteTaskRequest => api::DeleteResponse;
    Records "tasks.v1.Tasks/DeleteProcess" api::DeleteProcessRequest => api::DeleteResponse;
    Records "tasks.v1.Tasks/Exec" api::ExecProcessRequest => ();
    Records "tasks.v1.Tasks/Get" api::GetRequest => api::GetResponse;
    Records "tasks.v1.Tasks/Kill" api::KillRequest => ();
    Records "tasks.v1.Tasks/ResizePty" api::ResizePtyRequest => ();
    Shim "tasks.v1.Tasks/Start" api::StartRequest => api::StartResponse;
    Records "tasks.v1.Tasks/Wait" api::WaitRequest => api::WaitResponse;
}
