//! The making of a container and of what belongs to it, and its undoing when that fails half way.

use std::time::{Duration, SystemTime};

use kelson_containerd::{CallError, NewContainer};
use prost_types::Timestamp;
use tokio::time::timeout;

use super::retry::RetryWindow;
use super::runner::{CLOSE, ContainerRunner};
use super::runtime::{self, RUNTIME};
use super::{RETRY_WINDOW, leftovers, made_of};
use crate::container::spec::{self, Run};
use crate::images::ImageConfig;
use crate::runner::RunnerError;

/// How long a lease holds what is half done. containerd goes by the wall clock, which may be set forward by years in the
/// middle of a start; a lease that was left behind is removed by the service's next start all the same.
const LEASE: Duration = Duration::from_secs(100 * 366 * 86_400);

impl ContainerRunner {
    pub(super) async fn prepare(&mut self) -> Result<(), RunnerError> {
        spec::container(&self.spec)?;
        self.reach().await?;
        let image = self.prepare_image().await?;
        self.image = Some(image.clone());
        let mut window = RetryWindow::new(RETRY_WINDOW);
        loop {
            match self.make(&image).await {
                Err(error) if error.is_away() && window.lasts().await => {}
                Err(error) => return Err(self.undo(error, &image).await),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Has the image unpacked, where it is not.
    pub(super) async fn prepare_image(&self) -> Result<ImageConfig, RunnerError> {
        let container = spec::container(&self.spec)?;
        self.images.prepare(&self.spec.name, container).await
    }

    /// Waits for containerd, for a while.
    pub(super) async fn reach(&self) -> Result<(), RunnerError> {
        let mut window = RetryWindow::new(RETRY_WINDOW);
        loop {
            match self.containerd.health().await {
                Err(error) if RunnerError::from(error.clone()).is_away() => {
                    if !window.lasts().await {
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
    pub(super) async fn make(&mut self, image: &ImageConfig) -> Result<(), RunnerError> {
        let service = self.spec.name.as_str();
        let cgroup = self.cgroup();
        self.made = true;
        leftovers::remove(&self.containerd, service, &image.snapshotter, cgroup.as_ref()).await?;
        if let Some(cgroup) = &cgroup {
            let owner = Some((image.uid, image.gid));
            self.warnings = cgroup.prepare(cgroup.make()?, &self.spec, owner).await?;
        }
        let shim_cgroup = match self.processes.cgroups() {
            Some(root) => root.make_shim_cgroup(service)?.path_in_mount().unwrap_or_default(),
            None => String::new(),
        };
        if self.cgroup().is_some() && shim_cgroup.is_empty() {
            self.warnings.push(String::from(
                "containers are not in their own cgroups: cgroup2 is not mounted at /sys/fs/cgroup",
            ));
        }
        let lease = leftovers::lease(service);
        let expires = SystemTime::now().checked_add(LEASE).unwrap_or_else(SystemTime::now);
        let expires = Timestamp::from(expires).to_string();
        let containerd = &self.containerd;
        let made = |what: &str, result: Result<(), CallError>| {
            let doing = format!("cannot make the {what} of service {service}");
            result.map_err(|error| RunnerError::from(error).while_doing(&doing))
        };
        made("lease", containerd.make_lease(&lease, Some(expires)).await)?;
        let leased = containerd.with_lease(&lease)?;
        made("snapshot", leased.prepare(&image.snapshotter, service, &image.chain_id).await)?;
        let container = NewContainer {
            id: service.to_owned(),
            image: image.image.clone(),
            runtime: RUNTIME.to_owned(),
            options: runtime::options(&self.runtime_dir, shim_cgroup, image.uid, image.gid),
            spec: runtime::packed(&self.spec, image, &self.host(), &Run::default())?,
            snapshotter: image.snapshotter.clone(),
            extension: made_of::written(image)?,
        };
        made("container", containerd.make_container(container).await)?;
        Ok(containerd.end_lease(&lease).await?)
    }

    /// Takes back what a failed `open` made. The first failure is the reason; another does not hide it.
    async fn undo(&mut self, reason: RunnerError, image: &ImageConfig) -> RunnerError {
        let cgroup = self.cgroup();
        let removed =
            leftovers::remove(&self.containerd, &self.spec.name, &image.snapshotter, cgroup.as_ref());
        let mut message = reason.message.clone();
        match timeout(CLOSE, removed).await {
            Ok(Ok(())) => self.made = false,
            // One that is away is the reason itself.
            Ok(Err(error)) if error.is_away() => {}
            Ok(Err(error)) => message = format!("{message}; and it could not be undone: {error}"),
            Err(_) => message = format!("{message}; and it could not be undone within {CLOSE:?}"),
        }
        RunnerError { message, ..reason }
    }
}
