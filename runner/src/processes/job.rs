//! One start on its way: from the queue to a spawner thread and back to who asked.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use kelson_sys::pidfd;
use tokio::sync::oneshot;

use super::slots::SlotGuard;
use super::start_time::has_executed;
use super::{Child, Shared, State, lock};
use crate::command::Command;
use crate::runner::Exit;
use crate::spawn::control::Control;
use crate::spawn::{SpawnError, Subject};

/// A start.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) control: Arc<Control>,
    /// What an error text names.
    pub(super) subject: Subject,
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
    done: Option<oneshot::Sender<Child>>,
    /// The start was given up before the program ran.
    killed: bool,
    result: Option<Result<Child, SpawnError>>,
    waker: Option<Waker>,
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
    pub(super) fn new(mut command: Command) -> Arc<Job> {
        let subject = command.subject();
        let done = command.done.take();
        let work = Work { command: Some(command), done, ..Work::default() };
        Arc::new(Job { control: Arc::new(Control::new()), subject, work: Mutex::new(work) })
    }

    /// PID of the child being made; 0 before the clone and after the report.
    pub(super) fn pid(&self, work: &Work) -> i32 {
        if work.reported {
            return 0;
        }
        let cell = work.slot.as_ref().and_then(|slot| slot.pid()).unwrap_or(&self.control.pid);
        cell.load(SeqCst)
    }

    /// Kills the child that is being made, where its PID is known; but not one whose program runs already where somebody
    /// takes it over, to end it by its stop signal. The state's lock keeps it from being reaped, so the number cannot
    /// become another's meanwhile.
    fn kill_child(self: &Arc<Self>, state: &State, work: &mut Work) -> Killed {
        if work.reported || work.early.is_some() || !state.is_being_made(self) {
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
enum Killed {
    Done,
    /// The start is not with a spawner, or its child is known otherwise.
    Needless,
    /// The kernel has not yet told its PID.
    NotYet,
}

/// A start was given up while the kernel made its child. The child looks for that before its exec, but may never come
/// there: frozen at birth, or asleep on a dead disk. Nothing tells when the PID is written, and the spawner waits for
/// the child; so a thread looks until the clone has returned, a few milliseconds.
fn kill_once_known(shared: Arc<Shared>, job: Arc<Job>) {
    let look = move || {
        loop {
            std::thread::sleep(Duration::from_millis(1));
            let state = lock(&shared.state);
            let mut work = lock(&job.work);
            if job.kill_child(&state, &mut work) != Killed::NotYet {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name(String::from("give-up")).stack_size(128 * 1024);
    if let Err(error) = thread.spawn(look) {
        tracing::error!("cannot make a thread to end a start that was given up: {error}");
    }
}

/// Gives the child of a start that was given up to who ends it; where nobody does, it is killed.
fn hand_over(result: Result<Child, SpawnError>, done: Option<oneshot::Sender<Child>>) {
    let Ok(child) = result else { return };
    let unwanted = match done {
        Some(done) => done.send(child).err(),
        None => Some(child),
    };
    if let Some(child) = unwanted {
        pidfd::signal(&child.pidfd, libc::SIGKILL);
    }
}

/// A start that somebody waits for; dropped before its result was taken, it is given up.
pub(super) struct Pending<'a> {
    shared: &'a Arc<Shared>,
    job: Arc<Job>,
}

impl<'a> Pending<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, job: Arc<Job>) -> Self {
        shared.enqueue(Arc::clone(&job));
        Pending { shared, job }
    }

    pub(super) async fn result(&self) -> Result<Child, SpawnError> {
        poll_fn(|context| {
            let mut work = lock(&self.job.work);
            match work.result.take() {
                Some(result) => {
                    work.done = None;
                    Poll::Ready(result)
                }
                None => {
                    work.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The error of a start that was not done within its deadline. Nobody takes its child over.
    pub(super) fn late(&self, deadline: Duration) -> SpawnError {
        lock(&self.job.work).done = None;
        SpawnError::late(self.job.control.step(), deadline, &self.job.subject)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // The state's lock keeps the child from being reaped, so its PID cannot become another's meanwhile.
        let mut state = lock(&self.shared.state);
        self.job.control.cancel();
        let unwanted = {
            let mut work = lock(&self.job.work);
            if let Some(result) = work.result.take() {
                hand_over(result, work.done.take());
            } else if self.job.kill_child(&state, &mut work) == Killed::NotYet {
                kill_once_known(Arc::clone(self.shared), Arc::clone(&self.job));
            }
            work.waker = None;
            work.command.take()
        };
        if unwanted.is_some() {
            lock(&self.job.work).done = None;
            state.queue.retain(|job| !Arc::ptr_eq(job, &self.job));
        }
    }
}
