//! The service Services: what runs on the host, why, and how to change it.

use kelson_sys::ordered;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_proto::v1;
use kelson_proto::v1::services_server::Services;
use kelson_services::Manager;
use kelson_services::builtins::apid;
use kelson_services::host::{Host, HostRequest};
use kelson_services::manager::{ActionResult, Awaited, Outcome};
use kelson_services::model::Snapshot;
use kelson_services::spec::signal_name;
use tokio::sync::{oneshot, watch};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::audit::{Record, record};
use super::caller::Caller;
use super::events::{Reader, Wanted};
use super::model;

/// The last of the signals of Linux.
const SIGNAL_MAX: i32 = 64;
/// Most names of one request; far beyond what a host has.
const NAMES_MAX: usize = 4096;

pub struct ServicesApi {
    pub manager: Manager,
    pub host: Host,
    /// Its sender is dropped when PID 1 ends.
    pub closed: watch::Receiver<()>,
}

impl ServicesApi {
    fn service(&self, snapshot: &Snapshot) -> v1::Service {
        let description = self.manager.spec(&snapshot.name).map(|spec| spec.description.clone());
        let faulty_file = self.manager.faulty_file(&snapshot.name);
        model::service(snapshot, description.unwrap_or_default(), faulty_file)
    }

    fn snapshot(&self, name: &str) -> Result<Snapshot, Status> {
        self.manager.get(name).ok_or_else(|| self.unknown(name))
    }

    /// NOT_FOUND, with the name that was most likely meant.
    fn unknown(&self, name: &str) -> Status {
        model::status(self.manager.unknown(name))
    }

    /// The snapshots of all that are named: nothing is begun while one of them is unknown.
    fn named(&self, names: &[String]) -> Result<Vec<Snapshot>, Status> {
        if names.is_empty() {
            return Err(Status::invalid_argument("name at least one service"));
        }
        few(names)?;
        names.iter().map(|name| self.snapshot(name)).collect()
    }

    fn results(
        &self,
        record: Option<Arc<Record>>,
        results: Vec<ActionResult>,
    ) -> Response<v1::ActionResponse> {
        if let Some(record) = record {
            let outcomes = results.iter().map(|result| format!("{}: {}", result.name, result.message));
            record.outcome(&outcomes.collect::<Vec<_>>().join(", "));
        }
        let results =
            results.into_iter().map(|result| model::action(result, |snapshot| self.service(snapshot)));
        Response::new(v1::ActionResponse { results: results.collect() })
    }
}

pub fn few(names: &[String]) -> Result<(), Status> {
    if names.len() > NAMES_MAX {
        return Err(Status::invalid_argument(format!("name at most {NAMES_MAX} services in one request")));
    }
    Ok(())
}

/// The caller, for the log.
pub fn caller<T>(request: &Request<T>) -> String {
    request.extensions().get::<Caller>().map_or_else(|| "somebody".to_owned(), Caller::to_string)
}

/// Notes the object of a call in the audit.
pub fn about(record: Option<&Record>, what: &str) {
    if let Some(record) = record {
        record.what(what);
    }
}

/// A span that the client gave, 0 and up.
pub fn span(duration: prost_types::Duration, what: &str) -> Result<Duration, Status> {
    Duration::try_from(duration).map_err(|_| Status::invalid_argument(format!("{what} must not be negative")))
}

/// Why a caller from elsewhere is asked again.
fn stops_own_way(names: &[String]) -> String {
    let what = match names.iter().any(|name| name == apid::NAME) {
        true => "apid is".to_owned(),
        false => format!("apid needs {} and would be stopped first; it is", names.join(", ")),
    };
    format!(
        "{what} the way by which this call came, and nobody could reach the host over the network any more: `--force` stops \
         it all the same, and with `--for 1h` it starts again by itself after that time"
    )
}

/// Nobody listens any more.
pub fn ending<E>(_: E) -> Status {
    Status::unavailable("PID 1 is ending")
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Services for ServicesApi {
    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let names = request.into_inner().names;
        let mut snapshots = if names.is_empty() { self.manager.list() } else { self.named(&names)? };
        ordered::sort_by(&mut snapshots, |a, b| a.name.cmp(&b.name));
        snapshots.dedup_by(|a, b| a.name == b.name);
        let services = snapshots.iter().map(|snapshot| self.service(snapshot)).collect();
        Ok(Response::new(v1::ListResponse { services }))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let name = request.into_inner().name;
        let snapshot = self.snapshot(&name)?;
        let spec = self.manager.spec(&name);
        let usage = self.manager.usage(&name);
        Ok(Response::new(v1::StatusResponse {
            service: Some(self.service(&snapshot)),
            // Whole numbers, texts and lists: nothing of it can fail to be written.
            spec: spec
                .as_deref()
                .map(|spec| serde_json::to_string(spec).unwrap_or_default())
                .unwrap_or_default(),
            events: self.manager.events_of(&name).iter().map(model::event).collect(),
            memory_bytes: usage.memory_bytes,
            cpu: usage.cpu.map(model::duration),
            processes: usage.processes,
            needed_by: self.manager.needed_by(&name),
            file: spec.as_deref().map(|spec| spec.file.display().to_string()).unwrap_or_default(),
            checks: self.manager.checks(&name).await.into_iter().map(model::check).collect(),
        }))
    }

    async fn start(
        &self,
        request: Request<v1::StartRequest>,
    ) -> Result<Response<v1::ActionResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let v1::StartRequest { names, wait, with_dependencies } = request.into_inner();
        let with = if with_dependencies { " and what it needs" } else { "" };
        about(record.as_deref(), &format!("{}{with}", names.join(", ")));
        self.named(&names)?;
        tracing::info!("{caller} asks to start {}{with}", names.join(", "));
        let names = if with_dependencies { self.manager.with_dependencies(&names) } else { names };
        Ok(self.results(record, self.manager.start(&names, wait).await))
    }

    async fn stop(&self, request: Request<v1::StopRequest>) -> Result<Response<v1::ActionResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let remote = matches!(request.extensions().get(), Some(Caller::Remote { .. }));
        let v1::StopRequest { names, wait, cascade, force, stop_for } = request.into_inner();
        let with = match (cascade, force) {
            (true, true) => " and what needs it, by force",
            (true, false) => " and what needs it",
            (false, true) => ", by force",
            (false, false) => "",
        };
        about(record.as_deref(), &format!("{}{with}", names.join(", ")));
        self.named(&names)?;
        let time = stop_for.map(|time| span(time, "the time of the stop")).transpose()?;
        // The caller's own way to the host.
        let own_way = remote && self.manager.stops_with(&names, cascade).contains(apid::NAME);
        if own_way && !force {
            return Err(Status::failed_precondition(stops_own_way(&names)));
        }
        tracing::info!("{caller} asks to stop {}{with}", names.join(", "));
        // An answer that waits for the end of apid would never arrive.
        let wait = wait && !own_way;
        let mut results = match force && !own_way {
            true => self.manager.stop_by_force(&names, cascade, wait, time).await,
            false => self.manager.stop_for(&names, cascade, wait, time).await,
        };
        if let Some(last) =
            results.last_mut().filter(|last| own_way && time.is_none() && last.outcome != Outcome::Refused)
        {
            last.message.push_str(
                "; apid stays down until the next boot, or until `kelsonctl start apid` on the host itself",
            );
        }
        Ok(self.results(record, results))
    }

    async fn restart(
        &self,
        request: Request<v1::RestartRequest>,
    ) -> Result<Response<v1::ActionResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let v1::RestartRequest { names, wait } = request.into_inner();
        about(record.as_deref(), &names.join(", "));
        self.named(&names)?;
        tracing::info!("{caller} asks to restart {}", names.join(", "));
        Ok(self.results(record, self.manager.restart(&names, wait).await))
    }

    async fn wait(&self, request: Request<v1::WaitRequest>) -> Result<Response<v1::WaitResponse>, Status> {
        let request = request.into_inner();
        let awaited = match request.event() {
            v1::wait_request::For::Up => Awaited::Up,
            v1::wait_request::For::Down => Awaited::Down,
            v1::wait_request::For::Finished => Awaited::Finished,
            v1::wait_request::For::Unspecified => {
                return Err(Status::invalid_argument("say what to wait for: up, down or finished"));
            }
        };
        let timeout = request.timeout.map(|timeout| span(timeout, "the timeout")).transpose()?;
        let names = request.names;
        self.named(&names)?;
        let timeout = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        // An event that holds already is reached, also with a timeout of 0.
        let reached = tokio::select! {
            biased;
            reached = self.manager.wait(&names, awaited) => reached.map(|()| true).map_err(model::status)?,
            () = timeout => false,
        };
        let services =
            names.iter().filter_map(|name| self.manager.get(name)).map(|snapshot| self.service(&snapshot));
        Ok(Response::new(v1::WaitResponse { reached, services: services.collect() }))
    }

    async fn why(&self, request: Request<v1::WhyRequest>) -> Result<Response<v1::WhyResponse>, Status> {
        let name = request.into_inner().name;
        let reason = self.manager.why(&name).ok_or_else(|| self.unknown(&name))?;
        Ok(Response::new(v1::WhyResponse { reason: Some(reason) }))
    }

    async fn graph(&self, _: Request<v1::GraphRequest>) -> Result<Response<v1::GraphResponse>, Status> {
        Ok(Response::new(self.manager.graph()))
    }

    async fn signal(
        &self,
        request: Request<v1::SignalRequest>,
    ) -> Result<Response<v1::SignalResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let v1::SignalRequest { name, signal } = request.into_inner();
        about(record.as_deref(), &format!("{} to {name}", signal_name(signal)));
        self.snapshot(&name)?;
        if !(1..=SIGNAL_MAX).contains(&signal) {
            return Err(Status::invalid_argument(format!("signals have the numbers 1 to {SIGNAL_MAX}")));
        }
        let pid = self.manager.signal(&name, signal, caller).await.map_err(model::status)?;
        Ok(Response::new(v1::SignalResponse { pid }))
    }

    async fn reload(
        &self,
        request: Request<v1::ReloadRequest>,
    ) -> Result<Response<v1::ReloadResponse>, Status> {
        tracing::info!("{} asks to read the service files again", caller(&request));
        let (reply, answer) = oneshot::channel();
        self.host.requests.send(HostRequest::Reload { reply }).await.map_err(ending)?;
        let report = answer.await.map_err(ending)?;
        report.map(Response::new).map_err(|failure| {
            let status = model::status(failure);
            Status::new(status.code(), format!("{}; nothing was changed", status.message()))
        })
    }

    async fn reload_services(
        &self,
        request: Request<v1::ReloadServicesRequest>,
    ) -> Result<Response<v1::ActionResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let v1::ReloadServicesRequest { names } = request.into_inner();
        about(record.as_deref(), &names.join(", "));
        self.named(&names)?;
        tracing::info!("{caller} asks to reload {}", names.join(", "));
        let reloads = self.manager.reload_services(&names, &caller);
        let reloads = reloads.map_err(|missing| Status::unimplemented(missing.to_string()))?;
        Ok(self.results(record, reloads.await))
    }

    async fn events(
        &self,
        request: Request<v1::EventsRequest>,
    ) -> Result<Response<BoxStream<v1::EventsResponse>>, Status> {
        let v1::EventsRequest { since, follow, mut names, last } = request.into_inner();
        few(&names)?;
        for name in &names {
            // A service that a reload removed is gone, its last events are not.
            if self.manager.get(name).is_none() && self.manager.events_of(name).is_empty() {
                return Err(self.unknown(name));
            }
        }
        ordered::sort(&mut names);
        let last = last.map(|last| span(last, "the time back")).transpose()?;
        // Further back than there is time: all.
        let not_before = last.and_then(|last| SystemTime::now().checked_sub(last));
        // From the very first, so that the client learns when the ring does not reach back that far.
        let since = if last.is_some() { 1 } else { since };
        let wanted = Wanted { since, follow, names, not_before };
        let manager = self.manager.clone();
        let newest = manager.newest_event();
        let ring = move |since, limit| manager.events(since, limit);
        let reader = Reader::new(ring, newest, self.closed.clone(), wanted);
        Ok(Response::new(Box::pin(futures_util::stream::unfold(reader, |mut reader| async move {
            let message = reader.next().await?;
            Some((Ok(message), reader))
        }))))
    }
}
