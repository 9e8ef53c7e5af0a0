//! The state that the makers, the reaper and the adopters of children share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::child::{Child, ExitCell};
use super::job::Job;
use super::slots::{Leftover, Slots};
use crate::cgroup::CgroupRoot;
use crate::seccomp::Filters;
use crate::spawn::clone::Refused;
use crate::spawn::plan::Inheritance;
use crate::spawn::window::Window;

/// All children of PID 1: makes them and reaps them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Processes {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// A job was queued in [`State::plain`].
    pub(super) queued: Condvar,
    /// A job was queued in [`State::filtered`].
    pub(super) queued_filtered: Condvar,
    /// A thread could not take the filter: each child installs its own.
    pub(super) cannot_filter: AtomicBool,
    pub(super) slots: Arc<Slots>,
    pub(super) leftovers: Vec<Leftover>,
    pub(super) inheritance: Inheritance,
    pub(super) refused: Refused,
    /// Threads of each pool, while none of them hangs.
    pub(super) spawners: usize,
    /// Of the first threads of each pool. Locked by its thread alone, while it makes a child.
    pub(super) windows: Vec<Mutex<Window>>,
    pub(super) cgroups: Option<CgroupRoot>,
    pub(super) incarnation: String,
    pub(super) filters: Mutex<Filters>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Children whose exit somebody may wait for, by PID. `None`: failed before its exec, only to be reaped.
    pub(super) children: BTreeMap<i32, Option<Arc<ExitCell>>>,
    /// Of an earlier incarnation, until their owners adopt them.
    pub(super) held: Vec<Child>,
    pub(super) plain: Pool,
    /// Threads under the seccomp filter of services that can hold every capability. Their children inherit it, which costs
    /// nothing; the kernel takes a fifth of the whole start to install a filter.
    pub(super) filtered: Pool,
    /// Starts that have a thread of their own.
    pub(super) apart: Vec<Arc<Job>>,
}

/// Spawner threads of one kind, and their work.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) queue: VecDeque<Arc<Job>>,
    pub(super) workers: Vec<Worker>,
}

/// A thread that is busy with one start for longer hangs.
pub(super) const STUCK: Duration = Duration::from_millis(500);

/// A spawner thread as the others see it.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Its present job, and the time at which it began. `None`: idle.
    pub(super) busy: Option<(Arc<Job>, Instant)>,
    /// Its number is free for a new thread.
    pub(super) gone: bool,
}

impl Worker {
    pub(super) fn making(&self) -> Option<&Arc<Job>> {
        self.busy.as_ref().map(|(job, _)| job)
    }

    pub(super) fn hangs(&self) -> bool {
        self.busy.as_ref().is_some_and(|(_, since)| since.elapsed() >= STUCK)
    }
}

impl State {
    pub(super) fn pool(&mut self, filtered: bool) -> &mut Pool {
        if filtered { &mut self.filtered } else { &mut self.plain }
    }

    /// The starts that are being made.
    pub(super) fn making(&self) -> impl Iterator<Item = &Arc<Job>> {
        let workers = self.plain.workers.iter().chain(&self.filtered.workers);
        workers.filter_map(Worker::making).chain(&self.apart)
    }

    pub(super) fn is_being_made(&self, job: &Arc<Job>) -> bool {
        self.making().any(|other| Arc::ptr_eq(other, job))
    }
}

impl Pool {
    pub(super) fn alive(&self) -> usize {
        self.workers.iter().filter(|worker| !worker.gone).count()
    }

    pub(super) fn idle(&self) -> usize {
        self.workers.iter().filter(|worker| !worker.gone && worker.busy.is_none()).count()
    }
}
