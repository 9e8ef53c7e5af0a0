//! Things that become true: a path exists, the network is there, the clock is right, and `all` or `any` of them.
//!
//! A condition is a level, not an edge: it is asked whether it holds *now*. What held once and holds no longer
//! counts for nothing.
//!
//! - `compose`: [`All`] and [`Any`] of other conditions.
//! - `watched`: [`Watched`], a condition over a tokio watch channel; what the state of a service is asked through.
//! - `path`: [`Paths`], which follows paths by inotify: by itself on memory file systems, through a process that may
//!   hang on all others.
//! - `network`: [`Network`], which follows rtnetlink and the hostname.
//! - `clock`: [`Clock`], which asks the kernel whether the clock is synchronised.
//!
//! The hubs open nothing until the first condition wants it, and close it after the last. Conditions are made inside
//! a tokio runtime, which runs what follows their subject.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod clock;
mod compose;
mod network;
mod on_demand;
mod path;
mod ready;
mod watched;

pub use clock::{Clock, ClockCondition, ClockSource, KernelClock};
pub use compose::{All, Any};
pub use network::{Aspect, Network, NetworkCondition};
pub use path::{Helper, HelperSpawner, PathCondition, Paths, path_helper, serve_paths};
pub use watched::Watched;

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

    /// [`Condition::describe`] in its parts, where there are several that must all come true; empty when it holds.
    fn missing(&self) -> Vec<String> {
        self.describe().into_iter().collect()
    }

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
