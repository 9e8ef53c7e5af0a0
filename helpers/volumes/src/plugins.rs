//! The plugins of this host, and calls of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kelson_proto::v1::VolumePlugin;
use kelson_spec::service::PluginKind;
use prost::Message as _;
use tonic::{Code, Status};

use crate::connection::Connection;
use crate::csi::Call;
use crate::csi::v1::ProbeRequest;
use crate::job::Failure;

/// How long a plugin may take.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// To say what it is and can do.
    pub identity: Duration,
    /// For one step of a volume.
    pub step: Duration,
    /// To make, delete or expand a volume: it may copy its data.
    pub action: Duration,
    /// For a call of the system, and for reading the file of a volume.
    pub system: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            identity: Duration::from_secs(5),
            step: Duration::from_secs(30),
            action: Duration::from_secs(280),
            system: Duration::from_secs(10),
        }
    }
}

/// Why a call gave no answer.
#[derive(Debug)]
pub struct Refusal {
    /// `None`: it did not come from the plugin.
    pub code: Option<Code>,
    pub failure: Failure,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        refusal.failure
    }
}

/// The part of a plugin that a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Node,
    Controller,
}

/// All plugins that services provide.
#[derive(Debug, Clone, Default)]
pub struct Plugins(Arc<Mutex<Vec<VolumePlugin>>>);

impl Plugins {
    pub fn set(&self, plugins: Vec<VolumePlugin>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = plugins;
    }

    pub fn all(&self) -> Vec<VolumePlugin> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those of an id that have this part, the one with the newest socket first.
    pub fn of(&self, id: &str, part: Part) -> Vec<VolumePlugin> {
        let mut found: Vec<VolumePlugin> =
            self.all().into_iter().filter(|plugin| plugin.id == id && has(plugin, part)).collect();
        found.sort_by_key(|plugin| std::cmp::Reverse(made(&plugin.socket)));
        found
    }

    /// The one that serves: of several the newest that answers.
    ///
    /// # Errors
    /// There is none, or none answers.
    pub async fn serving(&self, id: &str, part: Part, deadline: Duration) -> Result<VolumePlugin, Failure> {
        let mut candidates = self.of(id, part).into_iter();
        let Some(first) = candidates.next() else {
            let what = match part {
                Part::Node => "plugin",
                Part::Controller => "controller of the plugin",
            };
            return Err(Failure::before(&format!("no service of this host provides the {what} {id:?} now")));
        };
        if candidates.len() == 0 {
            return Ok(first);
        }
        let mut failures = Vec::new();
        for plugin in std::iter::once(first).chain(candidates) {
            let probed = call(&plugin, deadline, ProbeRequest {});
            match probed.await {
                Ok(_) => return Ok(plugin),
                Err(refusal) => failures.push(refusal.failure.text),
            }
        }
        Err(Failure::before(&format!("none of its plugins answers: {}", failures.join("; "))).of("Probe"))
    }
}

/// Whether the service says that its plugin has the part.
pub fn has(plugin: &VolumePlugin, part: Part) -> bool {
    let kind = PluginKind::ALL.into_iter().find(|kind| kind.name() == plugin.kind);
    kind.is_some_and(|kind| match part {
        Part::Node => kind.is_node(),
        Part::Controller => kind.is_controller(),
    })
}

/// When the socket was made; one that is missing is the oldest.
pub fn made(socket: &str) -> Option<SystemTime> {
    std::fs::symlink_metadata(socket).and_then(|meta| meta.modified()).ok()
}

/// One call, on a connection of its own.
///
/// # Errors
/// The plugin refuses it, cannot be reached, or has had its time.
pub async fn call<R: Call>(
    plugin: &VolumePlugin,
    deadline: Duration,
    request: R,
) -> Result<R::Response, Refusal> {
    let answer = ask(plugin, deadline, R::PATH, request.encode_to_vec()).await?;
    R::Response::decode(&*answer).map_err(|error| {
        let failure = Failure::after(&format!("the answer makes no sense: {error}"));
        Refusal { code: None, failure: failure.last() }
    })
}

/// The same with bytes, so that it is in the program once.
async fn ask(
    plugin: &VolumePlugin,
    deadline: Duration,
    path: &'static str,
    request: Vec<u8>,
) -> Result<Vec<u8>, Refusal> {
    let mut connected = false;
    let answered = tokio::time::timeout(deadline, async {
        let mut connection = Connection::new(plugin)
            .await
            .map_err(|error| Refusal { code: None, failure: Failure::before(&error) })?;
        connected = true;
        connection.ask(path, request).await.map_err(|status| refused(&status))
    })
    .await;
    answered.unwrap_or_else(|_| {
        let within = silence(deadline);
        let failure = if connected { Failure::after(&within) } else { Failure::before(&within) };
        Err(Refusal { code: None, failure })
    })
}

/// That a plugin has had its time.
pub fn silence(deadline: Duration) -> String {
    match deadline.subsec_millis() {
        0 => format!("no answer within {} s", deadline.as_secs()),
        _ => format!("no answer within {} ms", deadline.as_millis()),
    }
}

fn refused(status: &Status) -> Refusal {
    if let Some(error) = std::error::Error::source(status) {
        // The connection broke: what the plugin did before that nobody knows.
        let text = format!("the connection broke before the answer: {error}");
        return Refusal { code: None, failure: Failure::after(&text) };
    }
    let code = status.code();
    let name = code_name(code);
    let failure = Failure::after(&match status.message() {
        "" => name.to_owned(),
        message => format!("{name}: {message}"),
    });
    let again =
        matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::ResourceExhausted);
    Refusal { code: Some(code), failure: if again { failure } else { failure.last() } }
}

/// As the specification of gRPC writes it.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
