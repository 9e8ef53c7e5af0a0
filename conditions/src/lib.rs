//! Things that become true: a path exists, the network is there, the clock is right, and `all` or `any` of them.
//!
//! A condition is a level, not an edge: it is asked whether it holds *now*. What held once and holds no longer
//! counts for nothing.

use std::future::Future;
use std::pin::Pin;

/// A boxed future that may be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that becomes true, and may become false again.
pub trait Condition: Send + Sync {
    /// Whether it holds now. Cheap: never a system call that can wait.
    fn holds(&self) -> bool;

    /// What is still missing, as words of a sentence (`path "/run/x.sock" to exist`); `None` when it holds.
    fn describe(&self) -> Option<String>;

    /// Returns after [`Condition::holds`] or [`Condition::describe`] may have changed since the last look through
    /// `&mut self`; spurious returns are allowed, missed changes are not. Cancelled by dropping.
    fn changed(&mut self) -> BoxFuture<'_, ()>;

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
