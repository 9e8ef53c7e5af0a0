//! A child that runs, and its end as a future that any number of owners may wait for.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use kelson_sys::{lock, pidfd};

use super::slots::SlotGuard;
use crate::runner::Exit;

/// A child that has executed its program.
#[derive(Debug)]
pub struct Child {
    pub pid: i32,
    /// Names this very process for as long as it is held.
    pub pidfd: OwnedFd,
    /// Ticks since boot, field 22 of `/proc/PID/stat`; 0 where the child had ended before it could be read.
    pub start_time: u64,
    pub exit: ExitReceiver,
}

impl Child {
    /// Sends a signal. Nothing happens when it has ended.
    pub fn signal(&self, signal: i32) {
        pidfd::signal(&self.pidfd, signal);
    }
}

/// Where the reaper puts the status of one child.
#[derive(Debug, Default)]
pub(crate) struct ExitCell {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    exit: Option<Exit>,
    next_key: u32,
    /// One waker a receiver, so that no number of polls makes it grow.
    wakers: Vec<(u32, Waker)>,
}

impl ExitCell {
    pub(crate) fn complete(&self, exit: Exit) {
        let wakers = {
            let mut inner = lock(&self.inner);
            inner.exit = Some(exit);
            std::mem::take(&mut inner.wakers)
        };
        for (_, waker) in wakers {
            waker.wake();
        }
    }

    fn exit(&self) -> Option<Exit> {
        lock(&self.inner).exit
    }

    pub(crate) fn receiver(self: &Arc<Self>, slot: Option<Arc<SlotGuard>>) -> ExitReceiver {
        let mut inner = lock(&self.inner);
        let key = inner.next_key;
        inner.next_key = key.wrapping_add(1);
        drop(inner);
        ExitReceiver { cell: Arc::clone(self), key, slot }
    }
}

/// Resolves to how the child ended. Dropping it loses nothing; a clone waits for the same end.
#[derive(Debug)]
pub struct ExitReceiver {
    cell: Arc<ExitCell>,
    key: u32,
    /// Held until the first poll: by then the owner has recorded the PID.
    slot: Option<Arc<SlotGuard>>,
}

impl ExitReceiver {
    pub(super) fn is_of(&self, cell: &Arc<ExitCell>) -> bool {
        Arc::ptr_eq(&self.cell, cell)
    }

    /// How the child ended, if it has.
    pub fn exited(&self) -> Option<Exit> {
        self.cell.exit()
    }
}

impl Clone for ExitReceiver {
    fn clone(&self) -> Self {
        self.cell.receiver(None)
    }
}

impl Future for ExitReceiver {
    type Output = Exit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Exit> {
        self.slot = None;
        let mut inner = lock(&self.cell.inner);
        if let Some(exit) = inner.exit {
            return Poll::Ready(exit);
        }
        match inner.wakers.iter_mut().find(|(key, _)| *key == self.key) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => {
                // One receiver waits as a rule, and this stands for each running service: room for no more.
                inner.wakers.reserve_exact(1);
                inner.wakers.push((self.key, context.waker().clone()));
            }
        }
        Poll::Pending
    }
}

impl Drop for ExitReceiver {
    fn drop(&mut self) {
        lock(&self.cell.inner).wakers.retain(|(key, _)| *key != self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_receiver_hears_the_exit_and_a_dropped_one_leaves_nothing() {
        let cell = Arc::new(ExitCell::default());
        let (mut first, second) = (cell.receiver(None), cell.receiver(None));
        let mut third = second.clone();
        tokio::select! {
            biased;
            _ = &mut first => unreachable!(),
            _ = &mut third => unreachable!(),
            () = std::future::ready(()) => {}
        }
        assert_eq!(lock(&cell.inner).wakers.len(), 2);
        drop(third);
        assert_eq!(lock(&cell.inner).wakers.len(), 1);
        assert_eq!(second.exited(), None);
        cell.complete(Exit::Status(3));
        assert_eq!(first.await, Exit::Status(3));
        assert_eq!(second.exited(), Some(Exit::Status(3)));
        assert_eq!(second.await, Exit::Status(3));
    }
}
