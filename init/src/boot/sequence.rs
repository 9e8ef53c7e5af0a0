//! The engine of the boot: it runs phases and tasks and keeps their times.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kelson_services::host::{BootReport, PhaseRecord, TaskRecord};
use kelson_sys::boxed;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use kelson_helper::Launcher;

use crate::task::{self, Request};

/// No task of the boot waits longer, unless it says otherwise.
const USUAL_DEADLINE: Duration = Duration::from_secs(30);

/// A task that runs as long is reported.
const SLOW: Duration = Duration::from_secs(3);

/// The work of a task: `Ok` says what it did, or why there was nothing to do.
type Work = Pin<Box<dyn Future<Output = Result<String, TaskFailure>> + Send>>;

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFailure {
    pub message: String,
    /// Nothing can work after this, whatever the task was declared as.
    pub fatal: bool,
}

impl<T: std::fmt::Display> From<T> for TaskFailure {
    fn from(error: T) -> TaskFailure {
        TaskFailure { message: error.to_string(), fatal: false }
    }
}

/// One named step.
pub struct Task {
    name: String,
    essential: bool,
    deadline: Duration,
    work: Work,
}

impl Task {
    /// A task that may wait.
    pub fn new(
        name: impl Into<String>,
        work: impl Future<Output = Result<String, TaskFailure>> + Send + 'static,
    ) -> Task {
        Task { name: name.into(), essential: false, deadline: USUAL_DEADLINE, work: Box::pin(work) }
    }

    /// A task that `kelson-task` carries out by this deadline.
    pub fn request(
        name: impl Into<String>,
        launcher: &Arc<dyn Launcher>,
        request: Request,
        deadline: Duration,
    ) -> Task {
        let launcher = Arc::clone(launcher);
        let work = async move { Ok(task::run(launcher.as_ref(), &request, deadline).await?) };
        // The request ends by its own deadline, and its message names the process.
        Task::new(name, work).within(deadline.saturating_mul(2))
    }

    /// A task that is done at once, in PID 1: it must not touch a disk.
    pub fn call(
        name: impl Into<String>,
        work: impl FnOnce() -> Result<String, TaskFailure> + Send + 'static,
    ) -> Task {
        Task::new(name, async move { work() })
    }

    /// Does nothing, and says why, unless it is `needed`.
    #[must_use]
    pub fn when(self, needed: bool, otherwise: &'static str) -> Task {
        if needed { self } else { Task::call(self.name, move || Ok(otherwise.to_owned())) }
    }

    /// Without it the boot has failed.
    #[must_use]
    pub fn essential(mut self) -> Task {
        self.essential = true;
        self
    }

    /// Given up, and failed, after this time.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Task {
        self.deadline = deadline;
        self
    }
}

/// How the tasks of a phase run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    InTurn,
    SideBySide,
}

/// Tasks that belong together. The next phase begins when all of them have ended.
pub struct Phase {
    name: String,
    order: Order,
    tasks: Vec<Task>,
}

impl Phase {
    pub fn new(name: impl Into<String>, order: Order) -> Phase {
        Phase { name: name.into(), order, tasks: Vec::new() }
    }

    #[must_use]
    pub fn task(mut self, task: Task) -> Phase {
        self.tasks.push(task);
        self
    }

    #[must_use]
    pub fn tasks(mut self, tasks: impl IntoIterator<Item = Task>) -> Phase {
        self.tasks.extend(tasks);
        self
    }
}

/// An essential task failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the boot task \"{task}\" failed, and nothing can work without it: {message}")]
pub struct BootFailure {
    pub task: String,
    pub message: String,
}

/// The boot as it goes on. Dropping a running phase cancels its tasks.
pub struct Sequence {
    /// PID 1's start on the clock of the report.
    began: Instant,
    report: watch::Sender<BootReport>,
}

impl Sequence {
    /// `age` is how long PID 1 has been running already; `earlier` what an earlier part of this boot has done (our own
    /// initramfs); `kernel` the time from the kernel's start to PID 1's.
    pub fn new(age: Duration, kernel: Option<Duration>, earlier: Vec<PhaseRecord>) -> Sequence {
        let now = Instant::now();
        let report = BootReport { phases: earlier, kernel, ..BootReport::default() };
        Sequence { began: now.checked_sub(age).unwrap_or(now), report: watch::Sender::new(report) }
    }

    /// The report, for the API.
    pub fn report(&self) -> watch::Receiver<BootReport> {
        self.report.subscribe()
    }

    /// The report, for work that continues after the boot.
    pub fn sender(&self) -> watch::Sender<BootReport> {
        self.report.clone()
    }

    /// Since PID 1's start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Says that the boot is over: every service that it starts is up or has ended. Only the first call counts.
    pub fn finished(&self) {
        let total = self.elapsed();
        self.report.send_if_modified(|report| {
            let first = report.total.is_none();
            report.total.get_or_insert(total);
            first
        });
    }

    /// Goes on with the report of an earlier incarnation of PID 1.
    pub fn restore(&self, report: BootReport) {
        self.report.send_replace(report);
    }

    /// Runs the phases in their order.
    ///
    /// # Errors
    /// After the phase in which an essential task failed.
    pub async fn run_all(&self, phases: impl IntoIterator<Item = Phase>) -> Result<(), BootFailure> {
        for phase in phases {
            self.run(phase).await?;
        }
        Ok(())
    }

    /// Runs one phase to its end: also when an essential task fails, the tasks beside it are let finish.
    ///
    /// # Errors
    /// When an essential task failed; the first of them.
    pub async fn run(&self, phase: Phase) -> Result<(), BootFailure> {
        let index = self.open_phase(&phase);
        let mut failure = None;
        let mut running = JoinSet::new();
        for (number, task) in phase.tasks.into_iter().enumerate() {
            let name = task.name.clone();
            let essential = task.essential;
            let begin = self.elapsed();
            self.change_task(index, number, |record| record.start = begin);
            running.spawn(boxed(async move { (number, name, essential, work_of(task).await) }));
            if phase.order == Order::InTurn {
                self.collect(index, &mut running, &mut failure).await;
                if failure.is_some() {
                    break;
                }
            }
        }
        self.collect(index, &mut running, &mut failure).await;
        let end = self.elapsed();
        self.report.send_modify(|report| {
            if let Some(record) = report.phases.get_mut(index) {
                record.duration = Some(end.saturating_sub(record.start));
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Waits for all running tasks and writes down what became of them.
    async fn collect(
        &self,
        phase: usize,
        running: &mut JoinSet<(usize, String, bool, Result<String, TaskFailure>)>,
        failure: &mut Option<BootFailure>,
    ) {
        while let Some(ended) = running.join_next().await {
            let Ok((number, name, essential, result)) = ended else { continue };
            let end = self.elapsed();
            let (message, failed) = match result {
                Ok(message) => (message, None),
                Err(failed) => (String::new(), Some(failed)),
            };
            if let Some(failed) = &failed {
                tracing::error!("boot: {name}: {}", failed.message);
                if essential || failed.fatal {
                    failure.get_or_insert(BootFailure { task: name, message: failed.message.clone() });
                }
            }
            self.change_task(phase, number, |record| {
                record.duration = Some(end.saturating_sub(record.start));
                record.message = message;
                record.error = failed.map(|failed| failed.message);
            });
        }
    }

    fn open_phase(&self, phase: &Phase) -> usize {
        let start = self.elapsed();
        let tasks = phase.tasks.iter().map(|task| TaskRecord {
            name: task.name.clone(),
            start,
            ..Default::default()
        });
        let record = PhaseRecord { name: phase.name.clone(), start, duration: None, tasks: tasks.collect() };
        let mut index = 0;
        self.report.send_modify(|report| {
            index = report.phases.len();
            report.phases.push(record);
        });
        index
    }

    fn change_task(&self, phase: usize, task: usize, change: impl FnOnce(&mut TaskRecord)) {
        self.report.send_modify(|report| {
            if let Some(record) = report.phases.get_mut(phase).and_then(|phase| phase.tasks.get_mut(task)) {
                change(record);
            }
        });
    }
}

async fn work_of(mut task: Task) -> Result<String, TaskFailure> {
    let slow = SLOW.min(task.deadline);
    if let Ok(result) = tokio::time::timeout(slow, task.work.as_mut()).await {
        return result;
    }
    // Who looks at the console learns what the boot waits for.
    if slow < task.deadline {
        tracing::warn!("boot: {}: has not ended after {} s", task.name, slow.as_secs());
    }
    match tokio::time::timeout(task.deadline.saturating_sub(slow), task.work.as_mut()).await {
        Ok(result) => result,
        Err(_) => Err(TaskFailure::from(format!("it took longer than {} s", task.deadline.as_secs_f32()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn sleeping(name: &str, seconds: u64) -> Task {
        Task::new(name, async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(format!("slept {seconds}"))
        })
    }

    fn sequence() -> Sequence {
        Sequence::new(Duration::from_secs(1), Some(Duration::from_secs(2)), Vec::new())
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_side_by_side_overlap_and_tasks_in_turn_do_not() {
        let sequence = sequence();
        let beside = Phase::new("beside", Order::SideBySide).tasks([sleeping("a", 3), sleeping("b", 2)]);
        let turn = Phase::new("turn", Order::InTurn).tasks([sleeping("c", 3), sleeping("d", 2)]);
        sequence.run_all([beside, turn]).await.unwrap();
        sequence.finished();
        let report = sequence.report().borrow().clone();
        let [beside, turn] = report.phases.as_slice() else { panic!("{report:?}") };
        let seconds = |n| Duration::from_secs(n);
        assert_eq!((beside.start, beside.duration), (seconds(1), Some(seconds(3))));
        assert_eq!((turn.start, turn.duration), (seconds(4), Some(seconds(5))));
        assert_eq!(beside.tasks[1].duration, Some(seconds(2)));
        assert_eq!((turn.tasks[1].start, turn.tasks[1].duration), (seconds(7), Some(seconds(2))));
        assert_eq!(turn.tasks[1].message, "slept 2");
        assert_eq!((report.kernel, report.total), (Some(seconds(2)), Some(seconds(9))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_kept_and_the_boot_goes_on() {
        let sequence = sequence();
        let phase = Phase::new("p", Order::InTurn)
            .task(Task::call("bad", || Err("no such disk".into())))
            .task(sleeping("good", 1));
        sequence.run(phase).await.unwrap();
        let report = sequence.report().borrow().clone();
        assert_eq!(report.phases[0].tasks[0].error.as_deref(), Some("no such disk"));
        assert_eq!(report.phases[0].tasks[1].error, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_essential_task_ends_the_boot_but_not_the_tasks_beside_it() {
        let sequence = sequence();
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        let beside = Task::new("beside", async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            seen.store(true, Ordering::Relaxed);
            Ok(String::new())
        });
        let first = Phase::new("first", Order::SideBySide)
            .task(Task::call("root", || Err("no root".into())).essential())
            .task(beside);
        let error = sequence.run_all([first, Phase::new("second", Order::InTurn)]).await.unwrap_err();
        assert_eq!(error, BootFailure { task: "root".to_owned(), message: "no root".to_owned() });
        assert!(done.load(Ordering::Relaxed));
        assert_eq!(sequence.report().borrow().phases.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fatal_failure_needs_no_declaration_and_skips_the_rest_of_its_turn() {
        let sequence = sequence();
        let phase = Phase::new("p", Order::InTurn)
            .task(Task::call("check", || Err(TaskFailure { message: "start again".to_owned(), fatal: true })))
            .task(Task::call("never", || panic!("ran")));
        assert!(sequence.run(phase).await.is_err());
        assert_eq!(sequence.report().borrow().phases[0].tasks[1].duration, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_hangs_is_given_up() {
        let sequence = sequence();
        let task = Task::new("hang", std::future::pending()).within(Duration::from_secs(5));
        sequence.run(Phase::new("p", Order::SideBySide).task(task)).await.unwrap();
        let report = sequence.report().borrow().clone();
        assert_eq!(report.phases[0].tasks[0].error.as_deref(), Some("it took longer than 5 s"));
        assert_eq!(report.phases[0].duration, Some(Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_a_phase_cancels_its_tasks() {
        let sequence = sequence();
        let guard = Arc::new(());
        let held = guard.clone();
        let task = Task::new("long", async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            drop(held);
            Ok(String::new())
        });
        let run = sequence.run(Phase::new("p", Order::SideBySide).task(task));
        assert!(tokio::time::timeout(Duration::from_secs(1), run).await.is_err());
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&guard), 1);
    }
}
