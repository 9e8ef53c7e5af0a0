//! The machine file: what `/etc/kelson/machine.yaml` says; every key of it is optional.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::container_network::ContainerNetworkSpec;
use crate::devices::DevicesSpec;
pub use crate::disk::Format;
use crate::encryption::EncryptionSpec;
use crate::names::CONTAINERD;
use crate::network::InterfaceSpec;
use crate::partitions::DiskPartitionsSpec;
use crate::registries::RegistriesSpec;
use crate::service::{
    Check, Hooks, LogSpec, Requirement, ResourceLimit, Resources, RestartSpec, ServiceSpec, Stdout, StopSpec,
};
use crate::sources::SourcesSpec;
use crate::verify::VerifyRule;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
// A build that lacks a part has no key for it (`features.rs`), and no code that reads or writes its value.
pub struct MachineSpec {
    pub hostname: Option<String>,
    pub modules: Vec<String>,
    /// Key in dotted form and value, in the file's order.
    pub sysctl: Vec<(String, String)>,
    pub network: Vec<InterfaceSpec>,
    /// The file of the firewall's rules; `None`: Kelson loads none.
    #[cfg_attr(not(feature = "net"), serde(skip))]
    pub nftables: Option<PathBuf>,
    #[cfg_attr(not(feature = "disks"), serde(skip))]
    pub partitions: Vec<DiskPartitionsSpec>,
    #[cfg_attr(not(feature = "disks"), serde(skip))]
    pub encryption: Vec<EncryptionSpec>,
    pub mounts: Vec<MountSpec>,
    #[cfg_attr(not(feature = "disks"), serde(skip))]
    pub swap: Vec<SwapSpec>,
    /// `None`: no apid.
    #[cfg_attr(not(feature = "apid"), serde(skip))]
    pub api: Option<ApiSpec>,
    pub builtins: Vec<BuiltinSpec>,
    /// When the host counts as healthy and when as failed.
    pub health: NodeHealthSpec,
    /// The total deadline of a shutdown.
    pub shutdown_timeout: Duration,
    /// `None`: the hardware watchdog is not used.
    pub watchdog: Option<WatchdogSpec>,
    #[cfg_attr(not(feature = "containerd"), serde(skip))]
    pub images: Vec<PathBuf>,
    #[cfg_attr(not(feature = "containerd"), serde(skip))]
    pub container_network: ContainerNetworkSpec,
    #[cfg_attr(not(feature = "pull"), serde(skip))]
    pub registries: RegistriesSpec,
    /// The service whose end is the end of the host, with its exit status.
    pub main: Option<String>,
    /// For services that do not say it themselves.
    pub stdout: Stdout,
    /// `None`: Kelson does not keep the clock right.
    #[cfg_attr(not(feature = "timesync"), serde(skip))]
    pub time: Option<TimeSpec>,
    /// `None`: Kelson does not follow devices.
    #[cfg_attr(not(feature = "devices"), serde(skip))]
    pub devices: Option<DevicesSpec>,
    /// `None`: no kernel can be executed in the place of the running one.
    #[cfg_attr(not(feature = "kexec"), serde(skip))]
    pub kexec: Option<KexecSpec>,
    /// `None`: nothing runs on a terminal of the machine.
    pub console: Option<ConsoleSpec>,
    /// `None`: nothing but the configuration folder counts.
    #[cfg_attr(not(feature = "sources"), serde(skip))]
    pub sources: Option<SourcesSpec>,
    /// Which images may run; without a rule all may. In the file they are a part of `images`.
    #[cfg_attr(not(feature = "containerd"), serde(skip))]
    pub verify: Vec<VerifyRule>,
}

/// A program on a terminal of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleSpec {
    pub show: ConsoleShow,
    /// The name of the terminal in `/dev`; `None`: that of the console.
    pub tty: Option<String>,
}

/// What a terminal of the machine shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsoleShow {
    Dashboard,
    Shell,
}

impl ConsoleShow {
    pub const ALL: [ConsoleShow; 2] = [ConsoleShow::Dashboard, ConsoleShow::Shell];

    /// The word for it in the machine file.
    pub fn name(self) -> &'static str {
        match self {
            ConsoleShow::Dashboard => "dashboard",
            ConsoleShow::Shell => "shell",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<ConsoleShow> {
        ConsoleShow::ALL.into_iter().find(|show| show.name() == name)
    }

    /// The names of the program, the best one first.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            ConsoleShow::Dashboard => &["kelsonctl"],
            ConsoleShow::Shell => &["bash", "sh"],
        }
    }

    /// The places of the program in the folders of `path`, the best one first.
    pub fn places(self, path: &str) -> impl Iterator<Item = PathBuf> {
        let folders = move || path.split(':').map(Path::new);
        self.programs().iter().flat_map(move |name| folders().map(move |folder| folder.join(name)))
    }
}

/// The kernel that a reboot without the firmware executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KexecSpec {
    pub kernel: PathBuf,
    pub initramfs: Option<PathBuf>,
    /// `None`: that of the running kernel.
    pub command_line: Option<String>,
}

/// Where the time comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSpec {
    /// Servers of NTP: `NAME`, `ADDRESS`, or one of both with a port.
    pub servers: Vec<String>,
}

impl Default for MachineSpec {
    fn default() -> Self {
        MachineSpec {
            hostname: None,
            modules: Vec::new(),
            sysctl: Vec::new(),
            network: Vec::new(),
            nftables: None,
            partitions: Vec::new(),
            encryption: Vec::new(),
            mounts: Vec::new(),
            swap: Vec::new(),
            api: None,
            builtins: Vec::new(),
            health: NodeHealthSpec::default(),
            shutdown_timeout: Duration::from_secs(60),
            watchdog: Some(WatchdogSpec::default()),
            images: vec![PathBuf::from("/usr/share/kelson/images")],
            container_network: ContainerNetworkSpec::default(),
            registries: RegistriesSpec::default(),
            main: None,
            stdout: Stdout::default(),
            time: None,
            devices: None,
            kexec: None,
            console: None,
            sources: None,
            verify: Vec::new(),
        }
    }
}

/// How long what is required must be up before the host says so of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeHealthSpec {
    /// All that is required must be up for so long without a break; zero: at once.
    pub minimum: Duration,
    /// After so long without that the host has failed; not less than `minimum`.
    pub deadline: Duration,
}

impl Default for NodeHealthSpec {
    fn default() -> Self {
        NodeHealthSpec { minimum: Duration::from_secs(10), deadline: Duration::from_secs(300) }
    }
}

/// The hardware watchdog: a device that starts the machine again when nobody has fed it for `timeout`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchdogSpec {
    pub device: PathBuf,
    pub timeout: Duration,
    /// The file asks for it: that there is none is a fault then.
    pub expected: bool,
}

impl Default for WatchdogSpec {
    fn default() -> Self {
        WatchdogSpec {
            device: PathBuf::from("/dev/watchdog"),
            timeout: Duration::from_secs(30),
            expected: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountSpec {
    /// A [name of a disk](crate::disk::DiskName), or what the file system takes (`tmpfs`).
    pub source: String,
    pub target: PathBuf,
    pub fs_type: String,
    pub options: Vec<String>,
    /// How long the boot waits for the disk. One that comes later is mounted then.
    pub wait: Duration,
    pub format: Format,
    /// The last partition of a disk and its file system grow with the disk.
    pub grow: bool,
}

impl Default for MountSpec {
    fn default() -> Self {
        MountSpec {
            source: String::new(),
            target: PathBuf::new(),
            fs_type: String::new(),
            options: Vec::new(),
            wait: Duration::from_secs(10),
            format: Format::default(),
            grow: false,
        }
    }
}

/// Where memory goes that is seldom used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwapSpec {
    pub place: SwapPlace,
    /// A higher one is used first. `None`: the kernel chooses, below all that are given; of zram 100.
    pub priority: Option<u16>,
    /// How long the boot waits for the disk.
    pub wait: Duration,
    pub format: Format,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwapPlace {
    /// A [name of a disk](crate::disk::DiskName), or the path of a file.
    Disk(String),
    /// Compressed, in the memory itself.
    Zram {
        /// Its size before the compression, of the memory of the machine.
        percent: u16,
        /// `None`: that of the kernel.
        algorithm: Option<String>,
    },
}

impl Default for SwapSpec {
    fn default() -> Self {
        SwapSpec {
            place: SwapPlace::Disk(String::new()),
            priority: None,
            wait: Duration::from_secs(10),
            format: Format::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiSpec {
    /// `address:port`, never empty.
    pub listen: Vec<String>,
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// After this time a connection takes no new calls, so that its client makes a new handshake.
    #[serde(default = "ApiSpec::default_lifetime")]
    pub connection_lifetime: Duration,
}

impl ApiSpec {
    pub const fn default_lifetime() -> Duration {
        Duration::from_secs(3600)
    }
}

/// The changes of a machine file to a built-in service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BuiltinSpec {
    pub name: String,
    pub enabled: Option<bool>,
    /// Environment files first, then `environment`, over what the service has of its own.
    pub environment: Vec<(String, String)>,
    /// Besides what it waits for anyway.
    pub depends: Vec<Requirement>,
    pub restart: Option<RestartSpec>,
    pub required: Option<bool>,
    pub start_timeout: Option<Duration>,
    /// Besides the checks of its own.
    pub health: Vec<Check>,
    /// Besides the hooks of its own.
    pub hooks: Hooks,
    pub stop: Option<StopSpec>,
    pub resources: Option<Resources>,
    /// Each takes the place of its own of the same kind.
    pub limits: Vec<ResourceLimit>,
    pub logs: Option<LogSpec>,
}

impl BuiltinSpec {
    /// Changes nothing.
    pub fn new(name: &str) -> Self {
        BuiltinSpec { name: name.to_owned(), ..BuiltinSpec::default() }
    }

    /// Lays these changes over a built-in service.
    pub fn apply(&self, spec: &mut ServiceSpec) {
        let named = |list: &[(String, String)], name: &str| list.iter().any(|(other, _)| other == name);
        spec.environment.retain(|(name, _)| !named(&self.environment, name));
        spec.environment.extend(self.environment.iter().cloned());
        let new = self.depends.iter().filter(|requirement| !spec.depends.contains(requirement));
        let new: Vec<Requirement> = new.cloned().collect();
        spec.depends.extend(new);
        replace(&mut spec.restart, self.restart.as_ref());
        replace(&mut spec.required, self.required.as_ref());
        replace(&mut spec.start_timeout, self.start_timeout.as_ref());
        spec.health.extend(self.health.iter().cloned());
        spec.hooks.pre.extend_from_slice(&self.hooks.pre);
        spec.hooks.post_start.extend_from_slice(&self.hooks.post_start);
        spec.hooks.pre_stop.extend_from_slice(&self.hooks.pre_stop);
        spec.hooks.post.extend_from_slice(&self.hooks.post);
        replace(&mut spec.stop, self.stop.as_ref());
        replace(&mut spec.resources, self.resources.as_ref());
        let is_set = |resource: u32| self.limits.iter().any(|limit| limit.resource == resource);
        spec.limits.retain(|limit| !is_set(limit.resource));
        spec.limits.extend(&self.limits);
        replace(&mut spec.logs, self.logs.as_ref());
    }
}

fn replace<T: Clone>(value: &mut T, by: Option<&T>) {
    if let Some(by) = by {
        *value = by.clone();
    }
}

impl MachineSpec {
    /// The defaults in container mode. Docker kills a container 10 s after it has asked for its end.
    pub fn of_container() -> MachineSpec {
        MachineSpec { shutdown_timeout: Duration::from_secs(8), ..MachineSpec::default() }
    }

    /// Its changes to a built-in service, where there are any.
    pub fn builtin(&self, name: &str) -> Option<&BuiltinSpec> {
        self.builtins.iter().find(|builtin| builtin.name == name)
    }

    /// The machine file's `enabled` of a built-in service.
    pub fn is_enabled(&self, name: &str) -> Option<bool> {
        self.builtin(name)?.enabled
    }

    /// The argument `--containerd` of `kelson-load` on a host that booted with this machine file.
    pub fn containerd_switch(&self) -> &'static str {
        match self.is_enabled(CONTAINERD) {
            Some(true) => "on",
            Some(false) => "off",
            None => "unset",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Hook;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn hook(program: &str) -> Hook {
        Hook::new([program], Hook::TIMEOUT)
    }

    #[test]
    fn what_is_not_said_stays() {
        let mut spec = ServiceSpec::process("containerd", ["containerd"]);
        spec.environment = vec![pair("A", "1")];
        spec.limits = vec![ResourceLimit { resource: 7, soft: 1, hard: 2 }];
        let before = spec.clone();
        BuiltinSpec::new("containerd").apply(&mut spec);
        assert_eq!(spec, before);
    }

    #[test]
    fn what_is_said_takes_its_place() {
        let mut spec = ServiceSpec::process("containerd", ["containerd"]);
        spec.environment = vec![pair("A", "1"), pair("B", "2")];
        spec.depends = vec![Requirement::TimeSynced];
        spec.hooks = Hooks { pre: vec![hook("/bin/own")], ..Hooks::default() };
        spec.limits = vec![
            ResourceLimit { resource: 7, soft: 1, hard: 2 },
            ResourceLimit { resource: 4, soft: 0, hard: 0 },
        ];
        let file = ResourceLimit { resource: 7, soft: 9, hard: 9 };
        let changes = BuiltinSpec {
            environment: vec![pair("A", "3"), pair("C", "4")],
            depends: vec![Requirement::Path("/dev/vda".into()), Requirement::TimeSynced],
            required: Some(false),
            start_timeout: Some(Duration::from_secs(5)),
            hooks: Hooks { pre: vec![hook("/bin/prepare")], ..Hooks::default() },
            stop: Some(StopSpec { delay: Duration::from_secs(1), ..StopSpec::default() }),
            resources: Some(Resources { pids_max: Some(7), ..Resources::default() }),
            limits: vec![file],
            logs: Some(LogSpec { max_files: 9, ..LogSpec::default() }),
            ..BuiltinSpec::new("containerd")
        };
        changes.apply(&mut spec);
        assert_eq!(spec.environment, [pair("B", "2"), pair("A", "3"), pair("C", "4")]);
        assert_eq!(spec.depends, [Requirement::TimeSynced, Requirement::Path("/dev/vda".into())]);
        assert_eq!((spec.start_timeout.as_secs(), spec.stop.delay.as_secs()), (5, 1));
        assert!(!spec.required);
        assert_eq!(spec.hooks.pre, [hook("/bin/own"), hook("/bin/prepare")]);
        assert_eq!((spec.resources.pids_max, spec.logs.max_files), (Some(7), 9));
        assert_eq!(spec.limits, [ResourceLimit { resource: 4, soft: 0, hard: 0 }, file]);
        assert_eq!(spec.restart, ServiceSpec::process("x", ["x"]).restart);
    }
}
