//! The mount namespace of a process with a view of the file system of its own: made for its runs, and gone once it has
//! stopped.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_runner::{
    BoxFuture, ExecRequest, Executing, Executor, RunContext, Runner, RunnerError, open_mounts,
};
use kelson_services::ServicesError;
use kelson_services::health::OwnCheck;
use kelson_services::health::network::Network;
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_spec::ServiceSpec;
use kelson_spec::service::SocketSpec;

use super::directory_runner::with_directories;
use super::pid_file_runner::with_pid_file;
use super::provided_runner::{ProvidedRunner, Provision};
use super::sockets::ask_for;
use crate::task::Request;

/// Makes the runners of services, those with folders or a view of their own too.
pub(super) struct UnitRunners<F: ?Sized> {
    pub(super) tasks: Arc<dyn Launcher>,
    pub(super) inner: Arc<F>,
}

impl<F: RunnerFactory + ?Sized> RunnerFactory for UnitRunners<F> {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        let mut runner = self.inner.runner(spec)?;
        let rules = spec.security.view_rules(&spec.directories);
        if !rules.is_empty() {
            let view = OwnView { tasks: Arc::clone(&self.tasks), rules, namespace: None };
            runner = Box::new(ProvidedRunner::new(runner, view));
        }
        let runner = with_pid_file(runner, spec, &self.tasks);
        // Its folders come before the view, which may name them.
        Ok(with_directories(runner, spec, &self.tasks))
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        let inner = self.inner.executor(spec, run)?;
        if !spec.security.has_view(&spec.directories) {
            return Ok(inner);
        }
        Ok(Arc::new(ViewExecutor { inner, run }))
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

    fn make_sockets(
        &self,
        sockets: Vec<SocketSpec>,
    ) -> BoxFuture<'static, Result<Vec<OwnedFd>, RunnerError>> {
        Box::pin(super::sockets::make(Arc::clone(&self.tasks), sockets))
    }

    fn remove_sockets(&self, sockets: Vec<SocketSpec>) -> BoxFuture<'static, Result<(), RunnerError>> {
        Box::pin(super::sockets::remove(Arc::clone(&self.tasks), sockets))
    }

    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        self.inner.own_check(spec)
    }
}

/// Runs commands in the namespace of a main process.
struct ViewExecutor {
    inner: Arc<dyn Executor>,
    run: RunningProcess,
}

impl Executor for ViewExecutor {
    fn exec(&self, mut request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        Box::pin(async move {
            request.mounts = Some(Arc::new(open_mounts(self.run.pid, self.run.start_time)?));
            self.inner.exec(request).await
        })
    }
}

struct OwnView {
    tasks: Arc<dyn Launcher>,
    rules: Vec<String>,
    /// Known from its first run to its end, but not after another incarnation of PID 1 has begun.
    namespace: Option<Arc<OwnedFd>>,
}

impl OwnView {
    async fn prepare(&self) -> Result<Arc<OwnedFd>, RunnerError> {
        let request = Request::MakeFileView { rules: self.rules.clone() };
        let sent = ask_for(&self.tasks, &request, 1, "mount namespace").await?.pop();
        sent.map(Arc::new).ok_or_else(|| RunnerError::new("cannot get its mount namespace"))
    }
}

impl Provision for OwnView {
    async fn make(
        &mut self,
        _: &mut dyn Runner,
        is_made: bool,
        context: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if !is_made || self.namespace.is_none() {
            self.namespace = Some(self.prepare().await?);
        }
        context.mounts.clone_from(&self.namespace);
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        self.namespace = None;
        Ok(())
    }
}
