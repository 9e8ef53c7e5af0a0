//! Starting Kelson's other personalities from PID 1's copy in memory.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_helper::answer::{Answers, Bounds, Unanswered};
use kelson_helper::{Launcher, Start, task};
use kelson_runner::Processes;
use kelson_services::helpers::{HelperKind, HelperLauncher};
use kelson_spec::wire::{self, WireError};
use kelson_spec::{Diagnostic, Loaded, MachineSpec};

use crate::options::Mode;

/// How long reading the configuration may take before the host goes on without it.
const LOAD_DEADLINE: Duration = Duration::from_secs(60);
/// A configuration of more bytes than this is no configuration.
const LOAD_BOUNDS: Bounds = Bounds { start: LOAD_DEADLINE, silence: LOAD_DEADLINE, frame: 64 << 20 };
const LOAD: HelperKind = HelperKind::part_of_init("kelson-load");
const TASK: HelperKind = HelperKind::part_of_init(task::NAME);

/// Why the configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadFailure {
    #[error("could not be read within {} s (its disk does not answer)", LOAD_DEADLINE.as_secs())]
    Late,
    #[error("could not be read: {0}")]
    Damaged(#[from] WireError),
    #[error("could not be read: {name} {0}", name = LOAD.name)]
    Unanswered(Unanswered),
}

/// Spawns personalities. Cheap to clone.
#[derive(Clone)]
pub struct Personalities {
    pub processes: Processes,
    pub binary: Arc<OwnedFd>,
}

impl Personalities {
    /// Returns the launcher for helpers of a kind.
    pub fn helpers(&self, kind: HelperKind) -> Arc<dyn Launcher> {
        Arc::new(HelperLauncher::new(self.processes.clone(), Arc::clone(&self.binary), kind))
    }

    /// Returns the launcher of `kelson-task`.
    pub fn tasks(&self) -> Arc<dyn Launcher> {
        self.helpers(TASK)
    }

    /// Has `kelson-load` read the configuration for a host that boots. A failure becomes a diagnostic: the host boots.
    pub async fn load(&self, config: &Path, mode: Mode) -> Loaded {
        self.read(config, mode, None).await.unwrap_or_else(|failure| Loaded {
            diagnostics: vec![Diagnostic {
                file: config.to_owned(),
                line: 0,
                column: 0,
                service: None,
                message: format!("{failure}, no service is known"),
            }],
            machine: mode.machine_defaults(),
            ..Loaded::default()
        })
    }

    /// Has `kelson-load` read the configuration again, for a host that booted with this machine file.
    ///
    /// # Errors
    /// Nothing is known of the files.
    pub async fn reload(
        &self,
        config: &Path,
        mode: Mode,
        booted: &MachineSpec,
    ) -> Result<Loaded, LoadFailure> {
        self.read(config, mode, Some(booted.containerd_switch())).await
    }

    async fn read(&self, config: &Path, mode: Mode, containerd: Option<&str>) -> Result<Loaded, LoadFailure> {
        let read_at = Some(SystemTime::now());
        let mut arguments: Vec<OsString> =
            vec!["--config".into(), config.into(), "--mode".into(), mode.name().into()];
        if let Some(word) = containerd {
            arguments.extend(["--containerd".into(), word.into()]);
        }
        let start = Start { arguments, ..Start::default() };
        let launcher = self.helpers(LOAD);
        let answer =
            async { Answers::begin(&*launcher, start, libc::STDOUT_FILENO, LOAD_BOUNDS).await?.next().await };
        match tokio::time::timeout(LOAD_DEADLINE, answer).await {
            Ok(Ok(bytes)) => Ok(Loaded { read_at, ..wire::decode(&bytes)? }),
            Ok(Err(Unanswered::NotStarted(_) | Unanswered::Silent(_))) | Err(_) => Err(LoadFailure::Late),
            Ok(Err(why)) => Err(LoadFailure::Unanswered(why)),
        }
    }
}
