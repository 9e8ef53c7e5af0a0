//! The sources of the configuration: what they give is brought to a folder of each, and laid over the configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_spec::sources::{FOLDER, SourcesSpec};
use kelson_spec::{Diagnostic, Loaded};

use super::{Order, Phase, Task, TaskFailure};
use crate::task::Request;

/// How long a source may take that has come.
const STEP: Duration = Duration::from_secs(20);

/// Collects what the sources give.
pub fn phase(launcher: &Arc<dyn Launcher>, spec: &SourcesSpec, runtime: &Path) -> Phase {
    let tasks = spec.kinds().map(|kind| {
        let request = Request::CollectSource { kind, patience: spec.wait, folder: runtime.join(FOLDER) };
        Task::request(format!("source {}", kind.name()), launcher, request, spec.wait.saturating_add(STEP))
    });
    Phase::new("sources", Order::SideBySide).tasks(tasks)
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
