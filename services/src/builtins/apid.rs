//! `apid`: the remote door, mutual TLS on TCP in front of PID 1's socket. On when the machine file has `api`.

use std::path::Path;
use std::time::Duration;

use kelson_spec::MachineSpec;
use kelson_spec::builtin::CHANGE_USER;
use kelson_spec::service::{Readiness, ServiceSpec};

/// The name under which it is shown.
pub const NAME: &str = "apid";
/// The user and the group that the process which meets strangers has for itself.
pub const USER: u32 = kelson_spec::names::APID_USER;
/// The memory that it may use where the machine file sets no limit: with 256 clients it takes a third.
const MEMORY_MAX: u64 = 128 << 20;
const PIDS_MAX: u64 = 16;
/// The service without what `builtins` changes of it. `None`: the machine file has no `api`, or switches it off. `group` is
/// that of the sockets; `None`: PID 1 is not root, and apid has PID 1's user.
pub fn spec(machine: &MachineSpec, runtime_dir: &Path, group: Option<u32>) -> Option<ServiceSpec> {
    let api = machine.api.as_ref().filter(|_| machine.is_enabled(NAME) != Some(false))?;
    let text = |path: &Path| path.display().to_string();
    let mut command = vec!["kelson-apid".to_owned(), "--runtime-dir".into(), text(runtime_dir)];
    for listen in &api.listen {
        command.extend(["--listen".into(), listen.clone()]);
    }
    for (flag, path) in [("--ca", &api.ca), ("--certificate", &api.certificate), ("--key", &api.key)] {
        command.extend([flag.into(), text(path)]);
    }
    command.extend(["--connection-lifetime".into(), api.connection_lifetime.as_millis().to_string()]);
    if let Some(group) = group {
        command.extend(["--user".into(), USER.to_string(), "--group".into(), group.to_string()]);
    }
    let mut spec = ServiceSpec::process(NAME, command);
    spec.description = "the API endpoint on the network, with mutual TLS".into();
    spec.readiness = Readiness::Notify;
    spec.start_timeout = Duration::from_secs(30);
    spec.stop.timeout = Duration::from_secs(3);
    // The TLS worker becomes another user.
    spec.security.capabilities = Some(CHANGE_USER);
    spec.security.read_only_root = true;
    spec.resources.memory_max = Some(MEMORY_MAX);
    spec.resources.pids_max = Some(PIDS_MAX);
    Some(spec)
}
