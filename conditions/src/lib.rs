//! Things that become true: a path exists, a file system is mounted, the network is there, the clock is right, and
//! `all` or `any` of them.
//!
//! A condition is a level, not an edge: it is asked whether it holds *now*. What held once and holds no longer
//! counts for nothing.
//!
//! - `condition`: the trait [`Condition`]. `compose`: [`All`] and [`Any`] of other conditions.
//! - `sources`: [`Sources`], which makes the condition that a requirement of a service file stands for.
//! - `missing`: [`Missing`], what a condition lacks, as data and as text.
//! - `path`: [`Paths`], which follows paths by inotify: by itself on memory file systems, through a process that may
//!   hang on all others.
//! - `network`: [`Network`], which follows rtnetlink and the hostname.
//! - `mounted`: [`Mounts`], which follows the table of mounts.
//! - `clock`: [`Clock`], which asks the kernel whether the clock is synchronised.
//!
//! The hubs open nothing until the first condition wants it, and close it after the last. Conditions are made inside
//! a tokio runtime, which runs what follows their subject.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod clock;
mod compose;
mod condition;
mod kernel_file;
mod missing;
mod mounted;
mod network;
mod on_demand;
mod path;
mod sources;

pub use clock::{Clock, ClockCondition, ClockSource, KernelClock};
pub use compose::{All, Any};
pub use condition::{BoxFuture, Condition, Level};
pub use missing::{Missing, Reason, Subject, sentence};
pub use mounted::{MountCondition, Mounts};
pub use network::{Network, NetworkCondition};
pub use path::{PathCondition, Paths, path_helper, serve_paths};
pub use sources::Sources;
