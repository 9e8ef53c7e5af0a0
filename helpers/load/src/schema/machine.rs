//! The keys of the machine file.

use std::time::Duration;

use super::kinds::{
    address, choice, duration, duration_from, duration_within, environment, environment_files, form,
    host_name, path, start_timeout, word,
};
use super::requirement::requirement;
use super::service::{limits, logs, restart, stop};
use super::{Key, Kind, Mapping, checks, confinement, needed, with, without};

/// The whole file.
pub fn machine() -> Mapping {
    let module = form("name of a module", "^[A-Za-z0-9_-]+$", "virtio_net");
    let part = "[A-Za-z0-9_:-]+";
    let setting = form("name", &format!("^{part}([./]{part})+$"), "net.ipv4.ip_forward");
    let keys = [
        without(
            "hostname",
            host_name(),
            "`ip=` of the kernel's command line, else `/etc/hostname`, else `kelson`",
            "letters, digits, `-` and `.`, at most 64",
        ),
        with(
            "modules",
            Kind::Form(module).list(),
            "[]",
            "loaded in this order with what they depend on. One that fails does not keep the others",
        ),
        with(
            "sysctl",
            Kind::Map(setting, Box::new(Kind::Text)),
            "{}",
            "set in the file's order. A dot parts the name (`net.ipv4.ip_forward`), and a `/` stands for a dot within a part, as \
             sysctl(8) has it. One that fails does not keep the others",
        ),
        with(
            "network",
            Kind::Mapping(interface).list(),
            "[]",
            "interfaces with static addresses. The loopback always comes up",
        ),
        with("mounts", Kind::Mapping(mount).list(), "[]", "file systems"),
        without("api", Kind::Mapping(api), "no apid", "the API endpoint on the network"),
        with("builtins", Kind::Mapping(builtins), "{}", "changes to the built-in services"),
        with(
            "health",
            Kind::Mapping(health),
            "{minimum: 10s, deadline: 5m}",
            "when the host counts as healthy, and when as failed",
        ),
        with(
            "shutdown",
            Kind::Mapping(shutdown),
            "{timeout: 60s}",
            "how long [a shutdown](shutdown.md) may take",
        ),
        without(
            "watchdog",
            Kind::Either(vec![choice(&["off"]), Kind::Mapping(watchdog)]),
            "`/dev/watchdog`, if there is one, with 30 s",
            "the hardware watchdog",
        ),
        with(
            "images",
            path().list(),
            "[/usr/share/kelson/images]",
            "folders of [service images](images.md), read at the boot",
        ),
    ];
    Mapping::new("machine", keys)
}

fn interface() -> Mapping {
    let device = form("name of an interface", "^[!-.0-9;-~]{1,15}$", "eth0");
    let network = form("address with its prefix", "^[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]*/[0-9]+$", "192.0.2.15/24");
    let keys = [
        needed("interface", Kind::Form(device), "at most 15 letters"),
        needed("address", Kind::Form(network), "IPv4 or IPv6"),
        without(
            "gateway",
            address(),
            "none",
            "a default route through it. It must be within the network of `address`, or link-local (IPv6)",
        ),
        with(
            "dns",
            address().list(),
            "[]",
            "name servers, written to `/etc/resolv.conf`: a link to `/run/kelson/resolv.conf`, unless somebody else's link is there",
        ),
        with("dhcp", Kind::Boolean, "false", "`true` is refused: DHCP is not supported"),
    ];
    Mapping::new("interface", keys)
}

fn mount() -> Mapping {
    let keys = [
        needed(
            "source",
            word("text", "LABEL=STATE"),
            "a device path, `LABEL=…`, `UUID=…`, or what the file system takes (`tmpfs`). Labels and UUIDs are read from the disks \
             themselves; there is no udev. `PARTUUID=` is not supported",
        ),
        needed("target", path(), "made if it is not there. `/` changes the options of the root"),
        needed("type", word("text", "ext4"), "`ext4`, `tmpfs`, … or `auto`"),
        with(
            "options",
            Kind::Text.list(),
            "[]",
            "those of mount(8) that are the kernel's, and the file system's own",
        ),
    ];
    Mapping::new("mount", keys)
}

fn api() -> Mapping {
    let listen = form("`ADDRESS:PORT`", r"^(\[[0-9A-Fa-f.:%]+\]|[0-9.]+):[0-9]+$", "0.0.0.0:50000");
    let keys = [
        needed("listen", Kind::Form(listen).list_of(1, usize::MAX), "where it takes calls"),
        needed("ca", path(), "a file in PEM: what has signed the certificates of those who may call"),
        needed("certificate", path(), "a file in PEM: the machine's own"),
        needed("key", path(), "a file in PEM: the key of that"),
        with(
            "connectionLifetime",
            duration_from(Duration::from_secs(1)),
            "1h",
            "after this time a connection [takes no new calls](api.md#how-long-a-connection-lasts), so that its client connects again",
        ),
    ];
    Mapping::new("api", keys)
}

fn builtins() -> Mapping {
    let key = |name, mapping, about| without(name, Kind::Mapping(mapping), "as it is", about);
    let keys = [
        key("apid", builtin, "the API endpoint on the network"),
        key("containerd", builtin, "runs services from images"),
        key("logd", helper, "collects logs"),
        key("probe", helper, "runs the `tcp`, `http` and `grpc` checks"),
    ];
    Mapping::new("builtins", keys)
}

fn builtin() -> Mapping {
    let whole = "takes the place of its own as a whole: what is left out has the default of a service file";
    let keys = [
        without(
            "enabled",
            Kind::Boolean,
            "where it is needed",
            "`false` switches it off from the next boot on (what runs goes on running), `true` switches `containerd` on where nothing \
             needs it",
        ),
        with("environment", environment(), "{}", "laid over its own"),
        with("environmentFiles", environment_files(), "[]", "laid over its own"),
        with(
            "depends",
            Kind::Mapping(requirement).list(),
            "[]",
            "added to what it waits for. `containerd` cannot wait for a container",
        ),
        without(
            "restart",
            Kind::Mapping(restart),
            "its own",
            "takes the place of its own; `scope: group` is a mistake, as no built-in service is in a group",
        ),
        without(
            "required",
            Kind::Boolean,
            "`true`",
            "`false`: the [host's health](#health) does not wait for it",
        ),
        without("startTimeout", start_timeout(), "its own", "takes the place of its own"),
        with("health", checks::checks(), "[]", "checks besides its own"),
        without("stop", Kind::Mapping(stop), "its own", whole),
        resources(),
        with("limits", Kind::Mapping(limits), "{}", "each takes the place of its own of that name"),
        without("logs", Kind::Mapping(logs), "its own", whole),
    ];
    Mapping::new("builtin", keys)
}

fn resources() -> Key {
    without(
        "resources",
        Kind::Mapping(confinement::resources),
        "its own",
        "takes the place of its own as a whole",
    )
}

fn helper() -> Mapping {
    Mapping::new("helper", [resources()])
}

fn health() -> Mapping {
    let keys = [
        with(
            "minimum",
            duration(),
            "10s",
            "how long without a break. `0s`: at once. Where `deadline` is shorter than this default, so is `minimum`",
        ),
        with(
            "deadline",
            duration_from(Duration::from_secs(1)),
            "5m",
            "after so long without that, the host has failed, and each culprit is named with its reason. Not less than \
             `minimum`. Where `minimum` alone is written, at least twice that",
        ),
    ];
    Mapping::new("host-health", keys)
}

fn shutdown() -> Mapping {
    let timeout = duration_from(Duration::from_secs(1));
    Mapping::new(
        "shutdown",
        [with("timeout", timeout, "60s", "the total deadline for stopping services at the end of the run")],
    )
}

fn watchdog() -> Mapping {
    let timeout = duration_within(Duration::from_secs(5)..=Duration::from_secs(3600));
    let keys = [
        with("device", path(), "/dev/watchdog", "where it is"),
        with(
            "timeout",
            timeout,
            "30s",
            "in whole seconds. A device that cannot have it keeps its own, and the event says which",
        ),
    ];
    Mapping::new("watchdog", keys)
}
