//! Containers: services that containerd runs from images.
//!
//! PID 1 speaks gRPC to containerd's socket and nothing else of containerd's: images are unpacked by another process,
//! before. Three things are kept apart here, since each fails on its own:
//!
//! - **containerd's records** (container, snapshot, task) are made and removed by calls, each with a deadline
//!   (crate `containerd`). The next start removes objects that could not be removed (`leftovers`).
//! - **the process** is the kernel's: signalled by pidfd, killed through the service's cgroup, seen to end (`pidfd`).
//! - **its exit status** is the shim's to tell, through containerd, however often that went away meanwhile (`watch`).
//!
//! [`ContainerRunner`] is the [`Runner`](crate::Runner) over them, [`ContainerExecutor`] runs further commands inside.

mod attaching;
mod bundle;
mod detached;
mod error;
mod executor;
mod launch;
mod leftovers;
mod made_of;
mod opening;
mod pidfd;
mod retry;
mod runner;
mod runtime;
mod watch;

use std::time::Duration;

use crate::runner::KILL_DEADLINE;

pub use detached::DetachedContainer;
pub use executor::ContainerExecutor;
pub use runner::ContainerRunner;

/// How long a start bears a containerd that is away.
const RETRY_WINDOW: Duration = Duration::from_secs(60);
