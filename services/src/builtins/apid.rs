//! `apid`: the remote door, mutual TLS on TCP in front of PID 1's socket. On when the machine file has `api`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_spec::MachineSpec;
use kelson_spec::service::{Readiness, ServiceSpec};

/// The name under which it is shown.
pub const NAME: &str = "apid";
/// The user and the group that the process which meets strangers has for itself.
pub const USER: u32 = kelson_spec::names::APID_USER;
/// What it may use of memory where the machine file does not say: with 256 clients it takes a third.
const MEMORY_MAX: u64 = 128 << 20;
const PIDS_MAX: u64 = 16;
/// The keeper becomes another user, in its child, and nothing else.
const CAPABILITIES: u64 = 1 << CAP_SETGID | 1 << CAP_SETUID;
/// capabilities(7).
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;
/// Names, in the environment of apid, the version of Kelson that starts it.
const VARIABLE: &str = "KELSON_VERSION";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The service, with what the machine file changes of it. `None`: it has no `api`, or is switched off. `group` is that of
/// the sockets; `None`: PID 1 is not root, and who it is the door is too. `bounded`: there are controllers that can
/// enforce limits.
pub fn spec(
    machine: &MachineSpec,
    runtime_dir: &Path,
    group: Option<u32>,
    bounded: bool,
) -> Option<ServiceSpec> {
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
    spec.file = PathBuf::new();
    spec.readiness = Readiness::Notify;
    spec.start_timeout = Duration::from_secs(30);
    spec.stop.timeout = Duration::from_secs(3);
    spec.security.capabilities = Some(CAPABILITIES);
    spec.security.read_only_root = true;
    if bounded {
        spec.resources.memory_max = Some(MEMORY_MAX);
        spec.resources.pids_max = Some(PIDS_MAX);
    }
    if let Some(changes) = machine.builtin(NAME) {
        changes.apply(&mut spec);
    }
    spec.environment.retain(|(name, _)| name != VARIABLE);
    spec.environment.push((VARIABLE.into(), VERSION.into()));
    Some(spec)
}

/// The version of Kelson that this spec of apid is of, where it is another one than this. Releases before 0.2.0 did not
/// name theirs.
pub fn other_version(spec: &ServiceSpec) -> Option<&str> {
    let named = spec.environment.iter().find(|(name, _)| name == VARIABLE);
    Some(named.map_or("unknown", |(_, version)| version)).filter(|version| *version != VERSION)
}
