//! `containerd`: runs the services that are images. On when a service needs it, or when the machine file says so.
//!
//! It is a program of the host, found in `PATH`, and an ordinary service to the state machine. Its
//! configuration is ours and minimal: no CRI, no sockets but its own. The data that must outlive a reboot
//! (content, snapshots, its database) lies below the state folder, all else below the runtime folder. Its
//! shims are not its children but PID 1's, and live in cgroups of their own: neither its stop nor its end
//! touches them.

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{BoxFuture, Containerd, RunnerError};
use kelson_spec::MachineSpec;
use kelson_spec::service::{
    Readiness, ResourceLimit, RestartSpec, Seccomp, Security, ServiceKind, ServiceSpec, StopSpec,
};
use tokio::time::Instant;

use crate::health::{Answer, OwnCheck, Plan, Probe};

/// The name under which it is shown, and of its program.
pub const NAME: &str = "containerd";

/// Where stock `ctr` looks for it.
pub const USUAL_FOLDER: &str = "/run/containerd";

/// Its limit on open files, where the host allows it: each container costs it a few.
pub const FILES: u64 = 1_048_576;

/// The plugins that Kelson does not use: the interface of Kubernetes, snapshotters for file systems of their own,
/// restarts by containerd itself, programs below `/opt`, tracing. Both 1.6 and 1.7 pass over names that they do
/// not have. The first runtime of 1.6 (`io.containerd.runtime.v1.linux`) must stay: without it 1.6 runs no tasks.
const DISABLED: [&str; 11] = [
    "io.containerd.grpc.v1.cri",
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.restart",
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
];

/// Its folder below the runtime folder: configuration, socket, and what it knows of what runs.
pub fn folder(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("containerd")
}

/// The socket on which it answers.
pub fn socket(runtime_dir: &Path) -> PathBuf {
    folder(runtime_dir).join("containerd.sock")
}

fn configuration_file(runtime_dir: &Path) -> PathBuf {
    folder(runtime_dir).join("config.toml")
}

/// The service, with what the machine file changes of it. `files` is what this host can give it of [`FILES`].
pub fn spec(machine: &MachineSpec, runtime_dir: &Path, files: u64) -> ServiceSpec {
    let file = configuration_file(runtime_dir);
    let mut spec = ServiceSpec::process(NAME, [NAME, "--config", &file.to_string_lossy()]);
    spec.description = "runs services from images".into();
    // A built-in service without a file is run from PID 1's own binary; this one is a program of the host.
    spec.file = file;
    spec.readiness = Readiness::Notify;
    spec.restart =
        RestartSpec { max_delay: Duration::from_secs(10), ..RestartSpec::for_kind(ServiceKind::Service) };
    spec.stop = StopSpec::default();
    spec.limits = vec![ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: files, hard: files }];
    // A right that it lacks every container lacks too.
    spec.security = Security {
        no_new_privileges: false,
        seccomp: Seccomp::Unconfined,
        capabilities: None,
        ..Security::default()
    };
    if let Some(changes) = machine.builtin(NAME) {
        changes.apply(&mut spec);
    }
    spec
}

/// Writes its configuration, which it reads at each start. The runtime folder is in memory: PID 1 may write there.
///
/// # Errors
/// When its folder or the file cannot be written.
pub fn write_configuration(runtime_dir: &Path, state_dir: &Path) -> io::Result<()> {
    // Others may pass, not look: roots of containers lie within.
    DirBuilder::new().recursive(true).mode(0o711).create(folder(runtime_dir))?;
    std::fs::set_permissions(folder(runtime_dir), PermissionsExt::from_mode(0o711))?;
    let path = configuration_file(runtime_dir);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(configuration(runtime_dir, state_dir).as_bytes())
}

/// Lets stock tools find it: a link at `usual` to its folder, unless something is there.
///
/// # Errors
/// When the link cannot be made.
pub fn link(usual: &Path, runtime_dir: &Path) -> io::Result<()> {
    match std::os::unix::fs::symlink(folder(runtime_dir), usual) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// It is up while its own health service says so, and only then. One that is frozen for more than a minute is
/// replaced: its containers do not notice.
pub fn own_check(containerd: Containerd) -> OwnCheck {
    let plan = Plan {
        name: Arc::from("grpc"),
        initial_delay: Duration::ZERO,
        interval: Duration::from_secs(5),
        timeout: Duration::from_secs(5),
        success_threshold: 1,
        failure_threshold: 2,
        restart_after: 12,
        grace: Duration::from_secs(30),
        startup: false,
        registration: false,
    };
    OwnCheck { plan, probe: Arc::new(Health(containerd)) }
}

/// Asks containerd's health service.
struct Health(Containerd);

impl Probe for Health {
    fn kind(&self) -> &'static str {
        "grpc"
    }

    fn ask(&self, _: Instant) -> BoxFuture<'static, Answer> {
        let containerd = self.0.clone();
        Box::pin(async move {
            match containerd.health().await {
                Ok(()) => Answer::passes("it serves"),
                Err(error) => Answer::fails(RunnerError::from(error).to_string()),
            }
        })
    }
}

fn configuration(runtime_dir: &Path, state_dir: &Path) -> String {
    let disabled = DISABLED.map(|name| format!("  {},\n", quoted(name))).concat();
    let path = |path: PathBuf| quoted(&path.to_string_lossy());
    let (root, state) = (path(state_dir.join("containerd")), path(Containerd::state_folder(runtime_dir)));
    let address = path(socket(runtime_dir));
    // It gives itself the score: killed last of all, and its shims hardly before it.
    format!(
        "# Written by Kelson at each boot; what is changed here is lost.\n\
         version = 2\n\
         root = {root}\n\
         state = {state}\n\
         oom_score = -999\n\
         disabled_plugins = [\n{disabled}]\n\
         \n[grpc]\n  address = {address}\n\
         \n[debug]\n  address = \"\"\n  level = \"info\"\n\
         \n[metrics]\n  address = \"\"\n"
    )
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // Writing into a String does not fail.
            letter if letter.is_control() => drop(write!(quoted, "\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_spec::machine::BuiltinSpec;
    use kelson_spec::service::{Resources, Workload};

    #[test]
    fn its_configuration_names_its_places_and_no_other() {
        let text = configuration(Path::new("/run/kelson"), Path::new("/var/lib/kelson"));
        for line in [
            "version = 2\n",
            "root = \"/var/lib/kelson/containerd\"\n",
            "state = \"/run/kelson/containerd/state\"\n",
            "  address = \"/run/kelson/containerd/containerd.sock\"\n",
            "oom_score = -999\n",
            "  \"io.containerd.grpc.v1.cri\",\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert_eq!(text.matches("/run/kelson").count(), 2);
        assert_eq!(quoted("/a \"b\" \\ \n"), r#""/a \"b\" \\ \u000A""#);
    }

    #[test]
    fn the_machine_file_changes_it() {
        let runtime = Path::new("/run/kelson");
        let plain = spec(&MachineSpec::default(), runtime, FILES);
        let Workload::Process(process) = &plain.workload else { panic!("no process") };
        assert_eq!(process.command, ["containerd", "--config", "/run/kelson/containerd/config.toml"]);
        assert!(!plain.security.no_new_privileges && !plain.file.as_os_str().is_empty());
        let resources = Resources { memory_max: Some(512 << 20), ..Resources::default() };
        let limit = ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 9, hard: 9 };
        let machine = MachineSpec {
            builtins: vec![BuiltinSpec {
                resources: Some(resources.clone()),
                limits: vec![limit],
                ..BuiltinSpec::new(NAME)
            }],
            ..MachineSpec::default()
        };
        let changed = spec(&machine, runtime, FILES);
        assert_eq!(changed, ServiceSpec { resources, limits: vec![limit], ..plain });
    }

    #[tokio::test]
    async fn nobody_on_its_socket_is_no_health() {
        let nowhere = std::env::temp_dir().join(format!("kelson-nowhere-{}", std::process::id()));
        let check = own_check(Containerd::below(&nowhere));
        let answer = check.probe.ask(Instant::now() + Duration::from_secs(5)).await;
        assert_eq!(answer.verdict, crate::health::Verdict::Fails);
        assert!(answer.output.contains("containerd"), "{}", answer.output);
    }

    #[test]
    fn what_is_written_is_roots_alone_and_a_link_takes_nobodys_place() {
        let base = std::env::temp_dir().join(format!("kelson-containerd-{}", std::process::id()));
        let runtime = base.join("run");
        for _ in 0..2 {
            write_configuration(&runtime, &base.join("lib")).unwrap();
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&configuration_file(&runtime)), 0o600);
        assert_eq!(mode(&folder(&runtime)), 0o711);
        let usual = base.join("usual");
        link(&usual, &runtime).unwrap();
        link(&usual, Path::new("/elsewhere")).unwrap();
        assert_eq!(std::fs::read_link(&usual).unwrap(), folder(&runtime));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
