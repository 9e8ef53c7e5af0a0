//! When there is no way on: the reason on the console, everything stopped that runs, and a new start.
//!
//! A boot that failed after the services' part had begun ends in [`crate::shutdown::finish`] like any other run, with
//! its reason. Here is what happens when not even that can be reached: no root in the initramfs, no runtime, a PID 1
//! that cannot go on.

use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{Options as ProcessOptions, Processes};
use nix::sys::reboot::{RebootMode, reboot};

use crate::exit_device::ExitDevice;
use crate::options::{Mode, Options};
use crate::shutdown::{Failure, Finish, final_call, finish};
use crate::supervisor::{self, Intents, Personalities};
use crate::watchdog::Watchdog;

/// For all of a shutdown that nobody planned.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Ends a run in which nothing has been started and nothing that matters is mounted.
pub fn at_the_start(options: &Options, reason: &str) -> ! {
    let wait = final_call::tell_failure(options.mode, reason, options.failure_wait());
    if options.mode == Mode::Container {
        std::process::exit(1);
    }
    wait_for_signal(wait);
    if let Some(exit) = options.exit.clone().and_then(ExitDevice::open_or_log) {
        nix::unistd::sync();
        exit.write_or_log(1);
    }
    restart()
}

/// Ends a run in the middle: stops and unmounts what can be, without the supervisor.
pub fn in_the_middle(options: &Options, reason: &str) -> ! {
    tracing::error!("{reason}; stopping everything");
    let failure = Failure { reason: reason.to_owned(), wait: options.failure_wait() };
    end(options, &Intents::default(), Some(failure), ProcessOptions::default(), async |_| {})
}

/// As [`in_the_middle`], to what `intents` say, after what is to be done `first`.
pub fn end(
    options: &Options,
    intents: &Intents,
    failure: Option<Failure>,
    children: ProcessOptions,
    first: impl AsyncFnOnce(&Processes),
) -> ! {
    let reason =
        failure.as_ref().map_or_else(|| "PID 1 cannot end it".to_owned(), |failure| failure.reason.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Ok(runtime) = runtime {
        let processes = Processes::new(children);
        let binary = crate::memory::exe_fd();
        if let (Ok(processes), Ok(binary)) = (processes, binary) {
            runtime.block_on(async {
                // Before what the previous incarnation has left open is closed.
                let watchdog = Watchdog::found();
                if let Err(error) = supervisor::attend(options.mode, &processes, intents) {
                    tracing::error!("signals cannot be read: {error}");
                }
                first(&processes).await;
                finish(Finish {
                    intents: intents.clone(),
                    mode: options.mode,
                    cgroups: processes.cgroups().cloned(),
                    launcher: Personalities { processes, binary: Arc::new(binary) }.tasks(),
                    patience: TIMEOUT,
                    failure,
                    watchdog,
                    shared: None,
                    exit: options.exit.clone(),
                })
                .await
            });
        }
    }
    at_the_start(options, &reason)
}

/// Waits for a signal that asks for an end, or until the time is over. All signals are blocked, so they can be
/// waited for.
fn wait_for_signal(patience: Option<Duration>) {
    let deadline = patience.and_then(|patience| std::time::Instant::now().checked_add(patience));
    let _ = crate::signals::catch_ctrl_alt_del();
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(std::time::Instant::now()));
        if left.is_some_and(|left| left.is_zero()) || crate::signals::wait(left) {
            return;
        }
    }
}

fn restart() -> ! {
    nix::unistd::sync();
    let Err(errno) = reboot(RebootMode::RB_AUTOBOOT);
    tracing::error!("reboot(2): {}", errno.desc());
    // The end of PID 1 is the kernel's panic, which `panic=` of its command line turns into a reboot.
    std::process::exit(1)
}
