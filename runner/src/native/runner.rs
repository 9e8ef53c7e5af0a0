//! The [`Runner`] of services from images that PID 1 runs itself.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_spec::ServiceSpec;
use kelson_sys::removed;
use serde::Serialize;

use super::ids::Ids;
use super::launch::{self, Report};
use super::{Further, IMAGE, PROCESS, Request, Rootfs};
use crate::command::{PidNamespace, Stdio};
use crate::container::spec::{self, Host, Run};
use crate::images::{ImageConfig, Images};
use crate::process::ProcessRunner;
use crate::processes::Processes;
use crate::runner::{Attachment, BoxFuture, RunContext, Runner, RunnerError, Running, StopPlan, StopReport};
use crate::service_command::run_mark;

/// Runs the container of one service.
pub struct NativeRunner {
    process: ProcessRunner,
    processes: Processes,
    images: Arc<dyn Images>,
    spec: Arc<ServiceSpec>,
    binary: Arc<OwnedFd>,
    runtime_dir: PathBuf,
    ids: Ids,
    /// Known from `open` to `close`.
    image: Option<ImageConfig>,
}

impl NativeRunner {
    /// `binary`: Kelson's own, for `execveat`.
    pub fn new(
        processes: Processes,
        images: Arc<dyn Images>,
        spec: Arc<ServiceSpec>,
        binary: Arc<OwnedFd>,
        runtime_dir: &Path,
    ) -> NativeRunner {
        let process = ProcessRunner::new(processes.clone(), Arc::clone(&spec));
        let ids = Ids::new(&spec, runtime_dir);
        let runtime_dir = runtime_dir.to_owned();
        NativeRunner { process, processes, images, spec, binary, runtime_dir, ids, image: None }
    }

    fn folder(&self) -> PathBuf {
        super::folder(&self.runtime_dir, &self.spec.name)
    }

    async fn prepare(&mut self) -> Result<(), RunnerError> {
        let image = self.prepare_image().await?;
        let (uid, gid) = self.ids.owner(&image)?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(self.folder());
        let made = made.and_then(|()| self.write_down(IMAGE, &image));
        made.map_err(|error| {
            RunnerError::system(format_args!("cannot write {}", self.folder().display()), &error)
        })?;
        self.process.set_owner(uid, gid);
        self.image = Some(image);
        self.process.open().await
    }

    /// Writes a file for a later incarnation, which nobody else may read: the environment of the service is in it.
    fn write_down(&self, name: &str, what: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(what)?;
        let mut file = OpenOptions::new();
        file.write(true).create(true).truncate(true).mode(0o600);
        file.open(self.folder().join(name))?.write_all(&text)
    }

    async fn prepare_image(&self) -> Result<ImageConfig, RunnerError> {
        let container = spec::container(&self.spec)?;
        self.images.prepare(&self.spec.name, container).await
    }

    /// What an earlier incarnation has written down.
    fn recall(&mut self) {
        if self.image.is_none()
            && let Ok(text) = fs::read(self.folder().join(IMAGE))
            && let Ok(image) = serde_json::from_slice::<ImageConfig>(&text)
            && let Ok((uid, gid)) = self.ids.owner(&image)
        {
            self.process.set_owner(uid, gid);
            self.image = Some(image);
        }
    }

    /// The image that it was opened with.
    async fn known_image(&mut self) -> Result<ImageConfig, RunnerError> {
        match &self.image {
            Some(image) => Ok(image.clone()),
            // Its record is gone, or is of a Kelson that did not write it.
            None => Ok(self.image.insert(self.prepare_image().await?).clone()),
        }
    }

    async fn start(&mut self, context: RunContext) -> Result<Running, RunnerError> {
        let spec = Arc::clone(&self.spec);
        let name = spec.name.as_str();
        let image = self.known_image().await?;
        let (run, stdout, stderr) = Run::take(context, &spec, self.ids.owner(&image)?)?;
        let number = run.number;
        let incarnation = self.processes.incarnation();
        // Its leaves too are below the one of the service.
        let cgroup = self.processes.cgroups().map(|root| root.cgroup(name).path().display().to_string());
        let host = Host::read(&self.spec, &self.runtime_dir, incarnation, cgroup.unwrap_or_default());
        let mut config = spec::spec(&self.spec, &image, &host, &run)?;
        // The helper knows the rules.
        let is_filtered = config.linux.seccomp.take().is_some();
        let ids = self.ids.range()?;
        let further = Further { process: config.process.clone(), ids, is_filtered };
        self.write_down(PROCESS, &further)
            .map_err(|error| RunnerError::system("cannot write down how the container runs", &error))?;
        let rootfs = Rootfs {
            store: image.store.clone(),
            layers: image.layers.clone(),
            writable: image.writable.clone(),
            point: self.folder().join("root").display().to_string(),
        };
        let (report, theirs) = Report::new()?;
        let request = Request { rootfs, config, ids, is_filtered };
        let mut command = launch::command(&self.binary, "run", &request, theirs)?
            .stdout(Stdio::Descriptor(stdout))
            .stderr(Stdio::Descriptor(stderr))
            .scheduled(&self.spec.attributes)
            .env("KELSON_RUN", run_mark(&self.spec, number, &self.processes));
        command.pipe_owner = further.pipe_owner();
        command.pid_namespace = PidNamespace::New;
        let mut running = self.process.start_command(number, command).await?;
        if let Some(text) = report.failure().await? {
            return Err(RunnerError::new(format!("cannot start the container of service {name}: {text}")));
        }
        running.stop_signal = spec::image_signal(&spec, Some(&image));
        Ok(running)
    }

    async fn end_all(&mut self) -> Result<(), RunnerError> {
        self.process.close().await?;
        self.image = None;
        self.ids.release();
        for name in [IMAGE, PROCESS] {
            removed(fs::remove_file(self.folder().join(name)))
                .map_err(|error| RunnerError::system("cannot forget a container", &error))?;
        }
        Ok(())
    }

    async fn take_up(&mut self, attachment: Attachment) -> Result<Option<Running>, RunnerError> {
        self.recall();
        self.process.attach(attachment).await
    }
}

impl Runner for NativeRunner {
    fn owner(&mut self) -> BoxFuture<'_, Result<(u32, u32), RunnerError>> {
        Box::pin(async {
            let image = self.known_image().await?;
            self.ids.owner(&image)
        })
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
        self.process.stop(spec::stop_plan(plan, &self.spec, self.image.as_ref()))
    }

    fn is_signalled(&self) -> bool {
        self.process.is_signalled()
    }

    fn archives_changed(&mut self, archives: u32) -> BoxFuture<'_, ()> {
        self.images.changed(archives)
    }

    fn warnings(&self) -> &[String] {
        self.process.warnings()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.end_all())
    }
}
