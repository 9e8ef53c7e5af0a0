//! The sources of the configuration: what they give is brought to a folder of each, and laid over the configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_spec::sources::{FOLDER, SourceKind, SourcesSpec};
use kelson_spec::{Diagnostic, Loaded};

use super::{Order, Phase, Task, TaskFailure};
use crate::task::Request;

/// How long a source may take that has come.
const STEP: Duration = Duration::from_secs(20);

/// How long the server of metadata is waited for: the network may be slow to come.
const LATE: Duration = Duration::from_secs(120);

/// Collects what the sources give that need no network.
pub fn phase(launcher: &Arc<dyn Launcher>, spec: &SourcesSpec, runtime: &Path) -> Phase {
    let kinds = spec.kinds().filter(|kind| !kind.is_late());
    let tasks = kinds.map(|kind| task(kind, launcher, spec, runtime, spec.wait));
    Phase::new("sources", Order::SideBySide).tasks(tasks)
}

/// The task that collects what a source gives that needs the network. `None`: no such source is used.
pub fn late(launcher: &Arc<dyn Launcher>, spec: &SourcesSpec, runtime: &Path) -> Option<Task> {
    let kind = spec.kinds().find(|kind| kind.is_late())?;
    Some(task(kind, launcher, spec, runtime, LATE))
}

/// The name of the task that collects what a source gives.
pub fn task_name(kind: SourceKind) -> String {
    format!("source {}", kind.name())
}

fn task(
    kind: SourceKind,
    launcher: &Arc<dyn Launcher>,
    spec: &SourcesSpec,
    runtime: &Path,
    patience: Duration,
) -> Task {
    let (folder, server) = (runtime.join(FOLDER), spec.server);
    let request = Request::CollectSource { kind, patience, folder, server };
    Task::request(task_name(kind), launcher, request, patience.saturating_add(STEP))
}

/// Remembers what sources gave that may be gone at the next boot, or takes what is remembered. `None`: there is none.
pub fn memory(
    launcher: &Arc<dyn Launcher>,
    kinds: impl Iterator<Item = SourceKind>,
    runtime: &Path,
    state: &Path,
) -> Option<Phase> {
    let tasks = kinds.filter(|kind| kind.is_remembered()).map(|kind| {
        let request = Request::KeepSource { kind, folder: runtime.join(FOLDER), state: state.to_owned() };
        Task::request(format!("remember source {}", kind.name()), launcher, request, STEP)
    });
    let tasks: Vec<Task> = tasks.collect();
    (!tasks.is_empty()).then(|| Phase::new("sources", Order::InTurn).tasks(tasks))
}

/// The sources of which there is something, from this boot or remembered. The folder is in memory.
pub fn given(spec: &SourcesSpec, runtime: &Path) -> Vec<SourceKind> {
    spec.kinds().filter(|kind| runtime.join(FOLDER).join(kind.name()).exists()).collect()
}

/// Reports the sources that `kelson-load` has skipped. `None`: it has skipped none.
pub fn verdict(spec: &SourcesSpec, loaded: &Loaded, runtime: &Path) -> Option<Phase> {
    let skipped = spec.kinds().filter(|kind| loaded.skipped.contains(kind)).map(|kind| {
        let folder = runtime.join(FOLDER).join(kind.name());
        let mistake = loaded.warnings.iter().find(|found| found.file.starts_with(&folder));
        let mistake = mistake.map(Diagnostic::to_string).unwrap_or_default();
        Task::call(format!("use source {}", kind.name()), || Err(TaskFailure::from(mistake)))
    });
    let tasks: Vec<Task> = skipped.collect();
    (!tasks.is_empty()).then(|| Phase::new("sources", Order::InTurn).tasks(tasks))
}
