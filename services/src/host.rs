//! What the API asks of the host itself, and what the boot tells about itself. `init` answers and fills it.

use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot, watch};

/// How the run of the host is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ShutdownAction {
    Reboot,
    PowerOff,
    Halt,
}

/// A request to `init`.
#[derive(Debug)]
pub enum HostRequest {
    /// Answered with what is really under way.
    Shutdown { action: ShutdownAction, reason: String, reply: oneshot::Sender<String> },
    /// Read the files again; answered with what changed.
    Reload { reply: oneshot::Sender<ReloadReport> },
    /// Execute PID 1 anew; answered just before that, or with why it is not done.
    Reexec { reason: String, reply: oneshot::Sender<Result<Reexecution, String>> },
}

/// What PID 1 is executed from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reexecution {
    /// The file, with what it says of itself.
    pub program: String,
    pub old_version: String,
    pub new_version: String,
}

/// What reading the files again did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Why it failed: nothing was changed, and all else here is empty.
    pub failure: Option<String>,
    /// Services that are new.
    pub added: Vec<String>,
    /// Those of them that were started.
    pub started: Vec<String>,
    /// Services whose files are gone, and that are stopped.
    pub stopped: Vec<String>,
    /// Services whose files changed; their next run uses the new one.
    pub changed: Vec<String>,
    /// Those of them that wait, or are about to be started again: no operator has to restart them.
    pub next_run: Vec<String>,
    /// Services whose files have mistakes; one that runs goes on with the file it had.
    pub faulty: Vec<String>,
    /// Keys of the machine file that changed and took effect.
    pub applied: Vec<&'static str>,
    /// Keys of the machine file that take effect at the next boot.
    pub waiting: Vec<&'static str>,
    /// Groups whose files changed and took effect.
    pub groups: Vec<String>,
    /// Each mistake in the files.
    pub errors: Vec<String>,
}

impl ReloadReport {
    /// Of a reload that changed nothing.
    pub fn failed(why: impl Into<String>) -> ReloadReport {
        ReloadReport { failure: Some(why.into()), ..ReloadReport::default() }
    }
}

/// The boot as far as it has come.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct BootReport {
    pub phases: Vec<PhaseRecord>,
    /// From the kernel's start to PID 1's.
    pub kernel: Option<Duration>,
    /// From PID 1's start until every service that the boot starts was up or had ended.
    pub total: Option<Duration>,
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
    /// What it did.
    pub message: String,
}

/// The host as the API sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Host {
    pub requests: mpsc::Sender<HostRequest>,
    pub boot: watch::Receiver<BootReport>,
    /// `machine` or `container`.
    pub mode: &'static str,
    pub started: SystemTime,
    /// How often PID 1 has re-executed itself since.
    pub reexecs: u32,
    /// How often it has crashed, and gone on.
    pub crashes: u32,
}
