//! The specification of a container, as runc and `kelson-container` read it: the image's config, overridden by the service file.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use kelson_spec::service::{Attributes, ContainerNetwork, ContainerSpec, Seccomp, Volume};
use kelson_spec::{ServiceSpec, container_network, secrets};
use nix::unistd::{Gid, Uid, chown};

use super::oci::{Capabilities, Linux, Namespace, Process, Resources, Root, Spec, User, VERSION};
use super::{capabilities, devices, limits, mounts};
use crate::command::DEFAULT_PATH;
use crate::facts;
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
    /// The file with the names of containers, which it has as `/etc/hosts` with a network of its own.
    pub(crate) hosts: String,
}

impl Host {
    /// Reads what the kernel says, for this service.
    pub(crate) fn read(service: &ServiceSpec, runtime_dir: &Path, incarnation: &str, cgroup: String) -> Host {
        let capabilities = capabilities::own();
        let oom_score = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
        Host {
            hostname: kelson_sys::process::kernel("hostname").unwrap_or_default(),
            capabilities,
            // PID 1 may have made itself safe from it.
            oom_score: oom_score.trim().parse().unwrap_or(0).max(0),
            files: limits::most_files(capabilities),
            incarnation: incarnation.to_owned(),
            secrets: (!service.secrets.is_empty())
                .then(|| secrets::folder(runtime_dir, &service.name).to_string_lossy().into_owned()),
            network: container_network::namespace(runtime_dir, &service.name).to_string_lossy().into_owned(),
            hosts: container_network::hosts(runtime_dir).to_string_lossy().into_owned(),
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
    /// As those of the [`RunContext`].
    pub(crate) found: Vec<Volume>,
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
        let RunContext { run: number, command, environment, stdout, stderr, descriptors, found, .. } =
            context;
        if !descriptors.is_empty() {
            return Err(RunnerError::new(format!(
                "a container takes no descriptors; write readiness: notify for service {}",
                service.name
            )));
        }
        let run = Run { number, command, environment, found };
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
    let container = &*mounts::with_volumes(container(service)?, service, (image.uid, image.gid), &run.found);
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
            mounts::OfHost {
                files: &image.host_files,
                hosts: &host.hosts,
                notify_socket: run.notify_socket(),
                secrets: host.secrets.as_deref(),
            },
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
            let own = if container.arguments.is_empty() { &image.command } else { &container.arguments };
            image.entrypoint.iter().chain(own).cloned().collect()
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
    let Attributes { umask, oom_score, .. } = service.attributes;
    Ok(Process {
        terminal: false,
        console_size: None,
        user: User {
            uid: image.uid,
            gid: image.gid,
            // A runtime has the same default.
            umask: (umask != Attributes::UMASK).then_some(umask),
            additional_gids: image.groups.clone(),
        },
        args,
        env: environment(service, container, image, host, run, hostname),
        cwd: directory,
        capabilities,
        rlimits: limits::rlimits(&service.limits, host.files),
        no_new_privileges: security.no_new_privileges,
        oom_score_adj: oom_score.map_or(host.oom_score, i32::from),
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
        .chain(facts::variables(service).map(|(name, value)| format!("{name}={value}")))
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
mod tests;
