//! One start on its way: from the queue to a spawner thread and back to who asked.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use kelson_sys::lock;
use tokio::sync::oneshot;

use super::child::Child;
use super::slots::SlotGuard;
use super::start_time::has_executed;
use crate::command::{Command, PidNamespace};
use crate::runner::Exit;
use crate::spawn::control::Control;
use crate::spawn::{SpawnError, Subject};

/// A start.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) control: Arc<Control>,
    /// The names that an error text shows.
    pub(super) subject: Subject,
    /// Made by a thread under the filter that the child is to have, where there can be one.
    pub(super) filtered: bool,
    /// Made by a thread of its own, which ends after it.
    pub(super) is_apart: bool,
    pub(super) work: Mutex<Work>,
}

#[derive(Debug, Default)]
pub(super) struct Work {
    /// Until a spawner takes it.
    pub(super) command: Option<Command>,
    /// From the queue to the report: where the kernel writes its PID. `None` then: in [`Control`].
    pub(super) slot: Option<Arc<SlotGuard>>,
    /// The child ended before its spawner reported it; with a pidfd where the clone gave none.
    pub(super) early: Option<(Exit, Option<OwnedFd>)>,
    /// The spawner has reported the child: the PID is no longer this job's to know.
    reported: bool,
    /// Given the child of a start that was given up once its program ran. Dropped when nothing is done for it any more.
    pub(super) done: Option<oneshot::Sender<Child>>,
    /// The start was given up before the program ran.
    killed: bool,
    pub(super) result: Option<Result<Child, SpawnError>>,
    pub(super) waker: Option<Waker>,
}

impl Work {
    /// From here on the reaper and who gives the start up look elsewhere for the child. Returns how it ended where
    /// the reaper met it before.
    pub(super) fn reported(&mut self) -> Option<(Exit, Option<OwnedFd>)> {
        self.reported = true;
        self.early.take()
    }
}

impl Job {
    /// `filters`: threads can take a filter.
    pub(super) fn new(mut command: Command, filters: bool) -> Arc<Job> {
        let subject = command.subject();
        let done = command.done.take();
        let filtered = filters && command.seccomp.as_ref().is_some_and(|filter| filter.is_of_all());
        let is_apart = matches!(command.pid_namespace, PidNamespace::Of(_));
        let work = Mutex::new(Work { command: Some(command), done, ..Work::default() });
        Arc::new(Job { control: Arc::new(Control::new()), subject, filtered, is_apart, work })
    }

    /// PID of the child being made; 0 before the clone and after the report.
    pub(super) fn pid(&self, work: &Work) -> i32 {
        if work.reported {
            return 0;
        }
        let cell = work.slot.as_ref().and_then(|slot| slot.pid()).unwrap_or(&self.control.pid);
        cell.load(SeqCst)
    }

    /// Kills the child that is being made, where its PID is known; but not one whose program runs already where
    /// somebody takes it over, to end it by its stop signal. The caller holds the state's lock, which keeps it from
    /// being reaped, so the number cannot become another's meanwhile.
    pub(super) fn kill_child(&self, is_being_made: bool, work: &mut Work) -> Killed {
        if work.reported || work.early.is_some() || !is_being_made {
            return Killed::Needless;
        }
        match self.pid(work) {
            0 => Killed::NotYet,
            pid if work.done.is_some() && has_executed(pid) => Killed::Needless,
            pid => {
                work.killed = true;
                // SAFETY: a number of a child that nobody has reaped.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                Killed::Done
            }
        }
    }

    /// Hands the result to who waits for it. One that nobody wants any more ends its child.
    pub(super) fn finish(&self, result: Result<Child, SpawnError>) {
        let waker = {
            let mut work = lock(&self.work);
            if self.control.is_cancelled() {
                let done = work.done.take().filter(|_| !work.killed);
                hand_over(result, done);
                return;
            }
            work.result = Some(result);
            work.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Killed {
    Done,
    /// The start is not with a spawner, or its child is known otherwise.
    Needless,
    /// The kernel has not yet written its PID.
    NotYet,
}

/// Gives the child of a start that was given up to who ends it; where nobody does, it is killed.
pub(super) fn hand_over(result: Result<Child, SpawnError>, done: Option<oneshot::Sender<Child>>) {
    let Ok(child) = result else { return };
    let unwanted = match done {
        Some(done) => done.send(child).err(),
        None => Some(child),
    };
    if let Some(child) = unwanted {
        child.signal(libc::SIGKILL);
    }
}
