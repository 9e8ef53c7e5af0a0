//! The sentences of a service's events.

use std::time::Duration;

use kelson_runner::{Deaf, ErrorKind, Exit};
use kelson_spec::service::{Readiness, ServiceKind};
pub use kelson_sys::units::duration;

use crate::model::{Failure, RestartReason};

use super::table::{Ended, Rules, StopReason};

pub fn exit(exit: Exit) -> String {
    match exit {
        Exit::Status(status) => format!("exited with status {status}"),
        Exit::Signal { signal, core } => {
            let name = nix::sys::signal::Signal::try_from(signal)
                .map_or_else(|_| format!("signal {signal}"), |known| known.as_str().to_owned());
            format!("killed by {name}{}", if core { " (core dumped)" } else { "" })
        }
        Exit::Lost => "ended; its exit status was lost".into(),
    }
}

pub fn ended(ended: &Ended, rules: &Rules) -> String {
    match ended {
        Ended::Exited { exit: how, ran, before_ready, out_of_memory: oom, outlived } => {
            let before = if *before_ready { " before it was ready" } else { "" };
            let why = match oom {
                true => format!(": {}", out_of_memory(rules.memory_max)),
                false => String::new(),
            };
            let success = ended.success(rules);
            let counts = if success && !how.success() { " (counts as success)" } else { "" };
            let left = match success {
                true => self::outlived(*outlived, *ran, rules.kind),
                false => String::new(),
            };
            format!("{}{counts}{before} after {}{left}{why}", exit(*how), duration(*ran))
        }
        Ended::GivenUp { text, .. } | Ended::NotStarted { text, .. } => text.clone(),
    }
}

/// The same without what differs between two hosts that fail alike.
pub fn failure(ended: &Ended, rules: &Rules) -> Failure {
    let own = |cause: String| Failure { cause, detail: String::new() };
    match ended {
        Ended::Exited { out_of_memory: true, .. } => own(out_of_memory(rules.memory_max)),
        Ended::Exited { exit: how, .. } => own(exit(*how)),
        // What a check, a hook or the kernel says.
        Ended::GivenUp { reason: RestartReason::Check, text, .. } | Ended::NotStarted { text, .. } => {
            Failure { cause: String::new(), detail: text.clone() }
        }
        Ended::GivenUp { text, .. } => own(text.clone()),
    }
}

/// A program that has ended so long after its start has not gone to the background by that.
const GOES_TO_BACKGROUND: Duration = Duration::from_secs(60);

/// Describes the processes that outlived a main process which ended successfully.
fn outlived(count: u32, ran: Duration, kind: ServiceKind) -> String {
    let processes = match count {
        0 => return String::new(),
        1 => "1 process, which was killed".to_owned(),
        count => format!("{count} processes, which were killed"),
    };
    let hint = match kind {
        ServiceKind::Service if ran < GOES_TO_BACKGROUND => {
            ": does it fork into the background? Kelson wants it in the foreground"
        }
        _ => "",
    };
    format!(" and left {processes}{hint}")
}

/// Why its stop signal did not end it, and what helps.
pub fn deaf(deaf: Deaf, signal: i32) -> String {
    let signal = kelson_spec::signal_name(signal);
    match deaf {
        Deaf::Ignores => format!("it ignores {signal}; does another stop.signal end it?"),
        Deaf::Blocks => format!("it blocks {signal}; does another stop.signal end it?"),
        Deaf::FirstOfNamespace => format!(
            "it has no handler for {signal}, and the kernel drops that for the first process of a PID namespace; handle it, \
             set stop.signal, or run it under an init"
        ),
    }
}

/// Why the kernel killed a process of it.
pub fn out_of_memory(limit: Option<u64>) -> String {
    match limit {
        Some(bytes) => format!("out of memory (its memoryMax is {})", kelson_spec::units::size_text(bytes)),
        None => "out of memory: the host had none left for it".into(),
    }
}

/// The message of one that was refused, and whose file has changed since.
pub const TRIED_AGAIN: &str = "its file changed, it is tried again";

/// In the message of each that was stopped because the host is cut off, whatever else it says.
const CUT_OFF: &str = "the store of the fleet has not confirmed the registration";

/// Why a service stops without its fleet. `since_contact`: the time counts from the last answer, or else from the start.
pub fn cut_off(time: Duration, since_contact: bool) -> String {
    let time = duration(time);
    match since_contact {
        true => format!("{CUT_OFF} for {time}"),
        false => format!("{CUT_OFF} within {time} of the start"),
    }
}

/// Whether a message is that of a service that was stopped so.
pub fn is_cut_off(message: &str) -> bool {
    message.contains(CUT_OFF)
}

/// `during` is empty or says in the middle of what (` while preparing`).
pub fn stopped(reason: &StopReason, during: &str) -> String {
    match reason {
        StopReason::Operator => format!("stopped{during}: asked by an operator"),
        StopReason::Cascade(other) => {
            format!("stopped{during}: \"{other}\", which it needs, is to be stopped")
        }
        StopReason::Conflict(other) => {
            format!("stopped{during}: \"{other}\", with which it conflicts, is started")
        }
        StopReason::CutOff(why) => format!("stopped{during}: {why}"),
        StopReason::Group(why) => format!("stopped{during}: its group is restarted ({why})"),
        StopReason::Removed => format!("stopped{during}: its file was removed"),
        StopReason::Shutdown => format!("stopped{during}: the host is stopping"),
    }
}

/// Names the event before which a refused request is not tried again.
pub fn until(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Image { .. } => "it is tried again once its file or an archive of images changes",
        ErrorKind::Permanent | ErrorKind::Retryable => "it is tried again once its file changes",
    }
}

/// ` (PID 812)`; nothing of a run that has no process.
pub fn process(pid: i32) -> String {
    if pid > 0 { format!(" (PID {pid})") } else { String::new() }
}

/// Names the events that are still missing once a service with checks is ready.
pub fn before_checks(rules: &Rules) -> &'static str {
    if rules.has_checks && rules.kind == ServiceKind::Service { ", up once its checks pass" } else { "" }
}

pub fn readiness(readiness: Readiness) -> String {
    match readiness {
        Readiness::None => "nothing".into(),
        Readiness::Notify => "READY=1".into(),
        Readiness::Forks => "its end".into(),
        Readiness::Descriptor(number) => format!("a newline on descriptor {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_processes_is_asked_whether_it_forks() {
        let of = |count, seconds, kind| outlived(count, Duration::from_secs(seconds), kind);
        let service = ServiceKind::Service;
        assert_eq!(of(0, 0, service), "");
        let hint = ": does it fork into the background? Kelson wants it in the foreground";
        assert_eq!(of(1, 0, service), format!(" and left 1 process, which was killed{hint}"));
        assert_eq!(of(3, 59, service), format!(" and left 3 processes, which were killed{hint}"));
        assert_eq!(of(3, 60, service), " and left 3 processes, which were killed");
        assert_eq!(of(2, 0, ServiceKind::Oneshot), " and left 2 processes, which were killed");
    }

    #[test]
    fn who_is_deaf_is_told_what_helps() {
        assert_eq!(deaf(Deaf::Ignores, 15), "it ignores SIGTERM; does another stop.signal end it?");
        let first = deaf(Deaf::FirstOfNamespace, 15);
        assert!(
            first.starts_with("it has no handler for SIGTERM") && first.ends_with("under an init"),
            "{first}"
        );
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(exit(Exit::Signal { signal: 9, core: false }), "killed by SIGKILL");
        assert_eq!(exit(Exit::Signal { signal: 11, core: true }), "killed by SIGSEGV (core dumped)");
        assert_eq!(exit(Exit::Signal { signal: 35, core: false }), "killed by signal 35");
    }
}
