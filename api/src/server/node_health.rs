//! The service Health: the state of the host and its groups, and the services that keep them from being healthy.

use std::time::Duration;

use kelson_proto::v1;
use kelson_proto::v1::health_server::Health;
use kelson_services::node_health::NodeHealth;
use tokio::sync::watch;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

/// Between two messages of a stream: while a thousand services start, not each of them causes a message.
const PACE: Duration = Duration::from_millis(200);

pub struct NodeHealthApi {
    pub health: NodeHealth,
    /// Its sender is dropped when PID 1 ends.
    pub closed: watch::Receiver<()>,
}

/// How the host (an empty name) or a group is.
fn find(health: &NodeHealth, group: &str) -> Result<v1::HealthReport, Status> {
    if group.is_empty() {
        return Ok(health.node());
    }
    health.group(group).ok_or_else(|| Status::not_found(format!("no service is in a group \"{group:.60}\"")))
}

/// Whether there is something to tell: that time passes is not.
fn differs(one: &v1::HealthReport, other: &v1::HealthReport) -> bool {
    let said = |culprit: &v1::Culprit| v1::Culprit { since: None, lasts: None, ..culprit.clone() };
    let culprits = |report: &v1::HealthReport| report.culprits.iter().map(said).collect::<Vec<_>>();
    let key = |report: &v1::HealthReport| (report.state, report.steady.is_some(), report.services);
    key(one) != key(other) || culprits(one) != culprits(other) || one.warnings != other.warnings
}

/// The sources of a watch.
struct Watch {
    health: NodeHealth,
    changes: watch::Receiver<u64>,
    closed: watch::Receiver<()>,
    group: String,
    last: Option<v1::HealthReport>,
    ended: bool,
}

impl Watch {
    /// The next report that differs from the last. `None`: PID 1 ends, or the group is gone and the client knows.
    async fn next(&mut self) -> Option<Result<v1::WatchHealthResponse, Status>> {
        if self.ended {
            return None;
        }
        if self.last.is_some() {
            tokio::select! {
                _ = self.closed.changed() => return None,
                () = tokio::time::sleep(PACE) => {}
            }
        }
        loop {
            self.changes.borrow_and_update();
            let now = match find(&self.health, &self.group) {
                Ok(now) => now,
                Err(status) => {
                    self.ended = true;
                    return Some(Err(status));
                }
            };
            if self.last.as_ref().is_none_or(|last| differs(last, &now)) {
                self.last = Some(now.clone());
                return Some(Ok(v1::WatchHealthResponse { health: Some(now) }));
            }
            tokio::select! {
                _ = self.closed.changed() => return None,
                changed = self.changes.changed() => changed.ok()?,
            }
        }
    }
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Health for NodeHealthApi {
    async fn get(
        &self,
        request: Request<v1::GetHealthRequest>,
    ) -> Result<Response<v1::GetHealthResponse>, Status> {
        let health = find(&self.health, &request.into_inner().group)?;
        Ok(Response::new(v1::GetHealthResponse { health: Some(health) }))
    }

    async fn watch(
        &self,
        request: Request<v1::WatchHealthRequest>,
    ) -> Result<Response<BoxStream<v1::WatchHealthResponse>>, Status> {
        let group = request.into_inner().group;
        find(&self.health, &group)?;
        let watch = Watch {
            health: self.health.clone(),
            changes: self.health.changes(),
            closed: self.closed.clone(),
            group,
            last: None,
            ended: false,
        };
        Ok(Response::new(Box::pin(futures_util::stream::unfold(watch, |mut watch| async move {
            let next = watch.next().await?;
            Some((next, watch))
        }))))
    }

    async fn list(
        &self,
        _: Request<v1::ListHealthRequest>,
    ) -> Result<Response<v1::ListHealthResponse>, Status> {
        let (node, groups) = (Some(self.health.node()), self.health.groups());
        Ok(Response::new(v1::ListHealthResponse { node, groups }))
    }
}
