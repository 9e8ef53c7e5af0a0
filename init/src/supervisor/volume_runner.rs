//! The volumes of a service whose sources are paths, overlays or disks: looked for before its runs, made where the file says
//! so, and checked.
//!
//! What is mounted for a service is mounted in its own namespace alone, and goes with it. A source stays: it is what the
//! service keeps. A process holds its disks, and is the last one that lets them go: who unmounts a disk waits for it.

use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_helper::task::VolumeRequest;
use kelson_runner::{RunContext, Runner, RunnerError, Running};
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::id_range::IdRange;
use kelson_spec::service::{FoundDisk, Volume, VolumeSource};

use super::provided_runner::{ProvidedRunner, Provision, ask};
use super::secrets::CALL;
use crate::boot::devices::{CHECK, LOOK, MOUNT};
use crate::task::{self, Held};

/// The runner of a service, which prepares its volumes if it has some.
pub(super) fn with_volumes(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    tasks: &Arc<dyn Launcher>,
) -> Box<dyn Runner> {
    if const { !OWN.has(Feature::Volumes) } {
        return inner;
    }
    let of = |is_wanted: fn(&VolumeSource) -> bool| -> Vec<Volume> {
        spec.volumes.iter().filter(|volume| is_wanted(&volume.source)).cloned().collect()
    };
    let is_path = |source: &VolumeSource| source.path().is_some() || source.overlay().is_some();
    let (paths, disks) = (of(is_path), of(|source| source.disk().is_some()));
    if paths.is_empty() && disks.is_empty() {
        return inner;
    }
    let is_mapped = spec.container().is_some_and(|container| container.user_namespace);
    let volumes = Volumes {
        tasks: Arc::clone(tasks),
        paths,
        disks,
        is_mapped,
        found: Vec::new(),
        held: None,
        before: None,
    };
    Box::new(ProvidedRunner::new(inner, volumes))
}

struct Volumes {
    tasks: Arc<dyn Launcher>,
    paths: Vec<Volume>,
    disks: Vec<Volume>,
    /// A file on the disk belongs to the user that the container sees.
    is_mapped: bool,
    /// Its disks, once they are held.
    found: Vec<Volume>,
    /// Not known after another incarnation of PID 1 has begun: the service holds them alone then.
    held: Option<Held>,
    /// That of the run before, until its mounts are gone.
    before: Option<Held>,
}

impl Volumes {
    async fn hold(&mut self) -> Result<(), RunnerError> {
        let waits = self.disks.iter().filter_map(|volume| volume.source.disk()).map(|disk| disk.wait);
        let each = [LOOK, CHECK, MOUNT].into_iter().fold(Duration::ZERO, Duration::saturating_add);
        let deadline = waits.map(|wait| wait.saturating_add(each)).fold(CALL, Duration::saturating_add);
        let request = VolumeRequest::Hold { volumes: self.disks.clone() }.whole();
        let held = task::hold(&*self.tasks, &request, deadline).await;
        let (words, held) = held.map_err(|error| RunnerError::new(error.to_string()))?;
        let found = FoundDisk::of_words(&words);
        if found.len() != self.disks.len() {
            return Err(RunnerError::new(format!("kelson-task has found these disks alone: {words}")));
        }
        self.found.clone_from(&self.disks);
        for (volume, found) in self.found.iter_mut().zip(found) {
            if let VolumeSource::Disk(disk) = &mut volume.source {
                disk.found(found);
            }
        }
        self.before = self.held.replace(held);
        Ok(())
    }
}

impl Provision for Volumes {
    async fn make(
        &mut self,
        inner: &mut dyn Runner,
        is_made: bool,
        context: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if !is_made && !self.paths.is_empty() {
            let (mut uid, mut gid) = inner.owner().await?;
            if self.is_mapped {
                (uid, gid) = (IdRange::in_container(uid), IdRange::in_container(gid));
            }
            ask(&self.tasks, VolumeRequest::Prepare { uid, gid, volumes: self.paths.clone() }.whole())
                .await?;
        }
        if !self.disks.is_empty() && (!is_made || self.held.is_none()) {
            self.hold().await?;
        }
        context.found.extend_from_slice(&self.found);
        Ok(())
    }

    fn describe(&mut self, running: Running) -> Running {
        self.before = None;
        running
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        self.before = None;
        let Some(held) = self.held.take() else { return Ok(()) };
        held.release(CALL).await.map_err(|error| RunnerError::new(format!("its disks: {error}")))
    }
}
