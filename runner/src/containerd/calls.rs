//! The calls that are made, each with the deadline that fits it.

use containerd_client::services::v1 as api;
use containerd_client::services::v1::container::Runtime;
use containerd_client::services::v1::snapshots;
use containerd_client::types::Mount;
use containerd_client::types::v1::Process;
use prost_types::{Any, FieldMask};
use std::collections::HashMap;
use std::time::Duration;
use tonic::Code;

use super::client::{Containerd, PROMPT, SLOW};
use super::error::ContainerdError;

type Result<T> = std::result::Result<T, ContainerdError>;

/// Shape of the label that ends a lease by itself.
const EXPIRE: &str = "containerd.io/gc.expire";

/// What is not there is as good as removed.
fn gone(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.is(Code::NotFound) => Ok(()),
        other => other,
    }
}

/// What is not there is nothing.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is(Code::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A process of a task: its main one, where `exec` is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskProcess {
    pub(super) container: String,
    pub(super) exec: String,
}

impl TaskProcess {
    pub(super) fn main(container: &str) -> TaskProcess {
        TaskProcess { container: container.to_owned(), exec: String::new() }
    }
}

/// A container record to be made.
pub(super) struct NewContainer {
    pub(super) id: String,
    pub(super) image: String,
    pub(super) runtime: String,
    pub(super) options: Any,
    pub(super) spec: Any,
    pub(super) snapshotter: String,
    /// By its name.
    pub(super) extension: (String, Any),
}

/// Where the streams of a process go: paths that the shim opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Streams {
    pub(super) stdin: String,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Containerd {
    /// Makes a lease that ends by itself within the hour.
    pub(super) async fn make_lease(&self, id: &str, expires: String) -> Result<()> {
        let labels = HashMap::from([(EXPIRE.to_owned(), expires)]);
        let request = api::CreateRequest { id: id.to_owned(), labels };
        let path = "/containerd.services.leases.v1.Leases/Create";
        match self.call::<_, api::CreateResponse>(path, request, PROMPT).await {
            Err(error) if !error.is(Code::AlreadyExists) => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) async fn end_lease(&self, id: &str) -> Result<()> {
        let request = api::DeleteRequest { id: id.to_owned(), sync: false };
        gone(self.call("/containerd.services.leases.v1.Leases/Delete", request, PROMPT).await)
    }

    pub(super) async fn make_snapshot(
        &self,
        snapshotter: &str,
        key: &str,
        parent: &str,
        lease: &str,
    ) -> Result<()> {
        let request = snapshots::PrepareSnapshotRequest {
            snapshotter: snapshotter.to_owned(),
            key: key.to_owned(),
            parent: parent.to_owned(),
            ..Default::default()
        };
        let path = "/containerd.services.snapshots.v1.Snapshots/Prepare";
        self.call_with_lease::<_, snapshots::PrepareSnapshotResponse>(path, request, lease).await.map(drop)
    }

    pub(super) async fn snapshot_mounts(&self, snapshotter: &str, key: &str) -> Result<Vec<Mount>> {
        let request = snapshots::MountsRequest { snapshotter: snapshotter.to_owned(), key: key.to_owned() };
        let path = "/containerd.services.snapshots.v1.Snapshots/Mounts";
        let answer: snapshots::MountsResponse = self.call(path, request, PROMPT).await?;
        Ok(answer.mounts)
    }

    pub(super) async fn remove_snapshot(&self, snapshotter: &str, key: &str) -> Result<()> {
        let request =
            snapshots::RemoveSnapshotRequest { snapshotter: snapshotter.to_owned(), key: key.to_owned() };
        gone(self.call("/containerd.services.snapshots.v1.Snapshots/Remove", request, PROMPT).await)
    }

    pub(super) async fn make_container(&self, new: NewContainer) -> Result<()> {
        let NewContainer { id, image, runtime, options, spec, snapshotter, extension } = new;
        let container = api::Container {
            id: id.clone(),
            image,
            runtime: Some(Runtime { name: runtime, options: Some(options) }),
            spec: Some(spec),
            snapshotter,
            snapshot_key: id,
            extensions: HashMap::from([extension]),
            ..Default::default()
        };
        let request = api::CreateContainerRequest { container: Some(container) };
        let path = "/containerd.services.containers.v1.Containers/Create";
        self.call::<_, api::CreateContainerResponse>(path, request, PROMPT).await.map(drop)
    }

    pub(super) async fn container(&self, id: &str) -> Result<Option<api::Container>> {
        let request = api::GetContainerRequest { id: id.to_owned() };
        let path = "/containerd.services.containers.v1.Containers/Get";
        let answer = found(self.call::<_, api::GetContainerResponse>(path, request, PROMPT).await)?;
        Ok(answer.and_then(|answer| answer.container))
    }

    pub(super) async fn set_spec(&self, id: &str, spec: Any) -> Result<()> {
        let container = api::Container { id: id.to_owned(), spec: Some(spec), ..Default::default() };
        let mask = FieldMask { paths: vec![String::from("spec")] };
        let request = api::UpdateContainerRequest { container: Some(container), update_mask: Some(mask) };
        let path = "/containerd.services.containers.v1.Containers/Update";
        self.call::<_, api::UpdateContainerResponse>(path, request, PROMPT).await.map(drop)
    }

    pub(super) async fn remove_container(&self, id: &str) -> Result<()> {
        let request = api::DeleteContainerRequest { id: id.to_owned() };
        gone(self.call("/containerd.services.containers.v1.Containers/Delete", request, PROMPT).await)
    }

    /// Makes a task: its process exists, and waits for [`Containerd::start`]. Returns its PID.
    pub(super) async fn make_task(
        &self,
        container: &str,
        rootfs: Vec<Mount>,
        streams: Streams,
    ) -> Result<u32> {
        let Streams { stdin, stdout, stderr } = streams;
        let request = api::CreateTaskRequest {
            container_id: container.to_owned(),
            rootfs,
            stdin,
            stdout,
            stderr,
            ..Default::default()
        };
        let path = "/containerd.services.tasks.v1.Tasks/Create";
        let answer: api::CreateTaskResponse = self.call(path, request, SLOW).await?;
        Ok(answer.pid)
    }

    /// Starts a process that was made. Returns its PID.
    pub(super) async fn start(&self, process: &TaskProcess) -> Result<u32> {
        let request =
            api::StartRequest { container_id: process.container.clone(), exec_id: process.exec.clone() };
        let path = "/containerd.services.tasks.v1.Tasks/Start";
        let answer: api::StartResponse = self.call(path, request, SLOW).await?;
        Ok(answer.pid)
    }

    pub(super) async fn process(&self, process: &TaskProcess) -> Result<Option<Process>> {
        let request =
            api::GetRequest { container_id: process.container.clone(), exec_id: process.exec.clone() };
        let path = "/containerd.services.tasks.v1.Tasks/Get";
        let answer = found(self.call::<_, api::GetResponse>(path, request, PROMPT).await)?;
        Ok(answer.and_then(|answer| answer.process))
    }

    /// Returns the exit status once the process has ended. It has no deadline: an answer may take years.
    pub(super) async fn wait(&self, process: &TaskProcess) -> Result<u32> {
        let request =
            api::WaitRequest { container_id: process.container.clone(), exec_id: process.exec.clone() };
        let path = "/containerd.services.tasks.v1.Tasks/Wait";
        let answer: api::WaitResponse = self.call_long(path, request).await?;
        Ok(answer.exit_status)
    }

    /// Kills whatever of the task there is, as far as the shim finds it.
    pub(super) async fn kill_task(&self, container: &str) -> Result<()> {
        let request = api::KillRequest {
            container_id: container.to_owned(),
            signal: libc::SIGKILL.cast_unsigned(),
            all: true,
            ..Default::default()
        };
        gone(self.call("/containerd.services.tasks.v1.Tasks/Kill", request, PROMPT).await)
    }

    /// Deletes a task that has ended; its shim ends with it.
    pub(super) async fn remove_task(&self, container: &str, within: Duration) -> Result<()> {
        let request = api::DeleteTaskRequest { container_id: container.to_owned() };
        let path = "/containerd.services.tasks.v1.Tasks/Delete";
        gone(self.call::<_, api::DeleteResponse>(path, request, within).await.map(drop))
    }

    /// Makes a further process in a task; [`Containerd::start`] starts it.
    pub(super) async fn make_exec(
        &self,
        process: &TaskProcess,
        spec: Any,
        streams: Streams,
        terminal: bool,
    ) -> Result<()> {
        let Streams { stdin, stdout, stderr } = streams;
        let request = api::ExecProcessRequest {
            container_id: process.container.clone(),
            exec_id: process.exec.clone(),
            spec: Some(spec),
            stdin,
            stdout,
            stderr,
            terminal,
        };
        self.call("/containerd.services.tasks.v1.Tasks/Exec", request, PROMPT).await
    }

    /// Has the shim close its own write end of a process's input: until then no end of the input reaches the process.
    pub(super) async fn let_input_end(&self, process: &TaskProcess) -> Result<()> {
        let request = api::CloseIoRequest {
            container_id: process.container.clone(),
            exec_id: process.exec.clone(),
            stdin: true,
        };
        gone(self.call("/containerd.services.tasks.v1.Tasks/CloseIO", request, PROMPT).await)
    }

    pub(super) async fn remove_exec(&self, process: &TaskProcess) -> Result<()> {
        let request = api::DeleteProcessRequest {
            container_id: process.container.clone(),
            exec_id: process.exec.clone(),
        };
        let path = "/containerd.services.tasks.v1.Tasks/DeleteProcess";
        gone(self.call::<_, api::DeleteResponse>(path, request, PROMPT).await.map(drop))
    }

    pub(super) async fn resize(&self, process: &TaskProcess, rows: u16, columns: u16) -> Result<()> {
        let request = api::ResizePtyRequest {
            container_id: process.container.clone(),
            exec_id: process.exec.clone(),
            width: u32::from(columns),
            height: u32::from(rows),
        };
        self.call("/containerd.services.tasks.v1.Tasks/ResizePty", request, PROMPT).await
    }

    pub(super) async fn kill_exec(&self, process: &TaskProcess) -> Result<()> {
        let request = api::KillRequest {
            container_id: process.container.clone(),
            exec_id: process.exec.clone(),
            signal: libc::SIGKILL.cast_unsigned(),
            all: false,
        };
        gone(self.call("/containerd.services.tasks.v1.Tasks/Kill", request, PROMPT).await)
    }
}
