//! The [`Runner`] of services from images: one container and snapshot for all runs, a task a run.
//!
//! containerd makes and deletes; everything that must not depend on it goes straight to the kernel: signals through a
//! pidfd, the kill through the service's cgroup. So a stop ends with a containerd that is dead or frozen; what is left
//! in its records goes with the next start or close.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_spec::ServiceSpec;
use nix::unistd::{Gid, Uid, chown};
use prost_types::Timestamp;
use tokio::time::timeout;

use super::calls::NewContainer;
use super::client::Containerd;
use super::error::ContainerdError;
use super::launch::{Launch, Launched, Launching, fresh_cgroup};
use super::patience::Patience;
use super::runtime::{self, RUNTIME};
use super::spec::{self, Host, Run};
use super::{KILL_DEADLINE, PATIENCE, PROMPT_STOP, leftovers};
use crate::cgroup::Place;
use crate::images::{ImageConfig, Images};
use crate::processes::Processes;
use crate::runner::{BoxFuture, RunContext, Runner, RunnerError, Running, StopPlan, StopReport};

/// How long a lease holds what is half done; longer than any start takes.
const LEASE: Duration = Duration::from_secs(3600);
/// How long a stop waits for containerd to delete the task; the next start does it otherwise.
const DELETE: Duration = Duration::from_secs(3);
/// How long a close waits for containerd in all.
const CLOSE: Duration = Duration::from_secs(10);

/// Runs the container of one service.
pub struct ContainerRunner {
    containerd: Containerd,
    processes: Processes,
    images: Arc<dyn Images>,
    spec: Arc<ServiceSpec>,
    runtime_dir: Arc<Path>,
    /// Known from `open` to `close`.
    image: Option<ImageConfig>,
    /// Something of the service may be in containerd, a task alone or all of it.
    task: bool,
    made: bool,
    main: Option<Launched>,
    launching: Option<Launching>,
    warnings: Vec<String>,
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

    fn place(&self) -> Option<Place> {
        self.processes.cgroups().map(|root| root.place(&self.spec.name))
    }

    fn host(&self) -> Host {
        let found = self.place().and_then(|place| place.path_in_mount());
        let cgroup = found.unwrap_or_else(|| format!("/kelson/{}", self.spec.name));
        Host::read(self.processes.life(), cgroup)
    }

    async fn prepare(&mut self) -> Result<(), RunnerError> {
        let container = spec::container(&self.spec)?;
        let (image, user) = (container.image.clone(), container.user.clone());
        self.reach().await?;
        let image = self.images.prepare(&self.spec.name, &image, user.as_deref()).await?;
        self.image = Some(image.clone());
        let mut patience = Patience::new(PATIENCE);
        loop {
            match self.make(&image).await {
                Err(error) if error.is_away() && patience.lasts().await => {}
                Err(error) => return Err(self.undo(error.into(), &image).await),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Waits for containerd, for a while.
    async fn reach(&self) -> Result<(), RunnerError> {
        let mut patience = Patience::new(PATIENCE);
        loop {
            match self.containerd.health().await {
                Err(error) if error.is_away() => {
                    if !patience.lasts().await {
                        return Err(error.into());
                    }
                }
                // It may refuse to tell, but it is there.
                Ok(()) | Err(_) => return Ok(()),
            }
        }
    }

    /// Leftovers go; cgroup, snapshot and container come. A lease keeps containerd from collecting the snapshot before
    /// the container refers to it, and lets it collect what a crash leaves half way.
    async fn make(&mut self, image: &ImageConfig) -> Result<(), ContainerdError> {
        let service = self.spec.name.as_str();
        let place = self.place();
        self.made = true;
        leftovers::remove(&self.containerd, service, &image.snapshotter, place.as_ref()).await?;
        if let Some(place) = &place {
            self.warnings = fresh_cgroup(place, &self.spec.resources, service).await?;
        }
        let shim_cgroup = match self.processes.cgroups() {
            Some(root) => root.make_shim_place(service)?.path_in_mount().unwrap_or_default(),
            None => String::new(),
        };
        if self.place().is_some() && shim_cgroup.is_empty() {
            self.warnings.push(String::from(
                "containers are not in their own cgroups: cgroup2 is not mounted at /sys/fs/cgroup",
            ));
        }
        let lease = leftovers::lease(service);
        let expires = SystemTime::now().checked_add(LEASE).unwrap_or_else(SystemTime::now);
        let expires = Timestamp::from(expires).to_string();
        let containerd = &self.containerd;
        let why = |what: &str| format!("cannot make the {what} of service {service}");
        containerd.make_lease(&lease, expires).await.map_err(|e| e.while_doing(&why("lease")))?;
        containerd
            .make_snapshot(&image.snapshotter, service, &image.chain_id, &lease)
            .await
            .map_err(|error| error.while_doing(&why("snapshot")))?;
        let container = NewContainer {
            id: service.to_owned(),
            image: image.image.clone(),
            runtime: RUNTIME.to_owned(),
            options: runtime::options(&self.runtime_dir, shim_cgroup, image.uid, image.gid),
            spec: spec::packed(&self.spec, image, &self.host(), &Run::default())?,
            snapshotter: image.snapshotter.clone(),
        };
        containerd.make_container(container).await.map_err(|error| error.while_doing(&why("container")))?;
        containerd.end_lease(&lease).await
    }

    /// Takes back what a failed `open` made. The first failure is the reason; another does not hide it.
    async fn undo(&mut self, reason: RunnerError, image: &ImageConfig) -> RunnerError {
        let place = self.place();
        let removed =
            leftovers::remove(&self.containerd, &self.spec.name, &image.snapshotter, place.as_ref());
        let mut message = reason.message;
        match timeout(CLOSE, removed).await {
            Ok(Ok(())) => self.made = false,
            // One that is away is the reason itself.
            Ok(Err(error)) if error.is_away() => {}
            Ok(Err(error)) => message = format!("{message}; and it could not be undone: {error}"),
            Err(_) => message = format!("{message}; and it could not be undone within {CLOSE:?}"),
        }
        RunnerError { message, errno: reason.errno }
    }

    async fn start(&mut self, context: RunContext) -> Result<Running, RunnerError> {
        let name = self.spec.name.clone();
        let Some(image) = self.image.clone() else {
            return Err(RunnerError::new(format!("service {name} has no container yet")));
        };
        if self.main.as_ref().is_some_and(|main| main.ending.exited().is_none()) {
            return Err(RunnerError::new(format!("service {name} runs already")));
        }
        if !context.descriptors.is_empty() {
            return Err(RunnerError::new(format!(
                "a container takes no descriptors; write readiness: notify for service {name}"
            )));
        }
        let run = Run { number: context.run, environment: context.environment };
        if let Some(socket) = run.notify_socket() {
            // Its user is known only now: it is the image's.
            let (uid, gid) = (Uid::from_raw(image.uid), Gid::from_raw(image.gid));
            chown(socket, Some(uid), Some(gid)).map_err(|errno| {
                RunnerError::system(format_args!("cannot give {socket} to user {uid}"), &errno.into())
            })?;
        }
        if let Ok(None) = self.containerd.container(&name).await {
            // Removed by another hand, or with containerd's folder.
            tracing::warn!("the container of service {name} has vanished from containerd and is made again");
            self.make(&image).await.map_err(|error| explain(error, &name))?;
        }
        let launch = Launch {
            containerd: self.containerd.clone(),
            service: name.clone(),
            snapshotter: image.snapshotter.clone(),
            spec: spec::packed(&self.spec, &image, &self.host(), &run)?,
            resources: self.spec.resources.clone(),
            cgroups: self.processes.cgroups().cloned(),
            stdout: context.stdout,
            stderr: context.stderr,
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
                    self.delete_task().await;
                }
                return Err(explain(error, &name));
            }
        };
        let running = Running {
            pid: launched.pid,
            start_time: launched.handle.as_ref().as_ref().map_or(0, |handle| handle.start_time()),
            exit: launched.ending.clone().into_future(),
        };
        self.main = Some(launched);
        Ok(running)
    }

    /// The image's own signal takes the place of the default, and of nothing else.
    fn signal_of(&self, plan: StopPlan) -> i32 {
        let of_image = self.image.as_ref().and_then(|image| image.stop_signal);
        match (spec::container(&self.spec), of_image) {
            (Ok(container), Some(signal))
                if container.stop_signal_of_image && plan.signal == self.spec.stop.signal =>
            {
                signal
            }
            _ => plan.signal,
        }
    }

    async fn end(&mut self, plan: StopPlan) -> Result<StopReport, RunnerError> {
        self.give_start_up().await;
        let mut killed = false;
        let handle = self.main.as_ref().map(|main| Arc::clone(&main.handle));
        if let Some(Some(handle)) = handle.as_deref()
            && !handle.has_ended()
        {
            match self.signal_of(plan) {
                // Only the patience is new.
                0 => {}
                signal => handle.signal(signal),
            }
            // What is stopped would sleep through it.
            handle.signal(libc::SIGCONT);
            let prompt = PROMPT_STOP.min(plan.timeout.checked_div(2).unwrap_or_default());
            if timeout(prompt, handle.ended()).await.is_err() {
                self.thaw();
                killed = timeout(plan.timeout.saturating_sub(prompt), handle.ended()).await.is_err();
            }
            if killed {
                handle.signal(libc::SIGKILL);
            }
        }
        let left_behind = self.clear().await?;
        if self.task && left_behind == 0 {
            self.delete_task().await;
        }
        Ok(StopReport { killed, left_behind })
    }

    fn thaw(&self) {
        if let Some(place) = self.place().filter(Place::is_frozen)
            && let Err(error) = place.thaw()
        {
            tracing::warn!("{error}");
        }
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
        let mut left = 0;
        if let Some(place) = self.place().filter(Place::is_populated) {
            place.kill()?;
            if !place.unpopulated(KILL_DEADLINE).await? {
                left = u32::try_from(place.processes(10_000).len()).unwrap_or(u32::MAX).max(1);
            }
        }
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

    /// Best effort: a containerd that is away has it deleted by the next start or close.
    async fn delete_task(&mut self) {
        let place = self.place();
        let removed = leftovers::remove_task(&self.containerd, &self.spec.name, place.as_ref());
        match timeout(DELETE, removed).await {
            Ok(Ok(())) => self.task = false,
            Ok(Err(error)) => tracing::warn!("the task of service {} is left: {error}", self.spec.name),
            Err(_) => tracing::warn!(
                "the task of service {} is left: containerd or its shim does not answer",
                self.spec.name
            ),
        }
    }

    async fn end_all(&mut self) -> Result<(), RunnerError> {
        self.give_start_up().await;
        let left = self.clear().await;
        let removed = self.remove_all().await;
        if let (Ok(0), Some(place)) = (&left, self.place()) {
            place.remove()?;
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
        let place = self.place();
        let snapshotter = self.image.as_ref().map(|image| image.snapshotter.clone()).unwrap_or_default();
        let removing = leftovers::remove(&self.containerd, service, &snapshotter, place.as_ref());
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
            let place = root.shim_place(&self.spec.name);
            if place.unpopulated(DELETE).await.is_ok_and(|empty| empty)
                && let Err(error) = place.remove()
            {
                tracing::warn!("{error}");
            }
        }
    }
}

/// A refusal names the service that it is about.
fn explain(error: ContainerdError, service: &str) -> RunnerError {
    match error {
        ContainerdError::Refused { text, .. } => {
            RunnerError::new(format!("cannot start the container of service {service}: {text}"))
        }
        other => other.into(),
    }
}

impl Runner for ContainerRunner {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.prepare())
    }

    fn run(&mut self, context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(self.start(context))
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        Box::pin(self.end(plan))
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.end_all())
    }
}
