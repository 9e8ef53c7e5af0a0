//! A condition over the value of a tokio watch channel.
//!
//! The channel counts its changes, and each condition remembers which it has seen: that is what makes `changed` miss
//! nothing, whenever it is called.

use std::future::pending;

use tokio::sync::watch;

use crate::{BoxFuture, Condition};

/// Holds while `missing` finds nothing missing in the channel's value. A sender that is gone is no change: the last
/// value stands.
pub struct Watched<T, F> {
    receiver: watch::Receiver<T>,
    missing: F,
}

impl<T, F> Watched<T, F>
where
    T: Send + Sync,
    F: Fn(&T) -> Option<String> + Send + Sync,
{
    /// `missing` returns what is still missing, as [`Condition::describe`] does; it must be cheap.
    pub fn new(receiver: watch::Receiver<T>, missing: F) -> Self {
        Watched { receiver, missing }
    }
}

impl<T, F> Condition for Watched<T, F>
where
    T: Send + Sync,
    F: Fn(&T) -> Option<String> + Send + Sync,
{
    fn holds(&self) -> bool {
        (self.missing)(&self.receiver.borrow()).is_none()
    }

    fn describe(&self) -> Option<String> {
        (self.missing)(&self.receiver.borrow())
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        changed(&mut self.receiver)
    }
}

/// The next change of a channel; never returns once its sender is gone.
pub(crate) fn changed<T: Send + Sync>(receiver: &mut watch::Receiver<T>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        if receiver.changed().await.is_err() {
            pending::<()>().await;
        }
    })
}
