//! The phases of a machine's boot.
//!
//! [`early`] needs no configuration and comes first; `kelson-load` reads the files after it; [`configured`] does what they
//! say. The services come after that, and are the supervisor's.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::MachineSpec;

use super::{
    Order, Phase, Task, TaskFailure, clock, devices, identity, mounts, network, root, settings, state_folder,
};
use crate::options::Options;
use crate::task::{self, Launcher, Request};
use crate::{log, signals};

/// What is kept of the kernel's randomness from one run to the next.
pub const RANDOM_SEED: &str = "/var/lib/kelson/random-seed";

/// Before the configuration is read: the kernel's file systems, our own folders, the root.
pub fn early(options: &Options, launcher: Arc<dyn Launcher>) -> Vec<Phase> {
    let runtime = options.runtime_dir.clone();
    let own = Phase::new("own house", Order::InTurn)
        .task(Task::call("runtime folders", move || mounts::runtime_folders(&runtime, true)).essential())
        .task(Task::call("kernel log", || Ok(log::lift_rate_limit().map(|()| String::new())?)))
        .task(Task::call("ctrl-alt-del", || Ok(signals::catch_ctrl_alt_del().map(|()| String::new())?)));
    vec![mounts::phase(), own, root::phase(launcher)]
}

/// What the machine file says.
pub fn configured(
    options: &Options,
    machine: &MachineSpec,
    launcher: Arc<dyn Launcher>,
    watchdog: Task,
) -> Vec<Phase> {
    let mut phases = vec![
        Phase::new("modules", Order::InTurn)
            .task(settings::modules(launcher.clone(), machine.modules.clone())),
        // Its driver may be one of those, and what comes now can hang on a disk.
        Phase::new("watchdog", Order::InTurn).task(watchdog),
    ];
    for group in devices::tasks(&launcher, &machine.mounts) {
        phases.push(Phase::new("mounts", Order::SideBySide).tasks(group));
    }
    let state = state_folder::task(launcher.clone(), options.state_dir.clone());
    phases.push(Phase::new("mounts", Order::InTurn).task(state));
    let from_kernel = options.kernel.ip.iter().find_map(|word| word.hostname.clone());
    phases.push(
        Phase::new("settings", Order::SideBySide)
            .task(settings::sysctl(machine.sysctl.clone()))
            .task(identity::hostname(machine.hostname.clone(), from_kernel))
            .task(identity::machine_id(&options.runtime_dir))
            .task(clock::task())
            .task(seed(launcher)),
    );
    phases.push(network::phase(&machine.network, &options.kernel.ip, &options.runtime_dir));
    phases
}

fn seed(launcher: Arc<dyn Launcher>) -> Task {
    let deadline = Duration::from_secs(10);
    let request = Request::LoadSeed { path: Path::new(RANDOM_SEED).to_owned() };
    let work =
        async move { task::run(launcher.as_ref(), &request, deadline).await.map_err(TaskFailure::from) };
    Task::new("random seed", work).within(deadline.saturating_mul(2))
}
