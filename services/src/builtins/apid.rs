//! `apid`: the remote door, mutual TLS on TCP in front of PID 1's socket. On when the machine file has `api`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_spec::MachineSpec;
use kelson_spec::service::{
    Exhausted, LogSpec, ProcessSpec, Readiness, RestartPolicy, RestartSpec, Seccomp, Security, ServiceKind,
    ServiceSpec, StartMode, StopSpec, Workload,
};

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
    let mut spec = ServiceSpec {
        name: NAME.into(),
        description: "the remote door: mutual TLS in front of the API".into(),
        file: PathBuf::new(),
        workload: Workload::Process(ProcessSpec { command, working_directory: PathBuf::from("/") }),
        environment: Vec::new(),
        kind: ServiceKind::Service,
        start: StartMode::Auto,
        when: Vec::new(),
        depends: Vec::new(),
        restart: RestartSpec {
            policy: RestartPolicy::Forever,
            delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            attempts: 0,
            interval: Duration::from_secs(300),
            exhausted: Exhausted::Fail,
        },
        readiness: Readiness::Notify,
        start_timeout: Duration::from_secs(30),
        health: Vec::new(),
        stop: StopSpec { signal: libc::SIGTERM, timeout: Duration::from_secs(3), delay: Duration::ZERO },
        user: None,
        resources: Default::default(),
        limits: Vec::new(),
        security: Security {
            no_new_privileges: true,
            read_only_root: false,
            capabilities: Some(0),
            ambient: 0,
            seccomp: Seccomp::Default,
        },
        logs: LogSpec { max_size: 1 << 20, max_files: 3, console: false },
    };
    if let Some(changes) = machine.builtin(NAME) {
        changes.apply(&mut spec);
    }
    Some(spec)
}
