//! A start that somebody waits for.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kelson_sys::lock;

use super::child::Child;
use super::job::{Job, Killed, hand_over};
use super::shared::Shared;
use crate::spawn::SpawnError;

/// A start was given up while the kernel made its child. The child looks for that before its exec, but may never come
/// there: frozen at birth, or asleep on a dead disk. Nothing tells when the PID is written, and the spawner waits for
/// the child; so a thread looks until the clone has returned, a few milliseconds.
fn kill_once_known(shared: Arc<Shared>, job: Arc<Job>) {
    let look = move || {
        loop {
            std::thread::sleep(Duration::from_millis(1));
            let state = lock(&shared.state);
            let mut work = lock(&job.work);
            if job.kill_child(state.is_being_made(&job), &mut work) != Killed::NotYet {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name(String::from("give-up")).stack_size(128 * 1024);
    if let Err(error) = thread.spawn(look) {
        tracing::error!("cannot make a thread to end a start that was given up: {error}");
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
            } else if self.job.kill_child(state.is_being_made(&self.job), &mut work) == Killed::NotYet {
                kill_once_known(Arc::clone(self.shared), Arc::clone(&self.job));
            }
            work.waker = None;
            work.command.take()
        };
        if unwanted.is_some() {
            lock(&self.job.work).done = None;
            state.pool(self.job.filtered).queue.retain(|job| !Arc::ptr_eq(job, &self.job));
        }
    }
}
