//! Which runner a service gets on this host.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use kelson_runner::cgroup::Cgroup;
use kelson_runner::{Executor, ProcessExecutor, ProcessRunner, Processes, Runner};
use kelson_spec::ServiceSpec;
use kelson_spec::service::Workload;

use crate::manager::{Usage, UsageSource};
use crate::service_runner::task::{RunnerFactory, RunningProcess};

/// Runs processes; the built-in ones from PID 1's copy in memory.
pub struct ProcessRunners {
    pub processes: Processes,
    /// The binary itself, for `execveat`.
    pub binary: Arc<OwnedFd>,
}

impl RunnerFactory for ProcessRunners {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, String> {
        match spec.workload {
            Workload::Process(_) => {
                let runner = ProcessRunner::new(self.processes.clone(), Arc::clone(spec));
                // Only a built-in service has no file.
                Ok(Box::new(if spec.file.as_os_str().is_empty() {
                    runner.with_binary(Arc::clone(&self.binary))
                } else {
                    runner
                }))
            }
            Workload::Container(_) => Err("this version runs no containers".into()),
        }
    }

    fn executor(&self, spec: &Arc<ServiceSpec>, run: RunningProcess) -> Result<Arc<dyn Executor>, String> {
        match spec.workload {
            Workload::Process(_) => {
                let RunningProcess { run, pid, start_time } = run;
                let (processes, spec) = (self.processes.clone(), Arc::clone(spec));
                Ok(Arc::new(ProcessExecutor::new(processes, spec, run, pid, start_time)))
            }
            Workload::Container(_) => Err("this version runs no containers".into()),
        }
    }
}

impl UsageSource for ProcessRunners {
    fn usage(&self, service: &str) -> Usage {
        let Some(root) = self.processes.cgroups() else { return Usage::default() };
        let Ok(Some(cgroup)) = Cgroup::open(root, service) else { return Usage::default() };
        let used = cgroup.usage();
        Usage { memory_bytes: used.memory_bytes, cpu: used.cpu, processes: used.processes }
    }
}
