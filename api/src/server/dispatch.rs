//! From a request to the service that it names, within the time that its caller gives it.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use kelson_proto::v1::configuration_server::ConfigurationServer;
use kelson_proto::v1::exec_server::ExecServer;
use kelson_proto::v1::fleet_server::FleetServer;
use kelson_proto::v1::health_server::HealthServer as NodeHealthServer;
use kelson_proto::v1::images_server::ImagesServer;
use kelson_proto::v1::inspect_server::InspectServer;
use kelson_proto::v1::machine_server::MachineServer;
use kelson_proto::v1::metrics_server::MetricsServer;
use kelson_proto::v1::secrets_server::SecretsServer;
use kelson_proto::v1::services_server::ServicesServer;
use kelson_proto::v1::timers_server::TimersServer;
use kelson_proto::v1::volumes_server::VolumesServer;
use kelson_services::Manager;
use kelson_services::admission::{Admission, Standing};
use kelson_services::host::Host;
use kelson_services::node_health::NodeHealth;
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::server::NamedService as _;
use tonic_health::pb::health_server::HealthServer;

use super::Part;
use super::audit::{self, Audit};
use super::caller;
use super::configuration::ConfigurationApi;
use super::exec::ExecApi;
use super::fleet::FleetApi;
use super::health::HealthApi;
use super::images::ImagesApi;
use super::inspect::InspectApi;
use super::machine::MachineApi;
use super::metrics::MetricsApi;
use super::node_health::NodeHealthApi;
use super::reflection;
use super::route::Route;
use super::secrets::SecretsApi;
use super::services::ServicesApi;
use super::timers::TimersApi;
use super::volumes::VolumesApi;
use kelson_proto::access;
use kelson_proto::call::MESSAGE_MAX;
use kelson_services::spec::{Feature, MissingFeature};

/// Services that only a build with this feature has.
const NEEDS: [(&str, Feature); 8] = [
    (FleetServer::<FleetApi>::NAME, Feature::Fleet),
    (ImagesServer::<ImagesApi>::NAME, Feature::Containerd),
    (InspectServer::<InspectApi>::NAME, Feature::Inspect),
    (SecretsServer::<SecretsApi>::NAME, Feature::Secrets),
    (TimersServer::<TimersApi>::NAME, Feature::Units),
    (VolumesServer::<VolumesApi>::NAME, Feature::Volumes),
    (reflection::V1, Feature::Reflection),
    (reflection::V1_ALPHA, Feature::Reflection),
];

/// The services of PID 1. Cheap to clone.
#[derive(Clone)]
pub struct Dispatch {
    routes: Arc<[Route]>,
    audit: Audit,
    /// Its sender is dropped when PID 1 ends.
    closed: watch::Receiver<()>,
}

impl Dispatch {
    pub fn new(
        manager: Manager,
        parts: Vec<Part>,
        health: NodeHealth,
        host: Host,
        audit: Audit,
        closed: watch::Receiver<()>,
    ) -> Dispatch {
        let metrics = MetricsApi::new(manager.clone(), health.clone(), host.clone());
        let node_health = NodeHealthApi { health: health.clone(), closed: closed.clone() };
        let (boot, asked) = (host.boot.clone(), manager.clone());
        let health = HealthApi { manager: asked, health, boot, closed: closed.clone() };
        let services = ServicesApi { manager: manager.clone(), host: host.clone(), closed: closed.clone() };
        let exec = ExecApi { manager: manager.clone(), closed: closed.clone() };
        let mut routes: Vec<Route> = parts.into_iter().map(|part| part(&manager, &closed)).collect();
        let configuration = ConfigurationApi { host: host.clone() };
        let machine = MachineApi { manager, host, closed: closed.clone() };
        routes.extend([
            Route::to(ServicesServer::new(services).max_decoding_message_size(MESSAGE_MAX)),
            Route::to(ConfigurationServer::new(configuration).max_decoding_message_size(MESSAGE_MAX)),
            Route::to(MachineServer::new(machine).max_decoding_message_size(MESSAGE_MAX)),
            Route::to(ExecServer::new(exec).max_decoding_message_size(MESSAGE_MAX)),
            Route::to(MetricsServer::new(metrics).max_decoding_message_size(MESSAGE_MAX)),
            Route::to(NodeHealthServer::new(node_health).max_decoding_message_size(MESSAGE_MAX)),
            Route::to(HealthServer::new(health).max_decoding_message_size(MESSAGE_MAX)),
        ]);
        Dispatch { routes: routes.into(), audit, closed }
    }

    /// Answers one call; a refusal is an answer too.
    pub async fn call(
        &self,
        admission: &Admission,
        standing: &Standing,
        mut request: Request<Incoming>,
    ) -> Response<Body> {
        let path = request.uri().path();
        let caller = match caller::caller(standing, request.headers(), &|name| admission.grants(name)) {
            Ok(caller) => caller,
            Err(refusal) => return refusal.into_http(),
        };
        let record = self.audit.begin(path, &caller);
        let response = match caller.may(path) {
            Ok(()) => {
                request.extensions_mut().insert(caller);
                if let Some(record) = &record {
                    request.extensions_mut().insert(Arc::clone(record));
                }
                self.in_time(request).await
            }
            Err(refusal) => refusal.into_http(),
        };
        if let Some(record) = record {
            record.answered(audit::code(response.headers()));
        }
        response
    }

    async fn in_time(&self, request: Request<Incoming>) -> Response<Body> {
        let limit = match time_limit(request.headers()) {
            Ok(limit) => limit,
            Err(refusal) => return refusal.into_http(),
        };
        let mut closed = self.closed.clone();
        let expired = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        // A finished answer wins over the end: the caller that asked for the power off learns that it has begun.
        tokio::select! {
            biased;
            response = self.route(request) => response,
            _ = closed.changed() => Status::unavailable("PID 1 is ending").into_http(),
            () = expired => Status::deadline_exceeded("the time that the caller gave has passed").into_http(),
        }
    }

    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        let name = path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(name, _)| name);
        if let Some(route) = self.routes.iter().find(|route| Some(route.name) == name) {
            return route.call(request).await;
        }
        match name {
            #[cfg(feature = "faults")]
            Some("kelson.test.v1.Faults") => {
                use kelson_proto::test::v1::faults_server::FaultsServer;
                Route::to(FaultsServer::new(super::faults::FaultsApi)).call(request).await
            }
            Some("kelson.v1.Logs") => Status::unimplemented(
                "kelson.v1.Logs is served by kelson-logd on log.sock beside this socket, and by kelson-apid",
            )
            .into_http(),
            _ => {
                let text = match NEEDS.iter().find(|(needs, _)| Some(*needs) == name) {
                    Some((_, feature)) => format!("{}: {}", access::method(path), MissingFeature(*feature)),
                    None => format!("there is no {path} in Kelson {}", env!("CARGO_PKG_VERSION")),
                };
                Status::unimplemented(text).into_http()
            }
        }
    }
}

/// The header `grpc-timeout`: at most eight digits and a unit.
fn time_limit(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(|text| {
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let count: u64 = digits.parse().ok()?;
        Some(match unit {
            "H" => Duration::from_secs(count.saturating_mul(3600)),
            "M" => Duration::from_secs(count.saturating_mul(60)),
            "S" => Duration::from_secs(count),
            "m" => Duration::from_millis(count),
            "u" => Duration::from_micros(count),
            "n" => Duration::from_nanos(count),
            _ => return None,
        })
    });
    match parsed {
        Some(limit) => Ok(Some(limit)),
        None => Err(Status::invalid_argument(format!(
            "grpc-timeout {value:?} is not a number and one of H M S m u n"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use tonic::codegen::http::HeaderValue;

    use super::*;

    fn limit(text: &str) -> Result<Option<Duration>, tonic::Code> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", HeaderValue::from_str(text).unwrap());
        time_limit(&headers).map_err(|status| status.code())
    }

    #[test]
    fn time_limits_in_every_unit() {
        assert_eq!(time_limit(&HeaderMap::new()).unwrap(), None);
        assert_eq!(limit("2H"), Ok(Some(Duration::from_secs(7200))));
        assert_eq!(limit("3M"), Ok(Some(Duration::from_secs(180))));
        assert_eq!(limit("4S"), Ok(Some(Duration::from_secs(4))));
        assert_eq!(limit("5m"), Ok(Some(Duration::from_millis(5))));
        assert_eq!(limit("6u"), Ok(Some(Duration::from_micros(6))));
        assert_eq!(limit("99999999n"), Ok(Some(Duration::from_nanos(99_999_999))));
        for bad in ["", "S", "5", "5x", "-1S", "123456789S", "1 S"] {
            assert_eq!(limit(bad), Err(tonic::Code::InvalidArgument), "{bad}");
        }
    }
}
