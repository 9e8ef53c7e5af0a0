//! The trait of all conditions.

use std::future::pending;

pub use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::missing::Missing;

/// The answer of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Holds,
    DoesNotHold,
    /// Nobody has answered yet. The answer comes as a change.
    Unknown,
}

impl From<bool> for Level {
    fn from(holds: bool) -> Self {
        if holds { Level::Holds } else { Level::DoesNotHold }
    }
}

impl From<Option<bool>> for Level {
    fn from(answer: Option<bool>) -> Self {
        answer.map_or(Level::Unknown, Level::from)
    }
}

/// Something that becomes true, and may become false again.
pub trait Condition: Send + Sync {
    /// The answer now. Cheap: never a system call that can wait.
    fn level(&self) -> Level;

    /// Whether it is known to hold now.
    fn holds(&self) -> bool {
        self.level() == Level::Holds
    }

    /// Returns the parts that are still missing, all of which must come true; empty when the condition holds.
    fn missing(&self) -> Vec<Missing>;

    /// Returns after [`Condition::holds`] or [`Condition::missing`] may have changed since the last look through
    /// `&mut self`; spurious returns are allowed, missed changes are not. Cancelled by dropping.
    fn changed(&mut self) -> BoxFuture<'_, ()>;

    /// Waits until the answer is known, at most until `deadline`, and returns it. Cancelled by dropping.
    fn known(&mut self, deadline: Instant) -> BoxFuture<'_, Level>
    where
        Self: Sized,
    {
        Box::pin(async move {
            while self.level() == Level::Unknown {
                if timeout_at(deadline, self.changed()).await.is_err() {
                    break;
                }
            }
            self.level()
        })
    }

    /// Returns once it holds. Cancelled by dropping.
    fn wait(&mut self) -> BoxFuture<'_, ()>
    where
        Self: Sized,
    {
        Box::pin(async move {
            while !self.holds() {
                self.changed().await;
            }
        })
    }
}

/// The next change of a channel; never returns once its sender is gone.
///
/// The channel counts its changes, and each receiver remembers which it has seen: nothing is missed, whenever this is
/// called.
pub(crate) fn changed<T: Send + Sync>(receiver: &mut watch::Receiver<T>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        if receiver.changed().await.is_err() {
            pending::<()>().await;
        }
    })
}
