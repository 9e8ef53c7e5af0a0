//! What a start says when it fails: the step, errno, and a sentence an operator can act on.

use std::fmt::Write as _;

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
    Session,
    Descriptors,
    /// The terminal that controls the session.
    Terminal,
    Limits,
    OomScore,
    /// A mount namespace of its own, all of it read-only.
    ReadOnlyRoot,
    WorkingDirectory,
    NoNewPrivileges,
    Groups,
    Group,
    User,
    Capabilities,
    Seccomp,
    Signals,
    Execute,
}

const STEPS: [Step; 21] = [
    Step::Queued,
    Step::Prepare,
    Step::Clone,
    Step::Table,
    Step::Cgroup,
    Step::Network,
    Step::Session,
    Step::Descriptors,
    Step::Terminal,
    Step::Limits,
    Step::OomScore,
    Step::ReadOnlyRoot,
    Step::WorkingDirectory,
    Step::NoNewPrivileges,
    Step::Groups,
    Step::Group,
    Step::User,
    Step::Capabilities,
    Step::Seccomp,
    Step::Signals,
    Step::Execute,
];

impl Step {
    pub(crate) fn from_number(number: u32) -> Step {
        STEPS.into_iter().find(|step| *step as u32 == number).unwrap_or(Step::Queued)
    }

    /// What was going on, as words of a sentence.
    fn doing(self) -> &'static str {
        match self {
            Step::Queued => "waiting for a thread to start it",
            Step::Prepare => "preparing the start",
            Step::Clone | Step::Table => "making the process",
            Step::Cgroup => "entering its cgroup",
            Step::Network => "entering its network namespace",
            Step::Session => "making a session",
            Step::Descriptors => "handing over descriptors",
            Step::Terminal => "taking its terminal",
            Step::Limits => "setting limits",
            Step::OomScore => "setting the OOM score",
            Step::ReadOnlyRoot => "making the root read-only",
            Step::WorkingDirectory => "entering the working directory",
            Step::NoNewPrivileges => "giving up new privileges",
            Step::Groups | Step::Group | Step::User => "changing the user",
            Step::Capabilities => "setting capabilities",
            Step::Seccomp => "installing the seccomp filter",
            Step::Signals => "resetting signals",
            Step::Execute => "executing the program",
        }
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

/// What an error text names: taken from the command before it is used up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subject {
    pub(crate) program: String,
    pub(crate) directory: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) cgroup: String,
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
            Step::Groups => String::from("cannot set supplementary groups"),
            Step::Cgroup => format!("cannot enter cgroup {}", subject.cgroup),
            Step::Network => String::from("cannot enter the network namespace"),
            Step::Session => String::from("cannot make a session"),
            Step::Descriptors => format!("cannot hand over descriptor {detail}"),
            Step::Terminal => String::from("cannot take the terminal"),
            Step::Limits => format!("cannot set limit {}", limit_name(detail)),
            Step::OomScore => String::from("cannot write /proc/self/oom_score_adj"),
            Step::ReadOnlyRoot => String::from("cannot make the root read-only"),
            Step::NoNewPrivileges => String::from("cannot set no_new_privs"),
            Step::Capabilities => match detail {
                u32::MAX => String::from("cannot set capabilities"),
                number => format!("cannot set capability {number}"),
            },
            Step::Seccomp => String::from("cannot install the seccomp filter"),
            Step::Signals => String::from("cannot reset signals"),
            Step::Clone | Step::Table | Step::Queued | Step::Prepare => {
                format!("cannot make a process for {}", subject.program)
            }
        };
        let _ = write!(text, ": {}", errno_text(errno));
        match (step, errno) {
            (Step::Seccomp, libc::EACCES) => text.push_str(" (noNewPrivileges: true makes it possible)"),
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
            step.doing()
        );
        SpawnError { step, errno: None, text }
    }
}

/// What errno means, in lower case as in the middle of a sentence: `no such file or directory`.
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
        for (index, step) in STEPS.into_iter().enumerate() {
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
        };
        let text = |step, errno| SpawnError::refused(step, errno, 7, &subject).text;
        assert_eq!(text(Step::Execute, libc::ENOENT), "/usr/bin/nope: no such file or directory");
        assert_eq!(text(Step::WorkingDirectory, libc::EIO), "cannot enter working directory /x: I/O error");
        assert_eq!(text(Step::User, libc::EPERM), "cannot set user 33: operation not permitted");
        assert_eq!(text(Step::Limits, libc::EPERM), "cannot set limit nofile: operation not permitted");
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
