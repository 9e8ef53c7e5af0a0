//! The service Health: the state of the host and its groups, and the services that keep them from being healthy.

use std::time::Duration;

use kelson_proto::v1;
use kelson_proto::v1::health_server::Health;
use kelson_services::model::Numbered as _;
use kelson_services::node_health::{self, NodeHealth};
use tokio::sync::watch;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::model;

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
        return Ok(report("", health.node()));
    }
    match health.group(group) {
        Some(found) => Ok(report(group, found)),
        None => Err(Status::not_found(format!("no service is in a group \"{group:.60}\""))),
    }
}

fn report(group: &str, health: node_health::Health) -> v1::HealthReport {
    v1::HealthReport {
        group: group.to_owned(),
        state: health.state.number(),
        since: Some(health.since.into()),
        lasts: Some(model::duration(health.lasts)),
        steady: health.steady.map(model::duration),
        minimum: Some(model::duration(health.minimum)),
        deadline: Some(model::duration(health.deadline)),
        left: health.left.map(model::duration),
        services: u32::try_from(health.services).unwrap_or(u32::MAX),
        culprits: health.culprits.into_iter().map(culprit).collect(),
        last_break: health.last_break.map(culprit),
        message: health.message,
        optional: health.optional.into_iter().map(culprit).collect(),
        warnings: health.warnings,
    }
}

fn culprit(culprit: node_health::Culprit) -> v1::Culprit {
    v1::Culprit {
        service: culprit.service.to_string(),
        check: culprit.check.to_string(),
        // That of a check is unspecified.
        state: if culprit.check.is_empty() { culprit.state.number() } else { 0 },
        reason: culprit.reason.to_string(),
        since: Some(culprit.since.into()),
        lasts: Some(model::duration(culprit.lasts)),
    }
}

/// Whether there is something to tell: that time passes is not.
fn differs(one: &v1::HealthReport, other: &v1::HealthReport) -> bool {
    let said = |culprit: &v1::Culprit| v1::Culprit { since: None, lasts: None, ..culprit.clone() };
    let culprits = |report: &v1::HealthReport| report.culprits.iter().map(said).collect::<Vec<_>>();
    let key = |report: &v1::HealthReport| (report.state, report.steady.is_some(), report.services);
    key(one) != key(other) || culprits(one) != culprits(other) || one.warnings != other.warnings
}

/// What a watch goes by.
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
        let groups = self.health.groups().into_iter();
        Ok(Response::new(v1::ListHealthResponse {
            node: Some(report("", self.health.node())),
            groups: groups.map(|(name, health)| report(&name, health)).collect(),
        }))
    }
}
