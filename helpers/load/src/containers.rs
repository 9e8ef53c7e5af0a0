//! The demand of services from images on the host: the built-in service `containerd`.

use std::path::Path;

use crate::decode::Decoded;
use crate::sources::{Mode, Sources};
use kelson_spec::DEFAULT_PATH;
use kelson_spec::container_network::{PortSpec, Published};
use kelson_spec::machine::MachineSpec;
use kelson_spec::names::CONTAINERD;
use kelson_spec::quote::quoted;
use kelson_spec::service::{ContainerRuntime, Requirement, ServiceEvent, Workload};

/// Whether containerd runs a decoded service.
pub fn is_container(decoded: &Decoded) -> bool {
    decoded.spec.container().is_some_and(|container| !container.is_native())
}

/// Who runs the containers whose files do not say it: containerd, unless it is switched off or the host has none.
pub fn usual_runtime(enabled: Option<bool>, machine: &MachineSpec, sources: &Sources) -> ContainerRuntime {
    let has_containerd =
        enabled.unwrap_or_else(|| sources.mode == Mode::Machine && is_installed(machine, sources));
    if has_containerd { ContainerRuntime::Containerd } else { ContainerRuntime::Kelson }
}

/// Whether the `PATH` of the built-in service has its program. Where the files of the host are not at hand, it has.
fn is_installed(machine: &MachineSpec, sources: &Sources) -> bool {
    let Some(root) = &sources.root else { return true };
    let changes = machine.builtin(CONTAINERD).into_iter().flat_map(|changes| &changes.environment);
    let path = changes.rev().find(|(name, _)| name == "PATH").map_or(DEFAULT_PATH, |(_, path)| path);
    path.split(':').any(|folder| {
        let folder = Path::new(folder);
        let program = root.join(folder.strip_prefix("/").unwrap_or(folder)).join(CONTAINERD);
        // A link of an image that is checked elsewhere leads nowhere here.
        program.symlink_metadata().is_ok_and(|found| !found.is_dir())
    })
}

/// Settles who runs a container whose file does not say it.
pub fn settle(decoded: &mut Decoded, usual: ContainerRuntime) {
    if let Workload::Container(container) = &mut decoded.spec.workload {
        container.runtime.get_or_insert(usual);
    }
}

/// What is wrong with a container that wants what its runtime does not do.
pub fn unsupported(decoded: &Decoded) -> Option<String> {
    let spec = &decoded.spec;
    let container = spec.container().filter(|container| !container.is_native())?;
    let wanted = [
        ("container.userNamespace", container.user_namespace),
        ("nice", spec.attributes.nice.is_some()),
        ("cpuAffinity", !spec.attributes.cpus.is_empty()),
    ];
    let (key, _) = wanted.into_iter().find(|(_, wanted)| *wanted)?;
    let name = key.trim_start_matches("container.");
    Some(format!(
        "{key} needs runtime: kelson, and containerd runs this container; write runtime: kelson, or remove {name}"
    ))
}

/// Whether containerd is on: `enabled` counts; where it says nothing, a machine has it as soon as a service needs it, and
/// a container (whose host has one) does not.
pub fn containerd_is_on(enabled: Option<bool>, mode: Mode, needed: bool) -> bool {
    enabled.unwrap_or(mode == Mode::Machine && needed)
}

/// Describes the mistake of a container where containerd is off. `enabled` decided that, and `machine` is the
/// file as it is now.
pub fn off(enabled: Option<bool>, machine: &MachineSpec) -> &'static str {
    match enabled {
        _ if enabled != machine.is_enabled(CONTAINERD) => {
            "container: containerd is off since the boot; reboot, and what machine.yaml says of it now takes effect"
        }
        Some(_) => {
            "container: machine.yaml switches containerd off; write builtins: {containerd: {enabled: true}} there, or remove enabled"
        }
        None => {
            "container: containerd is off in container mode; write builtins: {containerd: {enabled: true}} in machine.yaml"
        }
    }
}

/// The services that want a port of the host which another one wants too, by their places, each with what is wrong.
pub fn shared_ports(services: &[Decoded]) -> Vec<(usize, String)> {
    let ports = services.iter().enumerate().flat_map(|(place, decoded)| {
        let ports = decoded.spec.container().map(|container| container.ports.as_slice());
        let published = ports.unwrap_or_default().iter().filter_map(PortSpec::published);
        published.map(move |port| (place, port))
    });
    let ports: Vec<_> = ports.collect();
    let shared = |(place, port): &(usize, Published)| {
        let (other, _) = ports.iter().find(|(other, theirs)| other != place && theirs.meets(port))?;
        let text = format!(
            "container.ports: service {} has port {}/{} of the host too; give one of both another port",
            quoted(&services.get(*other)?.spec.name),
            port.host,
            port.protocol.name()
        );
        Some((*place, text))
    };
    let mut found: Vec<_> = ports.iter().filter_map(shared).collect();
    found.dedup_by_key(|(place, _)| *place);
    found
}

/// Makes a container wait for containerd, unless its file says so itself.
pub fn wait_for_containerd(decoded: &mut Decoded) {
    let says_so = |requirement: &Requirement| requirement.is_for(CONTAINERD, ServiceEvent::Up);
    if is_container(decoded) && !decoded.spec.depends.iter().any(says_so) {
        let requirement = Requirement::service(CONTAINERD, ServiceEvent::Up);
        // Positions stand in the order of a walk: the first requirement has the first.
        decoded.spec.depends.insert(0, requirement);
        decoded.references.insert(0, decoded.workload);
    }
}
