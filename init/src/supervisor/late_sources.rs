//! A source of the configuration that needs the network: it is collected while the host runs, and then the files are read
//! again with it.

use std::sync::Arc;

use kelson_services::host::BootReport;
use kelson_services::state_store::Kind;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::sources::SourceKind;

use super::context::Context;
use crate::boot::{Order, Phase, Sequence, sources};

impl Context {
    /// Collects it beside all else, unless an earlier incarnation of PID 1 has done so.
    pub(super) fn collect_late_source(&self, sequence: &Arc<Sequence>) {
        if !const { OWN.has(Feature::Sources) } {
            return;
        }
        let Some(spec) = self.configuration.machine().sources else { return };
        let (runtime, state) = (self.options.runtime_dir.clone(), self.options.state_dir.clone());
        let tasks = self.personalities.tasks();
        if is_collected(&sequence.report().borrow()) {
            return;
        }
        let Some(task) = sources::late(&tasks, &spec, &runtime) else { return };
        let (files, store, sequence) = (self.files.clone(), self.store.clone(), Arc::clone(sequence));
        kelson_sys::spawn(async move {
            let phase = Phase::new("sources", Order::InTurn).task(task);
            let memory =
                sources::memory(&tasks, spec.kinds().filter(|kind| kind.is_late()), &runtime, &state);
            // None of them is essential.
            let _ = sequence.run_all([phase].into_iter().chain(memory)).await;
            if let Some(store) = store {
                store.write(Kind::Boot, "", &*sequence.report().borrow());
            }
            files.reload(None);
        });
    }
}

/// Whether the task has ended, well or not.
fn is_collected(report: &BootReport) -> bool {
    let name = sources::task_name(SourceKind::Metadata);
    let mut tasks = report.phases.iter().flat_map(|phase| &phase.tasks);
    tasks.any(|task| task.name == name && task.duration.is_some())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelson_services::host::{PhaseRecord, TaskRecord};

    use super::*;

    #[test]
    fn a_task_that_an_earlier_incarnation_left_is_done_again() {
        let report = |duration| {
            let task = TaskRecord { name: "source metadata".to_owned(), duration, ..TaskRecord::default() };
            let phase = PhaseRecord { tasks: vec![task], ..PhaseRecord::default() };
            BootReport { phases: vec![phase], ..BootReport::default() }
        };
        assert!(!is_collected(&BootReport::default()));
        assert!(!is_collected(&report(None)));
        assert!(is_collected(&report(Some(Duration::from_secs(1)))));
    }
}
