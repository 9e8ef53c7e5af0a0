//! The services that Kelson brings along, each of which is listed here and nowhere else.

use std::time::Duration;

use crate::devices::DeviceRule;
use crate::features::Feature;
use crate::machine::{ConsoleShow, MachineSpec};
use crate::network::InterfaceSpec;
use crate::service::{ApiAccess, Readiness, Resources, Seccomp, Security, ServiceSpec, StopSpec};

/// A service that Kelson brings along. Others may depend on it, and the machine file may change it.
#[derive(Debug)]
pub struct Builtin {
    pub name: &'static str,
    /// Its task, in the documentation of the machine file.
    pub about: &'static str,
    pub changes: Changes,
    /// The feature that a build needs for it.
    pub feature: Option<Feature>,
    /// Makes the service of one that PID 1's own program has, if the machine file switches it on. Its limits are left out on
    /// a host that cannot enforce them. `None`: PID 1 decides when and how it runs.
    pub program: Option<fn(&MachineSpec) -> Option<ServiceSpec>>,
}

/// The parts of a built-in service that the machine file may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// All keys of `builtins`.
    Service,
    /// A supervisor of PID 1 runs it: only its `resources`. Why no other key.
    Resources(&'static str),
}

/// The capabilities of a program that becomes another user: `CAP_SETGID` and `CAP_SETUID`, by capabilities(7).
pub const CHANGE_USER: u64 = 1 << 6 | 1 << 7;

const NET_PROGRAM: &str = "kelson-net";

/// `CAP_CHOWN`, and those for interfaces and for sockets.
const CHOWN: u64 = 1 << 0;
const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
/// The capabilities of a program that gives files to others, and uses them afterwards: `CAP_CHOWN`, `CAP_DAC_OVERRIDE` and
/// `CAP_FOWNER`.
const CHANGE_FILES: u64 = CHOWN | 1 << 1 | 1 << 3;
/// `CAP_SYS_MODULE`.
const SYS_MODULE: u64 = 1 << 16;
/// `CAP_SYSLOG`, to read the log of the kernel.
const SYSLOG: u64 = 1 << 34;
/// `CAP_SYS_TIME`.
const SYS_TIME: u64 = 1 << 25;

/// Sorted by name.
pub const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "apid",
        about: "the API endpoint on the network",
        changes: Changes::Service,
        feature: Some(Feature::Apid),
        program: None,
    },
    Builtin {
        name: CONSOLE,
        about: "shows the dashboard or a shell on a terminal, by [`console`](#console)",
        changes: Changes::Service,
        feature: None,
        program: Some(console),
    },
    Builtin {
        name: "containerd",
        about: "runs services from images",
        changes: Changes::Service,
        feature: Some(Feature::Containerd),
        program: None,
    },
    Builtin {
        name: DEVICES,
        about: "follows devices, by [`devices`](#devices)",
        changes: Changes::Service,
        feature: Some(Feature::Devices),
        program: Some(devices),
    },
    Builtin {
        name: "devlog",
        about: "receives the messages of syslog(3) at `/dev/log`",
        changes: Changes::Service,
        feature: None,
        program: Some(devlog),
    },
    Builtin {
        name: "fleet",
        about: "registers the host and its services in the store of its [`fleet`](#fleet)",
        changes: Changes::Resources(
            "fleet is there as long as the machine file has `fleet` and cannot be changed in this",
        ),
        feature: Some(Feature::Fleet),
        program: None,
    },
    Builtin {
        name: "logd",
        about: "collects logs",
        changes: Changes::Resources("logd is always at hand and cannot be changed in this"),
        feature: None,
        program: None,
    },
    Builtin {
        name: NET,
        about: "follows the interfaces and routers of [`network`](#network), and gets addresses by DHCP",
        changes: Changes::Service,
        feature: Some(Feature::Net),
        program: Some(net),
    },
    Builtin {
        name: "probe",
        about: "runs the `tcp`, `http`, `grpc` and `csi` checks",
        changes: Changes::Resources(
            "probe is there as long as a service has tcp, http, grpc or csi checks and cannot be changed in this",
        ),
        feature: Some(Feature::Probes),
        program: None,
    },
    Builtin {
        name: "timers",
        about: "knows when the schedules of services are due",
        changes: Changes::Resources(
            "timers is there as long as a service has a schedule and cannot be changed in this",
        ),
        feature: Some(Feature::Units),
        program: None,
    },
    Builtin {
        name: TIMESYNC,
        about: "keeps the clock right, over the servers of [`time`](#time)",
        changes: Changes::Service,
        feature: Some(Feature::Timesync),
        program: Some(timesync),
    },
    Builtin {
        name: "volumes",
        about: "has [storage plugins](service-file.md#volumes) provide the volumes of services",
        changes: Changes::Resources(
            "volumes is there as long as a service is a storage plugin or uses one and cannot be changed in this",
        ),
        feature: Some(Feature::Volumes),
        program: None,
    },
];

/// Not in a container, whose terminals are its host's.
pub const CONSOLE: &str = "console";
/// Not in a container, which has the devices of its host.
pub const DEVICES: &str = "devices";
/// Not in a container, whose network its engine configures.
pub const NET: &str = "net";
/// The folder for leases and for the file of name servers.
pub const LEASES: &str = "/run/kelson/net";
/// The file of the servers of NTP that leases name, one on each line.
pub const LEASED_SERVERS: &str = "/run/kelson/net/ntp-servers";
/// Not in a container, which has the clock of its host.
pub const TIMESYNC: &str = "timesync";
/// A file whose time of change is the last time that is known to have passed.
pub const SAVED_TIME: &str = "/var/lib/kelson/clock";

/// On where the machine file has `console`, unless it says `enabled: false`.
fn console(machine: &MachineSpec) -> Option<ServiceSpec> {
    let console = machine.console.as_ref().filter(|_| machine.is_enabled(CONSOLE) != Some(false))?;
    let words = ["kelson-console", console.show.name()].into_iter().chain(console.tty.as_deref());
    let mut spec = ServiceSpec::process(CONSOLE, words);
    spec.description = match console.show {
        ConsoleShow::Dashboard => "the dashboard on a terminal of the machine",
        ConsoleShow::Shell => "a shell of root on a terminal of the machine",
    }
    .into();
    // The API takes calls only of those that have the power of PID 1; the role bounds what they may ask for.
    spec.security =
        Security { no_new_privileges: false, seccomp: Seccomp::Unconfined, ..Security::default() };
    spec.api = match console.show {
        ConsoleShow::Dashboard => ApiAccess::Reader,
        ConsoleShow::Shell => ApiAccess::Admin,
    };
    // An interactive shell ignores SIGTERM.
    spec.stop = StopSpec { signal: libc::SIGHUP, timeout: Duration::from_secs(2), ..StopSpec::default() };
    spec.required = false;
    Some(spec)
}

/// On where the machine file has `devices`, unless it says `enabled: false`.
fn devices(machine: &MachineSpec) -> Option<ServiceSpec> {
    let devices = machine.devices.as_ref().filter(|_| machine.is_enabled(DEVICES) != Some(false))?;
    let rules = devices.rules.iter().map(DeviceRule::to_word);
    let mut spec = ServiceSpec::process(DEVICES, std::iter::once("kelson-devices".to_owned()).chain(rules));
    spec.description = "follows devices: drivers, names, owners, the power button".into();
    spec.readiness = Readiness::Notify;
    spec.security.capabilities = Some(CHANGE_FILES | SYS_MODULE | SYSLOG);
    spec.resources = Resources { memory_max: Some(64 << 20), pids_max: Some(32), ..Resources::default() };
    Some(spec)
}

/// On where the machine file says `enabled: true`.
fn devlog(machine: &MachineSpec) -> Option<ServiceSpec> {
    machine.is_enabled("devlog").filter(|on| *on)?;
    let mut spec = ServiceSpec::process("devlog", ["kelson-devlog"]);
    spec.description = "receives the messages of syslog(3)".into();
    spec.readiness = Readiness::Notify;
    spec.security.capabilities = Some(CHANGE_USER);
    spec.resources = Resources { memory_max: Some(32 << 20), pids_max: Some(4), ..Resources::default() };
    // Any process may send messages.
    spec.logs.rate_limit = Some(1000);
    Some(spec)
}

/// On where the machine file has `time`, unless it says `enabled: false`.
fn timesync(machine: &MachineSpec) -> Option<ServiceSpec> {
    let time = machine.time.as_ref().filter(|_| machine.is_enabled(TIMESYNC) != Some(false))?;
    let command = ["kelson-timesync", SAVED_TIME].into_iter().chain(time.servers.iter().map(String::as_str));
    let mut spec = ServiceSpec::process(TIMESYNC, command);
    spec.description = "keeps the clock right by SNTP".into();
    spec.readiness = Readiness::Notify;
    spec.security.capabilities = Some(CHANGE_USER | SYS_TIME);
    spec.resources = Resources { memory_max: Some(32 << 20), pids_max: Some(32), ..Resources::default() };
    Some(spec)
}

/// On where the machine file names an interface with `dhcp` or `routerAdvertisements`, or says `enabled: true`, unless it says `enabled: false`.
fn net(machine: &MachineSpec) -> Option<ServiceSpec> {
    let is_dynamic = machine.network.iter().any(InterfaceSpec::is_dynamic);
    machine.is_enabled(NET).unwrap_or(is_dynamic).then_some(())?;
    let interfaces = machine.network.iter().map(InterfaceSpec::to_word);
    let words = [NET_PROGRAM.to_owned(), LEASES.to_owned()].into_iter().chain(interfaces);
    let mut spec = ServiceSpec::process(NET, words);
    spec.description = "follows interfaces and routers, and gets addresses by DHCP".into();
    spec.readiness = Readiness::Notify;
    spec.security.capabilities = Some(CHANGE_USER | CHOWN | NET_ADMIN | NET_BIND_SERVICE | NET_RAW);
    // Any host of the link may send answers that are worth a line.
    spec.logs.rate_limit = Some(100);
    spec.resources = Resources { memory_max: Some(32 << 20), pids_max: Some(4), ..Resources::default() };
    Some(spec)
}

/// Names beside those of the built-in services that no service file may take: the personalities, the cgroup of the shims of
/// containers, and the log of who changed what.
const RESERVED: [&str; 5] = ["audit", "load", "shims", "task", "unpack"];

/// Whether no service file may take this name.
pub fn is_reserved(name: &str) -> bool {
    of(name).is_some() || RESERVED.contains(&name)
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|builtin| builtin.name)
}

/// The built-in service of this name.
pub fn of(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

/// The names of those that run where the machine file says so.
pub fn optional() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().filter(|builtin| builtin.program.is_some()).map(|builtin| builtin.name)
}
