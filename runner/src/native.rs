//! Containers that PID 1 runs itself: services from images, without containerd.
//!
//! A container is a process of PID 1 like any other: in a cgroup of its own, with the pipes of its log, stopped, adopted and
//! reaped as one ([`ProcessRunner`](crate::ProcessRunner)). It differs in its beginning: it is the first process of a PID
//! namespace, and executes Kelson's own binary as `kelson-container`, which makes the root of the container and then becomes
//! the program of the image. So nothing runs beside it, and nothing of it is lost with PID 1.
//!
//! What a later incarnation must know of it is in files of `/run`: what its image says, and as what its processes run.

use std::path::{Path, PathBuf};

mod executor;
mod ids;
mod joining;
mod launch;
mod request;
mod runner;
mod terminal;

pub use executor::NativeExecutor;
pub use request::{Further, Request, Rootfs};
pub use runner::NativeRunner;
pub use terminal::TERMINAL;

/// The name by which the helper is called.
pub const NAME: &str = "kelson-container";

/// The files of a container, in its folder.
const IMAGE: &str = "image";
const PROCESS: &str = "process";

/// What is known of the images of a service, below the runtime folder.
pub fn folder(runtime_dir: &Path, service: &str) -> PathBuf {
    runtime_dir.join("containers").join(service)
}
