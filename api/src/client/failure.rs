//! Why a call failed, in the kinds that a caller tells apart.

use std::error::Error;

use tonic::{Code, Status};

/// Why a call failed. The text is a sentence for the person who made it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody answers there, or what answers cannot be trusted.
    #[error("{0}")]
    NotReachable(String),
    /// The host was reached, and the call was lost, or cannot be answered at this moment: PID 1 may be executing itself
    /// anew.
    #[error("{0}")]
    Lost(String),
    /// Somebody answers, and says no.
    #[error("{0}")]
    Denied(String),
    /// There is no such service.
    #[error("{0}")]
    NotFound(String),
    /// The time that was given has passed.
    #[error("{0}")]
    Deadline(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    /// The exit status of the command line for it.
    pub fn exit_status(&self) -> i32 {
        match self {
            Failure::NotFound(_) | Failure::Failed(_) => 1,
            Failure::NotReachable(_) | Failure::Lost(_) => 3,
            Failure::Denied(_) => 4,
            Failure::Deadline(_) => 5,
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        if let Some(failure) = connection(&status) {
            return failure;
        }
        let message = status.message().to_owned();
        match status.code() {
            // Also what broke below gRPC: the peer went away in the middle of the call.
            Code::Unavailable => Failure::Lost(message),
            Code::Unknown | Code::Internal | Code::Cancelled if status.source().is_some() => {
                Failure::Lost(format!("the connection broke: {}", chain(&status)))
            }
            Code::PermissionDenied | Code::Unauthenticated => Failure::Denied(message),
            Code::NotFound => Failure::NotFound(message),
            Code::DeadlineExceeded => Failure::Deadline(message),
            _ => Failure::Failed(message),
        }
    }
}

/// The causes of an error below gRPC, outermost first, each once.
fn chain(status: &Status) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut cause = status.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if words.last().is_none_or(|last| !last.contains(&text)) {
            words.push(text);
        }
        cause = error.source();
    }
    words.join(": ")
}

/// What the making of the connection said; it is found among the causes.
fn connection(status: &Status) -> Option<Failure> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return Some(failure.clone());
        }
        #[cfg(feature = "tls")]
        if let Some(failure) =
            error.downcast_ref::<tokio_rustls::rustls::Error>().and_then(super::tls::failure)
        {
            return Some(failure);
        }
        // What stands in an io::Error is not among its sources.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(failure) = inner.and_then(|inner| inner.downcast_ref::<Failure>()) {
            return Some(failure.clone());
        }
        #[cfg(feature = "tls")]
        if let Some(failure) = inner
            .and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>())
            .and_then(super::tls::failure)
        {
            return Some(failure);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses() {
        let status = |code| Failure::from(Status::new(code, "why")).exit_status();
        assert_eq!(status(Code::NotFound), 1);
        assert_eq!(status(Code::InvalidArgument), 1);
        assert_eq!(status(Code::FailedPrecondition), 1);
        assert_eq!(status(Code::Unavailable), 3);
        assert_eq!(status(Code::PermissionDenied), 4);
        assert_eq!(status(Code::Unauthenticated), 4);
        assert_eq!(status(Code::DeadlineExceeded), 5);
        assert_eq!(Failure::NotReachable(String::new()).exit_status(), 3);
    }
}
