//! The built-in services that a ServiceRunner runs: containerd, and those from PID 1's own program.

use std::path::Path;

use kelson_services::builtins::{apid, containerd, program};
use kelson_services::manager::Manager;
use kelson_spec::builtin::{CONSOLE, DEVICES, NET, TIMESYNC};
use kelson_spec::service::StartMode;
use kelson_spec::{Loaded, MachineSpec, ServiceSpec};

use crate::boot::file_limit;
use crate::options::{Mode, Options};

/// The group that may connect to the sockets: kelson-apid is in it. `None`: PID 1 is not root, and cannot give them away.
pub(super) fn socket_group(loaded: &Loaded) -> Option<u32> {
    nix::unistd::geteuid().is_root().then(|| loaded.api_group.unwrap_or(apid::USER))
}

/// The services from PID 1's own program that this host has.
pub(super) fn program_specs(options: &Options, loaded: &Loaded) -> Vec<ServiceSpec> {
    let (machine, bounded) = (&loaded.machine, options.mode == Mode::Machine);
    // A container has the clock, the devices and the terminals of its host, and a network that its engine configures.
    let is_own =
        |spec: &ServiceSpec| bounded || ![CONSOLE, DEVICES, NET, TIMESYNC].contains(&spec.name.as_str());
    let apid = apid::spec(machine, &options.runtime_dir, socket_group(loaded));
    let all = apid.into_iter().chain(program::optional(machine).filter(is_own));
    all.map(|spec| program::finish(spec, machine, bounded)).collect()
}

/// The service containerd, with what it finds when it starts.
pub(super) fn containerd_spec(options: &Options, machine: &MachineSpec, manager: &Manager) -> ServiceSpec {
    let runtime = &options.runtime_dir;
    if let Err(error) = containerd::write_configuration(runtime, &options.state_dir) {
        let folder = containerd::folder(runtime);
        manager.host_event(&format!("containerd cannot start: {}: {error}", folder.display()));
    }
    if options.mode == Mode::Machine
        && let Err(error) = containerd::link(Path::new(containerd::USUAL_FOLDER), runtime)
    {
        tracing::warn!("{}: {error}; tools need --address", containerd::USUAL_FOLDER);
    }
    let mut spec = containerd::spec(machine, runtime, file_limit::for_child(containerd::FILES));
    if options.rescue.is_some() {
        spec.start = StartMode::Manual;
    }
    spec
}
