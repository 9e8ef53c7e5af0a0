//! Further commands inside a container that PID 1 runs itself.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use kelson_spec::ServiceSpec;

use super::joining::Joining;
use crate::exec::{ExecRequest, Executing, Executor};
use crate::process_exec::ProcessExecutor;
use crate::processes::Processes;
use crate::runner::{BoxFuture, RunnerError};

/// Runs commands in the container of one run.
#[derive(Debug)]
pub struct NativeExecutor(ProcessExecutor);

impl NativeExecutor {
    /// For the run whose main process is named by `pid` and `start_time`. `binary`: Kelson's own, for `execveat`.
    pub fn new(
        processes: Processes,
        spec: Arc<ServiceSpec>,
        run: u64,
        (pid, start_time): (i32, u64),
        binary: Arc<OwnedFd>,
        runtime_dir: &Path,
    ) -> NativeExecutor {
        let folder = super::folder(runtime_dir, &spec.name);
        let executor = ProcessExecutor::new(processes, spec, run, pid, start_time);
        NativeExecutor(executor.in_container(Box::new(Joining { binary, folder })))
    }
}

impl Executor for NativeExecutor {
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        self.0.exec(request)
    }
}
