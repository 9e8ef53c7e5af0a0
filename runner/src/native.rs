//! Containers that PID 1 runs itself: services from images, without containerd.
//!
//! A container is a process of PID 1 like any other: in a cgroup of its own, with the pipes of its log, stopped, adopted and
//! reaped as one ([`ProcessRunner`](crate::ProcessRunner)). It differs in its beginning: it is the first process of a PID
//! namespace, and executes Kelson's own binary as `kelson-container`, which makes the root of the container and then becomes
//! the program of the image. So nothing runs beside it, and nothing of it is lost with PID 1.
//!
//! What a later incarnation must know of it is in files of `/run`: what its image says, and as what its processes run.

use std::path::{Path, PathBuf};

use crate::container::oci::Process;

mod executor;
mod joining;
mod launch;
mod runner;

pub use executor::NativeExecutor;
pub use runner::NativeRunner;

/// The name by which the personality is called.
const NAME: &str = "kelson-container";

/// The files of a container, in its folder.
const IMAGE: &str = "image";
const PROCESS: &str = "process";

/// What a further process of a container takes over from the main one.
#[derive(serde::Serialize, serde::Deserialize)]
struct Further {
    process: Process,
    /// It is under Kelson's default profile of seccomp.
    is_filtered: bool,
}

/// The folder of a service below the runtime folder.
fn folder(runtime_dir: &Path, service: &str) -> PathBuf {
    runtime_dir.join("containers").join(service)
}
