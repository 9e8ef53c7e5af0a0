//! The specification of a container, as runc and `kelson-container` read it: the image's config, overridden by the service file.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use kelson_spec::service::{ContainerNetwork, ContainerSpec, Seccomp};
use kelson_spec::{ServiceSpec, container_network, secrets};
use nix::unistd::{Gid, Uid, chown};

use super::oci::{Capabilities, Linux, Namespace, Process, Resources, Root, Spec, User, VERSION};
use super::{capabilities, devices, limits, mounts};
use crate::command::DEFAULT_PATH;
use crate::images::ImageConfig;
use crate::runner::{ErrorKind, RunContext, RunnerError, StopPlan};
use crate::seccomp::Profile;

/// The facts about the host that a container's specification depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) hostname: String,
    /// Capabilities that PID 1 holds.
    pub(crate) capabilities: u64,
    /// `oom_score_adj` of an ordinary process here; the shim's own would spare the container from the OOM killer.
    pub(crate) oom_score: i32,
    /// The highest limit on open files of a container. More takes a privilege that PID 1 of a container lacks.
    pub(crate) files: u64,
    /// Names this incarnation of the host in `KELSON_RUN`.
    pub(crate) incarnation: String,
    /// The container's cgroup as runc counts it: from the mount of cgroup2.
    pub(crate) cgroup: String,
    /// The folder of the service's secrets, if it has some.
    pub(crate) secrets: Option<String>,
    /// The file of its network namespace.
    pub(crate) network: String,
}

impl Host {
    /// Reads what the kernel says, for this service.
    pub(crate) fn read(service: &ServiceSpec, runtime_dir: &Path, incarnation: &str, cgroup: String) -> Host {
        let line = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let capabilities = capabilities::own();
        Host {
            hostname: line("/proc/sys/kernel/hostname"),
            capabilities,
            // PID 1 may have made itself safe from it.
            oom_score: line("/proc/self/oom_score_adj").parse().unwrap_or(0).max(0),
            files: limits::most_files(capabilities),
            incarnation: incarnation.to_owned(),
            secrets: (!service.secrets.is_empty())
                .then(|| secrets::folder(runtime_dir, &service.name).to_string_lossy().into_owned()),
            network: container_network::namespace(runtime_dir, &service.name).to_string_lossy().into_owned(),
            cgroup,
        }
    }
}

/// The part that differs in each run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) number: u64,
    /// Instead of what the service file and the image say.
    pub(crate) command: Option<Vec<String>>,
    pub(crate) environment: Vec<(String, String)>,
}

impl Run {
    /// That of a context, for the container of a service whose processes are this user's and group's of the host. The socket that
    /// the service says `READY=1` to becomes that user's, who is known only now. The write ends of the log are left.
    ///
    /// # Errors
    /// When it asks for what a container cannot have, or the socket cannot be given away.
    pub(crate) fn take(
        context: RunContext,
        service: &ServiceSpec,
        (uid, gid): (u32, u32),
    ) -> Result<(Run, OwnedFd, OwnedFd), RunnerError> {
        let RunContext { run: number, command, environment, stdout, stderr, descriptors, .. } = context;
        if !descriptors.is_empty() {
            return Err(RunnerError::new(format!(
                "a container takes no descriptors; write readiness: notify for service {}",
                service.name
            )));
        }
        let run = Run { number, command, environment };
        if let Some(socket) = run.notify_socket() {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            chown(socket, Some(uid), Some(gid)).map_err(|errno| {
                RunnerError::system(format_args!("cannot give {socket} to user {uid}"), &errno.into())
            })?;
        }
        Ok((run, stdout, stderr))
    }

    /// The socket that the service says `READY=1` to.
    pub(crate) fn notify_socket(&self) -> Option<&str> {
        self.environment.iter().find(|(name, _)| name == "NOTIFY_SOCKET").map(|(_, path)| path.as_str())
    }
}

/// The part of a service's spec that makes it a container.
///
/// # Errors
/// When it is no container.
pub(crate) fn container(service: &ServiceSpec) -> Result<&ContainerSpec, RunnerError> {
    let container = service.container();
    container.ok_or_else(|| RunnerError::new(format!("service {} is not a container", service.name)))
}

/// The signal that the image asks to be stopped with. It takes the place of the default, and of nothing else.
pub(crate) fn image_signal(service: &ServiceSpec, image: Option<&ImageConfig>) -> Option<i32> {
    let of_image = service.container().is_some_and(|container| container.stop_signal_of_image);
    image.and_then(|image| image.stop_signal).filter(|_| of_image)
}

/// A plan with that signal.
pub(crate) fn stop_plan(plan: StopPlan, service: &ServiceSpec, image: Option<&ImageConfig>) -> StopPlan {
    match image_signal(service, image) {
        Some(signal) if plan.signal == service.stop.signal => StopPlan { signal, ..plan },
        _ => plan,
    }
}

/// The specification of one run.
///
/// # Errors
/// When neither the service file nor the image says what to run, or a device is not there.
pub(crate) fn spec(
    service: &ServiceSpec,
    image: &ImageConfig,
    host: &Host,
    run: &Run,
) -> Result<Spec, RunnerError> {
    let container = container(service)?;
    let hostname = container.hostname.clone().unwrap_or_else(|| match container.network {
        ContainerNetwork::Host if !host.hostname.is_empty() => host.hostname.clone(),
        _ => service.name.clone(),
    });
    let mut nodes = Vec::new();
    let mut rules = vec![devices::deny_all()];
    for listed in &container.devices {
        let (node, rule) = devices::device(listed)?;
        nodes.push(node);
        rules.push(rule);
    }
    let security = &service.security;
    let held = capabilities::held(security, image.uid, host.capabilities);
    Ok(Spec {
        oci_version: VERSION.into(),
        process: process(service, container, image, host, run, &hostname)?,
        root: Root { path: "rootfs".into(), readonly: security.read_only_root },
        hostname,
        mounts: mounts::mounts(
            container,
            service.delegate,
            &image.host_files,
            run.notify_socket(),
            host.secrets.as_deref(),
        ),
        linux: Linux {
            cgroups_path: host.cgroup.clone(),
            namespaces: namespaces(container.network, &host.network),
            rootfs_propagation: mounts::propagation(container).map(Into::into),
            // Limits are written to the cgroup by PID 1, for containers as for processes.
            resources: Resources { devices: rules },
            devices: nodes,
            seccomp: (security.seccomp == Seccomp::Default).then(|| Profile::default_profile(held)),
            masked_paths: mounts::MASKED.iter().copied().map(Into::into).collect(),
            readonly_paths: mounts::READ_ONLY.iter().copied().map(Into::into).collect(),
        },
    })
}

/// `file`: of its network namespace.
fn namespaces(network: ContainerNetwork, file: &str) -> Vec<Namespace> {
    let new = |kind: &'static str| Namespace { kind: kind.into(), path: None };
    let mut all: Vec<Namespace> = ["pid", "ipc", "uts", "mount", "cgroup"].map(new).into();
    match network {
        ContainerNetwork::Host => {}
        ContainerNetwork::None => all.push(new("network")),
        ContainerNetwork::Bridge => {
            all.push(Namespace { kind: "network".into(), path: Some(file.to_owned()) });
        }
    }
    all
}

/// The ports of its program, each by its name.
fn ports(container: &ContainerSpec) -> impl Iterator<Item = String> {
    container.ports.iter().flat_map(|port| {
        let name = port.variable();
        let host = port.host.map(|host| format!("KELSON_HOST_PORT_{name}={host}"));
        [format!("KELSON_PORT_{name}={}", container.listens_on(port))].into_iter().chain(host)
    })
}

fn process(
    service: &ServiceSpec,
    container: &ContainerSpec,
    image: &ImageConfig,
    host: &Host,
    run: &Run,
    hostname: &str,
) -> Result<Process, RunnerError> {
    let args: Vec<String> = match &run.command {
        Some(command) => command.clone(),
        None if container.command.is_empty() => {
            image.entrypoint.iter().chain(&image.command).cloned().collect()
        }
        None => container.command.clone(),
    };
    if args.is_empty() {
        let text = format!(
            "image {} has no command of its own; give service {} one with container: {{command: […]}}",
            container.image, service.name
        );
        return Err(RunnerError::of_kind(ErrorKind::Image { archives: image.archives }, text));
    }
    let directory = match &container.working_directory {
        Some(directory) => directory.to_string_lossy().into_owned(),
        None if image.working_directory.is_empty() => String::from("/"),
        None => image.working_directory.clone(),
    };
    let security = &service.security;
    let capabilities: Capabilities = capabilities::capabilities(security, image.uid, host.capabilities);
    Ok(Process {
        terminal: false,
        console_size: None,
        user: User { uid: image.uid, gid: image.gid, additional_gids: image.groups.clone() },
        args,
        env: environment(service, container, image, host, run, hostname),
        cwd: directory,
        capabilities,
        rlimits: limits::rlimits(&service.limits, host.files),
        no_new_privileges: security.no_new_privileges,
        oom_score_adj: host.oom_score,
    })
}

/// Later values win.
fn environment(
    service: &ServiceSpec,
    container: &ContainerSpec,
    image: &ImageConfig,
    host: &Host,
    run: &Run,
    hostname: &str,
) -> Vec<String> {
    let mut environment = vec![format!("PATH={DEFAULT_PATH}"), format!("HOSTNAME={hostname}")];
    if let Some(home) = &image.home {
        environment.push(format!("HOME={home}"));
    }
    let mark = format!("{}:{}:{}", host.incarnation, service.name, run.number);
    let named = |(name, value): &(String, String)| format!("{name}={value}");
    let later = image
        .environment
        .iter()
        .cloned()
        .chain(service.environment.iter().map(named))
        .chain([format!("KELSON_SERVICE={}", service.name), format!("KELSON_RUN={mark}")])
        .chain(ports(container))
        .chain(run.environment.iter().map(named));
    for entry in later {
        set(&mut environment, entry);
    }
    environment
}

/// Sets a variable in place of an earlier one of the same name.
pub(crate) fn set(environment: &mut Vec<String>, entry: String) {
    let name = |entry: &str| entry.split('=').next().unwrap_or_default().to_owned();
    match environment.iter_mut().find(|known| name(known) == name(&entry)) {
        Some(known) => *known = entry,
        None => environment.push(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_spec::container_network::{PortSpec, Protocol};
    use kelson_spec::service::{ContainerDevice, ContainerMount, ResourceLimit, Security, Workload};

    fn service() -> ServiceSpec {
        let mut service = ServiceSpec::process("web", ["x"]);
        service.workload = Workload::Container(ContainerSpec::new("demo/web:1"));
        service
    }

    fn change(service: &mut ServiceSpec) -> &mut ContainerSpec {
        match &mut service.workload {
            Workload::Container(container) => container,
            _ => unreachable!(),
        }
    }

    fn image() -> ImageConfig {
        ImageConfig {
            image: "demo/web:1".into(),
            entrypoint: vec!["/entry".into()],
            command: vec!["serve".into()],
            environment: vec!["A=image".into(), "B=image".into()],
            host_files: vec!["/etc/hosts".into()],
            ..ImageConfig::default()
        }
    }

    fn host() -> Host {
        Host {
            hostname: "edge-1".into(),
            capabilities: u64::MAX,
            oom_score: 0,
            files: 1 << 20,
            incarnation: "abc-1".into(),
            secrets: None,
            network: "/run/kelson/netns/web".into(),
            cgroup: "/kelson/web".into(),
        }
    }

    fn made(service: &ServiceSpec, image: &ImageConfig) -> Spec {
        spec(service, image, &host(), &Run { number: 7, ..Run::default() }).unwrap()
    }

    /// The whole of it stands in a file, to be read and compared. `KELSON_BLESS=1` writes it again.
    #[test]
    fn the_specification_is_what_the_file_says() {
        let mut service = service();
        service.environment = vec![("B".into(), "service".into())];
        service.limits = vec![ResourceLimit { resource: 7, soft: 1024, hard: 4096 }];
        service.security.read_only_root = true;
        let container = change(&mut service);
        container.mounts = vec![ContainerMount {
            source: "/var/www".into(),
            target: "/srv".into(),
            options: vec!["ro".into(), "rbind".into()],
        }];
        container.devices = vec![ContainerDevice {
            source: "/dev/null".into(),
            target: "/dev/sink".into(),
            permissions: "rw".into(),
        }];
        let image =
            ImageConfig { uid: 33, gid: 33, groups: vec![4], home: Some("/var/www".into()), ..image() };
        let run = Run {
            number: 7,
            environment: vec![("NOTIFY_SOCKET".into(), "/run/kelson/notify/web".into())],
            ..Run::default()
        };
        let mut spec = spec(&service, &image, &host(), &run).unwrap();
        // The sandbox that tests run in may have another owner and mode of it.
        spec.linux.devices.iter_mut().for_each(|device| {
            (device.file_mode, device.uid, device.gid) = (0o666, 0, 0);
        });
        // Its list of calls has a test of its own.
        spec.linux.seccomp = None;
        let text = serde_json::to_string_pretty(&spec).unwrap() + "\n";
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/containerd/web.json");
        if std::env::var_os("KELSON_BLESS").is_some() {
            fs::write(file, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(file).unwrap());
    }

    #[test]
    fn a_container_is_told_its_ports_and_joins_the_network_that_was_made_for_it() {
        let port = |name: &str, container, host| PortSpec {
            name: name.into(),
            container,
            host,
            protocol: Protocol::Tcp,
        };
        let mut service = service();
        change(&mut service).ports = vec![port("http", 80, Some(8080)), port("admin-ui", 9000, None)];
        let variables = |service: &ServiceSpec| {
            let mut all = made(service, &image()).process.env;
            all.retain(|entry| entry.contains("PORT_"));
            all
        };
        let rest = ["KELSON_HOST_PORT_HTTP=8080", "KELSON_PORT_ADMIN_UI=9000"];
        assert_eq!(variables(&service), [["KELSON_PORT_HTTP=8080"].as_slice(), &rest].concat());
        change(&mut service).network = ContainerNetwork::Bridge;
        assert_eq!(variables(&service), [["KELSON_PORT_HTTP=80"].as_slice(), &rest].concat());
        let made = made(&service, &image());
        let network = Namespace { kind: "network".into(), path: Some("/run/kelson/netns/web".into()) };
        assert_eq!((made.linux.namespaces.last(), made.hostname.as_str()), (Some(&network), "web"));
    }

    #[test]
    fn the_service_file_is_on_top_of_the_image() {
        let plain = made(&service(), &image());
        assert_eq!(plain.process.args, ["/entry", "serve"]);
        assert_eq!((plain.process.cwd.as_str(), plain.hostname.as_str()), ("/", "edge-1"));
        assert_eq!(plain.process.capabilities.bounding.len(), 14);
        assert!(plain.process.no_new_privileges && !plain.root.readonly);
        assert!(plain.linux.seccomp.is_some());
        assert_eq!(plain.linux.namespaces.len(), 5);
        let mut changed = service();
        changed.security = Security {
            no_new_privileges: false,
            capabilities: Some(1),
            seccomp: Seccomp::Unconfined,
            ..Security::default()
        };
        let container = change(&mut changed);
        container.command = vec!["own".into()];
        container.working_directory = Some("/srv".into());
        container.network = ContainerNetwork::None;
        let changed = made(&changed, &ImageConfig { working_directory: "/app".into(), ..image() });
        assert_eq!(changed.process.args, ["own"], "a command replaces the entrypoint too");
        assert_eq!((changed.process.cwd.as_str(), changed.hostname.as_str()), ("/srv", "web"));
        assert_eq!(changed.process.capabilities.bounding, ["CAP_CHOWN"]);
        assert!(!changed.process.no_new_privileges && changed.linux.seccomp.is_none());
        assert_eq!(changed.linux.namespaces.last(), Some(&Namespace { kind: "network".into(), path: None }));
        assert!(!changed.mounts.iter().any(|mount| mount.destination == "/etc/hosts"));
    }

    #[test]
    fn a_hook_differs_in_its_words_alone() {
        let mut service = service();
        change(&mut service).command = vec!["own".into()];
        let run = Run { number: 7, command: Some(vec!["/hook".into(), "now".into()]), ..Run::default() };
        let mut hook = spec(&service, &image(), &host(), &run).unwrap();
        assert_eq!(hook.process.args, ["/hook", "now"]);
        hook.process.args = vec!["own".into()];
        assert_eq!(hook, made(&service, &image()));
    }

    #[test]
    fn later_variables_replace_earlier_ones() {
        let mut service = service();
        service.environment = vec![("B".into(), "service".into()), ("PATH".into(), "/mine".into())];
        let image = ImageConfig { home: Some("/h".into()), ..image() };
        assert_eq!(
            made(&service, &image).process.env,
            [
                "PATH=/mine",
                "HOSTNAME=edge-1",
                "HOME=/h",
                "A=image",
                "B=service",
                "KELSON_SERVICE=web",
                "KELSON_RUN=abc-1:web:7"
            ]
        );
    }

    #[test]
    fn an_image_without_a_command_is_told_plainly() {
        let image = ImageConfig { entrypoint: Vec::new(), command: Vec::new(), ..image() };
        let error = spec(&service(), &image, &host(), &Run::default()).unwrap_err();
        assert_eq!(
            error.message,
            "image demo/web:1 has no command of its own; give service web one with container: {command: […]}"
        );
        assert!(container(&ServiceSpec::process("web", ["x"])).is_err());
    }

    #[test]
    fn a_process_can_be_read_back() {
        let spec = made(&service(), &image());
        let text = serde_json::to_vec(&spec).unwrap();
        let back: super::super::oci::Running = serde_json::from_slice(&text).unwrap();
        assert_eq!(back.process, spec.process);
    }
}
