//! How a service starts, restarts and stops.

use std::path::Path;
use std::time::Duration;

use kelson_spec::kernel::parse_signal;
use kelson_spec::service::{Check, Probe, Readiness, RestartPolicy, RestartSpec, ServiceKind, StopMode};

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
        "forking" => {
            draft.spec.readiness = Readiness::Forks;
            Outcome::kept("`readiness: {forks: true}`, or `{pidFile: …}`")
        }
        "dbus" => match bus_check(draft) {
            Some(check) => {
                draft.spec.health = vec![check];
                Outcome::approximated(
                    "a startup check asks the bus for the name by `dbus-send`; a message to the bus starts no service",
                )
            }
            None => Outcome::rejected("it needs BusName=; systemd refuses this unit"),
        },
        other => Outcome::rejected(format!("{other:?} is no type of systemd 252")),
    }
}

/// Asks the bus whether it has the name of the unit.
fn bus_check(draft: &Draft<'_>) -> Option<Check> {
    let name = draft.expanded(draft.settings.service("BusName")).ok().filter(|name| !name.is_empty())?;
    let script = "dbus-send --system --print-reply --dest=org.freedesktop.DBus /org/freedesktop/DBus \
                  org.freedesktop.DBus.NameHasOwner \"string:$1\" | grep -q 'boolean true'";
    let command = ["sh", "-c", script, "sh", &name].map(str::to_owned);
    let mut check = Check::new("bus-name", Probe::Exec { command: command.to_vec() });
    (check.startup, check.initial_delay, check.interval) =
        (true, Duration::from_millis(100), Duration::from_secs(1));
    (check.timeout, check.failure_threshold) = (Duration::from_secs(5), 1);
    // So that `startTimeout` is for the name too.
    check.restart_after = 1000;
    Some(check)
}

pub fn bus_name(draft: &mut Draft<'_>, _: &Setting) -> Outcome {
    match draft.settings.service("Type") {
        "dbus" | "" => Outcome::kept("see `Type=`"),
        _ => Outcome::kept("it only says which name the service has"),
    }
}

pub fn remain_after_exit(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match (boolean(setting.last()), draft.is_oneshot()) {
        (Some(true), true) if draft.settings.service("Type") != "oneshot" => {
            draft.spec.kind = ServiceKind::Oneshot;
            Outcome::approximated(
                "`type: oneshot`: the service is up once its program has ended, where systemd has it up at once; one whose \
                 program runs on is never up",
            )
        }
        (Some(true), false) => Outcome::rejected("the service is not up any more once its program has ended"),
        (_, true) => Outcome::kept("a one-shot is up once it has ended successfully"),
        (_, false) => Outcome::kept("Kelson does so"),
    }
}

pub fn pid_file(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match draft.settings.service("Type") {
        "forking" => match draft.expanded(setting.last()) {
            Ok(path) if path.is_empty() => Outcome::as_table(),
            Ok(path) => {
                draft.spec.pid_file = Some(Path::new("/run").join(path));
                Outcome::kept("`readiness: {pidFile: …}`")
            }
            Err(outcome) => outcome,
        },
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
    let (interval, burst) = (interval(draft), burst(draft));
    draft.spec.restart.policy = policy;
    if policy != RestartPolicy::Once {
        limited(draft);
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

/// The pause between starts, and how many there are at most.
pub fn limited(draft: &mut Draft<'_>) {
    let (delay, interval, burst) = (delay(draft), interval(draft), burst(draft));
    // systemd counts starts, of which the first is none after a failure.
    let attempts = if interval.is_zero() { 0 } else { burst.saturating_sub(1).min(MOST_ATTEMPTS) };
    let spec = &mut draft.spec.restart;
    (spec.delay, spec.max_delay, spec.attempts) = (delay, delay, attempts);
    if attempts > 0 {
        spec.interval = interval.max(Duration::from_millis(1));
    }
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

pub fn watchdog(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match time_span(setting.last()) {
        None if setting.last().is_empty() => Outcome::kept("without a value there is none"),
        None => Outcome::rejected(format!("{:?} is no time span", setting.last())),
        Some(None | Some(Duration::ZERO)) => Outcome::kept("with this value there is none"),
        Some(Some(time)) => match draft.settings.service("Type") {
            "notify" | "forking" => {
                draft.spec.watchdog = Some(time);
                Outcome::as_table()
            }
            _ => Outcome::rejected(
                "only a service with `readiness: notify` or one that forks has a socket on which it reports to Kelson",
            ),
        },
    }
}

pub fn timeout_start(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let limit = draft.timeout("TimeoutStartSec");
    let limited = !kelson_spec::units::is_never(limit) && !setting.last().is_empty();
    if draft.is_oneshot() && limited && time_span(setting.last()).is_some() {
        let seconds = format!("{}s", limit.as_secs_f64());
        draft.scheduler.extend(["timeout", "--kill-after=10s", &seconds].map(str::to_owned));
        return Outcome::approximated("`timeout` of coreutils ends the last command after this time");
    }
    time(draft, setting)
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
        "process" => draft.spec.stop.mode = StopMode::Process,
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
