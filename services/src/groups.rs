//! Groups: services that are ordered by their part in the group and can restart together.
//!
//! The order comes from the dependencies that `kelson-load` gives the members, so starting, stopping and
//! `why` know nothing of groups. The rest is here: a member, or a check of the group, asks for a restart of
//! all ([`Groups`]), and one task of the host stops and starts them in order ([`coordinate`]). The same task starts what
//! `onFailure` and `onSuccess` name.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

mod coordinator;
mod restart;
mod restarts;
mod stability;

pub use coordinator::coordinate;
pub use restarts::GroupRestarts;

/// A member of a group, or a check of the group, asks for the whole group to be restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRequest {
    pub group: Arc<str>,
    /// The member that asks. `None`: a check of the group.
    pub member: Option<Arc<str>>,
    /// Why, in words.
    pub text: String,
    /// How long the group rests at least between its stop and its start.
    pub after: Duration,
    /// An earlier incarnation of PID 1 has begun it: it was decided on and counted then.
    pub begun: bool,
}

impl GroupRequest {
    /// Why, with the member that asks.
    fn why(&self) -> String {
        match &self.member {
            Some(member) => format!("{member}: {}", self.text),
            None => self.text.clone(),
        }
    }
}

/// What the end of a service is to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Restart(GroupRequest),
    /// These start because the service has ended; the text says how.
    Start {
        names: Vec<String>,
        text: String,
    },
}

/// Where services ask. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Groups {
    requests: mpsc::UnboundedSender<Request>,
}

impl Groups {
    /// The other end belongs to [`coordinate`]; once it is dropped, nothing is restarted.
    pub fn new() -> (Groups, mpsc::UnboundedReceiver<Request>) {
        let (requests, asked) = mpsc::unbounded_channel();
        (Groups { requests }, asked)
    }

    /// Asks for other services to be started, for the reason in the text.
    pub fn start(&self, names: Vec<String>, text: String) {
        self.send(Request::Start { names, text });
    }

    fn send(&self, request: Request) {
        // Nobody starts anything any more when the host stops.
        let _ = self.requests.send(request);
    }

    pub fn ask(&self, request: GroupRequest) {
        self.send(Request::Restart(request));
    }
}
