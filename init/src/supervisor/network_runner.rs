//! The network of a container with an address of its own: made for its runs, and removed once it has stopped.
//!
//! The place of a service in the network is a link in a folder of `/run`: its name is the number of the place, and it leads to
//! the name of the service. So no two services have one place, and a service keeps its own while the host runs.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_helper::Launcher;
use kelson_helper::task::ContainerNetworkRequest;
use kelson_runner::{Executor, RunContext, Runner, RunnerError, Running};
use kelson_services::ServicesError;
use kelson_services::health::OwnCheck;
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_spec::ServiceSpec;
use kelson_spec::container_network::{ContainerNetworkSpec, PortSpec, namespace};
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
            places: self.runtime.join("addresses"),
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
    /// The folder of the links.
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
        let claimed = claim(&self.places, &self.network, &self.service);
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

/// Claims a place for a service: the one that it has or had, else a free one, else one that another had.
fn claim(folder: &Path, network: &ContainerNetworkSpec, service: &str) -> io::Result<Option<u32>> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let link = |place: u32| folder.join(place.to_string());
    let owner = |place| fs::read_link(link(place)).map(|owner| owner.to_string_lossy().into_owned());
    for place in network.places(service) {
        match symlink(service, link(place)) {
            Ok(()) => return Ok(Some(place)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let owner = owner(place)?;
        if owner == service {
            return Ok(Some(place));
        }
        if owner.strip_prefix(FREE) == Some(service) {
            replace(folder, place, service)?;
            return Ok(Some(place));
        }
    }
    for place in network.places(service) {
        if owner(place)?.starts_with(FREE) {
            replace(folder, place, service)?;
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Stands before the name of a service that had the place. It is the first character of no name.
const FREE: char = '-';

/// Lets others have the place of a service, if there is no other one.
fn release(folder: &Path, place: u32, service: &str) {
    // Without it they do not get it.
    let _ = replace(folder, place, &format!("{FREE}{service}"));
}

fn replace(folder: &Path, place: u32, owner: &str) -> io::Result<()> {
    let new = folder.join("new");
    kelson_sys::removed(fs::remove_file(&new))?;
    symlink(owner, &new)?;
    fs::rename(&new, folder.join(place.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_keeps_its_place_and_another_gets_it_only_if_none_is_free() {
        let folder = std::env::temp_dir().join(format!("kelson-places-{}", std::process::id()));
        let network = ContainerNetworkSpec {
            subnet: "192.0.2.8/29".parse().unwrap(),
            ..ContainerNetworkSpec::default()
        };
        let claim = |service: &str| claim(&folder, &network, service).unwrap();
        let names = ["a", "b", "c", "d", "e"];
        let mut places: Vec<u32> = names.into_iter().filter_map(claim).collect();
        assert_eq!(names.into_iter().filter_map(claim).collect::<Vec<_>>(), places, "each has its own");
        assert_eq!(claim("f"), None);
        let of_c = places[2];
        release(&folder, of_c, "c");
        // It is remembered as long as nobody else needs it.
        assert_eq!(claim("c"), Some(of_c));
        release(&folder, of_c, "c");
        assert_eq!(claim("f"), Some(of_c));
        assert_eq!((claim("c"), claim("f"), claim("e")), (None, Some(of_c), Some(places[4])));
        places.sort_unstable();
        assert_eq!(places, [2, 3, 4, 5, 6]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
