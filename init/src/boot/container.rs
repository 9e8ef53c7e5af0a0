//! The phases of a container's boot: nothing is mounted, and what the host has set stays as it is.

use super::{Order, Phase, Task, mounts};
use crate::options::{Options, RuntimePlace};

/// Before the configuration is read.
pub fn early(options: &Options) -> Vec<Phase> {
    let runtime = options.runtime_dir.clone();
    let folders = Task::call("runtime folders", move || mounts::runtime_folders(&runtime, false))
        .essential()
        .when(options.runtime_place != RuntimePlace::Nowhere, "there is no folder that can be written");
    vec![Phase::new("runtime", Order::InTurn).task(folders)]
}
