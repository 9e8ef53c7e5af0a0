//! How a service starts, restarts and stops.

use std::time::Duration;

use kelson_spec::kernel::parse_signal;
use kelson_spec::service::{Readiness, RestartPolicy, RestartSpec, ServiceKind, StopMode};

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::values::{boolean, time_span};

/// The defaults of systemd: a second start comes after 100 ms, and five starts within 10 s are the most.
const DELAY: Duration = Duration::from_millis(100);
const INTERVAL: Duration = Duration::from_secs(10);
const BURST: u32 = 5;
/// The most attempts of a service file.
const MOST_ATTEMPTS: u32 = 1_000_000;

pub fn kind(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "" | "simple" | "exec" => Outcome::as_table(),
        "notify" => {
            draft.spec.readiness = Readiness::Notify;
            Outcome::kept("`readiness: notify`")
        }
        "oneshot" => {
            draft.spec.kind = ServiceKind::Oneshot;
            Outcome::kept("`type: oneshot`")
        }
        "idle" => Outcome::approximated("the service does not wait until the other services have started"),
        "forking" => Outcome::rejected(
            "Kelson follows the process that it starts, and ends what that leaves behind: give the program the option \
             that keeps it in the foreground",
        ),
        "dbus" => Outcome::rejected(
            "the service is up as soon as it runs, and not once it has its name on the bus, so services that depend on \
             it may start too early",
        ),
        other => Outcome::rejected(format!("{other:?} is no type of systemd 252")),
    }
}

pub fn remain_after_exit(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match (boolean(setting.last()), draft.is_oneshot()) {
        (Some(true), false) => Outcome::rejected("the service is not up any more once its program has ended"),
        (_, true) => Outcome::kept("a one-shot is up once it has ended successfully"),
        (_, false) => Outcome::kept("Kelson does so"),
    }
}

pub fn pid_file(draft: &mut Draft<'_>, _: &Setting) -> Outcome {
    match draft.settings.service("Type") {
        "forking" => {
            Outcome::rejected("Kelson follows the process that it starts, and reads no file with another")
        }
        _ => Outcome::kept("Kelson follows the process that it starts, which is this one"),
    }
}

pub fn notify_access(_: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "none" => Outcome::approximated("messages to the notify socket are taken"),
        _ => Outcome::kept("each process of the service's user may send"),
    }
}

/// The restart policy, which all keys about restarts make together.
pub fn restart(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let policy = match setting.last() {
        "" | "no" => RestartPolicy::Once,
        "always" | "on-success" if draft.is_oneshot() => {
            return Outcome::rejected("a one-shot is not started again after a success");
        }
        "always" => RestartPolicy::Forever,
        "on-failure" => RestartPolicy::UntilSuccess,
        "on-success" => RestartPolicy::OnSuccess,
        "on-abnormal" => RestartPolicy::OnAbnormal,
        "on-abort" => RestartPolicy::OnAbort,
        "on-watchdog" => RestartPolicy::OnWatchdog,
        other => {
            return Outcome::rejected(format!(
                "{other:?} is no word of systemd, and the service never restarts"
            ));
        }
    };
    let (delay, interval, burst) = (delay(draft), interval(draft), burst(draft));
    // systemd counts starts, of which the first is none after a failure.
    let attempts = if interval.is_zero() { 0 } else { burst.saturating_sub(1).min(MOST_ATTEMPTS) };
    let spec = &mut draft.spec.restart;
    spec.policy = policy;
    if policy != RestartPolicy::Once {
        (spec.delay, spec.max_delay, spec.attempts) = (delay, delay, attempts);
        if attempts > 0 {
            spec.interval = interval.max(Duration::from_millis(1));
        }
    }
    match policy != RestartPolicy::Once && burst == 1 && !interval.is_zero() {
        true => {
            Outcome::rejected("a limit of one start means no restart, and Kelson restarts without a limit")
        }
        false => Outcome::as_table(),
    }
}

/// A unit without `Restart=`, whatever it is.
pub fn no_restart(draft: &mut Draft<'_>) {
    draft.spec.restart =
        RestartSpec { policy: RestartPolicy::Once, ..RestartSpec::for_kind(draft.spec.kind) };
}

fn delay(draft: &Draft<'_>) -> Duration {
    time_span(draft.settings.service("RestartSec")).flatten().unwrap_or(DELAY)
}

fn unit_key<'d>(draft: &'d Draft<'_>, key: &str) -> &'d str {
    draft.settings.get("Unit", key).map_or("", Setting::last)
}

fn interval(draft: &Draft<'_>) -> Duration {
    match unit_key(draft, "StartLimitIntervalSec") {
        "" => INTERVAL,
        // Without an end, the budget never comes back: the longest one that a file may have.
        text => time_span(text).map_or(INTERVAL, |span| span.unwrap_or(crate::values::LONGEST)),
    }
}

fn burst(draft: &Draft<'_>) -> u32 {
    match unit_key(draft, "StartLimitBurst").parse::<u32>() {
        Ok(0) => 0,
        Ok(burst) => burst,
        Err(_) => BURST,
    }
}

/// A time that another key uses.
pub fn time(_: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "" => Outcome::as_table(),
        text if time_span(text).is_some() => Outcome::as_table(),
        text => Outcome::rejected(format!("{text:?} is no time span")),
    }
}

pub fn timeout_start(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let limited = !kelson_spec::units::is_never(draft.timeout("TimeoutStartSec"));
    match draft.is_oneshot() && limited && !setting.last().is_empty() {
        true => Outcome::rejected("a one-shot has no limit of time, and nothing ends one that hangs"),
        false => time(draft, setting),
    }
}

pub fn number(_: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "" => Outcome::as_table(),
        text if text.parse::<u32>().is_ok() => Outcome::as_table(),
        text => Outcome::rejected(format!("{text:?} is no number")),
    }
}

pub fn kill_mode(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "mixed" => draft.spec.stop.mode = StopMode::Main,
        "" | "control-group" => draft.spec.stop.mode = StopMode::Cgroup,
        "process" => {
            return Outcome::rejected("processes that the main one leaves behind are killed with it");
        }
        _ => return Outcome::rejected("a stop kills what does not end by itself"),
    }
    Outcome::as_table()
}

/// What does not end by its signal is not killed: the stop waits for it.
pub fn send_kill(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match boolean(setting.last()) {
        Some(false) => {
            draft.kills = false;
            Outcome::approximated(
                "`stop: {timeout: none}`: a stop takes as long as the processes do, where systemd leaves them behind; \
                 only the end of the host kills them",
            )
        }
        _ => Outcome::kept("what does not end in time is killed"),
    }
}

pub fn hang_up(draft: &mut Draft<'_>, _: &Setting) -> Outcome {
    draft.spec.stop.hang_up = draft.is_on("SendSIGHUP");
    Outcome::as_table()
}

pub fn final_signal(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match parse_signal(setting.last()) {
        Ok(signal) => {
            draft.spec.stop.final_signal = (signal != libc::SIGKILL).then_some(signal);
            Outcome::as_table()
        }
        Err(_) if setting.last().is_empty() => Outcome::as_table(),
        Err(error) => Outcome::rejected(error.to_string()),
    }
}

pub fn kill_signal(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match parse_signal(setting.last()) {
        Ok(signal) => {
            draft.spec.stop.signal = signal;
            Outcome::as_table()
        }
        Err(_) if setting.last().is_empty() => Outcome::as_table(),
        Err(error) => Outcome::rejected(error.to_string()),
    }
}

pub fn restart_kill_signal(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let stop = match draft.settings.service("KillSignal") {
        "" => Ok(libc::SIGTERM),
        text => parse_signal(text),
    };
    match setting.last().is_empty() || parse_signal(setting.last()) == stop {
        true => Outcome::kept("it is the signal of a stop"),
        false => Outcome::rejected("a restart sends the signal of a stop"),
    }
}
