//! A whole service file.

use super::at::{At, at};
use super::attributes::attributes;
use super::checks::{CheckOf, checks};
use super::codec::{Codec, Extent, part};
use super::combination;
use super::command::process;
use super::confinement::{limits, logs, resources, security, stop};
use super::container::container;
use super::directories::directories;
use super::environment::{environments, facts, variables};
use super::fleet;
use super::hooks::{hooks, reload, resumed};
use super::mapping::{Mapping, keys};
use super::membership::lifecycle;
use super::paths::paths;
use super::plugin;
use super::readiness::readiness;
use super::requirement::{Use, after, before, others, requirements};
use super::restart::{ends, restart};
use super::schedule::{self, schedule};
use super::secrets::secrets;
use super::seen::Seen;
use super::sockets::{sockets, start, start_at};
use super::templates::templates;
use super::user::user;
use super::values::{
    SHORTEST, boolean, choice, distinct, duration_from, name, own_name, start_timeout, text,
};
use super::volumes::volumes;
use crate::decode::{Decoded, Decoder};
use crate::environment::unique;
use crate::json::Json;
use crate::tree::Node;
use kelson_spec::builtin::is_reserved;
use kelson_spec::features::Feature;
use kelson_spec::kernel::{ALL_CAPABILITIES, CONTAINER_CAPABILITIES};
use kelson_spec::names::is_name;
use kelson_spec::service::{
    ApiAccess, OnExit, RefusedRequest, Requirement, RestartSpec, ServiceEvent, ServiceKind, ServiceSpec,
    Workload,
};

/// Decodes the tree of the service file of the name `stem`, with the keys of [`service_file`]; `None` where it has a mistake. The decoder's `ties` get what can
/// be read of them in any case.
pub fn service(d: &mut Decoder<'_>, file: &Mapping<ServiceSpec>, stem: &str, root: &Node) -> Option<Decoded> {
    let before = d.diagnostics.len();
    d.stem = stem.to_owned();
    d.expands = root.get("expand").is_some_and(|node| node.is("true"));
    let spec = file.decode(d, root);
    let references = std::mem::take(&mut d.references);
    let mentions = std::mem::take(&mut d.mentions);
    let (workload, csi) = (d.workload, std::mem::take(&mut d.csi));
    let (disconnect, registered) = (root.get("disconnect").map(|node| node.at), d.registered.take());
    let decoded = spec.map(|spec| Decoded {
        spec,
        references,
        mentions,
        by_group: 0,
        workload,
        csi,
        disconnect,
        templates: root.get("templates").map(|node| node.at),
        registered,
    });
    decoded.filter(|_| d.diagnostics.len() == before)
}

/// The names of several services of one file, which its reader has looked at.
fn instances() -> Codec<Vec<String>> {
    const MOST: usize = 256;
    distinct(name().list_of(1..=MOST, "a list of names such as [a, b]")).around(|d, node, inner| {
        d.at_most(node, MOST, |count| format!("these are {count} instances; a file has at most {MOST}"))?;
        if node.is_empty_list() {
            return d.refuse(node, "this list is empty; leave it out for one service");
        }
        inner(d, node)
    })
}

/// The name that a file of this stem gives a service, if it may be one.
pub fn service_name(stem: &str) -> Option<&str> {
    (is_name(stem) && !is_reserved(stem)).then_some(stem)
}

/// `spec` as the keys of a service file: only what differs from the default. Resolved values stay resolved:
/// the environment holds the contents of the environment files, secrets too, and the user's group stands
/// beside its name. As a file it gives the same spec.
pub fn written(spec: &ServiceSpec) -> Json {
    service_file().encode(spec, Extent::Differences)
}

/// The whole file.
pub fn service_file() -> Mapping<ServiceSpec> {
    let process_at = At::new(
        |spec: &ServiceSpec| {
            if let Workload::Process(process) = &spec.workload { Some(process.clone()) } else { None }
        },
        |spec, process| spec.workload = Workload::Process(process),
    );
    let container_at = At::new(
        |spec: &ServiceSpec| spec.container().cloned(),
        |spec, container| spec.workload = Workload::Container(container),
    );
    let target_at = At::new(
        |spec: &ServiceSpec| (spec.workload == Workload::Target).then_some(()),
        |spec, ()| spec.workload = Workload::Target,
    );
    // A oneshot is restarted by another rule.
    let kind_at = At::new(
        |spec: &ServiceSpec| Some(spec.kind),
        |spec, kind| {
            spec.kind = kind;
            spec.restart = RestartSpec::for_kind(kind);
        },
    );
    let success_at = At::new(
        |spec: &ServiceSpec| Some(spec.restart.success.clone()),
        |spec, success| spec.restart.success = success,
    );
    let kinds = [("service", ServiceKind::Service), ("oneshot", ServiceKind::Oneshot)];
    let access = ApiAccess::ALL.map(|one| (one.name(), one));
    let mapping = keys! {
        Mapping::new("service", || ServiceSpec::process("", ["/"]));
        needed "name" name = unreserved_name(), "name: {stem}",
            "the file's name without `.yaml`. The names of [built-in services](machine-file.md#builtins), \
             and `audit`, `load`, `shims`, `task` and `unpack`, belong to Kelson and cannot be taken";
        means "description" description = text(), "empty", "for people";
        means "instances" (At::new(|_: &ServiceSpec| None, |_, _| {})) if Units = instances(), "none: it is one service",
            "the file is that of [several services](#instances), `NAME-INSTANCE` for each of these";
        alternative "process" (process_at) = Mapping::codec(process), "the program to run";
        alternative "container" (container_at) = part(Feature::Containerd, container), "the image to run";
        alternative "target" (target_at) = Mapping::codec(|| Mapping::new("target", || ())), "`{}`: nothing to run; others depend on it by its name";
    };
    // Both are entries of one list; they are read from the end.
    let depends_at = At::new(
        |spec: &ServiceSpec| {
            Some(spec.depends.iter().filter(|entry| entry.after().is_none()).cloned().collect::<Vec<_>>())
        },
        |spec, entries: Vec<Requirement>| drop(spec.depends.splice(0..0, entries)),
    );
    let after_at = At::new(
        |spec: &ServiceSpec| {
            Some(spec.depends.iter().filter_map(Requirement::after).map(str::to_owned).collect::<Vec<_>>())
        },
        |spec, names: Vec<String>| {
            let after = names.into_iter().map(|name| Requirement::service(name, ServiceEvent::Settled));
            spec.depends.extend(after);
        },
    );
    let readiness_at = At::new(
        |spec: &ServiceSpec| Some((spec.readiness, spec.pid_file.clone())),
        |spec, (readiness, pid_file)| (spec.readiness, spec.pid_file) = (readiness, pid_file),
    );
    // They stand in the `after` of others.
    let before_at = At::new(|_: &ServiceSpec| Some(Vec::new()), |_, _: Vec<String>| {});
    // The defaults are read first, and stand in `environment`.
    let defaults_at = At::new(|_: &ServiceSpec| Some(Vec::new()), |spec, all| spec.environment = all);
    let environment_at = At::new(
        |spec: &ServiceSpec| Some(spec.environment.clone()),
        |spec, all: Vec<(String, String)>| {
            let defaults = std::mem::take(&mut spec.environment);
            spec.environment = unique(defaults.into_iter().chain(all));
        },
    );
    let own = "the variables of its environment, and which it [inherits](#environment-environmentfiles)";
    let files = "files of `KEY=VALUE` lines; a file with `-` before its path may be missing";
    let mapping = keys! {
        mapping;
        key "environmentDefaults" (defaults_at) if Units = variables(|_, _| None),
            "variables that the [files](#environment-environmentfiles) and `environment` replace";
        key "environmentFacts" environment_facts if Units = facts(),
            "variables that Kelson sets to [facts about the service and its host](#environmentfacts); all others override them";
    };
    let mapping = keys! {
        environments(mapping, environment_at, Some(at!(inherit)), own, files);
        key "expand" expand if Units = boolean(),
            "`true`: Kelson replaces [variables in the commands](#expand) of a process by their values";
        key "secrets" secrets if Secrets = secrets(), "the [secrets](howto/secrets.md) that it gets as files";
        key "type" (kind_at) = choice(kinds),
            "a `service` runs on; a `oneshot` is up once it has ended successfully";
        key "start" (start_at()) = start(),
            "`manual`: the boot does not start it; `onDemand`: what comes in on one of its [sockets](#sockets) does, or one of its [paths](#paths)";
        means "schedule" (schedule::at()) if Units = schedule().optional(), "none",
            "[when the clock starts it](#schedule); the boot does not start it then";
        key "when" when = requirements(Use::When),
            "conditions that Kelson evaluates once, at the start; if one does not hold, the service is \
             skipped";
        key "after" (after_at) = references_first(after()),
            "services after which it starts, without a need for them: it waits while one of them is on its way";
        key "before" (before_at) if Units = before(),
            "services that start after it, as if it stood in their `after`";
        key "depends" (depends_at) = references_first(requirements(Use::Depends)), "conditions that must all hold before each spawn";
        by "restart" restart = |spec, seen| restart(spec.kind, seen.and_then(no_group)),
            "by type", "whether and when Kelson starts it again";
        key "success" (success_at) if Units = ends(), "exit statuses and signals that count as success, besides status 0: `[3, SIGTERM]`";
        means "group" group = name().optional(), "none", "the name of its group";
        by "lifecycle" lifecycle = |spec, seen| lifecycle(seen.and_then(|seen| known_kind(spec, seen))),
            "a main", "its part in that group";
        key "required" required = boolean(), "whether the host's health and the end of the boot wait for it";
        key "partOf" part_of if Units = others("partOf"),
            "services whose stop or restart, asked for by an operator, [is one of this service too](#partof-refuses)";
        key "conflicts" conflicts if Units = others("conflicts"),
            "services that [do not run beside it](#conflicts)";
        key "refuses" refuses if Units = refuses(),
            "requests of operators that Kelson refuses: `start`, `stop`";
        key "readiness" (readiness_at) = readiness(), "how it reports that it is ready";
        means "watchdog" watchdog if Units = duration_from(SHORTEST).optional(), "none",
            "once it is ready, a `WATCHDOG=1` has to come to its notify socket [within this time](#watchdog) again and again";
        key "startTimeout" start_timeout = start_timeout(),
            "the longest time from the spawn until the service is ready, and until it is healthy for the \
             first time if a [check](#health) may restart it; a run that takes longer has failed. \
             `none`: no limit. It has no effect without readiness and such a check";
        key "health" health = checks(CheckOf::Service), "checks that must all pass for it to be up";
        by "hooks" hooks = |spec, seen| hooks(is_container(spec, seen)), "", "commands around each run";
        key "reload" reload if Units = Mapping::codec(reload), "what `kelsonctl reload NAME` does";
        key "resumed" resumed = Mapping::codec(resumed),
            "what it gets after the machine was [resumed from a snapshot](#resumed)";
        key "onFailure" on_failure if Units = others("onFailure"),
            "services that [start](#onfailure-onsuccess) once it has failed and `restart` does not start it again";
        key "onSuccess" on_success if Units = others("onSuccess"),
            "services that [start](#onfailure-onsuccess) once it has finished with success";
        key "onExit" on_exit = choice([("ignore", OnExit::Ignore), ("stop", OnExit::Stop)]),
            "`stop`: once the service has ended and `restart` does not start it again, \
             [the host stops](#onexit), with its exit status";
    };
    let mapping = mapping.own(
        ("stop", "", "how it is stopped"),
        || (Mapping::codec(stop).kind)(),
        |d, seen, spec| {
            spec.stop = seen.read(d, "stop", |d, node| stop().decode(d, node)).unwrap_or_default();
            if let Workload::Container(container) = &mut spec.workload {
                container.stop_signal_of_image =
                    seen.get("stop").is_none_or(|stop| stop.get("signal").is_none());
            }
        },
        stop_as_written,
    );
    let mapping = keys! {
        user(mapping);
        key "resources" resources = Mapping::codec(resources), "the limits of its cgroup";
        key "delegate" delegate = boolean(),
            "`true`: its user may make cgroups below its own and use every controller there. See \
             [delegate](#delegate)";
        means "limits" limits = Mapping::codec(limits),
            "those of PID 1; a container also has `nofile: {soft: 1024, hard: 524288}`", "rlimits";
    };
    let mapping = keys! {
        attributes(mapping);
        means "directories" directories if Units = Mapping::codec(directories), "none",
            "folders below `/run`, `/var/lib`, `/var/cache`, `/var/log` and `/etc` that it is given; not for a container";
        means "volumes" volumes if Volumes = volumes(), "none",
            "[folders of the host, file systems of disks and in memory, and volumes of plugins](#volumes) that it sees at paths of its own";
        means "provides" provides if Volumes = plugin::provides().optional(), "nothing",
            "the [plugin for volumes](#provides) that it is";
        means "register" register if Fleet = fleet::register().optional(), "nothing",
            "what it [registers in the fleet](#register) while it is up";
        means "disconnect" disconnect if Fleet = fleet::disconnect().optional(), "it runs on",
            "when it [stops because the host is cut off](#disconnect) from its fleet";
        means "templates" templates if Fleet = templates(), "none",
            "[files](#templates) that it gets with what is registered in the fleet";
        means "sockets" sockets if Units = sockets(), "none",
            "[sockets](#sockets) that PID 1 holds for it, across its restarts and PID 1's own; not for a container";
        means "paths" paths if Units = paths(), "none",
            "[files and folders](#paths) that start it when they come or change; the boot does not start it then";
        key "removeIpc" remove_ipc if Units = boolean(),
            "`true`: with the service goes [what its user has left](#removeipc) in System V IPC, `/dev/shm` and `/dev/mqueue`";
        by "security" security = |spec, _| security(held(spec)), "", "privileges";
        key "api" api = choice(access), "the calls of PID 1 and logd that its processes may make";
        key "logs" logs = Mapping::codec(logs), "its log";
    };
    mapping.one_of(&["process", "container", "target"]).check(combination::check)
}

fn refuses() -> Codec<Vec<RefusedRequest>> {
    choice([("start", RefusedRequest::Start), ("stop", RefusedRequest::Stop)])
        .list("a list such as [start, stop]")
}

fn is_container(spec: &ServiceSpec, seen: Option<&Seen<'_, '_>>) -> bool {
    seen.map_or_else(|| spec.container().is_some(), |seen| seen.has("container"))
}

/// The file says so, or says nothing.
fn known_kind(spec: &ServiceSpec, seen: &Seen<'_, '_>) -> Option<ServiceKind> {
    (!seen.is_wrong("type")).then_some(spec.kind)
}

/// Why the service cannot be restarted with its group.
fn no_group(seen: &Seen<'_, '_>) -> Option<&'static str> {
    let text = "the service is in no group; write group: NAME too, or leave scope out";
    (!seen.has("group")).then_some(text)
}

/// The capabilities that `drop` takes from and `add` adds to.
fn held(spec: &ServiceSpec) -> u64 {
    if spec.container().is_some() { CONTAINER_CAPABILITIES } else { ALL_CAPABILITIES }
}

/// The stop as the file has it. An image's signal counts only where the file has none.
fn stop_as_written(spec: &ServiceSpec, extent: Extent) -> Json {
    let shown = stop().encode(&spec.stop, extent);
    let (Json::Map(mut entries), Some(container)) = (shown.clone(), spec.container()) else { return shown };
    entries.retain(|(key, _)| key != "signal");
    if !container.stop_signal_of_image {
        let signal = kelson_spec::kernel::signal_name(spec.stop.signal);
        entries.insert(0, ("signal".to_owned(), Json::Text(signal)));
    }
    Json::Map(entries)
}

fn unreserved_name() -> Codec<String> {
    own_name().around(|d, node, inner| {
        let before = d.diagnostics.len();
        let name = inner(d, node)?;
        if d.diagnostics.len() == before && is_reserved(&name) {
            d.wrong(node.at, format_args!("{name} is the name of a part of Kelson; choose another"));
        }
        Some(name)
    })
}

/// References come in the order `depends`, `after`, `when`, and are read in the reverse of it.
fn references_first<T: 'static>(codec: Codec<T>) -> Codec<T> {
    codec.around(|d, node, inner| {
        let before = std::mem::take(&mut d.references);
        let read = inner(d, node);
        d.references.extend(before);
        read
    })
}
