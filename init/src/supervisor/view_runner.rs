//! The namespaces of a process with a view of the file system, a network or users of its own: made for its runs, and gone once
//! it has stopped.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use kelson_helper::task::VolumeRequest;
use kelson_helper::{CONTROL, Launcher};
use kelson_runner::{
    BoxFuture, ExecRequest, Executing, Executor, Namespaces, RunContext, Runner, RunnerError,
};
use kelson_services::ServicesError;
use kelson_services::fleet::{self, Fleet};
use kelson_services::health::network::Network;
use kelson_services::health::{OwnCheck, Probe};
use kelson_services::images::ImageStore;
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_services::volumes::Volumes;
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{OwnNamespaces, SocketSpec, Volume, VolumeProbe};
use kelson_spec::templates::OnChange;

use super::claim_runner::with_claims;
use super::directory_runner::with_directories;
use super::image_runner::with_images;
use super::input_runner::with_input;
use super::ipc_runner::with_ipc_removed;
use super::pid_file_runner::with_pid_file;
use super::plugin_runner::with_plugin;
use super::provided_runner::{ProvidedRunner, Provision};
use super::secrets::CALL;
use super::sockets::ask_for;
use super::template_runner::{self, with_templates};
use super::volume_check::volume_check;
use super::volume_runner::with_volumes;
use crate::task::{self, Request};

/// Makes the runners of services, those with folders or a view of their own too.
pub(super) struct UnitRunners<F: ?Sized> {
    pub(super) tasks: Arc<dyn Launcher>,
    /// `None`: the build lacks the feature.
    pub(super) volumes: Option<Volumes>,
    pub(super) fleet: Fleet,
    /// `None`: the build lacks the feature.
    pub(super) images: Option<ImageStore>,
    pub(super) runtime: PathBuf,
    pub(super) inner: Arc<F>,
}

impl<F: RunnerFactory + ?Sized> RunnerFactory for UnitRunners<F> {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        // The terminal is made ready just before the program that takes it.
        let mut runner = with_input(self.inner.runner(spec)?, spec, &self.tasks);
        let rules = spec.namespace_rules();
        if !rules.is_empty() {
            let has_view = spec.has_view();
            let tasks = Arc::clone(&self.tasks);
            let (own, has_devices) = (spec.security.own, spec.security.devices.is_some());
            let waits = const { OWN.has(Feature::Volumes) }
                && spec
                    .volumes
                    .iter()
                    .any(|volume| volume.source.overlay().is_some_and(|it| it.upper.is_some()));
            let view = OwnView { tasks, rules, has_view, own, has_devices, waits, made: None };
            runner = Box::new(ProvidedRunner::new(runner, view));
        }
        let runner = with_ipc_removed(with_pid_file(runner, spec, &self.tasks), spec, &self.tasks);
        // Its files from templates may be in its folders, and what it sees may name them.
        let runner = with_templates(with_plugin(runner, spec, &self.tasks), spec, &self.tasks, &self.runtime);
        // Its folders come before its volumes, and both before the view: each may name those before it.
        let runner = with_directories(with_volumes(runner, spec, &self.tasks), spec, &self.tasks);
        let runner = with_images(runner, spec, self.images.as_ref(), &self.runtime);
        Ok(with_claims(runner, spec, self.volumes.as_ref()))
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        let inner = self.inner.executor(spec, run)?;
        if !spec.has_namespaces() {
            return Ok(inner);
        }
        let has_view = spec.has_view();
        Ok(Arc::new(ViewExecutor { inner, run, has_view, own: spec.security.own }))
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

    fn volume_probe(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
        asked: &VolumeProbe,
    ) -> Result<Arc<dyn Probe>, ServicesError> {
        volume_check(&self.tasks, spec, run, asked)
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

    fn withdraw(&self, spec: &Arc<ServiceSpec>) -> Option<BoxFuture<'static, Option<String>>> {
        if !fleet::SUPPORTED || spec.register.is_none() {
            return None;
        }
        let (fleet, service) = (self.fleet.clone(), Arc::from(spec.name.as_str()));
        Some(Box::pin(async move { fleet.withdraw(&service).await }))
    }

    fn renew_templates(
        &self,
        spec: &Arc<ServiceSpec>,
    ) -> Option<BoxFuture<'static, Result<Option<OnChange>, RunnerError>>> {
        if !fleet::SUPPORTED || spec.templates.is_empty() {
            return None;
        }
        let (tasks, spec) = (Arc::clone(&self.tasks), Arc::clone(spec));
        Some(Box::pin(template_runner::renew(tasks, spec, self.runtime.clone())))
    }

    fn settle_templates(
        &self,
        spec: &Arc<ServiceSpec>,
    ) -> Option<BoxFuture<'static, Result<(), RunnerError>>> {
        if !fleet::SUPPORTED || spec.templates.is_empty() {
            return None;
        }
        let (tasks, spec) = (Arc::clone(&self.tasks), Arc::clone(spec));
        Some(Box::pin(template_runner::settle(tasks, spec, self.runtime.clone())))
    }

    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        self.inner.own_check(spec)
    }
}

/// Runs commands in the namespaces of a main process.
struct ViewExecutor {
    inner: Arc<dyn Executor>,
    run: RunningProcess,
    has_view: bool,
    own: OwnNamespaces,
}

impl Executor for ViewExecutor {
    fn exec(&self, mut request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        Box::pin(async move {
            let RunningProcess { pid, start_time, .. } = self.run;
            request.namespaces = Namespaces::of(pid, start_time, self.has_view, self.own)?;
            self.inner.exec(request).await
        })
    }
}

struct OwnView {
    tasks: Arc<dyn Launcher>,
    rules: Vec<String>,
    has_view: bool,
    own: OwnNamespaces,
    has_devices: bool,
    /// Closing the last descriptor of its mounts may wait for a disk.
    waits: bool,
    /// Known from its first run to its end, but not after another incarnation of PID 1 has begun.
    made: Option<Namespaces>,
}

impl OwnView {
    async fn prepare(&self, found: &[Volume]) -> Result<Namespaces, RunnerError> {
        let made = [self.has_view, self.own.network, self.own.users, self.has_devices];
        let count = made.iter().filter(|is_made| **is_made).count();
        let mut rules = self.rules.clone();
        // What is found on disks belongs to whom the disk says.
        rules.extend(found.iter().map(|volume| volume.to_rule((0, 0))));
        let request = Request::MakeNamespaces { rules };
        let made = ask_for(&self.tasks, &request, count, "namespaces").await?;
        let mut made = made.into_iter().map(Arc::new);
        let mut next = |is_made: bool| is_made.then(|| made.next()).flatten();
        let (mounts, network) = (next(self.has_view), next(self.own.network));
        let users = next(self.own.users);
        Ok(Namespaces { mounts, network, users, devices: next(self.has_devices) })
    }

    /// Closes what it has. An overlay writes out all of the file system of its upper folder with its last mount, so another
    /// process has the last descriptor of that.
    async fn let_go(&mut self) -> Result<(), RunnerError> {
        let made = self.made.take();
        if const { !OWN.has(Feature::Volumes) } || !self.waits {
            return Ok(());
        }
        let Some(Ok(mounts)) = made.and_then(|made| made.mounts).map(Arc::try_unwrap) else { return Ok(()) };
        let request = VolumeRequest::Release.whole();
        let closed = task::run_with(&*self.tasks, &request, vec![(CONTROL, mounts)], CALL).await;
        closed.map(drop).map_err(|error| RunnerError::new(format!("its mounts: {error}")))
    }
}

impl Provision for OwnView {
    async fn make(
        &mut self,
        _: &mut dyn Runner,
        is_made: bool,
        context: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if !is_made {
            self.let_go().await?;
        }
        let made = match self.made.take() {
            Some(made) => made,
            None => self.prepare(&context.found).await?,
        };
        context.namespaces = made.clone();
        self.made = Some(made);
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        self.let_go().await
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::task::testing::Scripted;

    #[tokio::test]
    async fn another_process_closes_the_last_descriptor_of_mounts_that_are_written_out() {
        for (waits, is_shared, expected) in
            [(true, false, &["volumes release"][..]), (true, true, &[]), (false, false, &[])]
        {
            let tasks = Arc::new(Scripted::new(|_| Some("done closed")));
            let mounts = Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
            let other = is_shared.then(|| Arc::clone(&mounts));
            let mut view = OwnView {
                tasks: Arc::clone(&tasks) as _,
                rules: Vec::new(),
                has_view: true,
                own: OwnNamespaces::default(),
                has_devices: false,
                waits,
                made: Some(Namespaces { mounts: Some(mounts), ..Namespaces::default() }),
            };
            view.remove().await.unwrap();
            view.remove().await.unwrap();
            assert_eq!(*tasks.1.lock().unwrap(), expected);
            drop(other);
        }
    }
}
