//! The network of a container with an address of its own: made for its runs, and removed once it has stopped.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::ContainerNetworkRequest;
use kelson_runner::places::{claim, release};
use kelson_runner::{Executor, RunContext, Runner, RunnerError, Running};
use kelson_services::ServicesError;
use kelson_services::health::OwnCheck;
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_spec::ServiceSpec;
use kelson_spec::container_network::{ContainerNetworkSpec, PortSpec, claims, namespace};
use kelson_spec::service::ContainerNetwork;

use super::provided_runner::{ProvidedRunner, Provision, ask};

/// The variables with the addresses of a container.
const VARIABLES: [&str; 2] = ["KELSON_ADDRESS", "KELSON_ADDRESS6"];

/// Makes the runners of containers, those with a network of their own too.
pub(super) struct NetworkRunners<F> {
    pub(super) inner: F,
    pub(super) tasks: Arc<dyn Launcher>,
    pub(super) runtime: PathBuf,
    pub(super) network: ContainerNetworkSpec,
}

impl<F: RunnerFactory> RunnerFactory for NetworkRunners<F> {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        let inner = self.inner.runner(spec)?;
        let container = spec.container();
        let Some(container) = container.filter(|one| one.network == ContainerNetwork::Bridge) else {
            return Ok(inner);
        };
        let provision = OwnNetwork {
            tasks: Arc::clone(&self.tasks),
            service: spec.name.clone(),
            ports: container.ports.clone(),
            namespace: namespace(&self.runtime, &spec.name),
            places: claims(&self.runtime),
            network: self.network.clone(),
            place: None,
        };
        Ok(Box::new(ProvidedRunner::new(inner, provision)))
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        self.inner.executor(spec, run)
    }

    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        self.inner.own_check(spec)
    }
}

struct OwnNetwork {
    tasks: Arc<dyn Launcher>,
    service: String,
    ports: Vec<PortSpec>,
    /// The file that holds its namespace.
    namespace: PathBuf,
    /// The folder in which places are claimed.
    places: PathBuf,
    network: ContainerNetworkSpec,
    /// Its place, once it is claimed.
    place: Option<u32>,
}

impl OwnNetwork {
    fn place(&mut self) -> Result<u32, RunnerError> {
        if let Some(place) = self.place {
            return Ok(place);
        }
        let claimed = claim(&self.places, self.network.places(&self.service), &self.service);
        let claimed = claimed.map_err(|error| {
            RunnerError::new(format!("no address for container {}: {error}", self.service))
        })?;
        self.place = claimed;
        claimed.ok_or_else(|| {
            RunnerError::new(format!(
                "no address is left for container {} in {}; write a larger subnet in containerNetwork of machine.yaml",
                self.service, self.network.subnet
            ))
        })
    }

    fn addresses(&self, place: u32) -> Vec<IpAddr> {
        self.network.addresses(place).map(|address| address.0).into()
    }
}

impl Provision for OwnNetwork {
    async fn make(
        &mut self,
        _: &mut dyn Runner,
        is_made: bool,
        context: &mut RunContext,
    ) -> Result<(), RunnerError> {
        let place = self.place()?;
        if !is_made {
            let ports = self.ports.iter().filter_map(PortSpec::published).collect();
            let network = self.network.clone();
            let request = ContainerNetworkRequest::Join { place, network, ports };
            ask(&self.tasks, request.of(&self.namespace)).await?;
        }
        for (variable, address) in VARIABLES.into_iter().zip(self.addresses(place)) {
            context.environment.push((variable.to_owned(), address.to_string()));
        }
        Ok(())
    }

    fn describe(&mut self, running: Running) -> Running {
        // The container runs on, whatever is known of its address.
        let addresses = self.place().map(|place| self.addresses(place)).unwrap_or_default();
        Running { addresses, ..running }
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        // The file is the last thing that goes.
        if self.namespace.symlink_metadata().is_err() {
            return Ok(());
        }
        let place = self.place()?;
        let request = ContainerNetworkRequest::Leave { place }.of(&self.namespace);
        ask(&self.tasks, request).await?;
        release(&self.places, place, &self.service);
        self.place = None;
        Ok(())
    }
}
