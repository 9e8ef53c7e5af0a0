//! Starting Kelson's other personalities from PID 1's copy in memory.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_helper::answer::{self, Answers, Bounds, Unanswered};
use kelson_helper::{Launcher, Start, task};
use kelson_runner::Processes;
use kelson_services::helpers::{HelperKind, HelperLauncher};
use kelson_spec::applied::{Answer, FOLDER, Question};
use kelson_spec::features::OWN;
use kelson_spec::wire::{self, WireError};
use kelson_spec::{Diagnostic, Feature, Loaded, MachineSpec, sources};

use crate::boot::{network, state_folder};
use crate::initramfs;
use crate::options::{Mode, Options};
use crate::rescue;

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
    Unanswered(#[from] Unanswered),
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

    /// Has `kelson-load` read the configuration for a host that boots, or for a later incarnation that has lost it. A
    /// failure becomes a diagnostic: the host boots.
    pub async fn load(&self, options: &Options, boots: bool) -> Loaded {
        let purpose = if boots { "boot" } else { "reload" };
        self.read(options, None, purpose).await.unwrap_or_else(|failure| Loaded {
            diagnostics: vec![Diagnostic {
                file: options.config.clone(),
                line: 0,
                column: 0,
                service: None,
                message: format!("{failure}, no service is known"),
            }],
            ..defaults(options)
        })
    }

    /// Has `kelson-load` read the configuration again, for a host that booted with this machine file.
    ///
    /// # Errors
    /// Nothing is known of the files.
    pub async fn reload(&self, options: &Options, booted: &MachineSpec) -> Result<Loaded, LoadFailure> {
        self.read(options, Some(booted.containerd_switch()), "reload").await
    }

    async fn read(
        &self,
        options: &Options,
        containerd: Option<&str>,
        purpose: &str,
    ) -> Result<Loaded, LoadFailure> {
        let read_at = Some(SystemTime::now());
        let start = Start { arguments: arguments(options, containerd, purpose), ..Start::default() };
        let bytes = self.answer(start).await?;
        let mut loaded = Loaded { read_at, ..wire::decode(&bytes)? };
        complete(options, &mut loaded);
        Ok(loaded)
    }

    /// Has `kelson-load` answer a question about the configurations that were applied.
    ///
    /// # Errors
    /// It is not known whether it was done.
    pub async fn ask(
        &self,
        options: &Options,
        booted: &MachineSpec,
        question: &Question,
    ) -> Result<Answer, LoadFailure> {
        let read_at = Some(SystemTime::now());
        let input = answer::input(&wire::encode(question)?).map_err(Unanswered::Start)?;
        let arguments = arguments(options, Some(booted.containerd_switch()), "question");
        let start = Start { arguments, descriptors: vec![(libc::STDIN_FILENO, input)], network: None };
        let mut answer = wire::decode(&self.answer(start).await?)?;
        if let Answer::Applied { loaded, .. } = &mut answer {
            loaded.read_at = read_at;
            complete(options, loaded);
        }
        Ok(answer)
    }

    async fn answer(&self, start: Start) -> Result<Vec<u8>, LoadFailure> {
        let launcher = self.helpers(LOAD);
        let answer =
            async { Answers::begin(&*launcher, start, libc::STDOUT_FILENO, LOAD_BOUNDS).await?.next().await };
        match tokio::time::timeout(LOAD_DEADLINE, answer).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(Unanswered::NotStarted(_) | Unanswered::Silent(_))) | Err(_) => Err(LoadFailure::Late),
            Ok(Err(why)) => Err(LoadFailure::Unanswered(why)),
        }
    }
}

/// The configuration of a host without files.
pub fn defaults(options: &Options) -> Loaded {
    let mut loaded = Loaded { machine: options.mode.machine_defaults(), ..Loaded::default() };
    complete(options, &mut loaded);
    loaded
}

/// Adds the part of the kernel's command line to what the files say.
fn complete(options: &Options, loaded: &mut Loaded) {
    network::add(&mut loaded.machine.network, &options.kernel.ip);
    if options.rescue.is_some() {
        rescue::restrict(loaded);
    }
}

fn arguments(options: &Options, containerd: Option<&str>, purpose: &str) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--config".into(), options.config.clone().into()];
    arguments.extend(["--mode".into(), options.mode.name().into(), "--for".into(), purpose.into()]);
    // Early in a boot a disk that is laid over the root is only mounted beside it.
    let early = Path::new(initramfs::PARTS).join(initramfs::DISK).join(state_folder::NAME);
    let early = (purpose == "boot" && options.mode == Mode::Machine).then_some(early);
    for folder in early.into_iter().chain([options.state_dir.clone()]) {
        arguments.extend(["--applied".into(), folder.join(FOLDER).into()]);
    }
    if const { OWN.has(Feature::Sources) } && options.mode == Mode::Machine {
        arguments.extend(["--sources".into(), options.runtime_dir.join(sources::FOLDER).into()]);
    }
    if let Some(word) = containerd {
        arguments.extend(["--containerd".into(), word.into()]);
    }
    arguments
}
