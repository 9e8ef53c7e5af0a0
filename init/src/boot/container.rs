//! The phases of a container's boot: nothing is mounted, and what the host has set stays as it is.

use super::{Order, Phase, Task, mounts};
use crate::options::Options;

/// Before the configuration is read.
pub fn early(options: &Options) -> Vec<Phase> {
    let runtime = options.runtime_dir.clone();
    let folders = Task::call("runtime folders", move || mounts::runtime_folders(&runtime, false)).essential();
    vec![Phase::new("runtime", Order::InTurn).task(folders)]
}
