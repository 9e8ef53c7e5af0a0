//! The machine file. A wrong part is left out; the rest of it holds.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use super::at::{At, at};
use super::checks::{CheckOf, check_volumes, checks};
use super::codec::{Codec, part};
use super::confinement::{limits, logs, resources, stdout, stop};
use super::console::console;
use super::devices::devices;
use super::encryption::{encryption, name_of_two};
use super::environment::environments;
use super::fleet::fleet;
use super::group::{LEAST_DEADLINE, within_deadline};
use super::hooks::hooks;
use super::images::{Images, images};
use super::kexec::kexec;
use super::mapping::{Mapping, keys};
use super::mount::mount;
use super::network::interface;
use super::partitions::{named_twice, partitions};
use super::ports::container_network;
use super::registries::registries;
use super::requirement::{Use, requirements};
use super::restart::restart;
use super::service::service_file;
use super::sources::sources;
use super::swap::swap;
use super::time::time;
use super::values::{
    boolean, duration, duration_from, duration_within, host_name, map, name, path, start_timeout, text, word,
};
use crate::decode::{Decoder, quoted};
use crate::schema::Kind;
use crate::tree::{Node, Position, Value};
use kelson_spec::builtin::{self, BUILTINS, Builtin, Changes};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::machine::{ApiSpec, BuiltinSpec, MachineSpec, NodeHealthSpec, WatchdogSpec};
use kelson_spec::near::near;
use kelson_spec::service::{ServiceKind, Stdout};

/// A watchdog of less would take a busy machine for a dead one.
const SHORTEST_WATCHDOG: Duration = Duration::from_secs(5);
/// More than any device counts to.
const LONGEST_WATCHDOG: Duration = Duration::from_secs(3600);
/// With connections of less, clients would do little but make handshakes.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(1);

/// The machine file, and where the `depends` of each of its `builtins` name services, and where `main` does: the file, and
/// the places in it.
#[derive(Debug, Clone, Default)]
pub struct DecodedMachine {
    pub spec: MachineSpec,
    pub builtins: (PathBuf, Vec<Vec<Position>>),
    pub main: (PathBuf, Option<Position>),
}

/// Decodes the tree of the machine file. What it does not say is as in `below`.
pub fn machine(d: &mut Decoder<'_>, root: &Node, below: DecodedMachine) -> DecodedMachine {
    let DecodedMachine { spec, mut builtins, mut main } = below;
    let spec = Rc::new(spec);
    let decoded = machine_file(&spec).decode(d, root).unwrap_or_else(|| (*spec).clone());
    if let Some(node) = root.get("main") {
        main = (d.file.to_owned(), Some(node.at));
    }
    if root.get("builtins").is_some() {
        builtins = (d.file.to_owned(), std::mem::take(&mut d.builtin_references));
    }
    DecodedMachine { spec: decoded, builtins, main }
}

/// The whole file, with these defaults.
pub fn machine_file(defaults: &Rc<MachineSpec>) -> Mapping<MachineSpec> {
    let (initial, before_shutdown) = (Rc::clone(defaults), defaults.shutdown_timeout);
    let module = word("name of a module", "^[A-Za-z0-9_-]+$", "virtio_net").but(|text| {
        let sound = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        (!sound)
            .then(|| format!("{} is not the name of a kernel module; write such as virtio_net", quoted(text)))
    });
    let setting = ("name", "^[A-Za-z0-9_:-]+([./][A-Za-z0-9_:-]+)+$", "net.ipv4.ip_forward");
    let watchdog = Mapping::codec(watchdog);
    let kind = watchdog.kind.clone();
    let watchdog = watchdog
        .around(|d, node, inner| match node.scalar() {
            Some(text) => {
                let text =
                    format_args!("{} is not off; write off, or keys such as {{timeout: 30s}}", quoted(text));
                d.refuse(node, text)
            }
            None => inner(d, node),
        })
        .optional()
        .of_kind(move || Kind::Either(vec![Kind::Choice(vec!["off"]), kind()]))
        .around(|d, node, inner| if node.is("off") { Some(None) } else { inner(d, node) });
    let encrypted = part(Feature::Disks, || {
        Mapping::codec(encryption).list("a list of encrypted disks").but(|disks| name_of_two(disks))
    });
    let partitions = part(Feature::Disks, || {
        Mapping::codec(partitions).list("a list of disks").but(|disks| named_twice(disks))
    });
    let defaults = Images { folders: defaults.images.clone(), verify: defaults.verify.clone() };
    let images = part(Feature::Containerd, || images(&defaults));
    let images_at = At::new(
        |spec: &MachineSpec| Some(Images { folders: spec.images.clone(), verify: spec.verify.clone() }),
        |spec: &mut MachineSpec, images| (spec.images, spec.verify) = (images.folders, images.verify),
    );
    keys! {
        Mapping::new("machine", move || (*initial).clone());
        means "hostname" hostname = host_name().optional(),
            "`ip=` of the kernel's command line, else `/etc/hostname`, else `kelson`",
            "letters, digits, `-` and `.`, at most 64";
        key "modules" modules = module.list("a list of kernel modules"),
            "kernel modules, loaded in this order with their dependencies. One that fails does not \
             prevent the others. `MODULE.PARAMETER=VALUE` on the kernel's command line gives a module a parameter";
        key "sysctl" sysctl = map(setting, "give it one or remove it", |key, _| setting_mistake(key), text()),
            "kernel parameters, set in the order of the file. A dot separates the parts of a name \
             (`net.ipv4.ip_forward`), and a `/` stands for a dot within a part, as in sysctl(8). One \
             that fails does not prevent the others";
        key "network" network = Mapping::codec(interface).list("a list of interfaces"),
            "interfaces with static addresses, or with addresses [by DHCP](howto/network.md#dhcp). Kelson always brings up the loopback interface";
        means "nftables" nftables if Net = path().optional(), "Kelson loads no rules",
            "a file of rules for the firewall, which the boot has [`nft`](howto/network.md#the-firewall) load before \
             it sets up interfaces";
        key "partitions" partitions = partitions, "disks with their partitions: those that a disk lacks are \
             [made](howto/disks.md#partitions), before disks are mounted";
        key "encryption" encryption = encrypted, "encrypted disks, which the boot [opens](howto/disks.md#encrypted-disks) \
             before it mounts what is in them";
        key "mounts" mounts = Mapping::codec(mount).list("a list of mounts"), "file systems";
        key "swap" swap if Disks = Mapping::codec(swap).list("a list of swap areas"), "disks, files and compressed memory for \
             [swap](howto/disks.md#swap)";
        means "api" api if Apid = Mapping::codec(api).optional(), "no apid", "the API endpoint on the network";
        key "builtins" builtins = builtins(), "changes to the built-in services";
        key "health" health = Mapping::codec(health), "when the host counts as healthy, and when as failed";
        key "shutdown" shutdown_timeout = Mapping::codec(move || shutdown(before_shutdown)),
            "how long [a shutdown](shutdown.md) may take";
        means "watchdog" watchdog = watchdog, "`/dev/watchdog`, if there is one, with 30 s",
            "the hardware watchdog";
        key "images" (images_at) = images,
            "folders of [service images](images.md), or with `verify` also which images may run";
        means "containerNetwork" container_network if Containerd = Mapping::codec(container_network),
            "the bridge `kelson0` with 10.88.0.0/16 and fd6b:656c:736f::/64",
            "the network of [containers with addresses of their own](howto/container-network.md)";
        means "registries" registries if Pull = Mapping::codec(registries), "public CAs, and no limit",
            "how images are [pulled from registries](howto/registry.md)";
        means "main" main = name().optional(), "none",
            "the service whose end is [the end of the host](#main), with its exit status";
        means "time" time if Timesync = Mapping::codec(time).optional(), "Kelson does not set the clock after the boot",
            "[servers](howto/time.md) from which the built-in service `timesync` takes the time";
        means "devices" devices if Devices = Mapping::codec(devices).optional(), "Kelson does not follow devices",
            "the built-in service `devices` [follows devices](howto/devices.md): it loads drivers, names disks, \
             and powers off when the power button is pressed";
        means "console" console = console().optional(), "no program runs on a terminal",
            "the built-in service `console` shows [the dashboard or a shell](howto/rescue.md#the-console) on a terminal \
             of the machine";
        means "kexec" kexec if Kexec = Mapping::codec(kexec).optional(), "each reboot goes through the firmware",
            "the kernel that [`kelsonctl reboot --kexec`](howto/kexec.md) executes";
        means "sources" sources if Sources = Mapping::codec(sources).optional(), "the configuration folder alone counts",
            "where further configuration [comes from](howto/sources.md)";
        means "fleet" fleet if Fleet = fleet().optional(), "the host belongs to no fleet",
            "the [fleet](fleet.md) that the host belongs to: where it registers itself and its services";
        key "logs" stdout = Mapping::codec(machine_logs), "the default of all services for their logs";
    }
}

fn machine_logs() -> Mapping<Stdout> {
    keys! {
        Mapping::new("host-logs", Stdout::default);
        key "stdout" (At::whole()) = stdout(),
            "`logs.stdout` of each [service file](service-file.md#logs) that does not have it";
    }
}

fn api() -> Mapping<ApiSpec> {
    let listen =
        word("`ADDRESS:PORT`", r"^(\[[0-9A-Fa-f.:%]+\]|[0-9.]+):[0-9]+$", "0.0.0.0:50000").but(|text| {
            text.parse::<SocketAddr>().is_err().then(|| {
                format!("{} is not ADDRESS:PORT; write such as 0.0.0.0:50000 or [::]:50000", quoted(text))
            })
        });
    let empty = "this list is empty; write an ADDRESS:PORT, or remove api";
    let initial = || ApiSpec {
        listen: Vec::new(),
        ca: PathBuf::new(),
        certificate: PathBuf::new(),
        key: PathBuf::new(),
        connection_lifetime: ApiSpec::default_lifetime(),
    };
    keys! {
        Mapping::new("api", initial);
        needed "listen" listen = listen.some("a list of ADDRESS:PORT", empty), "listen: [\"0.0.0.0:50000\"]",
            "the addresses on which it accepts calls";
        needed "ca" ca = path(), "ca: PATH",
            "a PEM file with the CA that signed the certificates of the clients";
        needed "certificate" certificate = path(), "certificate: PATH", "a PEM file with the certificate \
             of the machine";
        needed "key" key = path(), "key: PATH", "a PEM file with the key of `certificate`";
        key "connectionLifetime" connection_lifetime = duration_from(SHORTEST_LIFETIME),
            "after this time a connection [takes no new calls](api.md#how-long-a-connection-lasts), so that \
             its client connects again";
    }
    .strict()
}

fn health() -> Mapping<NodeHealthSpec> {
    keys! {
        Mapping::new("host-health", NodeHealthSpec::default);
        key "minimum" minimum = duration(),
            "how long all required services must be up without a break. `0s`: at once. If `deadline` is \
             shorter than this default, `minimum` is as short";
        key "deadline" deadline = duration_from(LEAST_DEADLINE),
            "the time after which a host that has not been healthy has failed; Kelson names each culprit \
             with its reason. Not less than `minimum`. If only `minimum` is given, at least twice \
             `minimum`";
    }
    .strict()
    .check(|d, seen, health| {
        let minimum = seen.has("minimum").then_some(health.minimum);
        let deadline = seen.has("deadline").then_some(health.deadline);
        if within_deadline(d, seen, "the host", minimum, deadline) {
            *health = NodeHealthSpec::filled(minimum, deadline, &NodeHealthSpec::default());
        }
    })
}

fn shutdown(initial: Duration) -> Mapping<Duration> {
    let about = "the total deadline for stopping services during a shutdown. In container mode the default is \
                 8 s, because Docker kills a container 10 s after it has asked for its end";
    let least = Duration::from_secs(1);
    keys! {
        Mapping::new("shutdown", move || initial);
        key "timeout" (At::whole()) = duration_from(least), about;
    }
}

fn watchdog() -> Mapping<WatchdogSpec> {
    // The device counts whole seconds.
    let timeout = duration_within(SHORTEST_WATCHDOG..=LONGEST_WATCHDOG).but(|timeout| {
        (timeout.subsec_nanos() != 0).then_some("the device counts whole seconds; write such as 30s")
    });
    keys! {
        Mapping::new("watchdog", || WatchdogSpec { expected: true, ..WatchdogSpec::default() });
        key "device" device = path(), "the path of the device";
        key "timeout" timeout = timeout,
            "in whole seconds. A device that does not support it keeps its own timeout, which the event \
             reports";
    }
}

fn builtins() -> Codec<Vec<BuiltinSpec>> {
    Mapping::codec(|| {
        BUILTINS.iter().fold(Mapping::new("builtins", Vec::new), |mapping, known| {
            let at = At::new(
                |list: &Vec<BuiltinSpec>| list.iter().find(|changed| changed.name == known.name).cloned(),
                |list, changed| list.push(changed),
            );
            let mut codec = Mapping::codec(|| builtin(known));
            codec.feature = known.feature;
            mapping.means(known.name, at, codec, "as it is", known.about)
        })
    })
    .read_by(|d, node| d.builtins(node))
}

fn builtin(known: &'static Builtin) -> Mapping<BuiltinSpec> {
    let name = known.name;
    let resources = Mapping::codec(resources).optional();
    let resources_about = "replaces its own as a whole";
    let mut elsewhere = service_file().names();
    if let Changes::Resources(why) = known.changes {
        elsewhere.push("enabled");
        return keys! {
            Mapping::new("helper", move || BuiltinSpec::new(name));
            means "resources" resources = resources, "its own", resources_about;
        }
        .elsewhere(elsewhere, why);
    }
    let whole = "replaces its own as a whole; an omitted key has the default of a service file";
    let no_group = "a built-in service is in no group; leave scope out";
    let mapping = keys! {
        Mapping::new("builtin", move || BuiltinSpec::new(name));
        means "enabled" enabled = boolean().optional(), "where it is needed",
            "`false`: the service is off from the next boot on (a running one continues). `true`: it is \
             on even if nothing needs it; without `api` there is no `apid` all the same";
    };
    keys! {
        environments(mapping, at!(environment), None, "added to its own; a variable of the same name is \
             replaced", "added to its own; a variable of \
             the same name is replaced");
        key "depends" depends = requirements(Use::Depends),
            "added to its own conditions. `containerd` cannot wait for a container";
        means "restart" restart = Mapping::codec(move || restart(ServiceKind::Service, Some(no_group))).optional(),
            "its own",
            "replaces its own; `scope: group` is a mistake, because no built-in service is in a group";
        means "required" required = boolean().optional(), "`true`",
            "`false`: the [health of the host](#health) does not wait for it";
        means "startTimeout" start_timeout = start_timeout().optional(), "its own",
            "replaces its own";
        key "health" health = checks(CheckOf::Service), "checks in addition to its own";
        key "hooks" hooks = Mapping::codec(|| hooks(false)), "commands around each run, after its own";
        means "stop" stop = Mapping::codec(stop).optional(), "its own", whole;
        means "resources" resources = resources, "its own", resources_about;
        key "limits" limits = Mapping::codec(limits), "each replaces its own limit of that name";
        means "logs" logs = Mapping::codec(logs).optional(), "its own", whole;
    }
        .elsewhere(elsewhere, format!("this is settled for {name} and cannot be changed"))
        .check(|d, seen, builtin| {
            if const { OWN.has(Feature::Volumes) } {
                check_volumes(d, seen, ("health", &builtin.health), &[]);
            }
        })
}

impl Decoder<'_> {
    fn builtins(&mut self, node: &Node) -> Option<Vec<BuiltinSpec>> {
        let mut list = Vec::new();
        for (name, entry) in self.entries(node)? {
            let builtin = self.at_key(name.to_owned(), |d| {
                let Some(known) = builtin::of(name) else {
                    let hint = near(name, builtin::names()).map(|near| format!("; did you mean {near}?"));
                    let all: Vec<&str> = builtin::names().collect();
                    let (all, hint) = (all.join(", "), hint.unwrap_or_default());
                    let text = format!("this is not one of the built-in services {all}{hint}");
                    d.wrong(entry.key.at, text);
                    return None;
                };
                if let Err(missing) = d.context.require(known.feature) {
                    d.wrong(entry.key.at, missing);
                    return None;
                }
                match entry.value.value {
                    Value::Null => d.refuse(&entry.value, "this key has no value; give it one or remove it"),
                    _ => builtin(known).decode(d, &entry.value),
                }
            });
            let references = std::mem::take(&mut self.references);
            if let Some(builtin) = builtin {
                list.push(builtin);
                self.builtin_references.push(references);
            }
        }
        Some(list)
    }
}

/// Why this is not the name of a kernel parameter, if it is not.
fn setting_mistake(key: &str) -> Option<String> {
    let sound = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/:".contains(&b))
        && key.contains(['.', '/'])
        && key.split(['.', '/']).all(|part| !part.is_empty());
    (!sound).then(|| format!("{} is not a key such as net.ipv4.ip_forward", quoted(key)))
}
