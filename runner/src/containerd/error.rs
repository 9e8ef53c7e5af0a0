//! Errors of containerd as errors of a service. Two kinds are answered differently: containerd is away (wait
//! and try again), or it refused (trying again changes nothing).

use kelson_containerd::{CallError, Code};
use kelson_sys::text::harmless;

use crate::runner::{ErrorKind, Origin, RunnerError};
use crate::spawn::errno_text;

impl RunnerError {
    pub(super) fn is_away(&self) -> bool {
        self.origin == Origin::ContainerdAway
    }

    /// With what was being done before what containerd says of it: `cannot make the snapshot of service web: …`.
    pub(super) fn while_doing(mut self, what: &str) -> RunnerError {
        match self.origin {
            Origin::ContainerdAway => self.message = format!("{} ({what})", self.message),
            Origin::ContainerdRefused => self.message = format!("{what}: {}", self.message),
            Origin::Host => {}
        }
        self
    }
}

impl From<CallError> for RunnerError {
    fn from(error: CallError) -> RunnerError {
        let away = |why: String| RunnerError {
            origin: Origin::ContainerdAway,
            ..RunnerError::new(format!("containerd does not answer: {why}"))
        };
        let refused = |kind, text: String| RunnerError {
            origin: Origin::ContainerdRefused,
            ..RunnerError::of_kind(kind, text)
        };
        match error {
            CallError::Unreachable { socket, errno } => away(format!("{socket}: {}", errno_text(errno))),
            CallError::Away(why) => away(plain(&why)),
            CallError::Silent { call, within } => {
                let call = call.rsplit('/').next().unwrap_or(call);
                away(format!("{call} took longer than {within:?}"))
            }
            CallError::Refused { code: Code::DeadlineExceeded, text, .. } => away(plain(&text)),
            // It found a mistake in what the service's file asks for.
            CallError::Refused { code: Code::InvalidArgument, text, .. } => {
                refused(ErrorKind::Permanent, plain(&text))
            }
            CallError::Refused { text, .. } => refused(ErrorKind::Retryable, plain(&text)),
            other => refused(ErrorKind::Retryable, other.to_string()),
        }
    }
}

/// The texts that containerd, its shim and runc each put before the reason.
const PREAMBLES: [&str; 10] = [
    "failed to create shim task: ",
    "failed to create containerd task: ",
    "failed to start shim: ",
    "OCI runtime create failed: ",
    "OCI runtime start failed: ",
    "OCI runtime exec failed: ",
    "runc create failed: ",
    "exec failed: ",
    "unable to start container process: ",
    "starting container process caused: ",
];

/// The part of an error text that tells the reason. Bounded: it goes into events.
fn plain(text: &str) -> String {
    let reason = PREAMBLES
        .iter()
        .filter_map(|preamble| Some(text.rfind(preamble)?.saturating_add(preamble.len())))
        .max()
        .and_then(|at| text.get(at..))
        .unwrap_or(text);
    // The kind of the error, in words that only its maker needs.
    let mut reason = reason.trim();
    for kind in [": unknown", ": not found", ": failed precondition", ": unavailable"] {
        if let Some(rest) = reason.strip_suffix(kind)
            && (kind == ": unknown" || rest.contains(": "))
        {
            reason = rest;
        }
    }
    if let Some(text) = missing_command(reason) {
        return text;
    }
    let mut short: String = harmless(reason, Some(' ')).take(512).collect();
    if short.is_empty() {
        short.push_str("it gave no reason");
    }
    short
}

/// The commonest mistake, in plain words.
fn missing_command(reason: &str) -> Option<String> {
    let (_, quoted) = reason.split_once("exec: \"")?;
    let (command, why) = quoted.split_once("\": ")?;
    if why.contains("not found") || why.contains("no such file or directory") {
        return Some(format!("the image has no command {}", end_of(command)));
    }
    why.contains("permission denied").then(|| format!("the image's {} may not be executed", end_of(command)))
}

/// A path may be as long as the kernel takes; its end tells more than its beginning.
fn end_of(command: &str) -> String {
    const MOST: usize = 4000;
    let cut = command.char_indices().map(|(at, _)| at).find(|at| command.len().saturating_sub(*at) <= MOST);
    let end = cut.and_then(|at| command.get(at..)).unwrap_or_default();
    let dots = if end.len() < command.len() { "…" } else { "" };
    harmless(end, Some(' ')).fold(String::from(dots), |mut text, c| {
        text.push(c);
        text
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_reason_stands_alone() {
        let cases = [
            (
                r#"failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/nope": stat /nope: no such file or directory: unknown"#,
                "the image has no command /nope",
            ),
            (
                r#"OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "nope": executable file not found in $PATH: unknown"#,
                "the image has no command nope",
            ),
            (
                r#"OCI runtime exec failed: exec failed: unable to start container process: exec: "/etc": permission denied: unknown"#,
                "the image's /etc may not be executed",
            ),
            (
                "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error mounting \"/x\" to rootfs at \"/y\": no such file or directory: unknown",
                "error mounting \"/x\" to rootfs at \"/y\": no such file or directory",
            ),
            ("snapshot web does not exist: not found", "snapshot web does not exist: not found"),
            ("", "it gave no reason"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text), expected);
        }
        assert_eq!(plain(&"x".repeat(5000)).len(), 512);
        let long = format!(r#"exec: "/{}ä\nend": stat: no such file or directory"#, "ä".repeat(5000));
        let text = plain(&long.replace("\\n", "\n"));
        assert!(text.starts_with("the image has no command …ä") && text.ends_with("ää end"), "{text}");
        assert!(text.len() <= 4096, "{}", text.len());
    }

    #[test]
    fn one_that_does_not_answer_is_told_from_one_that_refuses() {
        let call = "/containerd.services.tasks.v1.Tasks/Start";
        let silent = CallError::Silent { call, within: Duration::from_secs(60) };
        let absent = CallError::Unreachable { socket: "/c.sock".into(), errno: libc::ENOENT };
        for (error, expected) in [
            (silent, "containerd does not answer: Start took longer than 60s"),
            (absent, "containerd does not answer: /c.sock: no such file or directory"),
        ] {
            let error = RunnerError::from(error);
            assert!(error.is_away() && error.to_string() == expected, "{error}");
        }
        let refused =
            |code| RunnerError::from(CallError::Refused { call, code, text: String::from("runc failed") });
        assert!(refused(Code::DeadlineExceeded).is_away());
        assert!(!refused(Code::Unknown).is_away() && !refused(Code::NotFound).is_away());
    }
}
