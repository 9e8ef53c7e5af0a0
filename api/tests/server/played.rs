//! Services that are made up, and what a Manager of them needs of a host. The fuzz targets play the same.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_conditions::Sources;
use kelson_helper::{Launched, Launcher, Start};
use kelson_runner::{BoxFuture, Exit, RunContext, Runner, RunnerError, Running, StopPlan, StopReport};
use kelson_services::events::EventLog;
use kelson_services::groups::Groups;
use kelson_services::host::{BootReport, Host, HostRequest};
use kelson_services::manager::{Usage, UsageSource};
use kelson_services::run_end::RunEnd;
use kelson_services::service_runner::gate::Registry;
use kelson_services::service_runner::host_context::{HostContext, LogPipes, RunnerFactory, TURNS};
use kelson_services::spec::{Features, ServiceSpec};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// Runs nothing and ends when it is stopped. It reports this PID.
pub fn idle(pid: i32) -> Box<dyn Runner> {
    Box::new(Idle { pid, stop: None })
}

struct Idle {
    pid: i32,
    stop: Option<oneshot::Sender<()>>,
}

impl Runner for Idle {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async { Ok(()) })
    }

    fn run(&mut self, _: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        let (stop, stopped) = oneshot::channel::<()>();
        self.stop = Some(stop);
        let pid = self.pid;
        let exit = Box::pin(async move {
            let _ = stopped.await;
            Exit::Status(0)
        });
        Box::pin(
            async move { Ok(Running { pid, start_time: 1, stop_signal: None, addresses: Vec::new(), exit }) },
        )
    }

    fn stop(&mut self, _: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        self.stop = None;
        Box::pin(async { Ok(StopReport::default()) })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async { Ok(()) })
    }
}

/// The context of the services: nothing.
pub struct Nothing;

impl LogPipes for Nothing {
    fn pipes(&self, _: &ServiceSpec, _: u64) -> io::Result<(OwnedFd, OwnedFd)> {
        let null = || io::Result::Ok(OwnedFd::from(std::fs::File::options().write(true).open("/dev/null")?));
        Ok((null()?, null()?))
    }

    fn forget(&self, _: &str) {}
}

impl UsageSource for Nothing {
    fn usage(&self, _: &str) -> Usage {
        Usage { memory_bytes: Some(1 << 20), cpu: Some(Duration::from_millis(1500)), processes: Some(2) }
    }
}

impl Launcher for Nothing {
    fn launch(&self, _: Start) -> BoxFuture<'static, io::Result<Launched>> {
        Box::pin(async { Err(io::Error::other("no helper here")) })
    }
}

/// The context of services that these runners run, with their notify sockets in this folder.
pub fn host_context(folder: &Path, runners: Arc<dyn RunnerFactory>) -> Arc<HostContext> {
    Arc::new(HostContext {
        events: EventLog::new(None),
        store: None,
        registry: Registry::default(),
        sources: Sources::new(Arc::new(Nothing)),
        runners,
        logs: Arc::new(Nothing),
        notify_directory: folder.to_owned(),
        origin: tokio::time::Instant::now(),
        groups: Groups::new().0,
        turns: Arc::new(Semaphore::new(TURNS)),
        run_end: RunEnd::new(None),
    })
}

/// A host in a container that has just started.
pub fn host(requests: mpsc::Sender<HostRequest>, boot: watch::Receiver<BootReport>) -> Host {
    Host {
        requests,
        boot,
        mode: "container",
        features: Features::ALL,
        started: SystemTime::now(),
        volumes: None,
        fleet: None,
        reexecs: 0,
        crashes: 0,
    }
}
