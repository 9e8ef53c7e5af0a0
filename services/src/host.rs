//! Requests of the API to the host itself, and the boot's report. `init` answers the requests and fills in
//! the report.

use std::fmt;
use std::time::{Duration, SystemTime};

use kelson_spec::Features;
use kelson_spec::applied::{Change, Generation};
use kelson_spec::encryption::EncryptionSpec;
use kelson_spec::machine::MountSpec;
use kelson_spec::secrets::StoredSecret;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::error::ServicesError;
use crate::fleet::Fleet;
use crate::volumes::Volumes;

/// How the run of the host is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ShutdownAction {
    Reboot,
    /// A reboot that executes the kernel of `kexec` in the machine file, without the firmware.
    Kexec,
    PowerOff,
    Halt,
}

/// A request to `init`.
#[derive(Debug)]
pub enum HostRequest {
    /// Answered with what is really under way, or with why nothing is.
    Shutdown { action: ShutdownAction, reason: String, reply: oneshot::Sender<Result<String, ServicesError>> },
    /// Read the files again; answered with what changed, or with why nothing did.
    Reload { reply: oneshot::Sender<Result<ReloadReport, ServicesError>> },
    /// Execute PID 1 again; answered just before that, or with the reason why not.
    Reexec { reason: String, reply: oneshot::Sender<Result<Reexecution, ServicesError>> },
    /// The machine was resumed from a snapshot; answered once all has been renewed, or with the reason why nothing was.
    Resumed { resumed: Resumed, reply: oneshot::Sender<Result<ResumedReport, ServicesError>> },
    /// Put another configuration in force; answered once it is taken up, or with why nothing was changed.
    Apply { apply: Apply, reply: oneshot::Sender<Result<Applied, ServicesError>> },
    /// Keep the configuration that is on trial; answered with its generation.
    Confirm {
        generation: Option<Generation>,
        asked_by: String,
        reply: oneshot::Sender<Result<Generation, ServicesError>>,
    },
    /// The files of a configuration; `None`: of the one in force. With `sources`, also those of its sources.
    Configuration {
        generation: Option<Generation>,
        sources: bool,
        reply: oneshot::Sender<Result<ConfigurationFiles, ServicesError>>,
    },
    /// Open an encrypted disk with the key of an operator; answered with what was done, or with why it stays closed.
    UnlockDisk {
        name: String,
        key: Secret,
        asked_by: String,
        reply: oneshot::Sender<Result<String, ServicesError>>,
    },
    /// The recovery key of an encrypted disk, which is then forgotten if `forget`.
    RecoveryKey { name: String, forget: bool, reply: oneshot::Sender<Result<String, ServicesError>> },
    /// Keep a secret; answered with the services that run with the value before.
    SetSecret {
        name: String,
        value: Secret,
        asked_by: String,
        reply: oneshot::Sender<Result<Vec<String>, ServicesError>>,
    },
    /// The secrets that are kept, without their values.
    ListSecrets { reply: oneshot::Sender<Result<Vec<SecretRow>, ServicesError>> },
    /// Remove a secret; with `force`, also one that a service names.
    RemoveSecret {
        name: String,
        force: bool,
        asked_by: String,
        reply: oneshot::Sender<Result<(), ServicesError>>,
    },
    /// The configurations that are kept.
    History { reply: oneshot::Sender<Result<History, ServicesError>> },
}

/// A secret of the host, and who uses it.
#[derive(Debug)]
pub struct SecretRow {
    pub stored: StoredSecret,
    /// The services whose files name it.
    pub services: Vec<String>,
    /// Those of them that run with an earlier value.
    pub outdated: Vec<String>,
}

/// Bytes that are not shown, and are overwritten once nobody needs them.
pub struct Secret(Vec<u8>);

impl Secret {
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Otherwise the compiler may leave out a write that nobody reads.
        std::hint::black_box(&self.0);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secret bytes", self.0.len())
    }
}

/// What the caller of [`HostRequest::Apply`] asks for.
#[derive(Debug)]
pub struct Apply {
    pub change: Change,
    /// The time within which it is to be confirmed.
    pub trial: Option<Duration>,
}

/// What the caller of [`HostRequest::Resumed`] knows.
#[derive(Debug)]
pub struct Resumed {
    pub entropy: Vec<u8>,
    /// The new host name, if it gets one.
    pub hostname: Option<String>,
    /// From the request on.
    pub deadline: Instant,
    pub asked_by: String,
}

/// What a configuration changes.
pub use kelson_proto::v1::ApplyResponse as Applied;
/// The files of a configuration.
pub use kelson_proto::v1::GetConfigurationResponse as ConfigurationFiles;
/// The configurations that are kept.
pub use kelson_proto::v1::HistoryResponse as History;
/// The program that PID 1 is executed from.
pub use kelson_proto::v1::ReexecResponse as Reexecution;
/// The changes that a reload made.
pub use kelson_proto::v1::ReloadResponse as ReloadReport;
/// The steps after a resume, with their outcomes.
pub use kelson_proto::v1::ResumedResponse as ResumedReport;

/// The boot as far as it has come.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct BootReport {
    pub phases: Vec<PhaseRecord>,
    /// From the kernel's start to PID 1's.
    pub kernel: Option<Duration>,
    /// From PID 1's start until every service that the boot starts was up or had ended.
    pub total: Option<Duration>,
    /// The mounts whose disks have not come yet.
    pub absent: Vec<MountSpec>,
    /// The disks that have not come yet to get their partitions, each the word of its spec.
    pub unpartitioned: Vec<String>,
    /// The encrypted disks that are not open.
    pub locked: Vec<LockedDisk>,
}

/// An encrypted disk that is not open.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LockedDisk {
    pub disk: EncryptionSpec,
    /// It has come, and its own key has not opened it.
    pub refused: bool,
}

#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PhaseRecord {
    pub name: String,
    /// Since PID 1's start.
    pub start: Duration,
    pub duration: Option<Duration>,
    pub tasks: Vec<TaskRecord>,
}

#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct TaskRecord {
    pub name: String,
    pub start: Duration,
    pub duration: Option<Duration>,
    /// Why it failed.
    pub error: Option<String>,
    /// The result, in words.
    pub message: String,
}

/// The host as the API sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Host {
    pub requests: mpsc::Sender<HostRequest>,
    pub boot: watch::Receiver<BootReport>,
    /// `machine` or `container`.
    pub mode: &'static str,
    /// Of this build.
    pub features: Features,
    pub started: SystemTime,
    /// `None`: the build lacks the feature `volumes`.
    pub volumes: Option<Volumes>,
    /// `None`: the build lacks the feature `fleet`.
    pub fleet: Option<Fleet>,
    /// How often PID 1 has re-executed itself since.
    pub reexecs: u32,
    /// How often it has crashed, and gone on.
    pub crashes: u32,
}
