//! The volumes of a service whose sources are paths: looked for before its runs, and made where the file says so.
//!
//! What is mounted for a service is mounted in its own namespace alone, and goes with it. A source stays: it is what the
//! service keeps.

use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::VolumeRequest;
use kelson_runner::{RunContext, Runner, RunnerError};
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::id_range::IdRange;
use kelson_spec::service::Volume;

use super::provided_runner::{ProvidedRunner, Provision, ask};

/// The runner of a service, which prepares its volumes if it has some.
pub(super) fn with_volumes(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    tasks: &Arc<dyn Launcher>,
) -> Box<dyn Runner> {
    if const { !OWN.has(Feature::Volumes) } {
        return inner;
    }
    let paths = spec.volumes.iter().filter(|volume| volume.source.path().is_some());
    let volumes: Vec<Volume> = paths.cloned().collect();
    if volumes.is_empty() {
        return inner;
    }
    let is_mapped = spec.container().is_some_and(|container| container.user_namespace);
    Box::new(ProvidedRunner::new(inner, Volumes { tasks: Arc::clone(tasks), volumes, is_mapped }))
}

struct Volumes {
    tasks: Arc<dyn Launcher>,
    volumes: Vec<Volume>,
    /// A file on the disk belongs to the user that the container sees.
    is_mapped: bool,
}

impl Provision for Volumes {
    async fn make(
        &mut self,
        inner: &mut dyn Runner,
        is_made: bool,
        _: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if is_made {
            return Ok(());
        }
        let (mut uid, mut gid) = inner.owner().await?;
        if self.is_mapped {
            (uid, gid) = (IdRange::in_container(uid), IdRange::in_container(gid));
        }
        ask(&self.tasks, VolumeRequest::Prepare { uid, gid, volumes: self.volumes.clone() }.whole()).await
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        Ok(())
    }
}
