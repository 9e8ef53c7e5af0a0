//! Further commands inside a container that PID 1 runs itself.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_spec::ServiceSpec;

use super::joining::Joining;
use super::terminal::{Begun, Sent};
use crate::exec::{ExecRequest, Executing, Executor, WindowSize};
use crate::process_exec::ProcessExecutor;
use crate::processes::Processes;
use crate::runner::{BoxFuture, RunnerError};

/// Runs commands in the container of one run.
#[derive(Debug)]
pub struct NativeExecutor {
    processes: Processes,
    spec: Arc<ServiceSpec>,
    run: u64,
    /// PID and start time.
    main: (i32, u64),
    binary: Arc<OwnedFd>,
    /// Of this service, below the runtime folder.
    folder: PathBuf,
}

impl NativeExecutor {
    /// For the run whose main process is named by `main`, a PID and a start time. `binary`: Kelson's own, for `execveat`.
    pub fn new(
        processes: Processes,
        spec: Arc<ServiceSpec>,
        run: u64,
        main: (i32, u64),
        binary: Arc<OwnedFd>,
        runtime_dir: &Path,
    ) -> NativeExecutor {
        let folder = super::folder(runtime_dir, &spec.name);
        NativeExecutor { processes, spec, run, main, binary, folder }
    }

    /// Starts a command on pipes, or on the terminal that it is to open.
    async fn start(
        &self,
        request: ExecRequest,
        terminal: Option<(WindowSize, OwnedFd)>,
    ) -> Result<Executing, RunnerError> {
        let (pid, start_time) = self.main;
        let joining = Joining { binary: Arc::clone(&self.binary), folder: self.folder.clone(), terminal };
        let executor =
            ProcessExecutor::new(self.processes.clone(), Arc::clone(&self.spec), self.run, pid, start_time);
        executor.in_container(Box::new(joining)).exec(request).await
    }

    /// Its terminal is one of the container, so the command itself opens it. Where it cannot, its pipes have the reason.
    async fn start_on_terminal(
        &self,
        request: ExecRequest,
        size: WindowSize,
    ) -> Result<Executing, RunnerError> {
        let (sent, theirs) = Sent::new()?;
        let is_fed = request.input;
        let request = ExecRequest { terminal: None, input: false, outputs: None, ..request };
        let begun = Begun::new(self.start(request, Some((size, theirs))).await?);
        match sent.terminal().await? {
            Some(terminal) => begun.on_terminal(terminal, is_fed),
            None => begun.on_pipes(),
        }
    }
}

impl Executor for NativeExecutor {
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        match request.terminal {
            Some(size) => Box::pin(self.start_on_terminal(request, size)),
            None => Box::pin(self.start(request, None)),
        }
    }
}
