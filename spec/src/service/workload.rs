//! The workload of a service: a process of the host, or a container.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::input::Input;
use crate::container_network::PortSpec;
use crate::registries::PullPolicy;

/// The workload: exactly one of these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Workload {
    Process(ProcessSpec),
    #[cfg_attr(not(feature = "containerd"), serde(skip))]
    Container(ContainerSpec),
    /// Nothing. It is up while its conditions let it run.
    Target,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSpec {
    /// Program (an absolute path, or a name looked up in the service's `PATH`) and its arguments; never empty.
    pub command: Vec<String>,
    pub working_directory: PathBuf,
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub input: Input,
}

impl Default for ProcessSpec {
    fn default() -> Self {
        ProcessSpec { command: Vec::new(), working_directory: PathBuf::from("/"), input: Input::Nothing }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSpec {
    pub image: String,
    /// `None`: the file leaves it to the host, as long as the files are being read.
    pub runtime: Option<ContainerRuntime>,
    #[cfg_attr(not(feature = "pull"), serde(skip))]
    pub pull: PullPolicy,
    /// Empty: the image's entrypoint and command.
    pub command: Vec<String>,
    /// In place of the image's command, after its entrypoint. Empty: the image's.
    pub arguments: Vec<String>,
    /// `None`: the image's.
    pub working_directory: Option<PathBuf>,
    /// `None`: the host's with the host's network, else the service's name.
    pub hostname: Option<String>,
    pub network: ContainerNetwork,
    /// With the host's network, or one of a bridge.
    pub ports: Vec<PortSpec>,
    pub mounts: Vec<ContainerMount>,
    /// Devices of the host that it sees besides the usual harmless ones.
    pub devices: Vec<ContainerDevice>,
    /// `user[:group]` as the file has it: it is looked up in the image's own files. `None`: the image's user.
    pub user: Option<String>,
    /// Its users are no users of the host.
    pub user_namespace: bool,
    /// The file names no signal to stop with: the image's counts, where it has one.
    pub stop_signal_of_image: bool,
}

impl ContainerSpec {
    /// A container of this image, with the default of every other key.
    pub fn new(image: &str) -> Self {
        ContainerSpec {
            image: image.to_owned(),
            runtime: None,
            pull: PullPolicy::default(),
            command: Vec::new(),
            arguments: Vec::new(),
            working_directory: None,
            hostname: None,
            network: ContainerNetwork::Host,
            ports: Vec::new(),
            mounts: Vec::new(),
            devices: Vec::new(),
            user: None,
            user_namespace: false,
            stop_signal_of_image: true,
        }
    }

    /// The port on which the program of one of its ports listens.
    pub fn listens_on(&self, port: &PortSpec) -> u16 {
        match (self.network, port.host) {
            (ContainerNetwork::Host, Some(host)) => host,
            _ => port.container,
        }
    }

    /// Whether PID 1 runs it itself.
    pub fn is_native(&self) -> bool {
        self.runtime == Some(ContainerRuntime::Kelson)
    }
}

impl Default for ContainerSpec {
    fn default() -> Self {
        ContainerSpec::new("")
    }
}

/// A device node of the host that a container is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerDevice {
    pub source: PathBuf,
    pub target: PathBuf,
    /// Some of `r`, `w`, `m`.
    #[serde(default)]
    pub permissions: String,
}

impl ContainerDevice {
    /// `permissions` where the file has none.
    pub const PERMISSIONS: &'static str = "rw";
}

/// Who makes the namespaces and the root of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerRuntime {
    /// containerd and runc.
    Containerd,
    /// PID 1 itself.
    Kelson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerNetwork {
    Host,
    None,
    /// One of its own, joined to the others by a bridge.
    Bridge,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ContainerMount {
    /// A path of the host, [`Self::TMPFS`], or what a file system of `fs_type` is on.
    pub source: PathBuf,
    pub target: PathBuf,
    /// Words that were checked, as a runtime takes them; a size is in bytes.
    #[serde(default)]
    pub options: Vec<String>,
    /// The type of a file system. Empty: that of memory, or the path is bound.
    #[serde(default)]
    pub fs_type: String,
}

impl ContainerMount {
    /// In place of a path: a file system in memory.
    pub const TMPFS: &'static str = "tmpfs";
    /// The option that makes this mount read-only, and not the file system: others may write to it.
    pub const READ_ONLY: &'static str = "rro";

    pub fn is_tmpfs(&self) -> bool {
        self.source.as_os_str() == Self::TMPFS
    }
}
