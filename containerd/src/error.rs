//! Why a call to containerd gave nothing.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tonic::{Code, Status};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// No connection could be made. What was asked was not done.
    Unreachable {
        socket: Arc<str>,
        errno: i32,
    },
    /// The connection was lost. What was asked may have been done.
    Away(String),
    /// `call`: the path of the call. What was asked may have been done.
    Silent {
        call: &'static str,
        within: Duration,
    },
    /// `text`: containerd's words, of any length.
    Refused {
        call: &'static str,
        code: Code,
        text: String,
    },
    /// A blob is larger than who reads it allows.
    TooLarge {
        digest: String,
        most: usize,
    },
    NoSnapshotter,
}

impl CallError {
    pub(crate) fn of(call: &'static str, socket: &Arc<str>, status: &Status) -> Self {
        let text = || status.message().to_owned();
        // A status that was made on this side has the reason of it; one that containerd sent has none.
        match innermost(status) {
            Some(error) if !is_full(status.message()) => match error.raw_os_error() {
                Some(errno) => Self::Unreachable { socket: Arc::clone(socket), errno },
                None => Self::Away(error.to_string()),
            },
            _ if is_full(status.message()) => Self::Refused { call, code: status.code(), text: text() },
            // containerd cancels what it does when it ends.
            _ if matches!(status.code(), Code::Unavailable | Code::Cancelled)
                || status.source().is_some() =>
            {
                Self::Away(text())
            }
            _ => Self::Refused { call, code: status.code(), text: text() },
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

impl Error for CallError {}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const AWAY: &str = "`kelsonctl status containerd` tells why";
        match self {
            Self::Unreachable { errno, .. } => {
                let error = io::Error::from_raw_os_error(*errno);
                write!(f, "containerd cannot be reached ({error}); {AWAY}")
            }
            Self::Away(why) => write!(f, "containerd cannot be reached ({}); {AWAY}", bounded(why)),
            Self::Silent { call, within } => {
                write!(f, "containerd did not answer {} within {} s", name(call), within.as_secs())
            }
            Self::Refused { text, .. } if is_full(text) => f.write_str(
                "containerd's disk is full: free some of it, `kelsonctl images prune` removes images that no service \
                 names",
            ),
            Self::Refused { code: Code::AlreadyExists, .. } => f.write_str("it is there already"),
            Self::Refused { code: Code::NotFound, .. } => f.write_str("it is not there"),
            Self::Refused { call, text, .. } => {
                write!(f, "containerd refused {}: {}", name(call), bounded(text))
            }
            Self::TooLarge { digest, most } => write!(f, "{digest} in containerd has more than {most} bytes"),
            Self::NoSnapshotter => f.write_str(
                "containerd has no snapshotter that works: overlayfs in the kernel would be right",
            ),
        }
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
