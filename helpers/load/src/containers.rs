//! The demand of services from images on the host: the built-in service `containerd`.

use crate::decode::Decoded;
use crate::sources::Mode;
use kelson_spec::machine::MachineSpec;
use kelson_spec::names::CONTAINERD;
use kelson_spec::service::{ContainerRuntime, Requirement, ServiceEvent};

/// Whether containerd runs a decoded service.
pub fn is_container(decoded: &Decoded) -> bool {
    decoded.spec.container().is_some_and(|container| container.runtime == ContainerRuntime::Containerd)
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
