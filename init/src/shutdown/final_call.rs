//! The very last: the reason of a failed boot, and reboot(2) or, in a container, the exit.

use std::time::Duration;

use kelson_services::host::ShutdownAction;
use nix::sys::reboot::{RebootMode, reboot};

use super::Failure;
use crate::exit_device::ExitWriter;
use crate::log;
use crate::options::Mode;
use crate::supervisor::Intents;
use crate::watchdog::Watchdog;

/// How long a console has to take the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Exit status of a container that was asked to reboot.
const REBOOT_STATUS: u8 = 10;

/// Tells why the boot failed, and on a machine what follows. Returns how long to wait for that; `None`: until somebody asks.
pub fn tell_failure(mode: Mode, reason: &str, wait: Duration) -> Option<Duration> {
    tracing::error!("the boot has failed: {reason}");
    if mode == Mode::Container {
        return Some(Duration::ZERO);
    }
    if wait.is_zero() {
        tracing::error!(
            "waiting for somebody to look (kelson.panic=0); ctrl-alt-del starts this machine again"
        );
        return None;
    }
    tracing::error!("this machine starts again in {} s (kelson.panic)", wait.as_secs());
    Some(wait)
}

/// Shows why the boot failed, and waits: for the time that it is to stand there, or until somebody asks for an end
/// (ctrl-alt-del). A container has no console and somebody who looks after it: it ends at once.
pub async fn show_failure(mode: Mode, failure: &Failure, intents: &Intents) {
    match tell_failure(mode, &failure.reason, failure.wait) {
        Some(wait) => drop(tokio::time::timeout(wait, intents.asked()).await),
        None => drop(intents.asked().await),
    }
}

/// Does not return. The watchdog stays armed, as the kernel's own way down may hang as well; but a machine that was asked
/// to halt is to stay so, and nobody could feed it then.
pub fn make(
    mode: Mode,
    action: ShutdownAction,
    status: u8,
    exit: Option<ExitWriter>,
    watchdog: Option<Watchdog>,
) -> ! {
    match &watchdog {
        Some(watchdog) if action == ShutdownAction::Halt => watchdog.disarm(),
        Some(watchdog) => watchdog.last_meal(),
        None => {}
    }
    match mode {
        Mode::Container => std::process::exit(status.into()),
        Mode::Machine => {
            match &exit {
                Some(exit) => tracing::info!("{}, with exit status {status} for {exit}", words(action)),
                None => tracing::info!("{}", words(action)),
            }
            log::settle_for_good(LAST_LINES);
            if let Some(exit) = exit {
                exit.write_or_log(status);
            }
            let Err(error) = reboot(how(action));
            tracing::error!("reboot(2): {}; trying a plain restart", error.desc());
            let _ = reboot(RebootMode::RB_AUTOBOOT);
            // PID 1 must not end.
            loop {
                std::thread::park_timeout(Duration::from_secs(3600));
            }
        }
    }
}

fn how(action: ShutdownAction) -> RebootMode {
    match action {
        ShutdownAction::Reboot => RebootMode::RB_AUTOBOOT,
        ShutdownAction::Kexec => RebootMode::RB_KEXEC,
        ShutdownAction::PowerOff => RebootMode::RB_POWER_OFF,
        ShutdownAction::Halt => RebootMode::RB_HALT_SYSTEM,
    }
}

fn words(action: ShutdownAction) -> &'static str {
    match action {
        ShutdownAction::Reboot => "rebooting",
        ShutdownAction::Kexec => "executing the new kernel",
        ShutdownAction::PowerOff => "powering off",
        ShutdownAction::Halt => "halted",
    }
}

/// The exit status of the run, in which a service may have decided it by its end.
pub fn exit_status(action: ShutdownAction, decided: Option<u8>, failed: bool) -> u8 {
    match action {
        _ if failed => 1,
        ShutdownAction::Reboot | ShutdownAction::Kexec => REBOOT_STATUS,
        ShutdownAction::PowerOff | ShutdownAction::Halt => decided.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_exit_status_says_how_it_ended() {
        use ShutdownAction::{Halt, PowerOff, Reboot};
        assert_eq!(exit_status(PowerOff, None, false), 0);
        assert_eq!(exit_status(Halt, None, false), 0);
        assert_eq!(exit_status(PowerOff, Some(143), false), 143);
        assert_eq!(exit_status(Reboot, None, false), 10);
        assert_eq!(exit_status(Reboot, Some(3), false), 10);
        assert_eq!(exit_status(Reboot, Some(3), true), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_boot_waits_its_time_or_until_it_is_asked() {
        let intents = Intents::default();
        let failure = |seconds| Failure { reason: "no root".to_owned(), wait: Duration::from_secs(seconds) };
        let begun = tokio::time::Instant::now();
        show_failure(Mode::Container, &failure(10), &intents).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        show_failure(Mode::Machine, &failure(10), &intents).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
        // For ever, but for somebody who asks.
        let asks = async {
            tokio::time::sleep(Duration::from_secs(100_000)).await;
            intents.ask(ShutdownAction::PowerOff, "a test")
        };
        let failure = failure(0);
        tokio::join!(asks, show_failure(Mode::Machine, &failure, &intents));
        assert!(begun.elapsed() >= Duration::from_secs(100_000));
    }
}
