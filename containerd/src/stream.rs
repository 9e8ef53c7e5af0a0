//! A blob on its way into the content store.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use api::{WriteAction, WriteContentRequest, WriteContentResponse};
use containerd_client::services::v1 as api;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::codegen::tokio_stream::Stream;

use crate::calls::SLOW;
use crate::{CallError, Code, Containerd, Result};

/// Messages that wait for containerd; with the bytes that wait in front of them they bound what is held in memory.
const IN_FLIGHT: usize = 2;
/// containerd takes a message within this time, or hangs.
const TAKES: Duration = Duration::from_secs(60);
const CALL: &str = "/containerd.services.content.v1.Content/Write";

/// Writes one blob. Dropped before its end it leaves nothing but a half-written name, for
/// [`abort_write`](Containerd::abort_write).
pub struct BlobWriter {
    messages: mpsc::Sender<WriteContentRequest>,
    answers: JoinHandle<Result<()>>,
    name: String,
    digest: String,
    total: i64,
    offset: i64,
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

struct Messages(mpsc::Receiver<WriteContentRequest>);

impl Stream for Messages {
    type Item = WriteContentRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

impl Containerd {
    /// Begins to write a blob under the name `name`, which nobody else uses meanwhile.
    pub fn write_blob(&self, name: &str, digest: &str, size: u64) -> BlobWriter {
        let (messages, queue) = mpsc::channel(IN_FLIGHT);
        let request = self.request(Messages(queue));
        let (mut client, socket) = (self.content(), Arc::clone(&self.socket));
        let answers = tokio::spawn(async move {
            let status = |status: tonic::Status| CallError::of(CALL, &socket, &status);
            let mut answers = client.write(request).await.map_err(status)?.into_inner();
            while let Some(answer) = answers.message().await.map_err(status)? {
                if is_committed(&answer) {
                    return Ok(());
                }
            }
            Err(CallError::Away(String::from("it ended a write before its end")))
        });
        BlobWriter {
            messages,
            answers,
            name: name.to_owned(),
            digest: digest.to_owned(),
            total: i64::try_from(size).unwrap_or(i64::MAX),
            offset: 0,
        }
    }
}

fn is_committed(answer: &WriteContentResponse) -> bool {
    answer.action == WriteAction::Commit as i32
}

impl BlobWriter {
    /// The next bytes. An error [`AlreadyExists`](Code::AlreadyExists) means that the blob is there by now.
    pub async fn bytes(&mut self, bytes: Vec<u8>) -> Result<()> {
        let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        let message = self.message(WriteAction::Write, bytes, HashMap::new());
        self.send(message).await?;
        self.offset = self.offset.saturating_add(length);
        Ok(())
    }

    /// Ends the write before its end and waits until containerd knows: nothing comes after an
    /// [`abort_write`](Containerd::abort_write).
    pub async fn give_up(mut self) {
        // With its sender the stream of messages ends.
        self.messages = mpsc::channel(1).0;
        let _ = self.answer(TAKES).await;
    }

    /// The blob is whole and proven: it comes into the store with these labels. One that is there already is as good.
    pub async fn commit(mut self, labels: HashMap<String, String>) -> Result<()> {
        let message = self.message(WriteAction::Commit, Vec::new(), labels);
        let sent = match self.send(message).await {
            Ok(()) => self.answer(SLOW).await,
            Err(error) => Err(error),
        };
        match sent {
            Err(error) if error.is(Code::AlreadyExists) => Ok(()),
            other => other,
        }
    }

    fn message(
        &self,
        action: WriteAction,
        data: Vec<u8>,
        labels: HashMap<String, String>,
    ) -> WriteContentRequest {
        WriteContentRequest {
            action: action as i32,
            r#ref: self.name.clone(),
            total: self.total,
            expected: self.digest.clone(),
            offset: self.offset,
            data,
            labels,
        }
    }

    async fn send(&mut self, message: WriteContentRequest) -> Result<()> {
        match timeout(TAKES, self.messages.send(message)).await {
            Ok(Ok(())) => Ok(()),
            // Nobody takes messages any more: the answer says why.
            Ok(Err(_)) => match self.answer(TAKES).await {
                Ok(()) => Err(CallError::Refused {
                    call: CALL,
                    code: Code::AlreadyExists,
                    text: String::from("it is there already"),
                }),
                Err(error) => Err(error),
            },
            Err(_) => Err(CallError::Silent { call: CALL, within: TAKES }),
        }
    }

    async fn answer(&mut self, within: Duration) -> Result<()> {
        match timeout(within, &mut self.answers).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(CallError::Away(String::from("its answer was lost"))),
            Err(_) => Err(CallError::Silent { call: CALL, within }),
        }
    }
}
