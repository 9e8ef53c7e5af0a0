//! The built-in services that a ServiceRunner runs from PID 1's own program: apid, and those that the machine file switches
//! on.

use std::path::PathBuf;

use kelson_spec::MachineSpec;
use kelson_spec::builtin::{self, BUILTINS};
use kelson_spec::service::{Resources, ServiceSpec};

use super::apid;

/// Names, in the environment of the service, the version of Kelson that starts it.
const VARIABLE: &str = "KELSON_VERSION";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Those that the machine file switches on, as they are without its changes.
pub fn optional(machine: &MachineSpec) -> impl Iterator<Item = ServiceSpec> {
    BUILTINS.iter().filter_map(|builtin| builtin.program?(machine))
}

/// The service with what the machine file changes of it. `bounded`: there are controllers that can enforce limits.
pub fn finish(mut spec: ServiceSpec, machine: &MachineSpec, bounded: bool) -> ServiceSpec {
    // A built-in service without a file is run from PID 1's own binary.
    spec.file = PathBuf::new();
    if !bounded {
        spec.resources = Resources::default();
    }
    if let Some(changes) = machine.builtin(&spec.name) {
        changes.apply(&mut spec);
    }
    spec.environment.retain(|(name, _)| name != VARIABLE);
    spec.environment.push((VARIABLE.into(), VERSION.into()));
    spec
}

/// The version of Kelson that the spec of such a service is of, where it is another one than this. Releases before 0.2.0
/// did not name theirs.
pub fn other_version(spec: &ServiceSpec) -> Option<&str> {
    let named = spec.environment.iter().find(|(name, _)| name == VARIABLE);
    Some(named.map_or("unknown", |(_, version)| version)).filter(|version| *version != VERSION)
}

/// In this order they stop after all other services, which use them to the end.
pub fn last() -> impl Iterator<Item = &'static str> {
    builtin::optional().chain([apid::NAME])
}
