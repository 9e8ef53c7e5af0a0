//! The runner of a service with secrets: around another one, which runs it.
//!
//! The secrets are placed before the first program of a run, be it a hook, and withdrawn once the service has stopped. What
//! lies there outlives PID 1's re-execution and its crash, as the service does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::SecretRequest;
use kelson_runner::{
    Attachment, BoxFuture, ExecRequest, Executing, Executor, RunContext, Runner, RunnerError, Running,
    StopPlan, StopReport,
};
use kelson_services::ServicesError;
use kelson_services::health::OwnCheck;
use kelson_services::health::network::Network;
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_spec::ServiceSpec;
use kelson_spec::secrets::{IN_CONTAINER, VARIABLE, folder};

use super::secrets::CALL;
use crate::task::{self, Request};

/// Makes the runners of services, those with secrets too.
pub(super) struct SecretRunners<F> {
    pub(super) inner: Arc<F>,
    pub(super) tasks: Arc<dyn Launcher>,
    pub(super) state: PathBuf,
    pub(super) runtime: PathBuf,
}

impl<F: RunnerFactory> RunnerFactory for SecretRunners<F> {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        let inner = self.inner.runner(spec)?;
        if spec.secrets.is_empty() {
            return Ok(inner);
        }
        Ok(Box::new(SecretRunner {
            inner,
            tasks: Arc::clone(&self.tasks),
            spec: Arc::clone(spec),
            state: self.state.clone(),
            runtime: self.runtime.clone(),
            folder: folder(&self.runtime, &spec.name),
            placed: None,
        }))
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

/// Has `kelson-task` do what a service needs to run.
pub(super) async fn ask(tasks: &Arc<dyn Launcher>, request: Request) -> Result<(), RunnerError> {
    let done = task::run(&**tasks, &request, CALL).await;
    done.map(drop).map_err(|error| RunnerError::new(error.to_string()))
}

struct SecretRunner {
    inner: Box<dyn Runner>,
    tasks: Arc<dyn Launcher>,
    spec: Arc<ServiceSpec>,
    state: PathBuf,
    runtime: PathBuf,
    folder: PathBuf,
    /// The run that the secrets were placed for.
    placed: Option<u64>,
}

impl SecretRunner {
    async fn start(&mut self, mut context: RunContext) -> Result<Running, RunnerError> {
        if self.placed != Some(context.run) {
            let (uid, gid) = self.inner.owner().await?;
            let (folder, secrets) = (self.folder.clone(), self.spec.secrets.clone());
            let request =
                SecretRequest::Place { folder, uid, gid, secrets }.within(&self.state, &self.runtime);
            ask(&self.tasks, request).await?;
            self.placed = Some(context.run);
        }
        context.environment.insert(0, variable(&self.spec, &self.folder));
        self.inner.run(context).await
    }

    async fn end(&mut self) -> Result<(), RunnerError> {
        let closed = self.inner.close().await;
        self.placed = None;
        let request =
            SecretRequest::Withdraw { folder: self.folder.clone() }.within(&self.state, &self.runtime);
        let withdrawn = ask(&self.tasks, request).await;
        closed.and(withdrawn)
    }
}

impl Runner for SecretRunner {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        self.inner.open()
    }

    fn run(&mut self, context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(self.start(context))
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        self.inner.stop(plan)
    }

    fn is_signalled(&self) -> bool {
        self.inner.is_signalled()
    }

    fn owner(&mut self) -> BoxFuture<'_, Result<(u32, u32), RunnerError>> {
        self.inner.owner()
    }

    fn attach(&mut self, attachment: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        let run = attachment.run;
        Box::pin(async move {
            let running = self.inner.attach(attachment).await?;
            self.placed = running.as_ref().map(|_| run);
            Ok(running)
        })
    }

    fn archives_changed(&mut self, archives: u32) -> BoxFuture<'_, ()> {
        self.inner.archives_changed(archives)
    }

    fn warnings(&self) -> &[String] {
        self.inner.warnings()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.end())
    }
}
