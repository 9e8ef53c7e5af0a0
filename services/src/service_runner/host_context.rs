//! The context of a service: the makers of its runner and its log pipes, and the parts that all services of a
//! host share.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use kelson_conditions::Sources;
use kelson_runner::{BoxFuture, Executor, Runner, RunnerError};
use kelson_spec::service::{SocketSpec, VolumeProbe};
use kelson_spec::templates::OnChange;
use kelson_spec::{Feature, MissingFeature, ServiceSpec};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::gate::Registry;
use crate::error::ServicesError;
use crate::events::EventLog;
use crate::groups::Groups;
use crate::health::network::Network;
use crate::health::{OwnCheck, Probe};
use crate::metrics::Dropped;
use crate::run_end::RunEnd;
use crate::state_store::StateStore;

/// The number of [`HostContext::turns`].
pub const TURNS: usize = 32;

/// Makes the runner of a spec.
pub trait RunnerFactory: Send + Sync {
    /// # Errors
    /// When this host cannot run such a service.
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError>;

    /// The executor of further commands beside this run's main process.
    ///
    /// # Errors
    /// When this host cannot.
    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        let _ = (spec, run);
        Err(ServicesError::NotNow("this host runs no further commands".into()))
    }

    /// Performs checks in the network of this run.
    ///
    /// # Errors
    /// When this host cannot.
    fn network(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Network>, ServicesError> {
        let _ = (spec, run);
        Err(ServicesError::NotNow("this host performs no network checks".into()))
    }

    /// Performs checks in the network of the host.
    ///
    /// # Errors
    /// When this host cannot.
    fn host_network(&self) -> Result<Arc<dyn Network>, ServicesError> {
        Err(ServicesError::NotNow("this host performs no network checks".into()))
    }

    /// Looks how full a volume of this run is.
    ///
    /// # Errors
    /// When this host cannot.
    fn volume_probe(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
        asked: &VolumeProbe,
    ) -> Result<Arc<dyn Probe>, ServicesError> {
        let _ = (spec, run, asked);
        Err(MissingFeature(Feature::Volumes).into())
    }

    /// Makes sockets, in this order.
    fn make_sockets(
        &self,
        sockets: Vec<SocketSpec>,
    ) -> BoxFuture<'static, Result<Vec<OwnedFd>, RunnerError>> {
        let _ = sockets;
        Box::pin(std::future::ready(Err(RunnerError::new("this host makes no sockets"))))
    }

    /// Removes the files of sockets that are closed.
    fn remove_sockets(&self, sockets: Vec<SocketSpec>) -> BoxFuture<'static, Result<(), RunnerError>> {
        let _ = sockets;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Has what a service registers removed, before its stop begins. What is to be said of a failure. `None`: it registers
    /// nothing.
    fn withdraw(&self, spec: &Arc<ServiceSpec>) -> Option<BoxFuture<'static, Option<String>>> {
        let _ = spec;
        None
    }

    /// Gives a service that runs the files that its templates make now. What its file says of those that are others than before;
    /// `None`: all are the same. `None` altogether: it has none.
    fn renew_templates(
        &self,
        spec: &Arc<ServiceSpec>,
    ) -> Option<BoxFuture<'static, Result<Option<OnChange>, RunnerError>>> {
        let _ = spec;
        None
    }

    /// What the last change asked for is done.
    fn settle_templates(
        &self,
        spec: &Arc<ServiceSpec>,
    ) -> Option<BoxFuture<'static, Result<(), RunnerError>>> {
        let _ = spec;
        None
    }

    /// The check that a built-in service brings with it, besides those of its spec.
    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        let _ = spec;
        None
    }
}

/// The main process of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningProcess {
    pub run: u64,
    pub pid: i32,
    /// Ticks since boot, field 22 of `/proc/PID/stat`; 0 where it was not learnt.
    pub start_time: u64,
}

/// Makes the log pipes of a run.
pub trait LogPipes: Send + Sync {
    /// What a run of this service gets as stdout and stderr.
    ///
    /// # Errors
    /// When there are no descriptors left.
    fn pipes(&self, spec: &ServiceSpec, run: u64) -> io::Result<(OwnedFd, OwnedFd)>;
    /// The service is gone permanently.
    fn forget(&self, service: &str);
    /// The losses of all logs, where they are counted.
    fn dropped(&self) -> Option<Dropped> {
        None
    }
}

/// The parts that all services of a host share.
pub struct HostContext {
    pub events: EventLog,
    pub store: Option<StateStore>,
    pub registry: Registry,
    pub sources: Sources,
    pub runners: Arc<dyn RunnerFactory>,
    pub logs: Arc<dyn LogPipes>,
    pub groups: Groups,
    /// Learns of services by whose end the host ends.
    pub run_end: RunEnd,
    /// Where the sockets of sd_notify are made.
    pub notify_directory: PathBuf,
    /// PID 1's start: all times of the table count from here.
    pub origin: Instant,
    /// How many services may be preparing or spawning at the same time: the spawner threads are kept busy with a few,
    /// and what a start needs for a moment is not needed a thousand times at once.
    pub turns: Arc<Semaphore>,
}
