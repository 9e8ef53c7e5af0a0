//! The errors of a start: the step, errno, and a sentence that an operator can act on.

use std::fmt::Write as _;

use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::ResourceLimit;

/// Whether this build starts services with a terminal of their own.
const UNITS: bool = OWN.has(Feature::Units);

/// The steps of a start, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Waiting for a spawner thread.
    Queued,
    /// Making everything ready in PID 1.
    Prepare,
    Clone,
    /// A table of descriptors of its own.
    Table,
    Cgroup,
    /// The network namespace of another process.
    Network,
    /// A mount namespace that was made for it.
    FileView,
    Session,
    Descriptors,
    /// The terminal that controls the session.
    Terminal,
    Limits,
    OomScore,
    Nice,
    Cpus,
    /// A mount namespace of its own, all of it read-only.
    ReadOnlyRoot,
    WorkingDirectory,
    NoNewPrivileges,
    /// A user namespace that was made for it.
    Users,
    Groups,
    Group,
    User,
    Capabilities,
    Seccomp,
    Signals,
    Execute,
}

/// The action of each step, and the part that failed where it needs no name: words of a sentence.
#[rustfmt::skip]
const STEPS: [(Step, &str, &str); 25] = [
    (Step::Queued, "waiting for a thread to start it", ""),
    (Step::Prepare, "preparing the start", ""),
    (Step::Clone, "making the process", ""),
    (Step::Table, "making the process", ""),
    (Step::Cgroup, "entering its cgroup", ""),
    (Step::Network, "entering its network namespace", "enter the network namespace"),
    (Step::FileView, "entering its mount namespace", "enter the mount namespace"),
    (Step::Session, "making a session", "make a session"),
    (Step::Descriptors, "handing over descriptors", ""),
    (Step::Terminal, "taking its terminal", "take the terminal"),
    (Step::Limits, "setting limits", ""),
    (Step::OomScore, "setting the OOM score", "write /proc/self/oom_score_adj"),
    (Step::Nice, "setting the nice value", "set the nice value"),
    (Step::Cpus, "choosing its CPUs", "choose its CPUs"),
    (Step::ReadOnlyRoot, "making the root read-only", "make the root read-only"),
    (Step::WorkingDirectory, "entering the working directory", ""),
    (Step::NoNewPrivileges, "giving up new privileges", "set no_new_privs"),
    (Step::Users, "entering its user namespace", "enter the user namespace"),
    (Step::Groups, "changing the user", "set supplementary groups"),
    (Step::Group, "changing the user", ""),
    (Step::User, "changing the user", ""),
    (Step::Capabilities, "setting capabilities", "set capabilities"),
    (Step::Seccomp, "installing the seccomp filter", "install the seccomp filter"),
    (Step::Signals, "resetting signals", "reset signals"),
    (Step::Execute, "executing the program", ""),
];

impl Step {
    pub(crate) fn from_number(number: u32) -> Step {
        STEPS.into_iter().find(|(step, ..)| *step as u32 == number).map_or(Step::Queued, |(step, ..)| step)
    }

    /// The action of the step, and the part that failed.
    fn words(self) -> (&'static str, &'static str) {
        let row = STEPS.into_iter().find(|(step, ..)| *step == self);
        row.map(|(_, doing, verb)| (doing, verb)).unwrap_or_default()
    }
}

/// Why a child was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct SpawnError {
    pub step: Step,
    /// `None` where no system call refused (a deadline passed, a string holds a NUL byte).
    pub errno: Option<i32>,
    pub text: String,
}

/// The names that an error text shows: taken from the command before it is used up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subject {
    pub(crate) program: String,
    pub(crate) directory: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) cgroup: String,
    /// Its path, if it has one.
    pub(crate) terminal: String,
    pub(crate) limits: Vec<ResourceLimit>,
}

impl SpawnError {
    pub(crate) fn prepare(text: String, errno: Option<i32>) -> Self {
        SpawnError { step: Step::Prepare, errno, text }
    }

    /// A step that a system call refused.
    pub(crate) fn refused(step: Step, errno: i32, detail: u32, subject: &Subject) -> Self {
        let mut text = match step {
            Step::Execute => subject.program.clone(),
            Step::WorkingDirectory => format!("cannot enter working directory {}", subject.directory),
            Step::User => format!("cannot set user {}", subject.uid),
            Step::Group => format!("cannot set group {}", subject.gid),
            Step::Cgroup => format!("cannot enter cgroup {}", subject.cgroup),
            Step::Descriptors => format!("cannot hand over descriptor {detail}"),
            Step::Terminal if UNITS && !subject.terminal.is_empty() => {
                format!("{}: cannot take it", subject.terminal)
            }
            Step::Limits => cannot_limit(detail, errno, &subject.limits),
            Step::Capabilities if detail != u32::MAX => format!("cannot set capability {detail}"),
            Step::Clone | Step::Table | Step::Queued | Step::Prepare => {
                format!("cannot make a process for {}", subject.program)
            }
            _ => format!("cannot {}", step.words().1),
        };
        let _ = write!(text, ": {}", errno_text(errno));
        match (step, errno) {
            (Step::Seccomp, libc::EACCES) => text.push_str(" (noNewPrivileges: true makes it possible)"),
            (Step::Terminal, libc::EPERM) if UNITS && !subject.terminal.is_empty() => {
                text.push_str(" (it is the terminal of another program; force: true takes it from there)");
            }
            (Step::Cpus, libc::EINVAL) => {
                text.push_str(" (this host has none of them, or does not give them to Kelson)");
            }
            (Step::Clone, libc::EAGAIN) => {
                text.push_str(
                    " (it has as many processes as its pidsMax allows, or all services together have)",
                );
            }
            _ => {}
        }
        SpawnError { step, errno: Some(errno), text }
    }

    /// The deadline passed in `step`.
    pub(crate) fn late(step: Step, after: std::time::Duration, subject: &Subject) -> Self {
        let text = format!(
            "{} was not started within {:.1} s: it hung while {}",
            subject.program,
            after.as_secs_f64(),
            step.words().0
        );
        SpawnError { step, errno: None, text }
    }
}

/// The meaning of errno, in lower case as in the middle of a sentence: `no such file or directory`.
pub fn errno_text(errno: i32) -> String {
    let text = nix::errno::Errno::from_raw(errno).desc();
    if text == "Unknown errno" {
        return format!("error {errno}");
    }
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        // `I/O error` keeps its capital.
        (Some(first), Some(second)) if second.is_ascii_lowercase() => {
            first.to_ascii_lowercase().to_string() + chars.as_str()
        }
        _ => text.to_owned(),
    }
}

/// Names the limit that is wanted and, where that is beyond what this process may give, the highest that it may.
fn cannot_limit(resource: u32, errno: i32, wanted: &[ResourceLimit]) -> String {
    let name = limit_name(resource);
    let wanted = wanted.iter().rev().find(|limit| limit.resource == resource);
    let Some(ResourceLimit { hard, .. }) = wanted.filter(|_| errno == libc::EPERM) else {
        return format!("cannot set limit {name}");
    };
    let highest = match most_files().filter(|most| resource == libc::RLIMIT_NOFILE && hard > most) {
        Some(most) => format!("fs.nr_open of the host is {most}"),
        None => match hard_limit(resource) {
            Some(own) => format!("the hard limit is {}", number(own)),
            None => return format!("cannot set limit {name} to {}", number(*hard)),
        },
    };
    format!("cannot set limit {name} to {}, {highest}", number(*hard))
}

fn number(limit: u64) -> String {
    if limit == libc::RLIM64_INFINITY { "unlimited".to_owned() } else { limit.to_string() }
}

/// The highest `nofile` of any process, whatever it may.
fn most_files() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/fs/nr_open").ok()?.trim().parse().ok()
}

/// That of this process, which a child begins with.
fn hard_limit(resource: u32) -> Option<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it writes one `rlimit64`, which lives on this stack.
    let read = unsafe { libc::getrlimit64(resource, &raw mut limit) };
    (read == 0).then_some(limit.rlim_max)
}

fn limit_name(resource: u32) -> String {
    const NAMES: [&str; 16] = [
        "cpu",
        "fsize",
        "data",
        "stack",
        "core",
        "rss",
        "nproc",
        "nofile",
        "memlock",
        "as",
        "locks",
        "sigpending",
        "msgqueue",
        "nice",
        "rtprio",
        "rttime",
    ];
    usize::try_from(resource)
        .ok()
        .and_then(|index| NAMES.get(index))
        .map_or_else(|| resource.to_string(), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_in_their_order() {
        for (index, (step, ..)) in STEPS.into_iter().enumerate() {
            assert_eq!(step as usize, index);
            assert_eq!(Step::from_number(step as u32), step);
        }
    }

    #[test]
    fn texts_are_sentences() {
        let subject = Subject {
            program: "/usr/bin/nope".into(),
            directory: "/x".into(),
            uid: 33,
            gid: 33,
            cgroup: "web".into(),
            terminal: "/dev/tty1".into(),
            limits: vec![ResourceLimit { resource: 6, soft: 5, hard: u64::MAX }],
        };
        let text = |step, errno| SpawnError::refused(step, errno, 7, &subject).text;
        assert_eq!(text(Step::Execute, libc::ENOENT), "/usr/bin/nope: no such file or directory");
        assert_eq!(text(Step::WorkingDirectory, libc::EIO), "cannot enter working directory /x: I/O error");
        assert_eq!(text(Step::User, libc::EPERM), "cannot set user 33: operation not permitted");
        assert_eq!(text(Step::Limits, libc::EPERM), "cannot set limit nofile: operation not permitted");
        assert_eq!(
            text(Step::Terminal, libc::EPERM),
            "/dev/tty1: cannot take it: operation not permitted (it is the terminal of another program; force: true takes it from there)"
        );
        let limit = |resource, hard, errno| {
            cannot_limit(resource, errno, &[ResourceLimit { resource, soft: 1, hard }])
        };
        let most = most_files().unwrap();
        assert_eq!(
            limit(libc::RLIMIT_NOFILE, most + 1, libc::EPERM),
            format!("cannot set limit nofile to {}, fs.nr_open of the host is {most}", most + 1)
        );
        let own = number(hard_limit(libc::RLIMIT_NPROC).unwrap());
        assert_eq!(
            limit(libc::RLIMIT_NPROC, u64::MAX, libc::EPERM),
            format!("cannot set limit nproc to unlimited, the hard limit is {own}")
        );
        assert_eq!(limit(libc::RLIMIT_CORE, 1, libc::EINVAL), "cannot set limit core");
        assert_eq!(
            text(Step::Clone, libc::EAGAIN),
            "cannot make a process for /usr/bin/nope: try again (it has as many processes as its pidsMax allows, or all services together have)"
        );
        assert_eq!(
            SpawnError::late(Step::Execute, std::time::Duration::from_secs(10), &subject).text,
            "/usr/bin/nope was not started within 10.0 s: it hung while executing the program"
        );
        assert_eq!(errno_text(9999), "error 9999");
    }
}
