//! What containerd says when it does not do what it is asked.

use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    #[error("it is there already")]
    AlreadyExists,
    #[error("it is not there")]
    NotFound,
    /// The connection was lost, or none could be made. What was asked may have been done.
    #[error("containerd cannot be reached ({0}); `kelsonctl status containerd` tells why")]
    Away(String),
    #[error("containerd did not answer {call} within {} s", within.as_secs())]
    Silent { call: &'static str, within: Duration },
    #[error(
        "containerd's disk is full: free some of it, `kelsonctl images prune` removes images that no service names"
    )]
    DiskFull,
    #[error("{0}")]
    Refused(String),
}

impl CallError {
    pub(super) fn of(call: &'static str, status: &Status) -> Self {
        let text = bounded(status.message(), 600);
        match status.code() {
            _ if text.contains("no space left on device") || text.contains("disk quota exceeded") => {
                Self::DiskFull
            }
            Code::AlreadyExists => Self::AlreadyExists,
            Code::NotFound => Self::NotFound,
            // A status that was made on this side has the reason of it; one that containerd sent has none.
            _ if status.code() == Code::Unavailable || std::error::Error::source(status).is_some() => {
                Self::Away(innermost(status).unwrap_or(text))
            }
            // containerd cancels what it does when it ends.
            Code::Cancelled => Self::Away(text),
            _ => Self::Refused(format!("containerd refused {call}: {text}")),
        }
    }
}

/// Text that others wrote, fit to be shown: at most `most` characters, none of which moves a terminal.
fn bounded(text: &str, most: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(most).collect()
}

/// The system's own words, where a system call was the reason: tonic calls every connection "tcp".
fn innermost(status: &Status) -> Option<String> {
    let mut at = std::error::Error::source(status);
    let mut found = None;
    while let Some(error) = at {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            found = Some(error.to_string());
        }
        at = error.source();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_apart() {
        let of = |status: Status| CallError::of("Diff.Apply", &status);
        assert_eq!(of(Status::already_exists("x")), CallError::AlreadyExists);
        assert_eq!(of(Status::not_found("x")), CallError::NotFound);
        assert_eq!(of(Status::unavailable("x")), CallError::Away("x".to_owned()));
        assert_eq!(of(Status::unknown("write /x: no space left on device: unknown")), CallError::DiskFull);
        let lost = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(matches!(of(Status::from_error(Box::new(lost))), CallError::Away(_)));
        let refused = of(Status::unknown("bad\nlayer")).to_string();
        assert_eq!(refused, "containerd refused Diff.Apply: bad layer");
    }
}
