//! The specification of one service: the finished form of a service file, with users, environment files and
//! units resolved.
//!
//! PID 1 writes these types to its state, and other releases read them there by the names of their fields and variants.
//! So a name stays as it is, and a new field has a default (`#[serde(default)]`).

mod attributes;
mod checks;
mod confinement;
pub mod csi;
mod directories;
mod disk_source;
mod ending;
mod facts;
mod hooks;
mod image_source;
mod input;
mod output;
mod overlay_source;
mod path_source;
mod paths;
mod requirement;
mod restart;
mod sandbox;
mod schedule;
mod sockets;
mod volumes;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fleet::{Disconnect, Registration};
use crate::secrets::SecretUse;
use crate::templates::Template;

pub use attributes::Attributes;
pub use checks::{Asks, Check, GrpcProbe, HttpProbe, NetworkProbe, Probe, ProbeTls, Share, VolumeProbe};
pub use confinement::{
    ApiAccess, Credentials, DeviceAccess, FileView, OwnNamespaces, ResourceLimit, Resources, Seccomp,
    Security, ViewRule,
};
pub use csi::{Access, Attachment, CsiPlugin, CsiSource, PluginKind, Usage};
pub use directories::{Directories, Directory, DirectoryKind, Preserve, is_path as is_directory};
pub use disk_source::{DiskSource, FoundDisk};
pub use ending::{ExitMatch, OnExit, StopMode, StopSpec};
pub use facts::Fact;
pub use hooks::{Hook, Hooks, Reload, Resumed};
pub use image_source::ImageSource;
pub use input::{Input, TerminalOutput, TerminalSpec};
pub use output::{LogSpec, Stdout};
pub use overlay_source::{OverlaySource, Upper};
pub use path_source::{NewFolder, PathSource};
pub use paths::{PathEvent, PathTrigger, is_pattern};
pub use requirement::{NetworkAspect, Requirement, ServiceEvent, WhenDown};
pub use restart::{Exhausted, RestartPolicy, RestartScope, RestartSpec};
pub use sandbox::{CallAnswer, Protection, Restriction, Sandbox, Selection, SystemCalls};
pub use schedule::{Overlap, Schedule};
pub use sockets::{Address, Listen, SocketOptions, SocketSpec, UnixKind, UnixPlace};
pub use volumes::{TmpfsSource, Volume, VolumeSource};
pub use workload::{
    ContainerDevice, ContainerMount, ContainerNetwork, ContainerRuntime, ContainerSpec, ProcessSpec, Workload,
};

/// One service as PID 1 runs it. Made by `kelson-load` from a file; nothing in it needs the disk again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// `[a-z0-9][a-z0-9-]{0,62}`, unique on the host.
    pub name: String,
    pub description: String,
    /// The file it came from, for messages.
    pub file: PathBuf,
    pub workload: Workload,
    /// Environment files first, then `environment`; later entries win and names are unique.
    pub environment: Vec<(String, String)>,
    /// Variables whose values are known at each start; those of `environment` override them.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub environment_facts: Vec<(String, Fact)>,
    /// Variables in its commands are replaced by their values.
    pub expand: bool,
    /// The secrets that it gets as files.
    #[cfg_attr(not(feature = "secrets"), serde(skip))]
    pub secrets: Vec<SecretUse>,
    /// Before those: what it gets of PID 1's own environment.
    pub inherit: Inherit,
    pub kind: ServiceKind,
    pub start: StartMode,
    /// Its start waits for something on one of its sockets, or for one of its paths.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub on_demand: bool,
    /// See [`ServiceSpec::schedule`].
    #[cfg(feature = "units")]
    pub schedule: Option<Schedule>,
    /// Asked once at the start; if one does not hold, the service is skipped.
    pub when: Vec<Requirement>,
    /// All must hold at the same time before each spawn. Entries of the key `after` are among them.
    pub depends: Vec<Requirement>,
    pub restart: RestartSpec,
    /// Services of one group are ordered by their [`Lifecycle`] and can restart together.
    pub group: Option<String>,
    pub lifecycle: Lifecycle,
    /// The host's health and the end of the boot wait for it.
    pub required: bool,
    /// A stop or restart of one of these that an operator asks for is one of this service too.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub part_of: Vec<String>,
    /// A start of one of these stops it, and its start stops these.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub conflicts: Vec<String>,
    /// They start once it has failed and is not started again.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub on_failure: Vec<String>,
    /// They start once it has finished.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub on_success: Vec<String>,
    /// Requests of operators that are refused.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub refuses: Vec<RefusedRequest>,
    pub readiness: Readiness,
    /// The file that names the main process of a service that forks.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub pid_file: Option<PathBuf>,
    /// From ready on, a `WATCHDOG=1` has to come within this time.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub watchdog: Option<Duration>,
    /// From the spawn to ready.
    pub start_timeout: Duration,
    pub health: Vec<Check>,
    pub hooks: Hooks,
    pub reload: Reload,
    pub resumed: Resumed,
    pub stop: StopSpec,
    pub on_exit: OnExit,
    /// `None`: the user of PID 1 (root).
    pub user: Option<Credentials>,
    pub resources: Resources,
    /// It may divide its cgroup.
    pub delegate: bool,
    pub limits: Vec<ResourceLimit>,
    pub attributes: Attributes,
    /// Folders that it is given.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub directories: Directories,
    /// What it sees at paths of its own.
    #[cfg_attr(not(feature = "volumes"), serde(skip))]
    pub volumes: Vec<Volume>,
    /// The plugin for volumes that it is.
    #[cfg_attr(not(feature = "volumes"), serde(skip))]
    pub provides: Option<CsiPlugin>,
    /// What it registers while it is up.
    #[cfg_attr(not(feature = "fleet"), serde(skip))]
    pub register: Option<Registration>,
    /// `None`: it runs on while the store of the fleet does not answer.
    #[cfg_attr(not(feature = "fleet"), serde(skip))]
    pub disconnect: Option<Disconnect>,
    /// Files that it gets with what is registered in the fleet.
    #[cfg_attr(not(feature = "fleet"), serde(skip))]
    pub templates: Vec<Template>,
    /// PID 1 holds them, and each of its runs gets them.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub sockets: Vec<SocketSpec>,
    /// They start it.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub paths: Vec<PathTrigger>,
    /// System V and POSIX IPC of its user is removed with it.
    #[cfg_attr(not(feature = "units"), serde(skip))]
    pub remove_ipc: bool,
    pub security: Security,
    /// The access of its processes to PID 1.
    pub api: ApiAccess,
    pub logs: LogSpec,
}

impl ServiceSpec {
    /// Whether both run alike. The same file may be read in another place.
    pub fn runs_like(&self, other: &ServiceSpec) -> bool {
        self == other
            || (self.file != other.file && *self == ServiceSpec { file: self.file.clone(), ..other.clone() })
    }

    /// All of its checks: those of its health, then those of its registration, which `true` stands for.
    pub fn checks(&self) -> impl Iterator<Item = (&Check, bool)> {
        let of_health = self.health.iter().map(|check| (check, false));
        of_health.chain(self.registration_checks().iter().map(|check| (check, true)))
    }

    /// Those that decide about its registration alone.
    pub fn registration_checks(&self) -> &[Check] {
        self.register.as_ref().map_or(&[], |registration| &registration.checks)
    }

    /// When the clock starts it; its `start` is manual then.
    pub fn schedule(&self) -> Option<&Schedule> {
        #[cfg(feature = "units")]
        return self.schedule.as_ref();
        #[cfg(not(feature = "units"))]
        None
    }

    /// Does nothing in a build that lacks the feature.
    pub fn set_schedule(&mut self, schedule: Option<Schedule>) {
        #[cfg(feature = "units")]
        (self.schedule = schedule);
        #[cfg(not(feature = "units"))]
        drop(schedule);
    }

    /// Whether each of its ends is followed by another run.
    pub fn never_ends(&self) -> bool {
        self.kind == ServiceKind::Service && self.restart.policy == RestartPolicy::Forever
    }

    /// A service that runs `command` as a process, with the default of every other key.
    pub fn process<T: Into<String>>(name: &str, command: impl IntoIterator<Item = T>) -> Self {
        ServiceSpec {
            name: name.to_owned(),
            description: String::new(),
            file: PathBuf::from(format!("{name}.yaml")),
            workload: Workload::Process(ProcessSpec {
                command: command.into_iter().map(Into::into).collect(),
                ..ProcessSpec::default()
            }),
            environment: Vec::new(),
            environment_facts: Vec::new(),
            expand: false,
            secrets: Vec::new(),
            inherit: Inherit::default(),
            kind: ServiceKind::default(),
            start: StartMode::default(),
            on_demand: false,
            #[cfg(feature = "units")]
            schedule: None,
            when: Vec::new(),
            depends: Vec::new(),
            restart: RestartSpec::for_kind(ServiceKind::default()),
            group: None,
            lifecycle: Lifecycle::default(),
            required: true,
            part_of: Vec::new(),
            conflicts: Vec::new(),
            on_failure: Vec::new(),
            on_success: Vec::new(),
            refuses: Vec::new(),
            readiness: Readiness::default(),
            pid_file: None,
            watchdog: None,
            start_timeout: Self::START_TIMEOUT,
            health: Vec::new(),
            hooks: Hooks::default(),
            reload: Reload::default(),
            resumed: Resumed::default(),
            stop: StopSpec::default(),
            on_exit: OnExit::default(),
            user: None,
            resources: Resources::default(),
            delegate: false,
            limits: Vec::new(),
            attributes: Attributes::default(),
            directories: Directories::default(),
            volumes: Vec::new(),
            provides: None,
            register: None,
            disconnect: None,
            templates: Vec::new(),
            sockets: Vec::new(),
            paths: Vec::new(),
            remove_ipc: false,
            security: Security::default(),
            api: ApiAccess::default(),
            logs: LogSpec::default(),
        }
    }

    /// What it reads on its standard input.
    pub fn input(&self) -> &Input {
        if let Workload::Process(process) = &self.workload { &process.input } else { &Input::Nothing }
    }

    /// Its part about the image, if it runs from one.
    pub fn container(&self) -> Option<&ContainerSpec> {
        if let Workload::Container(container) = &self.workload { Some(container) } else { None }
    }

    /// `startTimeout` where the file has none.
    pub const START_TIMEOUT: Duration = Duration::from_secs(90);
}

/// Stands for the fields that a record of the state lacks. It has no command, so it cannot be started.
impl Default for ServiceSpec {
    fn default() -> Self {
        ServiceSpec::process("", Vec::<String>::new())
    }
}

/// Which variables of PID 1's environment a service gets. Kelson's own are never among them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Inherit {
    #[default]
    Nothing,
    All,
    Names(Vec<String>),
}

impl Inherit {
    /// What the names of Kelson's own variables begin with.
    pub const OWN: &str = "KELSON_";

    pub fn takes(&self, name: &str) -> bool {
        !name.starts_with(Self::OWN)
            && match self {
                Inherit::Nothing => false,
                Inherit::All => true,
                Inherit::Names(names) => names.iter().any(|one| one == name),
            }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ServiceKind {
    #[default]
    Service,
    /// Up once it ended successfully by itself.
    Oneshot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum StartMode {
    #[default]
    Auto,
    Manual,
}

/// The part that a service has in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lifecycle {
    /// `None`: it is one of the mains, around which the others are ordered; or a sidecar.
    pub hook: Option<LifecycleHook>,
    /// Up before the mains are started, and stopped after them. With [`LifecycleHook::Poststart`]: runs beside them.
    pub sidecar: bool,
}

impl Lifecycle {
    /// One of those around which the other members are ordered.
    pub fn is_main(&self) -> bool {
        *self == Lifecycle::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifecycleHook {
    /// Before the mains.
    Prestart,
    /// Once the mains are up.
    Poststart,
    /// Once the mains are down.
    Poststop,
}

/// A request of an operator that a service can refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusedRequest {
    Start,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Readiness {
    #[default]
    None,
    /// sd_notify `READY=1`.
    Notify,
    /// A newline on this descriptor.
    Descriptor(i32),
    /// The command ends with status 0, and leaves the processes of the service behind.
    Forks,
}
