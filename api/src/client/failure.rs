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
    /// again.
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

/// The error of the connector, found among the causes.
fn connection(status: &Status) -> Option<Failure> {
    let mut cause = status.source();
    while let Some(error) = cause {
        // The inner error of an io::Error is not among its sources.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let inner = inner.map(|inner| inner as &(dyn Error + 'static));
        if let Some(failure) = said(error).or_else(|| inner.and_then(said)) {
            return Some(failure);
        }
        cause = error.source();
    }
    None
}

/// The failure of the connection that this error alone describes.
fn said(error: &(dyn Error + 'static)) -> Option<Failure> {
    let failure = error.downcast_ref::<Failure>().cloned();
    #[cfg(feature = "tls")]
    let failure = failure.or_else(|| of_tls(error.downcast_ref()?));
    failure
}

/// The failure that TLS reports; `None` where an operator could not act on it.
#[cfg(feature = "tls")]
pub fn of_tls(error: &tokio_rustls::rustls::Error) -> Option<Failure> {
    use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};
    match error {
        Error::AlertReceived(
            alert @ (AlertDescription::ProtocolVersion
            | AlertDescription::HandshakeFailure
            | AlertDescription::NoApplicationProtocol),
        ) => Some(Failure::NotReachable(format!("it speaks TLS, but not as Kelson does ({alert:?})"))),
        // In TLS 1.3 the machine looks at our certificate after the handshake: its no comes with the first call.
        Error::AlertReceived(alert) => Some(Failure::Denied(match alert {
            AlertDescription::CertificateExpired => {
                "the machine refuses our certificate: it has expired, or a clock is wrong; `kelsonctl config contexts` \
                 tells until when it holds, and `kelsonctl gen config` makes a new one"
                    .to_owned()
            }
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "the machine refuses our certificate: it is not signed by the machine's CA".to_owned()
            }
            AlertDescription::CertificateRequired => "the machine wants a client certificate".to_owned(),
            other => format!("the machine refuses our certificate ({other:?})"),
        })),
        Error::InvalidCertificate(why) => Some(Failure::NotReachable(match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is not signed by the CA of the context: it may be another machine".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name or address: use the one that it bears".to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired, or a clock is wrong".to_owned()
            }
            other => format!("its certificate is not valid: {other}"),
        })),
        _ => None,
    }
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
