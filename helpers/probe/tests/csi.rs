//! Tests kelson-probe against storage plugins behind Unix sockets, good and bad.

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test may fail")]

mod host;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::{Asked, Host, often};
use kelson_services::prober::{Schedule, Verdict};
use kelson_spec::service::Probe;
use prost::Message;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

#[test]
#[ignore = "not a test: the process kelson-probe of the tests"]
fn personality_probe() {
    host::personality();
}

const QUICK: Duration = Duration::from_millis(300);

#[derive(Clone, PartialEq, Message)]
struct ProbeRequest {}

#[derive(Clone, PartialEq, Message)]
struct ProbeResponse {
    /// The bytes of a `google.protobuf.BoolValue`, or what a test has in its place.
    #[prost(bytes = "vec", optional, tag = "1")]
    ready: Option<Vec<u8>>,
}

const YES: &[u8] = &[8, 1];
const NO: &[u8] = &[];

type Answer = Result<Option<Vec<u8>>, Status>;

/// `csi.v1.Identity` of a plugin; other calls are none of its.
#[derive(Clone)]
struct Identity(Arc<Mutex<Answer>>);

impl NamedService for Identity {
    const NAME: &'static str = "csi.v1.Identity";
}

impl UnaryService<ProbeRequest> for Identity {
    type Response = ProbeResponse;
    type Future = Ready<Result<Response<ProbeResponse>, Status>>;

    fn call(&mut self, _: Request<ProbeRequest>) -> Self::Future {
        let answer = self.0.lock().unwrap().clone();
        ready(answer.map(|ready| Response::new(ProbeResponse { ready })))
    }
}

impl Service<http::Request<Body>> for Identity {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        assert_eq!(request.uri().path(), "/csi.v1.Identity/Probe");
        let identity = self.clone();
        Box::pin(async move {
            Ok(Grpc::new(ProstCodec::<ProbeResponse, ProbeRequest>::default()).unary(identity, request).await)
        })
    }
}

/// A folder with the socket of a plugin.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("csi.sock")
    }

    /// A plugin that answers so, until that is changed.
    fn plugin(&self, answer: Answer) -> Arc<Mutex<Answer>> {
        let answer = Arc::new(Mutex::new(answer));
        self.serve(Identity(answer.clone()));
        answer
    }

    fn serve<S>(&self, service: S)
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let connections = UnixListenerStream::new(listener);
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(connections));
    }

    /// Each connection of which `serve` takes.
    fn raw<F: Future<Output = ()> + Send + 'static>(&self, serve: fn(UnixStream) -> F) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream));
            }
        });
    }

    async fn ask(&self) -> (Verdict, String) {
        ask(&self.socket()).await
    }
}

fn plugin_at(socket: &Path) -> Schedule {
    Schedule { timeout: QUICK * 10, ..often(Probe::Csi { socket: socket.to_owned() }) }
}

fn watch(host: &Host, schedule: Schedule) -> Asked {
    host.watch_at(kelson_services::prober::Place::Sockets, schedule)
}

async fn ask(socket: &Path) -> (Verdict, String) {
    ask_with(plugin_at(socket)).await
}

async fn ask_with(schedule: Schedule) -> (Verdict, String) {
    let answer = watch(&Host::new(), schedule).next().await;
    (answer.verdict, answer.text.to_string())
}

fn passes(text: &str) -> (Verdict, String) {
    (Verdict::Passes, text.into())
}

fn fails(text: &str) -> (Verdict, String) {
    (Verdict::Fails, text.into())
}

#[tokio::test]
async fn csi_a_plugin_says_whether_it_is_ready() {
    let place = Place::new();
    let answer = place.plugin(Ok(Some(NO.to_vec())));
    let host = Host::new();
    let mut asked = watch(&host, plugin_at(&place.socket()));
    assert_eq!(asked.text().await, "not ready yet");
    for (now, text) in [
        (Ok(Some(YES.to_vec())), "ready"),
        (Ok(Some(NO.to_vec())), "not ready yet"),
        // A plugin that leaves it out is ready.
        (Ok(None), "ready"),
        (
            Err(Status::failed_precondition("no route to the server")),
            "FAILED_PRECONDITION: no route to the server",
        ),
        (Err(Status::unavailable("")), "UNAVAILABLE"),
        (Err(Status::unimplemented("")), "UNIMPLEMENTED: the server has no csi.v1.Identity"),
        (Ok(Some(vec![0xff])), "the answer is none of csi.v1"),
        (Ok(Some(vec![0; 8 << 10])), "the answer is none of csi.v1: it is too long"),
    ] {
        *answer.lock().unwrap() = now;
        asked.becomes(text).await;
    }
}

#[tokio::test]
async fn csi_errors_are_those_of_the_system() {
    let place = Place::new();
    assert_eq!(place.ask().await, fails("no such file or directory"));
    // Its file stays.
    drop(UnixListener::bind(place.socket()).unwrap());
    assert_eq!(place.ask().await, fails("connection refused"));
    assert_eq!(ask(place.folder.path()).await, fails("connection refused"));
    assert_eq!(ask(&place.socket().join("x")).await, fails("not a directory"));
}

#[tokio::test]
async fn csi_a_plugin_that_takes_no_connection() {
    let place = Place::new();
    let socket = UnixSocket::new_stream().unwrap();
    socket.bind(place.socket()).unwrap();
    let _listener = socket.listen(0).unwrap();
    let _first = UnixStream::connect(place.socket()).await.unwrap();
    assert_eq!(place.ask().await, fails("its queue of connections is full"));
}

#[tokio::test]
async fn csi_a_plugin_that_hangs_ends_with_the_timeout() {
    let place = Place::new();
    place.raw(|stream| async move {
        let _stream = stream;
        std::future::pending::<()>().await;
    });
    let brief = Schedule { timeout: QUICK, ..plugin_at(&place.socket()) };
    assert_eq!(ask_with(brief).await, (Verdict::Silent, "no answer within 300 ms".to_owned()));
}

#[tokio::test]
async fn csi_what_is_none_is_called_so() {
    let place = Place::new();
    place.raw(|stream| async move { drop(stream) });
    let (verdict, text) = place.ask().await;
    assert!(verdict == Verdict::Fails && text.starts_with("connection "), "{text}");
    // A gRPC server of something else.
    let place = Place::new();
    place.serve(tonic_health::server::health_reporter().1);
    assert_eq!(place.ask().await, fails("UNIMPLEMENTED: the server has no csi.v1.Identity"));
}

#[tokio::test]
async fn csi_a_plugin_that_comes_back_is_asked_again() {
    let place = Place::new();
    let host = Host::new();
    let mut asked = watch(&host, plugin_at(&place.socket()));
    assert_eq!(asked.text().await, "no such file or directory");
    place.plugin(Ok(None));
    asked.becomes("ready").await;
    assert_eq!(ask(&place.socket()).await, passes("ready"));
}
