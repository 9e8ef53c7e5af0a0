//! The secrets of a service: placed for its runs, and withdrawn once it has stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::SecretRequest;
use kelson_runner::{BoxFuture, ExecRequest, Executing, Executor, RunContext, Runner, RunnerError};
use kelson_services::ServicesError;
use kelson_services::health::OwnCheck;
use kelson_services::health::network::Network;
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_spec::ServiceSpec;
use kelson_spec::secrets::{IN_CONTAINER, VARIABLE, folder};

use super::provided_runner::{ProvidedRunner, Provision, ask};

/// Makes the runners of services, those with secrets too.
pub(super) struct SecretRunners<F: ?Sized> {
    pub(super) tasks: Arc<dyn Launcher>,
    pub(super) state: PathBuf,
    pub(super) runtime: PathBuf,
    pub(super) inner: Arc<F>,
}

impl<F: RunnerFactory + ?Sized> RunnerFactory for SecretRunners<F> {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        let inner = self.inner.runner(spec)?;
        if spec.secrets.is_empty() {
            return Ok(inner);
        }
        let provision = SecretFolder {
            tasks: Arc::clone(&self.tasks),
            spec: Arc::clone(spec),
            state: self.state.clone(),
            runtime: self.runtime.clone(),
            folder: folder(&self.runtime, &spec.name),
        };
        Ok(Box::new(ProvidedRunner::new(inner, provision)))
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        let inner = self.inner.executor(spec, run)?;
        if spec.secrets.is_empty() {
            return Ok(inner);
        }
        let variable = variable(spec, &folder(&self.runtime, &spec.name));
        Ok(Arc::new(SecretExecutor { inner, variable }))
    }

    fn network(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Network>, ServicesError> {
        self.inner.network(spec, run)
    }

    fn host_network(&self) -> Result<Arc<dyn Network>, ServicesError> {
        self.inner.host_network()
    }

    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        self.inner.own_check(spec)
    }
}

/// What tells a service where its secrets are.
fn variable(spec: &ServiceSpec, folder: &Path) -> (String, String) {
    let place = if spec.container().is_some() { Path::new(IN_CONTAINER) } else { folder };
    (VARIABLE.to_owned(), place.to_string_lossy().into_owned())
}

struct SecretExecutor {
    inner: Arc<dyn Executor>,
    variable: (String, String),
}

impl Executor for SecretExecutor {
    fn exec(&self, mut request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        request.environment.insert(0, self.variable.clone());
        self.inner.exec(request)
    }
}

struct SecretFolder {
    tasks: Arc<dyn Launcher>,
    spec: Arc<ServiceSpec>,
    state: PathBuf,
    runtime: PathBuf,
    folder: PathBuf,
}

impl Provision for SecretFolder {
    async fn make(
        &mut self,
        inner: &mut dyn Runner,
        is_made: bool,
        context: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if !is_made {
            let (uid, gid) = inner.owner().await?;
            let (folder, secrets) = (self.folder.clone(), self.spec.secrets.clone());
            let request =
                SecretRequest::Place { folder, uid, gid, secrets }.within(&self.state, &self.runtime);
            ask(&self.tasks, request).await?;
        }
        context.environment.insert(0, variable(&self.spec, &self.folder));
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        let request =
            SecretRequest::Withdraw { folder: self.folder.clone() }.within(&self.state, &self.runtime);
        ask(&self.tasks, request).await
    }
}
