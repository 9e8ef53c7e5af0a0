//! The calls of the content store that are streams.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use containerd_client::services::v1 as api;
use tonic::codegen::tokio_stream::Stream;
use tonic::server::{ServerStreamingService, StreamingService};
use tonic::{Status, Streaming};

use super::State;
use super::answers::{missing, sha256};

pub(super) type Answers<A> = Pin<Box<dyn Stream<Item = Result<A, Status>> + Send>>;

/// A stream of one answer.
pub(super) struct Once<A>(Option<A>);

impl<A: Unpin> Stream for Once<A> {
    type Item = Result<A, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}

pub(super) struct Read(pub(super) Arc<Mutex<State>>);

impl ServerStreamingService<api::ReadContentRequest> for Read {
    type Response = api::ReadContentResponse;
    type ResponseStream = Answers<Self::Response>;
    type Future = std::future::Ready<Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<api::ReadContentRequest>) -> Self::Future {
        let digest = request.into_inner().digest;
        let state = self.0.lock().unwrap();
        std::future::ready(match state.blobs.get(&digest) {
            Some((data, _)) => {
                let answer = api::ReadContentResponse { offset: 0, data: data.clone() };
                Ok(tonic::Response::new(Box::pin(Once(Some(answer))) as Self::ResponseStream))
            }
            None => Err(missing()),
        })
    }
}

pub(super) struct Write(pub(super) Arc<Mutex<State>>);

impl StreamingService<api::WriteContentRequest> for Write {
    type Response = api::WriteContentResponse;
    type ResponseStream = Answers<Self::Response>;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Streaming<api::WriteContentRequest>>) -> Self::Future {
        let state = Arc::clone(&self.0);
        Box::pin(async move {
            let mut messages = request.into_inner();
            let mut data = Vec::new();
            while let Some(message) = messages.message().await? {
                if data.is_empty() && message.action == api::WriteAction::Write as i32 {
                    assert_eq!(message.offset, 0);
                    let new = state.lock().unwrap().ingests.insert(message.r#ref.clone());
                    if !new {
                        return Err(Status::unavailable("the name is in use by another writer"));
                    }
                }
                assert_eq!(usize::try_from(message.offset).unwrap(), data.len());
                data.extend(message.data);
                if message.action == api::WriteAction::Commit as i32 {
                    let mut state = state.lock().unwrap();
                    assert_eq!(sha256(&data), message.expected);
                    state.ingests.remove(&message.r#ref);
                    state.calls.push(format!("committed {}", message.expected));
                    state.blobs.insert(message.expected.clone(), (data, message.labels));
                    let answer = api::WriteContentResponse { action: message.action, ..Default::default() };
                    return Ok(tonic::Response::new(Box::pin(Once(Some(answer))) as Self::ResponseStream));
                }
            }
            Err(Status::cancelled("the writer went away"))
        })
    }
}
