//! Health, as the test says it is.

use kelson_proto::v1::health_server::Health;
use kelson_proto::v1::*;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::codegen::BoxStream;

use super::{Answer, Shared};

#[tonic::async_trait]
impl Health for Shared {
    async fn get(&self, request: Request<GetHealthRequest>) -> Answer<GetHealthResponse> {
        let group = request.into_inner().group;
        self.note(format!("health {group}"))?;
        Ok(tonic::Response::new(GetHealthResponse { health: Some(self.state().health.clone()) }))
    }

    /// How it is at the moment of each change.
    async fn watch(&self, request: Request<WatchHealthRequest>) -> Answer<BoxStream<WatchHealthResponse>> {
        self.note(format!("health watch {}", request.into_inner().group))?;
        let (sender, receiver) = tokio::sync::mpsc::channel(16);
        let (shared, mut changed) = (self.clone(), self.changed.subscribe());
        tokio::spawn(async move {
            loop {
                let health = Some(shared.state().health.clone());
                let sent = sender.send(Ok(WatchHealthResponse { health })).await;
                if sent.is_err() || changed.changed().await.is_err() {
                    return;
                }
            }
        });
        Ok(tonic::Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list(&self, _: Request<ListHealthRequest>) -> Answer<ListHealthResponse> {
        self.note("health list".to_owned())?;
        let state = self.state();
        let (node, groups) = (Some(state.health.clone()), state.groups.clone());
        Ok(tonic::Response::new(ListHealthResponse { node, groups }))
    }
}
