//! Tasks: the processes of containers.

use api::ExecProcessRequest;
use containerd_client::services::v1 as api;
use containerd_client::types::Mount;
use containerd_client::types::v1::Process;
use prost_types::Any;

use crate::{Containerd, Result, found};

const SIGKILL: u32 = 9;

/// A process of a task: its main one, where `exec` is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskProcess {
    pub container: String,
    pub exec: String,
}

impl TaskProcess {
    pub fn main(container: &str) -> TaskProcess {
        TaskProcess { container: container.to_owned(), exec: String::new() }
    }

    fn ids(&self) -> (String, String) {
        (self.container.clone(), self.exec.clone())
    }
}

/// Where the streams of a process go: paths that the shim opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: String,
    pub stdout: String,
    pub stderr: String,
}

impl Containerd {
    /// Makes a task: its process exists, and waits for [`Containerd::start`]. Returns its PID.
    pub async fn make_task(&self, container: &str, rootfs: Vec<Mount>, streams: Streams) -> Result<u32> {
        let (container_id, Streams { stdin, stdout, stderr }) = (container.to_owned(), streams);
        let request =
            api::CreateTaskRequest { container_id, rootfs, stdin, stdout, stderr, ..Default::default() };
        Ok(self.call(request).await?.pid)
    }

    /// Makes a further process in a task; [`Containerd::start`] starts it.
    pub async fn make_exec(
        &self,
        process: &TaskProcess,
        spec: Any,
        streams: Streams,
        terminal: bool,
    ) -> Result<()> {
        let ((container_id, exec_id), Streams { stdin, stdout, stderr }) = (process.ids(), streams);
        let spec = Some(spec);
        self.call(ExecProcessRequest { container_id, exec_id, spec, stdin, stdout, stderr, terminal }).await
    }

    /// Starts a process that was made. Returns its PID.
    pub async fn start(&self, process: &TaskProcess) -> Result<u32> {
        let (container_id, exec_id) = process.ids();
        Ok(self.call(api::StartRequest { container_id, exec_id }).await?.pid)
    }

    pub async fn process(&self, process: &TaskProcess) -> Result<Option<Process>> {
        let (container_id, exec_id) = process.ids();
        let answer = found(self.call(api::GetRequest { container_id, exec_id }).await)?;
        Ok(answer.and_then(|answer| answer.process))
    }

    /// Returns the exit status once the process has ended. It has no deadline: an answer may take years.
    pub async fn wait(&self, process: &TaskProcess) -> Result<u32> {
        let (container_id, exec_id) = process.ids();
        Ok(self.call_long(api::WaitRequest { container_id, exec_id }).await?.exit_status)
    }

    /// Kills whatever of the task there is, as far as the shim finds it; where `exec` names a process, that alone.
    pub async fn kill(&self, process: &TaskProcess) -> Result<()> {
        let ((container_id, exec_id), all) = (process.ids(), process.exec.is_empty());
        found(self.call(api::KillRequest { container_id, exec_id, signal: SIGKILL, all }).await).map(drop)
    }

    /// Deletes a task that has ended; its shim ends with it.
    pub async fn remove_task(&self, container: &str) -> Result<()> {
        found(self.call(api::DeleteTaskRequest { container_id: container.to_owned() }).await).map(drop)
    }

    pub async fn remove_exec(&self, process: &TaskProcess) -> Result<()> {
        let (container_id, exec_id) = process.ids();
        found(self.call(api::DeleteProcessRequest { container_id, exec_id }).await).map(drop)
    }

    /// Has the shim close its own write end of a process's input: until then no end of the input reaches the process.
    pub async fn let_input_end(&self, process: &TaskProcess) -> Result<()> {
        let (container_id, exec_id) = process.ids();
        found(self.call(api::CloseIoRequest { container_id, exec_id, stdin: true }).await).map(drop)
    }

    pub async fn resize(&self, process: &TaskProcess, rows: u16, columns: u16) -> Result<()> {
        let ((container_id, exec_id), width, height) = (process.ids(), columns.into(), rows.into());
        self.call(api::ResizePtyRequest { container_id, exec_id, width, height }).await
    }
}
