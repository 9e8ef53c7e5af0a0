//! The environment of the tests: certificates, and services of their own on a Unix socket.
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects)] // a test may fail

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hyper_util::rt::{TokioExecutor, TokioIo};
use kelson_api::client::TlsMaterial;
use kelson_proto::v1;
use kelson_proto::v1::exec_server::{Exec, ExecServer};
use kelson_proto::v1::logs_server::{Logs, LogsServer};
use kelson_proto::v1::machine_server::{Machine, MachineServer};
use kelson_proto::v1::metrics_server::{Metrics, MetricsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::codegen::{BoxStream, Service};
use tonic::{Request, Response, Status};

/// A CA and what it signs.
pub struct Pki(CertifiedIssuer<'static, KeyPair>);

impl Pki {
    pub fn new() -> Pki {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Pki(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn ca(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key of a person or, with its addresses, of a machine.
    pub fn issue(
        &self,
        name: &str,
        organisation: Option<&str>,
        addresses: &[&str],
        years: std::ops::Range<i32>,
    ) -> (String, String) {
        let start = |year| SystemTime::from(rcgen::date_time_ymd(year, 1, 1));
        self.issue_between(name, organisation, addresses, start(years.start)..start(years.end))
    }

    fn issue_between(
        &self,
        name: &str,
        organisation: Option<&str>,
        addresses: &[&str],
        valid: std::ops::Range<SystemTime>,
    ) -> (String, String) {
        let addresses: Vec<String> = addresses.iter().map(|&address| address.to_owned()).collect();
        let mut params = CertificateParams::new(addresses).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(organisation) = organisation {
            params.distinguished_name.push(DnType::OrganizationName, organisation);
        }
        (params.not_before, params.not_after) = (valid.start.into(), valid.end.into());
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// The certificate and key of an administrator, signed by this CA.
    pub fn client(&self, name: &str, years: std::ops::Range<i32>) -> TlsMaterial {
        self.member(name, Some("os:admin"), years)
    }

    /// The same, for this long from now on.
    pub fn client_for(&self, name: &str, valid: Duration) -> TlsMaterial {
        let now = SystemTime::now();
        let (certificate, key) =
            self.issue_between(name, Some("os:admin"), &[], now - Duration::from_secs(60)..now + valid);
        TlsMaterial { ca: self.ca().into(), certificate: certificate.into(), key: key.into() }
    }

    /// The same for somebody of this organisation.
    pub fn member(&self, name: &str, organisation: Option<&str>, years: std::ops::Range<i32>) -> TlsMaterial {
        let (certificate, key) = self.issue(name, organisation, &[], years);
        TlsMaterial { ca: self.ca().into(), certificate: certificate.into(), key: key.into() }
    }
}

/// Serves one gRPC service on a Unix socket.
pub fn serve<S>(path: &Path, service: S)
where
    S: Service<HttpRequest<hyper::body::Incoming>, Response = HttpResponse<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
    let listener = UnixListener::bind(path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            let answer = hyper::service::service_fn(move |request| service.clone().call(request));
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), answer);
            tokio::spawn(connection);
        }
    });
}

/// Says what it was called with; stands in for PID 1.
#[derive(Clone)]
pub struct Echo {
    /// Messages that were asked for by a stream without an end.
    pub produced: Arc<Mutex<u64>>,
    /// How many such streams are open.
    pub open: watch::Sender<u32>,
    pub mark: &'static str,
}

impl Echo {
    pub fn new(mark: &'static str) -> Echo {
        Echo { produced: Arc::default(), open: watch::channel(0).0, mark }
    }

    pub fn machine(&self) -> MachineServer<Echo> {
        MachineServer::new(self.clone()).max_decoding_message_size(4 << 20)
    }

    pub fn exec(&self) -> ExecServer<Echo> {
        ExecServer::new(self.clone())
    }

    pub fn logs(&self) -> LogsServer<Echo> {
        LogsServer::new(self.clone())
    }

    pub fn metrics(&self) -> MetricsServer<Echo> {
        MetricsServer::new(self.clone())
    }

    pub async fn opened(&self, count: u32) {
        self.open.subscribe().wait_for(|open| *open == count).await.unwrap();
    }
}

/// The identities that a request bears.
fn identities<T>(request: &Request<T>) -> String {
    let all = request.metadata().get_all("kelson-identity").iter();
    all.map(|value| value.to_str().unwrap_or("?").to_owned()).collect::<Vec<_>>().join(" and ")
}

/// Counts itself as open.
struct Open(watch::Sender<u32>);

impl Open {
    fn new(count: &watch::Sender<u32>) -> Open {
        count.send_modify(|open| *open += 1);
        Open(count.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

#[tonic::async_trait]
impl Machine for Echo {
    async fn version(
        &self,
        request: Request<v1::VersionRequest>,
    ) -> Result<Response<v1::VersionResponse>, Status> {
        let mut response = Response::new(v1::VersionResponse {
            version: self.mark.into(),
            hostname: identities(&request),
            ..Default::default()
        });
        response.metadata_mut().insert("x-echo", "kept".parse().unwrap());
        Ok(response)
    }

    async fn boot(&self, _: Request<v1::BootRequest>) -> Result<Response<v1::BootResponse>, Status> {
        let _open = Open::new(&self.open);
        std::future::pending().await
    }

    async fn shutdown(
        &self,
        request: Request<v1::ShutdownRequest>,
    ) -> Result<Response<v1::ShutdownResponse>, Status> {
        let reason = request.into_inner().reason;
        if reason.is_empty() {
            return Err(Status::failed_precondition("a reason, grüß: 100 %"));
        }
        Ok(Response::new(v1::ShutdownResponse { message: reason.len().to_string() }))
    }

    /// Two messages; with `follow` as many as are read.
    async fn dmesg(
        &self,
        request: Request<v1::DmesgRequest>,
    ) -> Result<Response<BoxStream<v1::DmesgResponse>>, Status> {
        let message = |seq| {
            let text = "x".repeat(8 * 1024);
            v1::DmesgResponse { messages: vec![v1::KernelMessage { seq, text, ..Default::default() }] }
        };
        if !request.into_inner().follow {
            return Ok(Response::new(Box::pin(tokio_stream::iter([Ok(message(1)), Ok(message(2))]))));
        }
        let (open, produced) = (Open::new(&self.open), Arc::clone(&self.produced));
        Ok(Response::new(Box::pin(futures_util::stream::unfold((0, open), move |(seq, open)| {
            *produced.lock().unwrap() += 1;
            std::future::ready(Some((Ok(message(seq)), (seq + 1, open))))
        }))))
    }
}

#[tonic::async_trait]
impl Exec for Echo {
    /// Gives back what is put in, until the command is `stop`: then it reads no more.
    async fn run(
        &self,
        request: Request<tonic::Streaming<v1::RunRequest>>,
    ) -> Result<Response<BoxStream<v1::RunResponse>>, Status> {
        let mut requests = request.into_inner();
        let (sender, receiver) = mpsc::channel(1);
        let open = Open::new(&self.open);
        tokio::spawn(async move {
            use v1::run_request::Request as Asked;
            use v1::run_response::Response as Told;
            let _open = open;
            let tell = async |told| sender.send(Ok(v1::RunResponse { response: Some(told) })).await;
            while let Ok(Some(request)) = requests.message().await {
                match request.request {
                    Some(Asked::Start(start)) if start.command == ["stop"] => return sender.closed().await,
                    Some(Asked::Input(bytes)) => drop(tell(Told::Output(bytes)).await),
                    _ => {}
                }
            }
            let _ = tell(Told::Exited(v1::RunExited { status: Some(7), signal: None })).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

#[tonic::async_trait]
impl Logs for Echo {
    /// One line and then, with `follow`, silence.
    async fn read(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<BoxStream<v1::ReadResponse>>, Status> {
        let (sender, receiver) = mpsc::channel(1);
        let line =
            v1::Line { service: self.mark.into(), text: identities(&request).into(), ..Default::default() };
        sender.send(Ok(v1::ReadResponse { lines: vec![line] })).await.unwrap();
        if request.into_inner().follow {
            tokio::spawn(async move { sender.closed().await });
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

#[tonic::async_trait]
impl Metrics for Echo {
    /// Answers with the caller, in two pages; of `broken` the second does not come, of `full` none, and
    /// `endless` has no last one.
    async fn get(
        &self,
        request: Request<v1::GetMetricsRequest>,
    ) -> Result<Response<BoxStream<v1::GetMetricsResponse>>, Status> {
        if self.mark == "full" {
            return Err(Status::resource_exhausted("all places are taken"));
        }
        let open = Open::new(&self.open);
        let (produced, mark, who) = (Arc::clone(&self.produced), self.mark, identities(&request));
        let page = move |number: u64| {
            let value = Some(v1::metric_sample::Value::Number(number as f64));
            let sample = v1::MetricSample { labels: vec![who.clone(), number.to_string()], value };
            let family = v1::MetricFamily {
                name: "kelson_echo".into(),
                help: "Who asks.".into(),
                r#type: v1::metric_family::Type::Counter.into(),
                labels: vec!["who".into(), "number".into()],
                samples: vec![sample; if mark == "endless" { 256 } else { 1 }],
                ..v1::MetricFamily::default()
            };
            v1::GetMetricsResponse { families: vec![family] }
        };
        Ok(Response::new(Box::pin(futures_util::stream::unfold((0, open), move |(number, open)| {
            *produced.lock().unwrap() += 1;
            std::future::ready(match (mark, number) {
                ("broken", 1) => Some((Err(Status::aborted("it ends here")), (number + 1, open))),
                ("endless", _) | (_, 0..=1) => Some((Ok(page(number)), (number + 1, open))),
                _ => None,
            })
        }))))
    }
}
