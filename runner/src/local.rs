//! The runners of PID 1 itself. Containers need containerd.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use kelson_spec::ServiceSpec;
use kelson_spec::service::Workload;

use crate::exec::Executor;
use crate::process::ProcessRunner;
use crate::process_exec::ProcessExecutor;
use crate::processes::Processes;
use crate::runner::Runner;
use crate::target::TargetRunner;

/// The runner of a service. `None`: containerd runs it. `binary`: as for [`ProcessRunner::with_binary`].
pub fn local_runner(
    processes: &Processes,
    spec: &Arc<ServiceSpec>,
    binary: Option<&Arc<OwnedFd>>,
) -> Option<Box<dyn Runner>> {
    match spec.workload {
        Workload::Process(_) => {
            let runner = ProcessRunner::new(processes.clone(), Arc::clone(spec));
            Some(Box::new(match binary {
                Some(binary) => runner.with_binary(Arc::clone(binary)),
                None => runner,
            }))
        }
        Workload::Target => Some(Box::new(TargetRunner::default())),
        Workload::Container(_) => None,
    }
}

/// The executor of further commands beside the main process of this run. `None`: containerd runs them.
pub fn local_executor(
    processes: &Processes,
    spec: &Arc<ServiceSpec>,
    run: u64,
    pid: i32,
    start_time: u64,
) -> Option<Arc<dyn Executor>> {
    spec.container().is_none().then(|| {
        let executor = ProcessExecutor::new(processes.clone(), Arc::clone(spec), run, pid, start_time);
        Arc::new(executor) as Arc<dyn Executor>
    })
}
