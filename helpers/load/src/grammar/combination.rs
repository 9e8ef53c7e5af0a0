//! What the keys of a service file require of each other.

use super::checks::check_volumes;
use super::directories::announce;
use super::membership::tie;
use super::sandbox::compiled;
use super::seen::Seen;
use super::{fleet, input, paths, plugin, schedule, sockets, templates};
use crate::decode::{Decoder, diagnostic};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{
    Credentials, FileView, Inherit, OwnNamespaces, Readiness, ServiceKind, ServiceSpec, Stdout,
};

/// Keys of what runs.
const OF_A_PROGRAM: [&str; 41] = [
    "schedule",
    "environment",
    "environmentDefaults",
    "environmentFacts",
    "environmentFiles",
    "expand",
    "secrets",
    "type",
    "restart",
    "success",
    "readiness",
    "watchdog",
    "startTimeout",
    "health",
    "hooks",
    "reload",
    "resumed",
    "onFailure",
    "onSuccess",
    "onExit",
    "stop",
    "user",
    "resources",
    "delegate",
    "limits",
    "umask",
    "nice",
    "oomScoreAdjust",
    "cpuAffinity",
    "directories",
    "volumes",
    "provides",
    "register",
    "disconnect",
    "templates",
    "sockets",
    "paths",
    "removeIpc",
    "security",
    "api",
    "logs",
];

/// Checks keys that cannot stand together, and completes the spec.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut ServiceSpec) {
    let is_container = seen.has("container");
    if is_container && matches!(spec.readiness, Readiness::Descriptor(_)) {
        // Between Kelson and the container stand containerd and its shim.
        seen.wrong_value(d, "readiness", "no descriptor reaches into a container; write readiness: notify");
    }
    if const { OWN.has(Feature::Units) } && spec.kind == ServiceKind::Service && !spec.hooks.undo.is_empty() {
        let text = "hooks.undo: only a one-shot is undone; write preStop or post, or type: oneshot";
        let warning = diagnostic(d.file, seen.position("hooks"), d.service, text);
        d.warnings.push(warning);
    }
    if const { OWN.has(Feature::Units) } && spec.readiness == Readiness::Forks {
        if is_container {
            let text = "the first process of a container is its main one; run the program in the foreground";
            seen.wrong_value(d, "readiness", text);
        } else if spec.kind == ServiceKind::Oneshot {
            let text = "a one-shot has no processes once its command has ended; write type: service, or leave readiness out";
            seen.wrong_value(d, "readiness", text);
        }
    }
    if is_container && spec.inherit != Inherit::Nothing {
        let text = "a container inherits nothing from init; name the variables with their values";
        seen.wrong_value(d, "environment", text);
    }
    if is_container && spec.expand {
        let text =
            "a container's command is not expanded; the values can stand in its environment or its command";
        seen.wrong_key(d, "expand", text);
    }
    if is_container && spec.logs.stdout == Some(Stdout::Only) {
        // A shim opens what the container writes to by its path.
        let text = "a container writes to pipes of its own; write stdout: true or stdout: prefix";
        seen.wrong_value(d, "logs", text);
    }
    if is_container && spec.security.view != FileView::default() {
        let text = "a container has files of its own; readOnlyPaths and the like are for a process";
        seen.wrong_value(d, "security", text);
    }
    if is_container && spec.security.own != OwnNamespaces::default() {
        let text = "a container has users and a network of its own; privateUsers and privateNetwork are for a process";
        seen.wrong_value(d, "security", text);
    }
    if is_container && spec.security.devices.is_some() {
        let text =
            "a container has the devices of container.devices alone; security.devices is for a process";
        seen.wrong_value(d, "security", text);
    }
    if is_container && spec.remove_ipc {
        seen.wrong_key(
            d,
            "removeIpc",
            "a container has IPC of its own, which goes with it; leave removeIpc out",
        );
    } else if spec.remove_ipc && (!seen.has("user") || spec.user.as_ref().is_some_and(is_root)) {
        let text = "what root has left is never removed; write a user of its own, or leave removeIpc out";
        seen.wrong_key(d, "removeIpc", text);
    }
    if spec.watchdog.is_some() && !matches!(spec.readiness, Readiness::Notify | Readiness::Forks) {
        let text = "a service reports to its watchdog by its notify socket; write readiness: notify, or {forks: true}";
        seen.wrong_key(d, "watchdog", text);
    }
    let keeps_cgroups = |path: &String| matches!(path.as_str(), "/sys" | "/sys/fs/cgroup");
    let is_closed = spec.security.read_only_root && !spec.security.view.writable.iter().any(keeps_cgroups);
    if spec.delegate && is_closed && !is_container {
        let text = "readOnlyRoot makes /sys/fs/cgroup read-only for a process, so that it cannot use the cgroups that \
                    delegate gives it; leave one of the two out";
        seen.wrong_key(d, "delegate", text);
    }
    if is_container && !spec.directories.list.is_empty() {
        let text = "a container sees folders of the host by container.mounts; leave it out";
        seen.wrong_key(d, "directories", text);
    }
    if const { OWN.has(Feature::Units) } {
        compiled(d, seen, spec);
    }
    if seen.has("target") {
        for key in OF_A_PROGRAM.into_iter().filter(|key| seen.has(key)) {
            seen.wrong_key(
                d,
                key,
                format_args!("a target runs no program, so {key} means nothing; leave it out"),
            );
        }
    }
    if const { OWN.has(Feature::Units) } {
        announce(spec);
        paths::check(d, seen, spec);
        sockets::check(d, seen, spec);
        input::check(d, seen, spec);
        schedule::check(d, seen, spec);
    }
    if const { OWN.has(Feature::Volumes) } {
        plugin::check(d, seen, spec);
        for of in [("health", &*spec.health), ("register", spec.registration_checks())] {
            check_volumes(d, seen, of, &spec.volumes);
        }
    }
    if const { OWN.has(Feature::Fleet) } {
        fleet::check(d, seen, spec);
        templates::check(d, seen, spec);
    }
    spec.name.clone_from(&d.stem);
    spec.file = d.file.to_owned();
    d.workload = seen.position(if is_container { "container" } else { "process" });
    tie(d, seen, spec);
}

/// Without a passwd nobody else has a number.
fn is_root(user: &Credentials) -> bool {
    matches!(user.name.split(':').next(), Some("root" | "0"))
}
