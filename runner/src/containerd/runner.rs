//! The [`Runner`] of services from images: one container and snapshot for all runs, a task a run.
//!
//! containerd makes and deletes; everything that must not depend on it goes straight to the kernel: signals through a
//! pidfd, the kill through the service's cgroup. So a stop ends with a containerd that is dead or frozen; what is left
//! in its records goes with the next start or close.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_containerd::Containerd;
use kelson_spec::ServiceSpec;
use tokio::time::timeout;

use super::launch::{Launch, Launched, Launching};
use super::{KILL_DEADLINE, leftovers, runtime};
use crate::cgroup::Cgroup;
use crate::container::spec::{self, Host, Run};
use crate::images::{ImageConfig, Images};
use crate::processes::Processes;
use crate::runner::{
    Attachment, BoxFuture, Origin, RunContext, Runner, RunnerError, Running, StopPlan, StopReport,
};

/// How long a stop waits for containerd to delete the task; the next start does it otherwise.
const DELETE: Duration = Duration::from_secs(3);
/// How long a close waits for containerd in all.
pub(super) const CLOSE: Duration = Duration::from_secs(10);

/// Runs the container of one service.
pub struct ContainerRunner {
    pub(super) containerd: Containerd,
    pub(super) processes: Processes,
    pub(super) images: Arc<dyn Images>,
    pub(super) spec: Arc<ServiceSpec>,
    pub(super) runtime_dir: Arc<Path>,
    /// Known from `open` to `close`.
    pub(super) image: Option<ImageConfig>,
    /// Something of the service may be in containerd, a task alone or all of it.
    pub(super) task: bool,
    pub(super) made: bool,
    pub(super) main: Option<Launched>,
    launching: Option<Launching>,
    pub(super) warnings: Vec<String>,
}

impl ContainerRunner {
    pub fn new(
        containerd: Containerd,
        processes: Processes,
        images: Arc<dyn Images>,
        spec: Arc<ServiceSpec>,
        runtime_dir: Arc<Path>,
    ) -> ContainerRunner {
        ContainerRunner {
            containerd,
            processes,
            images,
            spec,
            runtime_dir,
            image: None,
            task: false,
            made: false,
            main: None,
            launching: None,
            warnings: Vec::new(),
        }
    }

    pub(super) fn cgroup(&self) -> Option<Cgroup> {
        self.processes.cgroups().map(|root| root.cgroup(&self.spec.name))
    }

    pub(super) fn host(&self) -> Host {
        let found = self.cgroup().and_then(|cgroup| cgroup.of_main(self.spec.delegate).path_in_mount());
        let cgroup = found.unwrap_or_else(|| format!("/kelson/{}", self.spec.name));
        Host::read(&self.spec, &self.runtime_dir, self.processes.incarnation(), cgroup)
    }

    pub(super) fn refuse_while_it_runs(&self) -> Result<(), RunnerError> {
        if self.main.as_ref().is_some_and(|main| main.ending.exited().is_none()) {
            return Err(RunnerError::new(format!("service {} runs already", self.spec.name)));
        }
        Ok(())
    }

    async fn start(&mut self, context: RunContext) -> Result<Running, RunnerError> {
        let name = self.spec.name.clone();
        self.refuse_while_it_runs()?;
        let image = self.known_image().await?;
        let (run, stdout, stderr) = Run::take(context, &self.spec, (image.uid, image.gid))?;
        if let Ok(None) = self.containerd.container(&name).await {
            // Removed by another hand, or with containerd's folder.
            tracing::warn!("the container of service {name} has vanished from containerd and is made again");
            self.make(&image).await.map_err(|error| explain(error, &name))?;
        }
        let launch = Launch {
            containerd: self.containerd.clone(),
            service: name.clone(),
            service_spec: Arc::clone(&self.spec),
            owner: (image.uid, image.gid),
            snapshotter: image.snapshotter.clone(),
            spec: runtime::packed(&self.spec, &image, &self.host(), &run)?,
            cgroups: self.processes.cgroups().cloned(),
            runtime_dir: Arc::clone(&self.runtime_dir),
            stdout,
            stderr,
        };
        self.task = true;
        self.main = None;
        let launching = self.launching.insert(Launching::begin(launch));
        let result = launching.result().await;
        self.launching = None;
        let launched = match result {
            Ok(launched) => launched,
            Err(error) => {
                // It may have been made, and only its start refused.
                if !error.is_away() {
                    self.delete_task(false).await;
                }
                return Err(explain(error, &name));
            }
        };
        let running = Running {
            pid: launched.pid,
            start_time: launched.handle.as_ref().as_ref().map_or(0, |handle| handle.start_time()),
            stop_signal: self.image_signal(),
            addresses: Vec::new(),
            exit: launched.ending.clone().into_future(),
        };
        self.main = Some(launched);
        Ok(running)
    }

    fn image_signal(&self) -> Option<i32> {
        spec::image_signal(&self.spec, self.image.as_ref())
    }

    async fn end(&mut self, plan: StopPlan) -> Result<StopReport, RunnerError> {
        self.give_start_up().await;
        let mut report = StopReport::default();
        let handle = self.main.as_ref().map(|main| Arc::clone(&main.handle));
        if let Some(Some(handle)) = handle.as_deref()
            && !handle.has_ended()
        {
            self.recall_briefly().await;
            // 0: only the timeout is new.
            let plan = spec::stop_plan(plan, &self.spec, self.image.as_ref());
            if let Some(main) = &mut self.main {
                main.is_signalled |= plan.signal != 0;
            }
            let signal = self.image_signal().unwrap_or(self.spec.stop.signal);
            report = handle.end(plan, (&self.spec.stop, signal), self.cgroup().as_ref()).await;
        }
        let known = self.main.is_some();
        report.left_behind = self.clear().await?;
        // Each run has a new cgroup, which goes with the task.
        report.out_of_memory = self.task && self.cgroup().is_some_and(|cgroup| cgroup.memory_kills() > 0);
        if self.task && report.left_behind == 0 {
            self.delete_task(known).await;
        }
        Ok(report)
    }

    /// A start that goes on would make a process after all was seen dead.
    async fn give_start_up(&mut self) {
        if let Some(launching) = self.launching.take()
            && let Some(launched) = launching.give_up().await
        {
            self.main = Some(launched);
        }
    }

    /// Ends whatever the service has left. Returns how many processes outlived it.
    async fn clear(&mut self) -> Result<u32, RunnerError> {
        if !self.task {
            return Ok(0);
        }
        let mut left = match self.cgroup() {
            Some(cgroup) => cgroup.clear().await?,
            None => 0,
        };
        if let Some(main) = &mut self.main {
            if let Some(handle) = main.handle.as_ref() {
                // Without a cgroup this is all: the rest of a PID namespace dies with its first process.
                handle.signal(libc::SIGKILL);
                if timeout(KILL_DEADLINE, handle.ended()).await.is_err() {
                    left = left.max(1);
                }
            }
            // Its status may still be on its way.
            if timeout(KILL_DEADLINE, main.ending.exit()).await.is_err() {
                tracing::warn!("containerd does not tell how service {} ended", self.spec.name);
            }
        }
        if left == 0 {
            self.main = None;
        }
        Ok(left)
    }

    /// Best effort: a containerd that is away has it deleted by the next start or close. `ended`: so have its processes.
    async fn delete_task(&mut self, ended: bool) {
        let cgroup = self.cgroup();
        let removed = leftovers::remove_task(&self.containerd, &self.spec.name, cgroup.as_ref(), ended);
        match timeout(DELETE, removed).await {
            Ok(Ok(())) => self.task = false,
            Ok(Err(error)) => tracing::warn!("the task of service {} is left: {error}", self.spec.name),
            Err(_) => tracing::warn!(
                "the task of service {} is left: containerd and its shim have not deleted it within {DELETE:?}",
                self.spec.name
            ),
        }
    }

    async fn end_all(&mut self) -> Result<(), RunnerError> {
        self.give_start_up().await;
        let left = self.clear().await;
        let removed = self.remove_all().await;
        if let (Ok(0), Some(cgroup)) = (&left, self.cgroup()) {
            cgroup.remove()?;
        }
        if removed.is_ok() {
            self.image = None;
            self.remove_shim_cgroup().await;
        }
        left?;
        removed
    }

    async fn remove_all(&mut self) -> Result<(), RunnerError> {
        if !self.made {
            return Ok(());
        }
        let service = self.spec.name.as_str();
        let cgroup = self.cgroup();
        let snapshotter = self.image.as_ref().map(|image| image.snapshotter.clone()).unwrap_or_default();
        let removing = leftovers::remove(&self.containerd, service, &snapshotter, cgroup.as_ref());
        let later = format!("what service {service} left in it is removed by its next start");
        match timeout(CLOSE, removing).await {
            Ok(Ok(())) => {
                (self.made, self.task) = (false, false);
                Ok(())
            }
            Ok(Err(error)) => Err(RunnerError::new(format!("{error}; {later}"))),
            Err(_) => Err(RunnerError::new(format!(
                "containerd or the container's shim does not answer within {CLOSE:?}; {later}"
            ))),
        }
    }

    /// The shim ends by itself once its task is deleted. One that hangs keeps its cgroup; it is never killed.
    async fn remove_shim_cgroup(&self) {
        if let Some(root) = self.processes.cgroups() {
            let cgroup = root.shim_cgroup(&self.spec.name);
            if cgroup.unpopulated(DELETE).await.is_ok_and(|empty| empty)
                && let Err(error) = cgroup.remove()
            {
                tracing::warn!("{error}");
            }
        }
    }
}

/// A refusal names the service that it is about.
fn explain(error: RunnerError, service: &str) -> RunnerError {
    match error.origin {
        Origin::ContainerdRefused => {
            RunnerError::new(format!("cannot start the container of service {service}: {error}"))
        }
        _ => error,
    }
}

impl Runner for ContainerRunner {
    fn owner(&mut self) -> BoxFuture<'_, Result<(u32, u32), RunnerError>> {
        Box::pin(async { self.known_image().await.map(|image| (image.uid, image.gid)) })
    }

    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.prepare())
    }

    fn run(&mut self, context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(self.start(context))
    }

    fn attach(&mut self, attachment: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        Box::pin(self.take_up(attachment))
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        Box::pin(self.end(plan))
    }

    fn is_signalled(&self) -> bool {
        self.main.as_ref().is_some_and(|main| main.is_signalled)
    }

    fn archives_changed(&mut self, archives: u32) -> BoxFuture<'_, ()> {
        self.images.changed(archives)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.end_all())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use kelson_spec::service::ContainerSpec;

    use super::*;
    use crate::cgroup::CgroupRoot;
    use crate::processes::Options;

    struct NoImages;

    impl Images for NoImages {
        fn prepare<'a>(
            &'a self,
            _: &'a str,
            _: &'a ContainerSpec,
        ) -> BoxFuture<'a, Result<ImageConfig, RunnerError>> {
            Box::pin(std::future::ready(Err(RunnerError::new("there are none"))))
        }
    }

    /// The folder is played: there is no memory controller to be had everywhere.
    #[tokio::test]
    async fn a_run_in_which_the_kernel_killed_for_memory_says_so() {
        let own = std::env::temp_dir().join(format!("kelson-container-memory-{}", std::process::id()));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("cgroup.controllers"), "memory\n").unwrap();
        let options = Options { cgroups: Some(CgroupRoot::below(&own).unwrap()), ..Options::default() };
        let mut runner = ContainerRunner::new(
            Containerd::below(&own),
            Processes::new(options).unwrap(),
            Arc::new(NoImages),
            Arc::new(ServiceSpec::process("web", ["x"])),
            Arc::from(own.as_path()),
        );
        let cgroup = runner.cgroup().unwrap();
        cgroup.make().unwrap();
        let plan = StopPlan { signal: libc::SIGTERM, timeout: Duration::ZERO };
        for (text, expected) in [("oom_kill 0\n", false), ("oom_kill 1\noom_group_kill 1\n", true)] {
            fs::write(cgroup.path().join("memory.events"), text).unwrap();
            runner.task = true;
            assert_eq!(runner.end(plan).await.unwrap().out_of_memory, expected);
        }
        runner.task = false;
        assert!(!runner.end(plan).await.unwrap().out_of_memory, "without a run there is nothing to tell");
        fs::remove_dir_all(&own).unwrap();
    }
}
