//! A host that does what a test says: the real protocol on real sockets, with nothing behind it.

mod configuration;
mod fleet;
mod health;
mod inspect;
mod timers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use kelson_proto::v1::action_result::Outcome;
use kelson_proto::v1::configuration_server::ConfigurationServer;
use kelson_proto::v1::exec_server::{Exec, ExecServer};
use kelson_proto::v1::fleet_server::FleetServer;
use kelson_proto::v1::health_server::HealthServer;
use kelson_proto::v1::images_server::{Images, ImagesServer};
use kelson_proto::v1::inspect_server::InspectServer;
use kelson_proto::v1::logs_server::{Logs, LogsServer};
use kelson_proto::v1::machine_server::{Machine, MachineServer};
use kelson_proto::v1::metrics_server::{Metrics, MetricsServer};
use kelson_proto::v1::services_server::{Services, ServicesServer};
use kelson_proto::v1::timers_server::TimersServer;
use kelson_proto::v1::*;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::codegen::BoxStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::samples::{Folder, at, result, wire};
pub use configuration::Kept;
pub use fleet::Registered;
pub use inspect::Seen;

/// The fate of PID 1 once it has granted a re-exec.
#[derive(Debug, Default, Clone, Copy)]
pub enum Reexec {
    #[default]
    Done,
    GoesOnAsItWas,
    Crashes,
    /// Another version runs than was promised.
    OtherVersion,
    BeginsAnew,
}

/// The state of the host, and the requests that it got.
#[derive(Default)]
pub struct State {
    pub services: Vec<Service>,
    pub events: Vec<Event>,
    pub lines: Vec<Line>,
    pub kernel: Vec<KernelMessage>,
    pub boot: BootResponse,
    pub graph: GraphResponse,
    pub why: Reason,
    pub status: StatusResponse,
    pub reload: ReloadResponse,
    pub images: ListImagesResponse,
    pub kept: Kept,
    pub health: HealthReport,
    pub groups: Vec<HealthReport>,
    /// Page by page.
    pub metrics: Vec<GetMetricsResponse>,
    /// The pages break off.
    pub metrics_break: bool,
    pub pruned: PruneImagesResponse,
    pub updated: UpdateImageResponse,
    pub seen: Seen,
    pub fleet: Registered,
    /// The answers to `start`, `stop` and `restart`.
    pub results: Vec<ActionResult>,
    /// Everybody is refused.
    pub deny: bool,
    /// `start`, `stop` and `restart` are refused, in these words.
    pub deny_acting: Option<String>,
    /// `start`, `stop` and `restart` never answer.
    pub silent: bool,
    /// Streams that follow end, in order, once all events are sent.
    pub ending: bool,
    /// The events that `shutdown` adds before the host ends.
    pub last_words: Vec<Event>,
    /// When PID 1 began; without it: always the same.
    pub started: Option<prost_types::Timestamp>,
    /// `edge-1`, where it is not told.
    pub hostname: Option<&'static str>,
    /// How often PID 1 has re-executed itself.
    pub reexecs: u32,
    pub crashes: u32,
    /// The outcome of a re-exec that was granted.
    pub reexec: Reexec,
    /// The answer to `resumed`.
    pub resumed: Vec<ResumedStep>,
    /// Every request in words.
    pub asked: Vec<String>,
}

/// The host. Ends when it is dropped.
pub struct Fake {
    folder: Folder,
    shared: Shared,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

impl Fake {
    pub fn start(state: State) -> Fake {
        let shared = Shared { state: Arc::new(Mutex::new(state)), changed: watch::channel(0).0 };
        let mut fake = Fake { folder: Folder::new(), shared, running: None };
        fake.serve();
        fake
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("init.sock")
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Changes what the host knows; streams and waits hear of it.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.shared.changed.send_modify(|number| *number += 1);
    }

    pub fn asked(&self) -> Vec<String> {
        self.state().asked.clone()
    }

    /// Waits until the host was asked something that begins so.
    pub fn until_asked(&self, start: &str, times: usize) {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while self.asked().iter().filter(|words| words.starts_with(start)).count() < times {
            assert!(std::time::Instant::now() < deadline, "never asked for {start}: {:?}", self.asked());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Serves, on sockets that were not there before.
    pub fn serve(&mut self) {
        assert!(self.running.is_none());
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (folder, shared) = (self.folder.to_owned(), self.shared.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let inspect = (!shared.state().seen.unknown).then(|| InspectServer::new(shared.clone()));
            runtime.block_on(async {
                let listen = |name: &str| {
                    drop(std::fs::remove_file(folder.join(name)));
                    UnixListenerStream::new(tokio::net::UnixListener::bind(folder.join(name)).unwrap())
                };
                let init = Server::builder()
                    .add_service(ServicesServer::new(shared.clone()))
                    .add_service(MachineServer::new(shared.clone()))
                    .add_service(ExecServer::new(shared.clone()))
                    .add_service(ImagesServer::new(shared.clone()))
                    .add_service(ConfigurationServer::new(shared.clone()))
                    .add_service(HealthServer::new(shared.clone()))
                    .add_service(MetricsServer::new(shared.clone()))
                    .add_service(TimersServer::new(shared.clone()))
                    .add_service(FleetServer::new(shared.clone()))
                    .add_optional_service(inspect)
                    .serve_with_incoming(listen("init.sock"));
                let logs = Server::builder()
                    .add_service(LogsServer::new(shared.clone()))
                    .serve_with_incoming(listen("log.sock"));
                ready.send(()).unwrap();
                tokio::select! {
                    served = init => served.unwrap(),
                    served = logs => served.unwrap(),
                    _ = stopped => {}
                }
            });
            // Dropping the runtime cuts every connection in the middle, as execve does.
        });
        is_ready.recv().unwrap();
        self.running = Some((stop, thread));
    }

    /// Cuts all connections and stops serving.
    pub fn cut(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            thread.join().unwrap();
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Serves over mutual TLS on a port of this host, for as long as the runtime of the thread lives.
pub fn serve_tls(state: State, tls: tonic::transport::ServerTlsConfig) -> u16 {
    let shared = Shared { state: Arc::new(Mutex::new(state)), changed: watch::channel(0).0 };
    let (ready, port) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            ready.send(listener.local_addr().unwrap().port()).unwrap();
            Server::builder()
                .tls_config(tls)
                .unwrap()
                .add_service(ServicesServer::new(shared.clone()))
                .add_service(MachineServer::new(shared.clone()))
                .add_service(LogsServer::new(shared.clone()))
                .add_service(InspectServer::new(shared))
                .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener))
                .await
                .unwrap();
        });
    });
    port.recv().unwrap()
}

type Answer<T> = Result<Response<T>, Status>;

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Notes what was asked; refuses where the test says so.
    fn note(&self, words: String) -> Result<(), Status> {
        let mut state = self.state();
        state.asked.push(words);
        if state.deny { Err(Status::permission_denied("only root may ask")) } else { Ok(()) }
    }

    fn known(&self, names: &[String]) -> Result<(), Status> {
        let state = self.state();
        match names.iter().find(|name| !state.services.iter().any(|service| service.name == **name)) {
            Some(name) => Err(Status::not_found(format!("there is no service {name:?}"))),
            None => Ok(()),
        }
    }

    fn named(&self, names: &[String]) -> Vec<Service> {
        let state = self.state();
        let wanted = |service: &&Service| names.is_empty() || names.contains(&service.name);
        state.services.iter().filter(wanted).cloned().collect()
    }

    async fn act(&self, words: String, names: &[String], wait: bool) -> Answer<ActionResponse> {
        self.note(words)?;
        if let Some(words) = self.state().deny_acting.clone() {
            return Err(Status::permission_denied(words));
        }
        self.known(names)?;
        if wait && self.state().silent {
            std::future::pending::<()>().await;
        }
        let results = self.state().results.clone();
        if !results.is_empty() {
            return Ok(Response::new(ActionResponse { results }));
        }
        let results = names.iter().map(|name| result(name, Outcome::Done, "done as asked"));
        Ok(Response::new(ActionResponse { results: results.collect() }))
    }

    /// A stream that gives what is there, then what comes, item by item, until the end.
    fn stream<T: Send + 'static>(
        &self,
        follow: bool,
        next: impl Fn(&State, usize) -> Option<T> + Send + 'static,
    ) -> Response<BoxStream<T>> {
        let (sender, receiver) = mpsc::channel(16);
        let (shared, mut changed) = (self.clone(), self.changed.subscribe());
        tokio::spawn(async move {
            let mut place = 0;
            loop {
                changed.mark_unchanged();
                let (item, ending) = {
                    let state = shared.state();
                    (next(&state, place), state.ending)
                };
                match item {
                    Some(item) => {
                        place += 1;
                        if sender.send(Ok(item)).await.is_err() {
                            return;
                        }
                    }
                    None if !follow || ending => return,
                    None => {
                        if changed.changed().await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        Response::new(Box::pin(ReceiverStream::new(receiver)))
    }
}

#[tonic::async_trait]
impl Services for Shared {
    async fn list(&self, request: Request<ListRequest>) -> Answer<ListResponse> {
        let request = request.into_inner();
        self.note(format!("list {}", request.names.join(" ")))?;
        self.known(&request.names)?;
        Ok(Response::new(ListResponse { services: self.named(&request.names) }))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Answer<StatusResponse> {
        let name = request.into_inner().name;
        self.note(format!("status {name}"))?;
        self.known(&[name])?;
        Ok(Response::new(self.state().status.clone()))
    }

    async fn start(&self, request: Request<StartRequest>) -> Answer<ActionResponse> {
        let request = request.into_inner();
        let more = if request.with_dependencies { " with_dependencies" } else { "" };
        let words = format!("start {} wait={}{more}", request.names.join(" "), request.wait);
        self.act(words, &request.names, request.wait).await
    }

    async fn stop(&self, request: Request<StopRequest>) -> Answer<ActionResponse> {
        let request = request.into_inner();
        let words =
            format!("stop {} wait={} cascade={}", request.names.join(" "), request.wait, request.cascade);
        let words = if request.force { words + " force=true" } else { words };
        self.act(words, &request.names, request.wait).await
    }

    async fn restart(&self, request: Request<RestartRequest>) -> Answer<ActionResponse> {
        let request = request.into_inner();
        let words = format!("restart {} wait={}", request.names.join(" "), request.wait);
        self.act(words, &request.names, request.wait).await
    }

    async fn wait(&self, request: Request<WaitRequest>) -> Answer<WaitResponse> {
        let request = request.into_inner();
        self.note(format!("wait {} {:?}", request.names.join(" "), request.event()))?;
        self.known(&request.names)?;
        let mut changed = self.changed.subscribe();
        let limit = request.timeout.map_or(Duration::MAX, |timeout| timeout.try_into().unwrap());
        let all_hold = async {
            while !self.named(&request.names).iter().all(|service| match request.event() {
                wait_request::For::Down => service.down,
                _ => service.up,
            }) {
                changed.changed().await.unwrap();
            }
        };
        let reached = tokio::time::timeout(limit, all_hold).await.is_ok();
        Ok(Response::new(WaitResponse { reached, services: self.named(&request.names) }))
    }

    async fn why(&self, request: Request<WhyRequest>) -> Answer<WhyResponse> {
        let name = request.into_inner().name;
        self.note(format!("why {name}"))?;
        self.known(&[name])?;
        Ok(Response::new(WhyResponse { reason: Some(self.state().why.clone()) }))
    }

    async fn graph(&self, _: Request<GraphRequest>) -> Answer<GraphResponse> {
        self.note("graph".to_owned())?;
        Ok(Response::new(self.state().graph.clone()))
    }

    async fn signal(&self, request: Request<SignalRequest>) -> Answer<SignalResponse> {
        let SignalRequest { name, signal } = request.into_inner();
        self.note(format!("signal {name} {signal}"))?;
        self.known(&[name])?;
        Ok(Response::new(SignalResponse { pid: 812 }))
    }

    async fn reload(&self, _: Request<ReloadRequest>) -> Answer<ReloadResponse> {
        self.note("reload".to_owned())?;
        Ok(Response::new(self.state().reload.clone()))
    }

    async fn reload_services(&self, request: Request<ReloadServicesRequest>) -> Answer<ActionResponse> {
        let names = request.into_inner().names;
        self.act(format!("reload {}", names.join(" ")), &names, true).await
    }

    async fn events(&self, request: Request<EventsRequest>) -> Answer<BoxStream<EventsResponse>> {
        let request = request.into_inner();
        self.note(format!("events since={} last={}", request.since, request.last.is_some()))?;
        self.known(&request.names)?;
        // Events that are there already count as old for a caller who asks for the last millisecond.
        let newest = self.state().events.last().map_or(0, |event| event.seq);
        let recent = request.last.as_ref().is_some_and(|last| last.seconds == 0);
        let from = if recent { newest + 1 } else { request.since };
        Ok(self.stream(request.follow, move |state, place| {
            let wanted = |event: &&Event| {
                event.seq >= from && (request.names.is_empty() || request.names.contains(&event.service))
            };
            let event = state.events.iter().filter(wanted).nth(place)?;
            let missed = if place == 0 && from > 0 && !recent { event.seq.saturating_sub(from) } else { 0 };
            let missed = if request.names.is_empty() { missed } else { 0 };
            Some(EventsResponse { events: vec![event.clone()], missed })
        }))
    }
}

#[tonic::async_trait]
impl Machine for Shared {
    async fn version(&self, _: Request<VersionRequest>) -> Answer<VersionResponse> {
        self.note("version".to_owned())?;
        let state = self.state();
        Ok(Response::new(VersionResponse {
            version: "9.8.7".to_owned(),
            mode: "machine".to_owned(),
            hostname: state.hostname.unwrap_or("edge-1").to_owned(),
            kernel: "6.1.0".to_owned(),
            started: state.started.or(at(1_795_254_485)),
            reexecs: state.reexecs,
            crashes: state.crashes,
            missing_features: vec!["apid".to_owned(), "probes".to_owned()],
            uptime: wire(7_500_000).filter(|_| state.started.is_none()),
        }))
    }

    async fn caller(&self, _: Request<CallerRequest>) -> Answer<CallerResponse> {
        self.note("caller".to_owned())?;
        let (identity, role) = ("CN=ann from 192.0.2.7:1".to_owned(), "os:reader".to_owned());
        Ok(Response::new(CallerResponse { identity, role }))
    }

    async fn boot(&self, _: Request<BootRequest>) -> Answer<BootResponse> {
        self.note("boot".to_owned())?;
        Ok(Response::new(self.state().boot.clone()))
    }

    async fn shutdown(&self, request: Request<ShutdownRequest>) -> Answer<ShutdownResponse> {
        let request = request.into_inner();
        self.note(format!("shutdown {:?} {}", request.action(), request.reason))?;
        {
            let mut state = self.state();
            let words = std::mem::take(&mut state.last_words);
            state.events.extend(words);
            state.ending = true;
        }
        self.changed.send_modify(|number| *number += 1);
        Ok(Response::new(ShutdownResponse { message: "everything stops, then the host reboots".to_owned() }))
    }

    async fn reexec(&self, request: Request<ReexecRequest>) -> Answer<ReexecResponse> {
        self.note(format!("reexec {}", request.into_inner().reason))?;
        let mut state = self.state();
        let mut new_version = "9.8.7".to_owned();
        match state.reexec {
            Reexec::Done => state.reexecs += 1,
            Reexec::GoesOnAsItWas => {}
            Reexec::Crashes => (state.reexecs, state.crashes) = (state.reexecs + 1, state.crashes + 1),
            Reexec::OtherVersion => {
                state.reexecs += 1;
                new_version = "9.9.0".to_owned();
            }
            Reexec::BeginsAnew => state.reexecs = 0,
        }
        Ok(Response::new(ReexecResponse {
            program: "/sbin/init (kelson 0.2.0)".to_owned(),
            old_version: "9.8.7".to_owned(),
            new_version,
        }))
    }

    async fn resumed(&self, request: Request<ResumedRequest>) -> Answer<ResumedResponse> {
        let ResumedRequest { entropy, hostname, timeout } = request.into_inner();
        self.note(format!("resumed {} {hostname} {timeout:?}", entropy.len()))?;
        Ok(Response::new(ResumedResponse { steps: self.state().resumed.clone() }))
    }

    async fn unlock_disk(&self, request: Request<UnlockDiskRequest>) -> Answer<UnlockDiskResponse> {
        let UnlockDiskRequest { name, key } = request.into_inner();
        self.note(format!("unlock {name} {}", String::from_utf8_lossy(&key)))?;
        Ok(Response::new(UnlockDiskResponse { message: format!("/dev/vdb is open as /dev/mapper/{name}") }))
    }

    async fn recovery_key(&self, request: Request<RecoveryKeyRequest>) -> Answer<RecoveryKeyResponse> {
        let RecoveryKeyRequest { name, forget } = request.into_inner();
        self.note(format!("recovery {name} {forget}"))?;
        let key = if forget { String::new() } else { "cbdefghi-jklnrtuv".to_owned() };
        Ok(Response::new(RecoveryKeyResponse { key }))
    }

    async fn dmesg(&self, request: Request<DmesgRequest>) -> Answer<BoxStream<DmesgResponse>> {
        self.note("dmesg".to_owned())?;
        Ok(self.stream(request.into_inner().follow, |state, place| {
            Some(DmesgResponse { messages: vec![state.kernel.get(place)?.clone()] })
        }))
    }
}

#[tonic::async_trait]
impl Images for Shared {
    async fn list(&self, _: Request<ListImagesRequest>) -> Answer<ListImagesResponse> {
        self.note("images".to_owned())?;
        Ok(Response::new(self.state().images.clone()))
    }

    async fn prune(&self, request: Request<PruneImagesRequest>) -> Answer<PruneImagesResponse> {
        self.note(format!("prune dry_run={}", request.into_inner().dry_run))?;
        Ok(Response::new(self.state().pruned.clone()))
    }

    async fn update(&self, request: Request<UpdateImageRequest>) -> Answer<UpdateImageResponse> {
        let UpdateImageRequest { reference, dry_run } = request.into_inner();
        self.note(format!("update {reference} dry_run={dry_run}"))?;
        Ok(Response::new(self.state().updated.clone()))
    }
}

#[tonic::async_trait]
impl Metrics for Shared {
    async fn get(&self, request: Request<GetMetricsRequest>) -> Answer<BoxStream<GetMetricsResponse>> {
        let names = request.into_inner().names;
        self.note(format!("metrics {}", names.join(" ")))?;
        let state = self.state();
        let known = |name: &String| state.services.iter().any(|service| service.name == *name);
        if let Some(unknown) = names.iter().find(|name| !known(name)) {
            return Err(Status::not_found(format!("no service {unknown:?}")));
        }
        let mut pages: Vec<_> = state.metrics.iter().cloned().map(Ok).collect();
        if state.metrics_break {
            pages.push(Err(Status::unavailable("PID 1 is ending")));
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(pages))))
    }
}

#[tonic::async_trait]
impl Logs for Shared {
    async fn read(&self, request: Request<ReadRequest>) -> Answer<BoxStream<ReadResponse>> {
        let request = request.into_inner();
        let mut words = format!("logs tail={:?} last={}", request.tail, request.last.is_some());
        words += if request.until.is_some() { " until" } else { "" };
        words += if request.previous { " previous" } else { "" };
        words += &request.run.map_or(String::new(), |run| format!(" run={run}"));
        if !request.text.is_empty() {
            words += &format!(" text={}", request.text.escape_ascii());
        }
        self.note(words)?;
        let skip = match request.tail {
            Some(tail) => self.state().lines.len().saturating_sub(tail as usize),
            None => 0,
        };
        Ok(self.stream(request.follow, move |state, place| {
            let wanted = |line: &&Line| {
                request.names.contains(&line.service) && request.run.is_none_or(|run| run == line.run)
            };
            let line = state.lines.iter().skip(skip).filter(wanted).nth(place)?.clone();
            Some(ReadResponse { lines: vec![line] })
        }))
    }
}

/// Plays the command: each word is an action. The requests in the meantime are noted.
#[tonic::async_trait]
impl Exec for Shared {
    async fn run(&self, request: Request<tonic::Streaming<RunRequest>>) -> Answer<BoxStream<RunResponse>> {
        use run_request::Request as Asked;
        use run_response::Response as Told;
        let mut requests = request.into_inner();
        let Some(Asked::Start(start)) = requests.message().await?.and_then(|first| first.request) else {
            return Err(Status::invalid_argument("the first request must be `start`"));
        };
        let size = start.terminal.map(|size| format!("{}x{}", size.columns, size.rows));
        self.note(format!(
            "exec {} {:?} input={} terminal={size:?} {:?}",
            start.name, start.command, start.input, start.environment
        ))?;
        self.known(&[start.name])?;
        if start.command == ["nope"] {
            return Err(Status::failed_precondition("nope: no such file or directory"));
        }
        let (sender, receiver) = mpsc::channel(4);
        let shared = self.clone();
        tokio::spawn(async move {
            let tell = async |told| sender.send(Ok(RunResponse { response: Some(told) })).await.is_ok();
            tell(Told::Started(RunStarted { pid: 7 })).await;
            for word in start.command {
                match word.split_once(':').unwrap_or((&word, "")) {
                    ("out", text) => drop(tell(Told::Output(text.as_bytes().to_vec())).await),
                    ("err", text) => drop(tell(Told::Errors(text.as_bytes().to_vec())).await),
                    ("bytes", _) => drop(tell(Told::Output(vec![0, 255, 10, 13])).await),
                    ("flood", _) => while tell(Told::Output(vec![b'x'; 30_000])).await {},
                    ("break", _) => return,
                    ("killed", _) => {
                        tell(Told::Exited(RunExited { status: None, signal: Some(9) })).await;
                        return;
                    }
                    ("exit", status) => {
                        let status = Some(status.parse().unwrap());
                        tell(Told::Exited(RunExited { status, signal: None })).await;
                        return;
                    }
                    // Until something of this kind comes, back with what comes as input.
                    ("until", what) => loop {
                        let asked = match requests.message().await {
                            Ok(Some(request)) => request.request.unwrap(),
                            _ => {
                                let _ = shared.note("exec gone".to_owned());
                                return;
                            }
                        };
                        let kind = match asked {
                            Asked::Input(bytes) => {
                                tell(Told::Output(bytes)).await;
                                "input"
                            }
                            Asked::InputEnd(_) => "end",
                            Asked::Resize(size) => {
                                let _ = shared.note(format!("exec size {}x{}", size.columns, size.rows));
                                "size"
                            }
                            Asked::Signal(number) => {
                                let _ = shared.note(format!("exec signal {number}"));
                                "signal"
                            }
                            Asked::Start(_) => "start",
                        };
                        if kind == what {
                            break;
                        }
                    },
                    other => panic!("{other:?}"),
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}
