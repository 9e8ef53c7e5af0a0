//! The machine file: what `/etc/kelson/machine.yaml` says; every key of it is optional.

mod builtin;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::container_network::ContainerNetworkSpec;
use crate::devices::DevicesSpec;
pub use crate::disk::Format;
use crate::encryption::EncryptionSpec;
use crate::fleet::FleetSpec;
use crate::names::CONTAINERD;
use crate::network::InterfaceSpec;
use crate::partitions::DiskPartitionsSpec;
use crate::registries::RegistriesSpec;
use crate::service::Stdout;
use crate::sources::SourcesSpec;
use crate::verify::VerifyRule;
pub use builtin::BuiltinSpec;

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
    /// `None`: the host belongs to no fleet.
    #[cfg_attr(not(feature = "fleet"), serde(skip))]
    pub fleet: Option<FleetSpec>,
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
            fleet: None,
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
