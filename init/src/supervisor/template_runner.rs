//! The files that a service gets from templates: written before its runs, and again while it runs. They stay once it has
//! stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::TemplateRequest;
use kelson_runner::{RunContext, Runner, RunnerError};
use kelson_services::fleet;
use kelson_spec::ServiceSpec;
use kelson_spec::templates::{OnChange, pending};

use super::provided_runner::{ProvidedRunner, Provision, ask};
use super::secrets::CALL;
use crate::task;

/// The runner of a service, which gives it its files if it has templates.
pub(super) fn with_templates(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    tasks: &Arc<dyn Launcher>,
    runtime: &Path,
) -> Box<dyn Runner> {
    if !fleet::SUPPORTED || spec.templates.is_empty() {
        return inner;
    }
    let provision =
        TemplateFiles { tasks: Arc::clone(tasks), spec: Arc::clone(spec), runtime: runtime.to_owned() };
    Box::new(ProvidedRunner::new(inner, provision))
}

struct TemplateFiles {
    tasks: Arc<dyn Launcher>,
    spec: Arc<ServiceSpec>,
    runtime: PathBuf,
}

impl Provision for TemplateFiles {
    async fn make(
        &mut self,
        inner: &mut dyn Runner,
        is_made: bool,
        _: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if is_made {
            return Ok(());
        }
        let (uid, gid) = inner.owner().await?;
        let (runtime, pending) = (self.runtime.clone(), pending(&self.runtime, &self.spec.name));
        let templates = self.spec.templates.clone();
        ask(&self.tasks, TemplateRequest::Place { runtime, pending, uid, gid, templates }.whole()).await
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        Ok(())
    }
}

/// Gives a service that runs the files as they are now. What the templates of those say that are others.
pub(super) async fn renew(
    tasks: Arc<dyn Launcher>,
    spec: Arc<ServiceSpec>,
    runtime: PathBuf,
) -> Result<Option<OnChange>, RunnerError> {
    let (pending, templates) = (pending(&runtime, &spec.name), spec.templates.clone());
    let request = TemplateRequest::Renew { runtime, pending, templates }.whole();
    let done = task::run(&*tasks, &request, CALL).await;
    done.map(|word| OnChange::of_name(&word)).map_err(|error| RunnerError::new(error.to_string()))
}

/// What the last change asked for is done.
pub(super) async fn settle(
    tasks: Arc<dyn Launcher>,
    spec: Arc<ServiceSpec>,
    runtime: PathBuf,
) -> Result<(), RunnerError> {
    ask(&tasks, TemplateRequest::Settle { pending: pending(&runtime, &spec.name) }.whole()).await
}
