//! Why a call to containerd gave nothing.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tonic::{Code, Status};

const STATUS: &str = "`kelsonctl status containerd` tells why";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection could be made. The call was not made.
    #[error("containerd cannot be reached ({}); {STATUS}", io::Error::from_raw_os_error(*errno))]
    Unreachable { socket: Arc<str>, errno: i32 },
    /// The connection was lost. The call may have taken effect.
    #[error("containerd cannot be reached ({}); {STATUS}", bounded(.0))]
    Away(String),
    /// `call`: the path of the call. The call may have taken effect.
    #[error("containerd did not answer {} within {} s", name(call), within.as_secs())]
    Silent { call: &'static str, within: Duration },
    /// `text`: containerd's words, of any length.
    #[error("{}", refusal(call, *code, text))]
    Refused { call: &'static str, code: Code, text: String },
    /// A blob is larger than who reads it allows.
    #[error("{digest} in containerd has more than {most} bytes")]
    TooLarge { digest: String, most: usize },
    #[error("containerd has no snapshotter that works: overlayfs in the kernel would be right")]
    NoSnapshotter,
}

impl CallError {
    pub(crate) fn of(call: &'static str, socket: &Arc<str>, status: &Status) -> Self {
        let text = status.message().to_owned();
        // A status that was made on this side has the reason of it; one that containerd sent has none.
        match innermost(status) {
            _ if is_full(&text) => Self::Refused { call, code: status.code(), text },
            Some(error) => match error.raw_os_error() {
                Some(errno) => Self::Unreachable { socket: Arc::clone(socket), errno },
                None => Self::Away(error.to_string()),
            },
            // containerd cancels what it does when it ends.
            None if matches!(status.code(), Code::Unavailable | Code::Cancelled)
                || status.source().is_some() =>
            {
                Self::Away(text)
            }
            None => Self::Refused { call, code: status.code(), text },
        }
    }

    /// Whether containerd refused with this code.
    pub fn is(&self, wanted: Code) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }

    /// Whether the connection could not be made, or was lost.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Away(_))
    }
}

fn refusal(call: &str, code: Code, text: &str) -> String {
    match code {
        _ if is_full(text) => String::from(
            "containerd's disk is full: free some of it, `kelsonctl images prune` removes images that no service names",
        ),
        Code::AlreadyExists => String::from("it is there already"),
        Code::NotFound => String::from("it is not there"),
        _ => format!("containerd refused {}: {}", name(call), bounded(text)),
    }
}

/// `Leases.Create` of `/containerd.services.leases.v1.Leases/Create`.
fn name(path: &str) -> String {
    path.rsplit('.').next().unwrap_or(path).replace('/', ".")
}

fn is_full(text: &str) -> bool {
    text.contains("no space left on device") || text.contains("disk quota exceeded")
}

/// containerd's words, fit to be shown.
fn bounded(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(600).collect()
}

/// The system's own error, where a system call was the reason: tonic calls every connection "tcp".
fn innermost(status: &Status) -> Option<&io::Error> {
    let (mut at, mut found) = (status.source(), None);
    while let Some(error) = at {
        found = error.downcast_ref().or(found);
        at = error.source();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLY: &str = "/containerd.services.diff.v1.Diff/Apply";

    fn of(status: Status) -> CallError {
        CallError::of(APPLY, &Arc::from("/c.sock"), &status)
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        assert!(of(Status::already_exists("x")).is(Code::AlreadyExists));
        assert!(of(Status::not_found("x")).is(Code::NotFound));
        assert_eq!(of(Status::unavailable("x")), CallError::Away("x".to_owned()));
        let full = of(Status::unknown("write /x: no space left on device: unknown"));
        assert!(full.to_string().starts_with("containerd's disk is full"), "{full}");
        let refused = of(Status::unknown("bad\nlayer")).to_string();
        assert_eq!(refused, "containerd refused Diff.Apply: bad layer");
    }

    #[test]
    fn what_the_server_says_is_told_from_what_the_connection_says() {
        let lost = |error: io::Error| of(Status::from_error(Box::new(error)));
        let broken = lost(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(broken, CallError::Away("broken pipe".to_owned()));
        let absent = lost(io::Error::from_raw_os_error(2));
        assert_eq!(absent, CallError::Unreachable { socket: Arc::from("/c.sock"), errno: 2 });
        assert!(absent.is_away() && broken.is_away());
        assert!(!of(Status::unknown("broken pipe")).is_away());
    }
}
