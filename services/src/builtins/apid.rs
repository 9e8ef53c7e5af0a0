//! `apid`: the remote door, mutual TLS on TCP in front of PID 1's socket. On when the machine file has `api`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_spec::MachineSpec;
use kelson_spec::service::{Readiness, ServiceSpec};

/// The name under which it is shown.
pub const NAME: &str = "apid";

/// The service, with what the machine file changes of it. `None`: it has no `api`, or is switched off.
pub fn spec(machine: &MachineSpec, runtime_dir: &Path) -> Option<ServiceSpec> {
    let api = machine.api.as_ref().filter(|_| machine.is_enabled(NAME) != Some(false))?;
    let text = |path: &Path| path.display().to_string();
    let mut command = vec!["kelson-apid".to_owned(), "--runtime-dir".into(), text(runtime_dir)];
    for listen in &api.listen {
        command.extend(["--listen".into(), listen.clone()]);
    }
    for (flag, path) in [("--ca", &api.ca), ("--certificate", &api.certificate), ("--key", &api.key)] {
        command.extend([flag.into(), text(path)]);
    }
    let mut spec = ServiceSpec::process(NAME, command);
    spec.description = "the remote door: mutual TLS in front of the API".into();
    spec.file = PathBuf::new();
    spec.readiness = Readiness::Notify;
    spec.start_timeout = Duration::from_secs(30);
    spec.stop.timeout = Duration::from_secs(3);
    spec.security.capabilities = Some(0);
    if let Some(changes) = machine.builtin(NAME) {
        changes.apply(&mut spec);
    }
    Some(spec)
}
