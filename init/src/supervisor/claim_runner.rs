//! The volumes of a service that plugins provide: claimed before anything of it is made, and released after all else of it.

use std::sync::Arc;

use kelson_proto::v1::VolumeUse;
use kelson_runner::{RunContext, Runner, RunnerError};
use kelson_services::volumes::{SUPPORTED, Volumes, uses_of};
use kelson_spec::ServiceSpec;

use super::provided_runner::{ProvidedRunner, Provision};

/// The runner of a service, which claims the volumes of plugins if it has some.
pub(super) fn with_claims(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    volumes: Option<&Volumes>,
) -> Box<dyn Runner> {
    let Some(volumes) = volumes.filter(|_| SUPPORTED) else { return inner };
    let uses = uses_of(spec);
    if uses.is_empty() {
        return inner;
    }
    let claim = Claim { volumes: volumes.clone(), service: Arc::from(spec.name.as_str()), uses };
    Box::new(ProvidedRunner::new(inner, claim))
}

struct Claim {
    volumes: Volumes,
    service: Arc<str>,
    uses: Vec<VolumeUse>,
}

impl Provision for Claim {
    async fn claim(&mut self) -> Result<(), RunnerError> {
        self.volumes.claim(&self.service, self.uses.clone()).await
    }

    fn resume(&mut self) {
        self.volumes.hold(&self.service, self.uses.clone());
    }

    async fn make(&mut self, _: &mut dyn Runner, _: bool, _: &mut RunContext) -> Result<(), RunnerError> {
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        self.volumes.release(&self.service).await
    }
}
