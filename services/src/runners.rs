//! Which runner a service gets on this host.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use kelson_runner::{
    ContainerExecutor, ContainerRunner, Containerd, Executor, Images, NativeExecutor, NativeRunner,
    Processes, Runner, local_executor, local_runner,
};
use kelson_spec::service::ContainerSpec;
use kelson_spec::{Feature, MissingFeature, ServiceSpec};

use crate::builtins::containerd;
use crate::builtins::probe::Probes;
use crate::error::ServicesError;
use crate::health::OwnCheck;
use crate::health::network::Network;
use crate::manager::{Usage, UsageSource};
use crate::service_runner::host_context::{RunnerFactory, RunningProcess};

/// Runs processes, the built-in ones from PID 1's copy in memory; and containers, if the build has that feature.
pub struct Runners {
    pub processes: Processes,
    /// The binary itself, for `execveat`.
    pub binary: Arc<OwnedFd>,
    /// `None`: the build lacks the feature `containerd`.
    pub containers: Option<Box<dyn RunnerFactory>>,
    /// `None`: the build lacks the feature `probes`.
    pub probes: Option<Probes>,
}

impl Runners {
    fn containers(&self) -> Result<&dyn RunnerFactory, ServicesError> {
        self.containers.as_deref().ok_or_else(|| MissingFeature(Feature::Containerd).into())
    }

    fn probes(&self) -> Result<&Probes, ServicesError> {
        self.probes.as_ref().ok_or_else(|| MissingFeature(Feature::Probes).into())
    }
}

impl RunnerFactory for Runners {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        // Only a built-in service has no file.
        let binary = spec.file.as_os_str().is_empty().then_some(&self.binary);
        match local_runner(&self.processes, spec, binary) {
            Some(runner) => Ok(runner),
            None => self.containers()?.runner(spec),
        }
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        match local_executor(&self.processes, spec, run.run, run.pid, run.start_time) {
            Some(executor) => Ok(executor),
            None => self.containers()?.executor(spec, run),
        }
    }

    fn network(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Network>, ServicesError> {
        self.probes()?.network(spec, run)
    }

    fn host_network(&self) -> Result<Arc<dyn Network>, ServicesError> {
        Ok(self.probes()?.host())
    }

    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        self.containers.as_ref()?.own_check(spec)
    }
}

/// Runs containers, by containerd or itself.
pub struct Containers {
    pub processes: Processes,
    /// The binary itself, for `execveat`.
    pub binary: Arc<OwnedFd>,
    pub containerd: Containerd,
    pub images: Arc<dyn Images>,
    pub runtime_dir: Arc<Path>,
}

impl RunnerFactory for Containers {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        if self.processes.cgroups().is_none() {
            return Err(ServicesError::NotNow(
                "a container cannot be run on this host: it has no cgroup2 file system that can be written; \
                 mount one at /sys/fs/cgroup"
                    .to_owned(),
            ));
        }
        if is_native(spec) {
            return Ok(Box::new(NativeRunner::new(
                self.processes.clone(),
                Arc::clone(&self.images),
                Arc::clone(spec),
                Arc::clone(&self.binary),
                &self.runtime_dir,
            )));
        }
        Ok(Box::new(ContainerRunner::new(
            self.containerd.clone(),
            self.processes.clone(),
            Arc::clone(&self.images),
            Arc::clone(spec),
            Arc::clone(&self.runtime_dir),
        )))
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        let RunningProcess { pid, start_time, run } = run;
        if is_native(spec) {
            return Ok(Arc::new(NativeExecutor::new(
                self.processes.clone(),
                Arc::clone(spec),
                run,
                (pid, start_time),
                Arc::clone(&self.binary),
                &self.runtime_dir,
            )));
        }
        Ok(Arc::new(ContainerExecutor::new(self.containerd.clone(), &spec.name, pid, start_time)))
    }

    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        (spec.name == containerd::NAME).then(|| containerd::own_check(self.containerd.clone()))
    }
}

fn is_native(spec: &ServiceSpec) -> bool {
    spec.container().is_some_and(ContainerSpec::is_native)
}

impl UsageSource for Runners {
    fn usage(&self, service: &str) -> Usage {
        self.processes.usage(service)
    }
}
