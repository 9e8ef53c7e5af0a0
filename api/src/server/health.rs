//! grpc.health.v1: whether the host has booted, for load balancers and tests that know nothing of Kelson.

use futures_util::Stream;
use kelson_services::host::BootReport;
use std::pin::Pin;
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// The names that are known beside "" (the host): what is served here.
const NAMES: [&str; 6] = [
    "",
    "kelson.v1.Services",
    "kelson.v1.Machine",
    "kelson.v1.Exec",
    "kelson.v1.Images",
    "kelson.v1.Metrics",
];

/// SERVING once the boot has come to its end: every service that it starts was up or had ended.
pub struct HealthApi {
    boot: watch::Receiver<BootReport>,
    closed: watch::Receiver<()>,
}

impl HealthApi {
    pub fn new(boot: watch::Receiver<BootReport>, closed: watch::Receiver<()>) -> HealthApi {
        HealthApi { boot, closed }
    }
}

fn status(boot: &BootReport) -> ServingStatus {
    if boot.total.is_some() { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn told(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

/// What a watch goes by.
struct Watch {
    boot: watch::Receiver<BootReport>,
    closed: watch::Receiver<()>,
    known: bool,
    last: Option<ServingStatus>,
}

impl Watch {
    /// The next status that differs from the last. `None`: PID 1 ends.
    async fn next(&mut self) -> Option<ServingStatus> {
        loop {
            let now = if self.known {
                status(&self.boot.borrow_and_update())
            } else {
                ServingStatus::ServiceUnknown
            };
            if self.last != Some(now) {
                self.last = Some(now);
                return Some(now);
            }
            tokio::select! {
                _ = self.closed.changed() => return None,
                changed = self.boot.changed() => changed.ok()?,
            }
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
        if !NAMES.contains(&name.as_str()) {
            return Err(Status::not_found(format!("{name:?} is not served here; {NAMES:?} are")));
        }
        Ok(Response::new(told(status(&self.boot.borrow()))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let known = NAMES.contains(&request.into_inner().service.as_str());
        let watch = Watch { boot: self.boot.clone(), closed: self.closed.clone(), known, last: None };
        Ok(Response::new(Box::pin(futures_util::stream::unfold(watch, |mut watch| async move {
            let status = watch.next().await?;
            Some((Ok(told(status)), watch))
        }))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::StreamExt as _;

    use super::*;

    fn booted() -> BootReport {
        BootReport { total: Some(Duration::from_secs(1)), ..BootReport::default() }
    }

    #[tokio::test]
    async fn a_watch_tells_changes_and_ends_with_pid_1() {
        let (boot, report) = watch::channel(BootReport::default());
        let (closing, closed) = watch::channel(());
        let api = HealthApi::new(report, closed);
        let request = |service: &str| Request::new(HealthCheckRequest { service: service.into() });
        let mut stream = api.watch(request("")).await.unwrap().into_inner();
        assert_eq!(stream.next().await.unwrap().unwrap(), told(ServingStatus::NotServing));
        // A phase more is no change of the status.
        boot.send_modify(|report| report.phases.push(Default::default()));
        boot.send_replace(booted());
        assert_eq!(stream.next().await.unwrap().unwrap(), told(ServingStatus::Serving));
        let mut unknown = api.watch(request("nope")).await.unwrap().into_inner();
        assert_eq!(unknown.next().await.unwrap().unwrap(), told(ServingStatus::ServiceUnknown));
        assert_eq!(api.check(request("nope")).await.unwrap_err().code(), tonic::Code::NotFound);
        drop(closing);
        assert!(stream.next().await.is_none());
        assert!(unknown.next().await.is_none());
    }
}
