//! The end of the run, after all services are down: the processes that are left, swap, mounts, sync, reboot(2).
//!
//! Nothing here can hang it: each call that may touch a disk is `kelson-task`'s, with a deadline, and
//! whatever is given up on is named in the log. The root comes off too: PID 1 runs from memory
//! ([`crate::memory`]), so it pivots to a small tmpfs, and then the old root is a mount like any other. A
//! file system that cannot be unmounted is made read-only, and one that cannot even be that has at least been
//! synced.
//!
//! The hardware watchdog is fed on the way, and it learns each step beforehand ([`progress`]): should one of them hang
//! against all care, the machine starts again all the same.
//!
//! The last step is decided last: a power off replaces a reboot that has not reached its final call.

pub mod cgroups;
mod disks;
pub mod final_call;
mod processes;
mod progress;
mod root;
mod unmount;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_runner::CgroupRoot;
use kelson_services::host::ShutdownAction;
use kelson_spec::builtin::SAVED_TIME;
use kelson_sys::text::first_of_many;
use tokio::time::Instant;

use crate::boot::machine::RANDOM_SEED;
use crate::exit_device::ExitDevice;
use crate::options::Mode;
use crate::supervisor::Intents;
use kelson_helper::Launcher;

use crate::task::{self, Request};
use crate::watchdog::Watchdog;
use progress::Progress;

/// From SIGTERM to SIGKILL for processes that belong to no service.
const GRACE: Duration = Duration::from_secs(5);
/// From SIGKILL to giving up.
const KILL: Duration = Duration::from_secs(3);
/// One call on a disk.
const CALL: Duration = Duration::from_secs(10);
/// One sync.
const SYNC: Duration = Duration::from_secs(30);

/// Why the boot failed and how long its reason stands on the console.
#[derive(Debug, Clone)]
pub struct Failure {
    pub reason: String,
    /// Before the reboot; zero: for ever.
    pub wait: Duration,
}

/// The parts that the end of the host needs.
pub struct Finish {
    /// The action asked for; may change until the final call.
    pub intents: Intents,
    pub mode: Mode,
    pub launcher: Arc<dyn Launcher>,
    /// The root of the services' cgroups, which a container leaves as it found it.
    pub cgroups: Option<CgroupRoot>,
    /// For all of it together. Steps that are left then are skipped.
    pub patience: Duration,
    /// A failed boot ends here as well.
    pub failure: Option<Failure>,
    /// The hardware watchdog, if one is armed.
    pub watchdog: Option<Watchdog>,
    /// The runtime folder, where PID 1 has made it in shared memory.
    pub shared: Option<PathBuf>,
    /// Where the exit status leaves a machine.
    pub exit: Option<ExitDevice>,
}

/// Ends the run. The task that reads the signals goes on beside it.
pub async fn finish(finish: Finish) -> ! {
    let deadline = Instant::now().checked_add(finish.patience).unwrap_or_else(Instant::now);
    let progress = Progress {
        launcher: finish.launcher,
        watchdog: finish.watchdog,
        longest: CALL.saturating_mul(3).max(SYNC),
    };
    // The end of the disks can take its name away.
    let exit = finish.exit.and_then(ExitDevice::open_or_log);
    match finish.mode {
        Mode::Machine => machine(&progress, deadline).await,
        Mode::Container => {
            end_processes(GRACE.min(finish.patience)).await;
            if let Some(root) = &finish.cgroups {
                cgroups::leave(root.path());
            }
            if let Some(folder) = &finish.shared {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
    if let Some(failure) = &finish.failure {
        // For as long as somebody wants to look at it.
        if let Some(watchdog) = &progress.watchdog {
            watchdog.no_step();
        }
        final_call::show_failure(finish.mode, failure, &finish.intents).await;
    }
    // Nobody asked: a failed boot starts again.
    let intent = finish.intents.current();
    let action = intent.as_ref().map_or(ShutdownAction::Reboot, |intent| intent.action);
    let decided = intent.and_then(|intent| intent.status);
    let status = final_call::exit_status(action, decided, finish.failure.is_some());
    // A machine that starts again has not ended, unless it could not even boot.
    let exit = exit.filter(|_| action == ShutdownAction::PowerOff || finish.failure.is_some());
    final_call::make(finish.mode, action, status, exit, progress.watchdog)
}

async fn machine(progress: &Progress, deadline: Instant) {
    let launcher: &dyn Launcher = progress;
    let seed = Request::SaveSeed { path: Path::new(RANDOM_SEED).to_owned() };
    if let Err(error) = task::run(launcher, &seed, CALL).await {
        tracing::warn!("shutdown: the random seed was not saved: {error}");
    }
    // A clock that nobody keeps right is not worth remembering, unless the next boot has no other.
    if kelson_sys::clock::is_synchronised() || !kelson_sys::clock::is_kept_by_hardware() {
        let clock = Request::SaveClock { saved: SAVED_TIME.into() };
        if let Err(error) = task::run(launcher, &clock, CALL).await {
            tracing::warn!("shutdown: the time was not saved: {error}");
        }
    }
    progress.step("ending the processes that are left", GRACE.saturating_add(KILL));
    end_processes(GRACE).await;
    progress.step("letting go of the disks", CALL);
    disks::swap_off(launcher, CALL.saturating_mul(3)).await;
    unmount::all_but_root(launcher, CALL, deadline).await;
    root::let_go(launcher, CALL, deadline).await;
    for stuck in disks::remove_mappings(launcher, CALL).await.1 {
        tracing::error!("shutdown: {stuck}; it stays open");
    }
    if let Err(error) = task::run(launcher, &Request::Sync, SYNC).await {
        tracing::error!("shutdown: not everything could be written: {error}");
    }
}

/// `grace`: from SIGTERM to SIGKILL.
async fn end_processes(grace: Duration) {
    let left = processes::end_all(&processes::everybody(), grace, KILL).await;
    if !left.is_empty() {
        let names = first_of_many(left.iter(), ", ");
        tracing::error!("shutdown: gave up on {names}: not even SIGKILL ended them");
    }
}
