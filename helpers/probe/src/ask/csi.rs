//! `csi`: whether a storage plugin is ready, by `csi.v1.Identity/Probe` of the Container Storage Interface.

use std::path::{Path, PathBuf};

use prost::Message;
use tokio::net::UnixStream;

use super::answer::{Answer, Deadline, Unaskable};
use super::call::{Call, Failure, Status};
use super::text;

const METHOD: (&str, &str) = ("csi.v1", "/csi.v1.Identity/Probe");
/// As clients of gRPC name a server behind a Unix socket.
const AUTHORITY: &str = "localhost";
const UNIMPLEMENTED: i32 = 12;

#[derive(Clone, PartialEq, Message)]
struct ProbeRequest {}

#[derive(Clone, PartialEq, Message)]
struct ProbeResponse {
    /// A `google.protobuf.BoolValue`. A plugin that leaves it out is ready.
    #[prost(message, optional, tag = "1")]
    ready: Option<bool>,
}

/// The plugin that the check asks.
pub struct Plugin {
    socket: PathBuf,
    probe: Call,
}

impl Plugin {
    pub fn new(socket: &Path) -> Result<Plugin, Unaskable> {
        let probe = Call::new("http", AUTHORITY.to_owned(), METHOD, &ProbeRequest {})?;
        Ok(Plugin { socket: socket.to_owned(), probe })
    }

    pub async fn ask(&self, deadline: Deadline) -> Result<Answer, Answer> {
        let connect = async {
            UnixStream::connect(&self.socket).await.map_err(|error| Answer::fails(text::io_error(&error)))
        };
        let stream = deadline.bounds("connection", connect).await?;
        deadline.bounds("answer", self.talk(stream)).await
    }

    async fn talk(&self, stream: UnixStream) -> Result<Answer, Answer> {
        let answer: ProbeResponse = self.probe.over(stream).await.map_err(|failure| match failure {
            Failure::Status(Status { code: UNIMPLEMENTED, .. }) => {
                Answer::fails("UNIMPLEMENTED: the server has no csi.v1.Identity")
            }
            Failure::Status(status) => status.into(),
            Failure::Other(answer) => answer,
        })?;
        match answer.ready.unwrap_or(true) {
            true => Ok(Answer::passes("ready")),
            false => Err(Answer::fails("not ready yet")),
        }
    }
}
