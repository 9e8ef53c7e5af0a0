//! Why a command did not do what it was asked, and the exit status that says so to scripts.

use std::future::Future;
use std::time::Duration;

use kelson_api::client;
use kelson_proto::v1::ListRequest;
use kelson_spec::quoted;
use tonic::Code;

use crate::output::text::{list, nearest};

/// Each exit status and what it means: in the help and in the manual page.
pub const STATUSES: [(u8, &str); 6] = [
    (0, "done"),
    (1, "failed: a service refused or failed, an unknown name, a mistake found"),
    (2, "usage: the command line, or the file of contexts, is wrong"),
    (3, "the host is not reachable"),
    (4, "denied"),
    (5, "timed out"),
];

/// A question that needs no waiting is answered within this time, or never.
pub const ANSWER: Duration = Duration::from_secs(30);

/// A reason to end with a status other than 0. Each message is a sentence that says what to do next.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Failed(String),
    /// The error was already printed.
    #[error("")]
    Reported,
    /// Everything is printed; this is the status of a command of `exec`, or of several hosts.
    #[error("")]
    Ended(u8),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotReachable(String),
    /// The host was reached, and the call was lost.
    #[error("{0}")]
    Lost(String),
    #[error("{0}")]
    Denied(String),
    #[error("{0}")]
    TimedOut(String),
    /// The host wants to be asked again with `--force`.
    #[error("{0}")]
    NeedsForce(String),
    /// The host knows no service of one of the names that it was given.
    #[error("{0}")]
    Unknown(String),
}

impl Failure {
    /// The exit status: part of the contract of the command line.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Failed(_) | Failure::Reported | Failure::NeedsForce(_) | Failure::Unknown(_) => 1,
            Failure::Ended(status) => *status,
            Failure::Usage(_) => 2,
            Failure::NotReachable(_) | Failure::Lost(_) => 3,
            Failure::Denied(_) => 4,
            Failure::TimedOut(_) => 5,
        }
    }

    /// The hint beside the message.
    pub fn unsaid(&self) -> Option<String> {
        match self {
            Failure::Reported | Failure::Ended(_) => None,
            other => Some(other.to_string()),
        }
    }

    /// True where the host is there, and may answer in a moment.
    pub fn is_lost(&self) -> bool {
        matches!(self, Failure::Lost(_))
    }

    /// True where the same call may succeed on another connection.
    pub fn is_passing(&self) -> bool {
        matches!(self, Failure::NotReachable(_) | Failure::Lost(_))
    }
}

impl From<client::Failure> for Failure {
    fn from(failure: client::Failure) -> Failure {
        match failure {
            client::Failure::NotReachable(said) => Failure::NotReachable(said),
            client::Failure::Lost(said) => Failure::Lost(said),
            client::Failure::Denied(said) => Failure::Denied(said),
            client::Failure::NotFound(said) => Failure::Unknown(said),
            client::Failure::Deadline(said) => Failure::TimedOut(said),
            client::Failure::Failed(said) => Failure::Failed(said),
        }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Failure {
        match (status.code(), status.message()) {
            (Code::Unimplemented, "") => Failure::Failed(
                "the host does not know this command; `kelsonctl version` tells how old its Kelson is"
                    .to_owned(),
            ),
            (Code::Unimplemented, why) => {
                Failure::Failed(format!("the host does not know this command: {why}"))
            }
            (code, "") => Failure::from(tonic::Status::new(code, code.description())),
            _ => client::Failure::from(status).into(),
        }
    }
}

/// Awaits the answer to a question that needs no waiting.
///
/// # Errors
/// The call failed, or there was no answer in 30 seconds.
pub async fn answer<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, Failure> {
    answer_within(ANSWER, call).await
}

/// Awaits the answer to a question for which the host has to work.
///
/// # Errors
/// The call failed, or there was no answer in this time.
pub async fn answer_within<T>(
    time: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, Failure> {
    respond_within(time, call).await.map(tonic::Response::into_inner)
}

/// Awaits the answer with its metadata.
///
/// # Errors
/// As [`answer`].
pub async fn respond<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<tonic::Response<T>, Failure> {
    respond_within(ANSWER, call).await
}

async fn respond_within<T>(
    time: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<tonic::Response<T>, Failure> {
    within(time, async { Ok(call.await?) }).await
}

/// Waits for the result for this time.
///
/// # Errors
/// It failed itself, or the time is over.
pub async fn within<T>(time: Duration, all: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(time, all).await.unwrap_or_else(|_| {
        Err(Failure::TimedOut(format!("the host gave no answer within {} s", time.as_secs())))
    })
}

/// As [`answer`], to a question about these services.
///
/// # Errors
/// As [`answer`]; where a name is unknown, with what may have been meant.
pub async fn answer_about<T>(
    client: &client::Client,
    names: &[String],
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, Failure> {
    match answer(call).await {
        Err(failure) => Err(explain_names(failure, client, names).await),
        answer => answer,
    }
}

/// Makes a failure about unknown names helpful: says which are unknown, and what may have been meant.
pub async fn explain_names(failure: Failure, client: &client::Client, names: &[String]) -> Failure {
    match failure {
        Failure::Unknown(_) => all_known(client, names).await.err().unwrap_or(failure),
        failure => failure,
    }
}

/// A name that the host does not know is a mistake. When it does not answer, none is reported.
pub async fn all_known(client: &client::Client, names: &[String]) -> Result<(), Failure> {
    let Ok(all) = answer(client.services().list(ListRequest::default())).await else { return Ok(()) };
    let known: Vec<String> = all.services.into_iter().map(|service| service.name).collect();
    unknown_names(&SERVICES, names, &known).map_or(Ok(()), |said| Err(Failure::Unknown(said)))
}

/// Things that have names, and the command that lists them.
pub struct Kind {
    pub noun: &'static str,
    pub all: &'static str,
}

const SERVICES: Kind = Kind { noun: "service", all: "kelsonctl services" };

/// The sentence about those of `names` that are not `known`; `None` where all are.
pub fn unknown_names(kind: &Kind, names: &[String], known: &[String]) -> Option<String> {
    let mut meant = Vec::new();
    let unknown: Vec<String> = names
        .iter()
        .filter(|name| !known.contains(name))
        .map(|name| {
            meant.extend(nearest(name, known.iter().map(String::as_str)).map(|near| format!("{near:?}")));
            quoted(name)
        })
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let next = match meant.as_slice() {
        [] => format!("`{}` lists all", kind.all),
        meant => format!("did you mean {}?", list(meant)),
    };
    Some(format!("no {} {}; {next}", kind.noun, list(&unknown)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_exit_status() {
        let exit = |code| Failure::from(tonic::Status::new(code, "why")).exit_status();
        assert_eq!(exit(Code::PermissionDenied), 4);
        assert_eq!(exit(Code::Unauthenticated), 4);
        assert_eq!(exit(Code::DeadlineExceeded), 5);
        assert_eq!(exit(Code::Unavailable), 3);
        assert_eq!(exit(Code::NotFound), 1);
        assert_eq!(exit(Code::InvalidArgument), 1);
        assert_eq!(exit(Code::Unimplemented), 1);
        assert_eq!(Failure::Usage(String::new()).exit_status(), 2);
    }

    #[test]
    fn a_status_of_the_transport_is_a_broken_connection() {
        let status =
            tonic::Status::from_error(Box::new(std::io::Error::from(std::io::ErrorKind::BrokenPipe)));
        assert!(Failure::from(status).is_passing());
        assert!(!Failure::from(tonic::Status::internal("a fault")).is_passing());
        assert!(
            !Failure::from(tonic::Status::internal("")).to_string().is_empty(),
            "something is always said"
        );
    }

    #[test]
    fn unknown_names_are_named_with_what_was_meant() {
        let known = ["web", "db"].map(str::to_owned);
        let said = |names: &[&str]| {
            unknown_names(&SERVICES, &names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), &known)
        };
        assert_eq!(said(&["web"]), None);
        assert_eq!(said(&["wbe"]).unwrap(), "no service \"wbe\"; did you mean \"web\"?");
        assert_eq!(said(&["mail"]).unwrap(), "no service \"mail\"; `kelsonctl services` lists all");
        assert_eq!(
            said(&["db", "wbe", "mail"]).unwrap(),
            "no service \"wbe\" and \"mail\"; did you mean \"web\"?"
        );
    }
}
