//! The bounds of a service: cgroup resources, rlimits, privileges; its stop, and its log.

use std::path::{Component, Path};
use std::time::Duration;

use super::at::At;
use super::codec::{Codec, either};
use super::mapping::{Mapping, keys};
use super::sandbox::with_sandbox;
use super::values::{boolean, choice, cpus, duration, number, scalar, size, some_text, time_limit};
use crate::decode::quoted;
use crate::json::Json;
use crate::schema::{Kind, form};
use kelson_spec::kernel;
use kelson_spec::near::near;
use kelson_spec::service::{
    DeviceAccess, LogSpec, ResourceLimit, Resources, Seccomp, Security, Stdout, StopMode, StopSpec,
};
use kelson_spec::units::{self, NEVER};

/// The least that a cgroup's `memory.max` may be: below it nothing can be spawned.
const LEAST_MEMORY: u64 = 64 << 10;
/// The kernel's own bound on PIDs.
const MOST_PIDS: u64 = 4_194_304;

pub fn resources() -> Mapping<Resources> {
    let memory = || size(LEAST_MEMORY).optional();
    keys! {
        Mapping::new("resources", Resources::default);
        means "memoryMax" memory_max = memory(), "no limit",
            "`memory.max`: above this size the kernel kills a process of the service";
        means "memoryHigh" memory_high = memory(), "no limit",
            "`memory.high`: above this size the kernel slows the service down";
        means "cpuMax" cpu_max_millis = cpus().optional(), "no limit", "`cpu.max`, with a period of 100 ms";
        means "cpuWeight" cpu_weight = number(1..=10_000).optional(), "the kernel's 100", "`cpu.weight`";
        means "ioWeight" io_weight if Units = number(1..=10_000).optional(), "the kernel's 100",
            "`io.weight`: its share of disks that are busy";
        means "pidsMax" pids_max = number(1..=MOST_PIDS).optional(),
            "15 % of [what the host can have](machine-file.md#what-pid-1-keeps-for-itself)",
            "`pids.max`; threads count too";
    }
}

/// The rlimits.
pub fn limits() -> Mapping<Vec<ResourceLimit>> {
    kernel::LIMITS.into_iter().fold(Mapping::new("limits", Vec::new), |mapping, (name, resource)| {
        let at = At::new(
            move |limits: &Vec<ResourceLimit>| {
                limits.iter().find(|limit| limit.resource == resource).copied()
            },
            move |limits, limit: ResourceLimit| limits.push(ResourceLimit { resource, ..limit }),
        );
        mapping.means(name, at, limit(), "PID 1's", "for soft and hard alike, or `{soft: …, hard: …}`")
    })
}

/// One value for both, or `{soft: , hard: }`.
fn limit() -> Codec<ResourceLimit> {
    let both = Mapping::codec(|| {
        keys! {
            Mapping::new("limit", || ResourceLimit { resource: 0, soft: 0, hard: 0 });
            needed "soft" soft = limit_value(), "soft: NUMBER", "the limit in force; not above `hard`";
            needed "hard" hard = limit_value(), "hard: NUMBER", "the limit up to which the service may \
             raise `soft`";
        }
        .check(|d, seen, limit| {
            if seen.is_right("soft") && seen.is_right("hard") && limit.soft > limit.hard {
                let at = seen.get("soft").map_or(seen.node.at, |value| value.at);
                d.wrong(at, "soft is above hard; the kernel refuses that");
            }
        })
    });
    let (one, shown_one, shown) = (limit_value(), limit_value(), both.clone());
    Codec::new(
        either(&one, &both),
        move |d, node| match node.is_mapping() {
            true => both.decode(d, node),
            false => one.decode(d, node).map(|n| ResourceLimit { resource: 0, soft: n, hard: n }),
        },
        move |limit, extent| match limit.soft == limit.hard {
            true => shown_one.encode(&limit.soft, extent),
            false => shown.encode(limit, extent),
        },
    )
}

fn limit_value() -> Codec<u64> {
    scalar(
        || Kind::Either(vec![Kind::Size(0), Kind::Choice(vec!["unlimited"])]),
        "a number, a size or unlimited",
        |text| match text {
            "unlimited" => Ok(u64::MAX),
            text => units::size(text)
                .ok_or_else(|| format!("{} is not a number, a size or unlimited", quoted(text))),
        },
        |value| if *value == u64::MAX { Json::text("unlimited") } else { Json::Number(*value) },
    )
}

/// A field of the view of the file system.
macro_rules! of_view {
    ($field:ident) => {
        At::new(
            |security: &Security| Some(security.view.$field.clone()),
            |security: &mut Security, value| security.view.$field = value,
        )
    };
}

/// A namespace of its own.
macro_rules! of_own {
    ($field:ident) => {
        At::new(
            |security: &Security| Some(security.own.$field),
            |security: &mut Security, value| security.own.$field = value,
        )
    };
}

/// `held`: the capabilities of a workload that is given and denied none.
pub fn security(held: u64) -> Mapping<Security> {
    let profiles = [("default", Seccomp::Default), ("unconfined", Seccomp::Unconfined)];
    let capabilities = At::new(
        move |security: &Security| Some(capabilities_of(security, held)),
        move |security: &mut Security, (drop, add): (u64, u64)| {
            let mask = held & !drop | add;
            security.capabilities = (mask != held).then_some(mask);
            security.ambient = add;
        },
    );
    let security = keys! {
        Mapping::new("security", Security::default);
        key "noNewPrivileges" no_new_privileges = boolean(),
            "`true`: setuid programs and file capabilities grant no privileges";
        key "readOnlyRoot" read_only_root = boolean(),
            "`true`: the service has a mount namespace of its own in which each mount is read-only, \
             `/run` and `/tmp` too; [later mounts](boot.md#mounts-of-services) become read-only when \
             they arrive. For a container it applies to the root only, not to its `mounts`";
        key "capabilities" (capabilities) = Mapping::codec(capability_lists),
            "all capabilities (for a container [the usual ones](#container)) without those in `drop`, \
             plus those in `add`";
        key "seccomp" seccomp = choice(profiles),
            "`default`: the profile that container runtimes use. `unconfined`: no filter";
        key "readOnlyPaths" (of_view!(read_only)) if Units = view_paths(false),
            "paths that the process sees [read-only](#file-view), with all that is mounted below";
        key "writablePaths" (of_view!(writable)) if Units = view_paths(false),
            "paths that stay as they are below a read-only one, or with `readOnlyRoot`";
        key "hiddenPaths" (of_view!(hidden)) if Units = view_paths(false),
            "folders and files that the process sees empty";
        key "privateTmp" (of_view!(private_tmp)) if Units = boolean(),
            "`true`: `/tmp` and `/var/tmp` of the service are its own, in memory";
        key "privateDevices" (of_view!(private_devices)) if Units = boolean(),
            "`true`: `/dev` has `null`, `zero`, `full`, `random`, `urandom`, `tty`, terminals, `shm`, `mqueue` and `log` alone";
        key "privateNetwork" (of_own!(network)) if Units = boolean(),
            "`true`: the process has a [network of its own](#privatenetwork-privateusers), the loopback interface alone";
        key "privateUsers" (of_own!(users)) if Units = boolean(),
            "`true`: of all users the process knows [root and its own alone](#privatenetwork-privateusers)";
        key "noExecPaths" (of_view!(no_exec)) if Units = view_paths(true),
            "paths from which the process can execute nothing";
        key "execPaths" (of_view!(exec)) if Units = view_paths(false),
            "paths from which it can, below one of those";
        key "bindPaths" (of_view!(bind)) if Units = binds(),
            "`SOURCE:TARGET`: what is at the first path, [is at the second too](#file-view)";
        key "bindReadOnlyPaths" (of_view!(bind_read_only)) if Units = binds(),
            "the same, read-only";
        means "devices" devices if Units = Mapping::codec(device_access).optional(), "all",
            "the [devices](#devices-of-a-process) that the process can open, whatever `/dev` has";
    };
    with_sandbox(security)
}

/// The devices of a process.
fn device_access() -> Mapping<DeviceAccess> {
    let usual = At::new(
        |access: &DeviceAccess| Some(!access.no_usual),
        |access: &mut DeviceAccess, usual: bool| access.no_usual = !usual,
    );
    keys! {
        Mapping::new("device-access", DeviceAccess::default);
        key "allow" allow = device().list("a list of devices such as [/dev/net/tun]"),
            "paths below `/dev`, and `char-NAME` and `block-NAME` of `/proc/devices`; with `:r`, `:w` or `:rw` after it not all of \
             `rwm` (`m`: create nodes)";
        key "usual" (usual) = boolean(),
            "`true`: also `null`, `zero`, `full`, `random`, `urandom`, `tty`, `ptmx` and pseudoterminals";
    }
}

fn device() -> Codec<String> {
    let kind = || form("device", "^(/dev/[^:]+|(char|block)-[^:/]+)(:[rwm]{1,3})?$", "/dev/net/tun");
    some_text().of_kind(move || Kind::Form(kind())).but(|text: &String| {
        let (device, access) = text.rsplit_once(':').unwrap_or((text, "rwm"));
        (!DeviceAccess::is_device(device, access)).then(|| {
            format!("{} is not a device; write such as /dev/net/tun, /dev/sda:r or char-rtc", quoted(text))
        })
    })
}

/// From the root, without `.` and `..`.
fn is_plain(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    path.starts_with('/') && parts.all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// Pairs of paths with `:` between them, perhaps with `-` before the first.
fn binds() -> Codec<Vec<String>> {
    let kind = || Kind::Form(form("paths", "^-?/[^:]*:/[^:]+$", "/srv/shop:/mnt"));
    let one = some_text().of_kind(kind).but(|text: &String| {
        let both = text.strip_prefix('-').unwrap_or(text).split_once(':');
        let is_right = both.is_some_and(|(source, target)| {
            is_plain(source) && is_plain(target) && target != "/" && !target.contains(':')
        });
        (!is_right).then(|| {
            format!(
                "{} is not two paths from the root; write SOURCE:TARGET, without . and .. in it",
                quoted(text)
            )
        })
    });
    one.list("a list such as [/srv/shop:/mnt]")
}

/// Paths, each with `-` before it if it may be missing; with `root` also `/` alone.
fn view_paths(root: bool) -> Codec<Vec<String>> {
    let one =
        some_text().of_kind(|| Kind::Form(form("path", "^-?/", "-/srv/shop"))).but(move |text: &String| {
            let path = text.strip_prefix('-').unwrap_or(text);
            match (path.starts_with('/'), is_plain(path) && (root || path != "/")) {
                (false, _) => {
                    Some(format!("{} is not a path from the root; write it with / first", quoted(text)))
                }
                (true, false) => {
                    Some("the whole root is readOnlyRoot, and a path has no . or .. in it".to_owned())
                }
                (true, true) => None,
            }
        });
    one.list("a list of paths")
}

/// The capabilities that `drop` and `add` name.
fn capabilities_of(security: &Security, held: u64) -> (u64, u64) {
    let mask = security.capabilities.unwrap_or(held);
    let gone = held & !mask;
    // `add` brings back the only ones.
    let all = gone == held || (gone != 0 && mask == security.ambient);
    (if all { kernel::ALL_CAPABILITIES } else { gone }, security.ambient)
}

fn capability_lists() -> Mapping<(u64, u64)> {
    let drop = At::new(|(drop, _): &(u64, u64)| Some(*drop), |lists, drop| lists.0 = drop);
    let add = At::new(|(_, add): &(u64, u64)| Some(*add), |lists, add| lists.1 = add);
    keys! {
        Mapping::new("capabilities", || (0, 0));
        key "drop" (drop) = capabilities(), "names such as `net_bind_service`, `CAP_CHOWN`, or `all`";
        key "add" (add) = capabilities(), "capabilities that the service also has if its user is not \
             root";
    }
}

/// Names of capabilities as they are in capabilities(7), or `all`.
fn capabilities() -> Codec<u64> {
    let one = some_text().parsed(
        |text| {
            if text == "all" {
                return Ok(kernel::ALL_CAPABILITIES);
            }
            let bit = kernel::capability(text).and_then(|number| 1_u64.checked_shl(number));
            bit.ok_or_else(|| {
                let near = near(text.trim_start_matches("CAP_"), kernel::CAPABILITIES);
                let hint = near.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
                format!("{} is not a capability{hint}", quoted(text))
            })
        },
        |mask| {
            let place = usize::try_from(mask.trailing_zeros()).ok();
            match place.and_then(|place| kernel::CAPABILITIES.get(place)) {
                Some(name) if mask.is_power_of_two() => (*name).to_owned(),
                _ => "all".to_owned(),
            }
        },
    );
    let kind = || {
        let words = std::iter::once("all").chain(kernel::CAPABILITIES).collect();
        Kind::Either(vec![Kind::Choice(words), Kind::Form(form("capability", "^CAP_[A-Z_]+$", "CAP_CHOWN"))])
    };
    one.of_kind(kind).list("a list of capabilities").parsed(
        |list| Ok::<_, &str>(list.iter().fold(0, |mask, bits| mask | bits)),
        |mask| match *mask {
            kernel::ALL_CAPABILITIES => vec![kernel::ALL_CAPABILITIES],
            mask => (0..u64::BITS)
                .filter_map(|bit| 1_u64.checked_shl(bit))
                .filter(|bit| mask & bit != 0)
                .collect(),
        },
    )
}

pub fn stop() -> Mapping<StopSpec> {
    let modes = [
        ("main", StopMode::Main),
        ("cgroup", StopMode::Cgroup),
        ("process", StopMode::Process),
        // The words of systemd.
        ("mixed", StopMode::Main),
        ("control-group", StopMode::Cgroup),
    ];
    let zero = "may mean either; write now to kill it at once, or none to wait for as long as it takes";
    keys! {
        Mapping::new("stop", StopSpec::default);
        key "signal" signal = signal(),
            "the signal to the main process: `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`. A container gets the \
             signal of its image if the file names none";
        key "timeout" timeout = time_limit(&[("none", NEVER), ("now", Duration::ZERO)], zero),
            "the time from the signal until Kelson kills the whole cgroup. `now`: at once. `none`: \
             never; only [`shutdown.timeout`](machine-file.md) bounds the stop";
        key "delay" delay = duration(),
            "the time between \"no longer up\" and the signal, in which no new client is routed to the \
             service. It ends early when the process ends. A service that is stopped because it failed, \
             and that was not up, has no delay";
        key "mode" mode if Units = choice(modes),
            "`main` or `mixed`: the signal goes to the main process. `cgroup` or `control-group`: to all processes of \
             the service, and `timeout` is for all of them. `process`: to the main process, and what it leaves behind \
             [runs on](#stop)";
        key "hangUp" hang_up if Units = boolean(), "`true`: SIGHUP follows the signal, for shells";
        means "finalSignal" final_signal if Units = signal().optional(), "SIGKILL alone",
            "the signal after `timeout`, such as SIGABRT for a core dump, and SIGKILL comes 5 s after it";
    }
}

pub fn signal_form() -> Kind {
    let names: Vec<&str> = kernel::signal_names().collect();
    let pattern = format!(r"^(SIG)?({}|RTMIN(\+[0-9]+)?|RTMAX(-[0-9]+)?)$", names.join("|"));
    Kind::Form(form("signal", &pattern, "SIGTERM"))
}

/// A signal by its name or number.
pub fn signal() -> Codec<i32> {
    let kind = || Kind::Either(vec![signal_form(), Kind::Number(1..=64)]);
    let name = |signal: &i32| kernel::signal_name(*signal);
    some_text().of_kind(kind).parsed(|text| kernel::parse_signal(text), name)
}

pub fn logs() -> Mapping<LogSpec> {
    keys! {
        Mapping::new("logs", LogSpec::default);
        key "maxSize" max_size = size(4096), "the size at which a file is rotated";
        key "maxFiles" max_files = number(1..=100), "the number of files, the current one included";
        means "rateLimit" rate_limit = number(1..=10_000).optional(), "all lines are kept",
            "the most lines that logd keeps in a second; it counts and drops the others";
        key "console" console = boolean(), "`true`: logd also writes the lines to `/dev/console`";
        means "stdout" stdout = stdout().optional(), "as `logs` of the [machine file](machine-file.md#logs)",
            "`true`: logd also writes the lines to the standard output and error of `init`, where \
             container engines collect them. `prefix`: with the name of the service before each line. \
             `only`: the service itself writes there, and logd keeps nothing";
    }
}

/// What goes to PID 1's own output.
pub fn stdout() -> Codec<Stdout> {
    let words = [
        ("false", Stdout::Nothing),
        ("true", Stdout::Copy),
        ("prefix", Stdout::Named),
        ("only", Stdout::Only),
    ];
    let word = choice(words);
    let kind = || Kind::Either(vec![Kind::Boolean, Kind::Choice(vec!["prefix", "only"])]);
    let read = word.clone();
    Codec::new(
        kind,
        move |d, node| read.decode(d, node),
        move |value, extent| match value {
            Stdout::Nothing | Stdout::Copy => Json::Bool(*value == Stdout::Copy),
            Stdout::Named | Stdout::Only => word.encode(value, extent),
        },
    )
}
