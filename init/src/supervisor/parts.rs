//! The parts of a host that not every build has.

use std::path::Path;
use std::sync::Arc;

use kelson_api::server::{self, Part};
use kelson_conditions::Facts;
use kelson_image::{Puller, PullerOptions, Unpacker, UnpackerOptions};
use kelson_runner::{CgroupRoot, Containerd};
use kelson_services::builtins::{self, containerd, probe, timers};
use kelson_services::events::EventLog;
use kelson_services::fleet::{self, Fleet};
use kelson_services::host::Host;
use kelson_services::images::{ImageStore, PULLS, UNPACK};
use kelson_services::inspect::{INSPECT, Inspector};
use kelson_services::manager::Manager;
use kelson_services::prober::{self, Prober};
use kelson_services::runners::Containers;
use kelson_services::service_runner::gate::Registry;
use kelson_services::service_runner::host_context::RunnerFactory;
use kelson_services::timers::{SUPPORTED, Timers};
use kelson_services::volumes::{self, Volumes};
use kelson_spec::MachineSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::registries::RegistriesSpec;
use kelson_spec::service::csi;
use tokio::sync::mpsc;

use super::launchers::Personalities;
use super::network_runner::NetworkRunners;
use crate::options::Options;

/// What containers need.
pub(super) struct ContainerParts {
    pub(super) runners: Box<dyn RunnerFactory>,
    pub(super) images: ImageStore,
    /// The service of the API over the images.
    pub(super) api: Part,
}

/// Makes what containers need. `None`: the build lacks the feature.
pub(super) fn containers(
    options: &Options,
    personalities: &Personalities,
    machine: &MachineSpec,
    events: &EventLog,
    registry: &Registry,
) -> Option<ContainerParts> {
    if const { OWN.has(Feature::Containerd) } {
        let unpacker = unpacker(options, personalities, machine);
        let images = ImageStore::new(
            unpacker,
            puller(options, personalities, machine),
            events.clone(),
            registry.clone(),
        );
        let containers = Containers {
            processes: personalities.processes.clone(),
            binary: Arc::clone(&personalities.binary),
            containerd: Containerd::at(&containerd::socket(&options.runtime_dir)),
            images: Arc::new(images.clone()),
            runtime_dir: Arc::from(options.runtime_dir.as_path()),
        };
        let runners = NetworkRunners {
            inner: containers,
            tasks: personalities.tasks(),
            runtime: options.runtime_dir.clone(),
            network: machine.container_network.clone(),
        };
        let api = server::images(images.clone());
        Some(ContainerParts { runners: Box::new(runners), images, api })
    } else {
        None
    }
}

/// Opens the unpacker of images: the command line's folder of archives overrides the machine file's.
fn unpacker(options: &Options, personalities: &Personalities, machine: &MachineSpec) -> Unpacker {
    let folder = options.images.as_ref().map(|folder| vec![folder.clone()]);
    let mut images = folder.unwrap_or_else(|| machine.images.clone());
    if const { OWN.has(Feature::Pull) } {
        images.push(options.state_dir.join(RegistriesSpec::FOLDER));
    }
    let places = UnpackerOptions {
        images,
        containerd_socket: containerd::socket(&options.runtime_dir),
        runtime_dir: options.runtime_dir.clone(),
        state_dir: options.state_dir.clone(),
        verify: machine.verify.clone(),
    };
    Unpacker::new(personalities.helpers(UNPACK), places)
}

/// The puller of images. `None`: the build lacks the feature.
fn puller(options: &Options, personalities: &Personalities, machine: &MachineSpec) -> Option<Puller> {
    if const { OWN.has(Feature::Pull) } {
        let places = PullerOptions {
            registries: machine.registries.clone(),
            state_dir: options.state_dir.clone(),
            runtime_dir: options.runtime_dir.clone(),
            verify: machine.verify.clone(),
        };
        Some(Puller::new(personalities.helpers(PULLS), places))
    } else {
        None
    }
}

/// The prober of network checks, and its reports. `None`: the build lacks the feature.
pub(super) struct Probing(Option<(Prober, mpsc::Receiver<prober::Report>)>);

impl Probing {
    pub(super) fn begin(personalities: &Personalities, machine: &MachineSpec) -> Probing {
        Probing(if const { OWN.has(Feature::Probes) } {
            let (prober, driver, reports) = Prober::new(prober::Launchers {
                networks: personalities.helpers(probe::kind(machine)),
                sockets: personalities.helpers(probe::kind_for_sockets(machine)),
            });
            kelson_sys::spawn(driver);
            Some((prober, reports))
        } else {
            None
        })
    }

    pub(super) fn probes(&self) -> Option<probe::Probes> {
        self.0.as_ref().map(|(prober, _)| probe::Probes(prober.clone()))
    }

    /// Shows it among the services.
    pub(super) fn show(self, manager: &Manager, events: &EventLog) -> Option<Prober> {
        let (prober, reports) = self.0?;
        probe::show(manager, events, prober.clone(), reports);
        Some(prober)
    }
}

/// Starts services by their schedules, as long as PID 1 is there. `None`: the build lacks the feature.
pub(super) fn timers(
    options: &Options,
    personalities: &Personalities,
    machine: &MachineSpec,
    manager: &Manager,
    events: &EventLog,
) -> Option<&'static Timers> {
    if SUPPORTED {
        let launcher = personalities.helpers(timers::kind(machine, &options.state_dir));
        let (handle, driver, reports) = Timers::new(launcher, manager.clone());
        let handle: &Timers = Box::leak(Box::new(handle));
        kelson_sys::spawn(driver);
        timers::show(manager, events, handle, reports);
        Some(handle)
    } else {
        None
    }
}

/// Has plugins provide volumes, as long as PID 1 is there; its reports are shown later. `None`: the build lacks the feature.
pub(super) fn volumes(
    options: &Options,
    personalities: &Personalities,
    machine: &MachineSpec,
) -> Option<(Volumes, mpsc::Receiver<volumes::Report>)> {
    if volumes::SUPPORTED {
        let kind =
            builtins::volumes::kind(machine, &options.state_dir, &options.runtime_dir, &options.config);
        // In memory, and gone with the boot: an earlier incarnation had plugins.
        let is_left = Path::new(csi::PLUGINS).exists();
        let (handle, driver, reports) = Volumes::new(personalities.helpers(kind), is_left);
        kelson_sys::spawn(driver);
        Some((handle, reports))
    } else {
        None
    }
}

/// Registers the host and its services, where the machine file has a fleet; its reports are shown later.
pub(super) fn fleet(
    options: &Options,
    personalities: &Personalities,
    machine: &MachineSpec,
    registry: &Registry,
) -> (Fleet, Option<mpsc::Receiver<fleet::Report>>) {
    if fleet::SUPPORTED
        && let Some(spec) = machine.fleet.clone()
    {
        let kind = builtins::fleet::kind(machine, &options.state_dir, &options.runtime_dir);
        let (fleet, (driver, reports)) = Fleet::new(spec, personalities.helpers(kind), registry.clone());
        kelson_sys::spawn(driver);
        (fleet, Some(reports))
    } else {
        (Fleet::none(registry.clone()), None)
    }
}

/// Reads the facts that services wait for. Questions of operators do not take its place.
pub(super) fn facts(personalities: &Personalities) -> Facts {
    if const { OWN.has(Feature::Inspect) } {
        return Facts::with_source(Arc::new(Inspector::new(personalities.helpers(INSPECT), None)));
    }
    Facts::default()
}

/// Makes the other services of the API that the build has.
pub(super) fn of_api(
    personalities: &Personalities,
    host: &Host,
    timers: Option<&'static Timers>,
    volumes: Option<Volumes>,
    fleet: &Fleet,
) -> Vec<Part> {
    let mut parts = Vec::new();
    if const { OWN.has(Feature::Inspect) } {
        let cgroups = personalities.processes.cgroups().map(CgroupRoot::path);
        parts.push(server::inspect(Inspector::new(personalities.helpers(INSPECT), cgroups)));
    }
    if const { OWN.has(Feature::Secrets) } {
        parts.push(server::secrets(host.clone()));
    }
    if SUPPORTED {
        parts.extend(timers.map(server::timers));
    }
    if volumes::SUPPORTED {
        parts.extend(volumes.map(server::volumes));
    }
    if fleet::SUPPORTED {
        parts.push(server::fleet(fleet.clone()));
    }
    if const { OWN.has(Feature::Reflection) } {
        parts.extend(server::reflection());
    }
    parts
}
