//! grpc.health.v1: for load balancers and probes that know nothing of Kelson.
//!
//! `""` is the host's health, `group/NAME` that of a group, `service/NAME` whether a service is up, `boot` and the
//! names of the services that are served here whether the boot is over.

use std::pin::Pin;

use futures_util::Stream;
use kelson_services::Manager;
use kelson_services::host::BootReport;
use kelson_services::model::Snapshot;
use kelson_services::node_health::{HealthState, NodeHealth};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Names that serve once the boot has come to its end: every service that it waits for was up or had ended.
const BOOT: [&str; 8] = [
    "boot",
    "kelson.v1.Services",
    "kelson.v1.Machine",
    "kelson.v1.Configuration",
    "kelson.v1.Exec",
    "kelson.v1.Images",
    "kelson.v1.Metrics",
    "kelson.v1.Health",
];

/// Where the answers come from. Cheap to clone.
#[derive(Clone)]
pub struct HealthApi {
    pub manager: Manager,
    pub health: NodeHealth,
    pub boot: watch::Receiver<BootReport>,
    /// Its sender is dropped when PID 1 ends.
    pub closed: watch::Receiver<()>,
}

/// The subject of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Node,
    Boot,
    Group(String),
    Service(String),
    Unknown,
}

impl Subject {
    fn of(name: &str) -> Subject {
        match name.split_once('/') {
            None if name.is_empty() => Subject::Node,
            None if BOOT.contains(&name) => Subject::Boot,
            Some(("group", group)) => Subject::Group(group.to_owned()),
            Some(("service", service)) => Subject::Service(service.to_owned()),
            _ => Subject::Unknown,
        }
    }
}

fn serving(yes: bool) -> ServingStatus {
    if yes { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

impl HealthApi {
    /// `None`: there is no such service or group now.
    fn status(&self, subject: &Subject) -> Option<ServingStatus> {
        match subject {
            Subject::Node => Some(serving(self.health.node_state() == HealthState::Healthy)),
            Subject::Boot => Some(serving(self.boot.borrow().total.is_some())),
            Subject::Group(name) => {
                self.health.group_state(name).map(|state| serving(state == HealthState::Healthy))
            }
            Subject::Service(name) => self.manager.get(name).map(|now| serving(now.up)),
            Subject::Unknown => None,
        }
    }
}

/// The sources of a watch.
struct Watch {
    api: HealthApi,
    subject: Subject,
    last: Option<ServingStatus>,
    /// Changes with the host's health, and when services come and go.
    health: watch::Receiver<u64>,
    /// Of the service that is watched.
    snapshot: Option<watch::Receiver<Snapshot>>,
}

impl Watch {
    /// The next status that differs from the last. `None`: PID 1 ends.
    async fn next(&mut self) -> Option<ServingStatus> {
        loop {
            // Seen before it is looked: what changes from here on wakes.
            self.health.borrow_and_update();
            self.api.boot.borrow_and_update();
            self.find_service();
            let now = self.api.status(&self.subject).unwrap_or(ServingStatus::ServiceUnknown);
            if self.last != Some(now) {
                self.last = Some(now);
                return Some(now);
            }
            let changed = async {
                match (&self.subject, &mut self.snapshot) {
                    (Subject::Boot, _) => self.api.boot.changed().await.is_ok(),
                    (Subject::Unknown, _) => std::future::pending().await,
                    (Subject::Service(_), Some(snapshot)) => {
                        // Its end is no change of the service; its removal is reported with the others' changes.
                        if snapshot.changed().await.is_err() {
                            self.snapshot = None;
                        }
                        true
                    }
                    _ => self.health.changed().await.is_ok(),
                }
            };
            let mut closed = self.api.closed.clone();
            tokio::select! {
                _ = closed.changed() => return None,
                goes_on = changed => goes_on.then_some(())?,
            }
        }
    }

    /// A service may have come, or come again under its name. One that has ended stays known until it is forgotten.
    fn find_service(&mut self) {
        let Subject::Service(name) = &self.subject else { return };
        if self.snapshot.is_none() {
            let found = self.api.manager.watch(name);
            self.snapshot = found.filter(|snapshot| snapshot.has_changed().is_ok());
        }
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.borrow_and_update();
        }
    }
}

#[tonic::async_trait]
impl Health for HealthApi {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = request.into_inner().service;
        match self.status(&Subject::of(&name)) {
            Some(status) => Ok(Response::new(response(status))),
            None => Err(Status::not_found(format!(
                "\"{name:.60}\" is not known here; known are \"\" (the host), service/NAME, group/NAME and {BOOT:?}"
            ))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let watch = Watch {
            subject: Subject::of(&request.into_inner().service),
            last: None,
            health: self.health.changes(),
            snapshot: None,
            api: self.clone(),
        };
        Ok(Response::new(Box::pin(futures_util::stream::unfold(watch, |mut watch| async move {
            let status = watch.next().await?;
            Some((Ok(response(status)), watch))
        }))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_stands_for() {
        for (name, subject) in [
            ("", Subject::Node),
            ("boot", Subject::Boot),
            ("kelson.v1.Services", Subject::Boot),
            ("group/shop", Subject::Group("shop".into())),
            ("service/web", Subject::Service("web".into())),
            ("web", Subject::Unknown),
            ("unit/web", Subject::Unknown),
        ] {
            assert_eq!(Subject::of(name), subject, "{name:?}");
        }
    }
}
