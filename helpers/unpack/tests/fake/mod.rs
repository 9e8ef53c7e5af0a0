//! A containerd that is played: it keeps blobs, snapshots, images and leases as the real one does, and misbehaves as it
//! is told.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use containerd_client::services::v1 as api;
use containerd_client::services::v1::snapshots;
use containerd_client::types::{Descriptor, Mount};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kelson_unpack::archive::Hasher;
use prost::Message;
use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};
use tonic::body::Body;
use tonic::codegen::tokio_stream::Stream;
use tonic::server::{Grpc, ServerStreamingService, StreamingService, UnaryService};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

/// What is done with a call instead of answering it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before it is carried out.
    Lost,
    /// It is never answered.
    Hangs,
    /// It is carried out later, so that others meet it.
    Slow,
    DiskFull,
}

#[derive(Default)]
pub struct State {
    /// `Content/Write sha256:…`, in the order of their beginnings.
    pub calls: Vec<String>,
    pub faults: BTreeMap<String, VecDeque<Fault>>,
    pub blobs: BTreeMap<String, (Vec<u8>, HashMap<String, String>)>,
    pub ingests: BTreeSet<String>,
    pub images: BTreeMap<String, String>,
    pub leases: BTreeSet<String>,
    pub committed: BTreeSet<String>,
    /// Key to the lease that holds it.
    pub active: BTreeMap<String, String>,
    /// The snapshotter's folder, and where a view shows the files of.
    pub root: String,
}

impl State {
    pub fn count(&self, call: &str) -> usize {
        self.calls.iter().filter(|made| made.starts_with(call)).count()
    }
}

/// The server; it goes away when it is dropped, its records stay.
pub struct Fake {
    pub state: Arc<Mutex<State>>,
    /// Tells each call that hangs.
    pub hanging: Arc<Notify>,
    stop: watch::Sender<bool>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    hanging: Arc<Notify>,
    broken: Arc<Notify>,
}

impl Fake {
    pub fn start(socket: &Path, state: Arc<Mutex<State>>) -> Fake {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (stop, stopped) = watch::channel(false);
        let shared = Shared { state: Arc::clone(&state), hanging: Arc::default(), broken: Arc::default() };
        let hanging = Arc::clone(&shared.hanging);
        tokio::spawn(async move {
            let mut gone = stopped.clone();
            loop {
                let stream = tokio::select! {
                    _ = gone.changed() => return,
                    accepted = listener.accept() => accepted.unwrap().0,
                };
                // Each connection breaks by itself.
                let shared = Shared { broken: Arc::default(), ..shared.clone() };
                let (broken, mut stopped) = (Arc::clone(&shared.broken), stopped.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(shared.clone(), request));
                    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service);
                    tokio::select! {
                        _ = connection => {}
                        () = broken.notified() => {}
                        _ = stopped.changed() => {}
                    }
                });
            }
        });
        Fake { state, hanging, stop }
    }
}

async fn answer(shared: Shared, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    assert_eq!(request.headers().get("containerd-namespace").unwrap(), "kelson");
    let path = request.uri().path().to_owned();
    let name = path.rsplit('.').next().unwrap().to_owned();
    let lease = request.headers().get("containerd-lease").map(|id| id.to_str().unwrap().to_owned());
    let fault = {
        let mut state = shared.state.lock().unwrap();
        state.calls.push(name.clone());
        state.faults.get_mut(&name).and_then(VecDeque::pop_front)
    };
    match fault {
        Some(Fault::DiskFull) => {
            return Ok(Status::unknown("write /x: no space left on device").into_http());
        }
        Some(Fault::Slow) => tokio::time::sleep(Duration::from_millis(300)).await,
        Some(Fault::Lost) => {
            shared.broken.notify_one();
            std::future::pending::<()>().await;
        }
        Some(Fault::Hangs) => {
            shared.hanging.notify_one();
            std::future::pending::<()>().await;
        }
        None => {}
    }
    Ok(carry_out(&shared.state, &name, lease.unwrap_or_default(), request).await)
}

/// One kind of call: a request becomes an answer.
struct One<F>(F);

impl<F, Q, A> UnaryService<Q> for One<F>
where
    F: FnMut(Q) -> Result<A, Status>,
{
    type Response = A;
    type Future = std::future::Ready<Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        std::future::ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}

async fn unary<Q, A>(request: Request<Incoming>, answer: impl FnMut(Q) -> Result<A, Status>) -> Response<Body>
where
    Q: Message + Default + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(One(answer), request).await
}

type Answers<A> = Pin<Box<dyn Stream<Item = Result<A, Status>> + Send>>;

/// A stream of one answer.
struct Once<A>(Option<A>);

impl<A: Unpin> Stream for Once<A> {
    type Item = Result<A, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.take().map(Ok))
    }
}

struct Read(Arc<Mutex<State>>);

impl ServerStreamingService<api::ReadContentRequest> for Read {
    type Response = api::ReadContentResponse;
    type ResponseStream = Answers<Self::Response>;
    type Future = std::future::Ready<Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<api::ReadContentRequest>) -> Self::Future {
        let digest = request.into_inner().digest;
        let state = self.0.lock().unwrap();
        std::future::ready(match state.blobs.get(&digest) {
            Some((data, _)) => {
                let answer = api::ReadContentResponse { offset: 0, data: data.clone() };
                Ok(tonic::Response::new(Box::pin(Once(Some(answer))) as Self::ResponseStream))
            }
            None => Err(missing()),
        })
    }
}

struct Write(Arc<Mutex<State>>);

impl StreamingService<api::WriteContentRequest> for Write {
    type Response = api::WriteContentResponse;
    type ResponseStream = Answers<Self::Response>;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Streaming<api::WriteContentRequest>>) -> Self::Future {
        let state = Arc::clone(&self.0);
        Box::pin(async move {
            let mut messages = request.into_inner();
            let mut data = Vec::new();
            while let Some(message) = messages.message().await? {
                if data.is_empty() && message.action == api::WriteAction::Write as i32 {
                    assert_eq!(message.offset, 0);
                    let new = state.lock().unwrap().ingests.insert(message.r#ref.clone());
                    if !new {
                        return Err(Status::unavailable("the name is in use by another writer"));
                    }
                }
                assert_eq!(usize::try_from(message.offset).unwrap(), data.len());
                data.extend(message.data);
                if message.action == api::WriteAction::Commit as i32 {
                    let mut state = state.lock().unwrap();
                    assert_eq!(Hasher::of(&data).to_string(), message.expected);
                    state.ingests.remove(&message.r#ref);
                    state.calls.push(format!("committed {}", message.expected));
                    state.blobs.insert(message.expected.clone(), (data, message.labels));
                    let answer = api::WriteContentResponse { action: message.action, ..Default::default() };
                    return Ok(tonic::Response::new(Box::pin(Once(Some(answer))) as Self::ResponseStream));
                }
            }
            Err(Status::cancelled("the writer went away"))
        })
    }
}

fn missing() -> Status {
    Status::not_found("it is not there")
}

fn there() -> Status {
    Status::already_exists("it is there")
}

async fn carry_out(
    shared: &Arc<Mutex<State>>,
    name: &str,
    lease: String,
    request: Request<Incoming>,
) -> Response<Body> {
    let state = || shared.lock().unwrap();
    match name {
        "Namespaces/Create" => {
            unary(request, |_: api::CreateNamespaceRequest| Err::<api::CreateNamespaceResponse, _>(there()))
                .await
        }
        "Introspection/Plugins" => {
            let id = String::from("overlayfs");
            let exports = HashMap::from([(String::from("root"), state().root.clone())]);
            let plugin = api::Plugin { id, exports, ..Default::default() };
            unary(request, move |_: api::PluginsRequest| {
                Ok(api::PluginsResponse { plugins: vec![plugin.clone()] })
            })
            .await
        }
        "Leases/Create" => {
            unary(request, |q: api::CreateRequest| {
                assert!(q.labels.is_empty(), "one that expires goes by the wall clock: {:?}", q.labels);
                if state().leases.insert(q.id) { Ok(api::CreateResponse::default()) } else { Err(there()) }
            })
            .await
        }
        "Leases/Delete" => {
            unary(request, |q: api::DeleteRequest| {
                let mut state = state();
                state.active.retain(|_, lease| *lease != q.id);
                if state.leases.remove(&q.id) { Ok(()) } else { Err(missing()) }
            })
            .await
        }
        "Leases/List" => {
            unary(request, |_: api::ListRequest| {
                let state = state();
                let lease = |id: &String| api::Lease { id: id.clone(), ..Default::default() };
                let leases = state.leases.iter().map(lease);
                Ok(api::ListResponse { leases: leases.collect() })
            })
            .await
        }
        "Leases/AddResource" => {
            unary(
                request,
                |q: api::AddResourceRequest| {
                    if state().leases.contains(&q.id) { Ok(()) } else { Err(missing()) }
                },
            )
            .await
        }
        "Content/Info" => {
            unary(request, |q: api::InfoRequest| {
                let state = state();
                let (data, labels) = state.blobs.get(&q.digest).ok_or_else(missing)?;
                let size = i64::try_from(data.len()).unwrap();
                let info = api::Info { digest: q.digest, size, labels: labels.clone(), ..Default::default() };
                Ok(api::InfoResponse { info: Some(info) })
            })
            .await
        }
        "Content/Abort" => {
            unary(
                request,
                |q: api::AbortRequest| {
                    if state().ingests.remove(&q.r#ref) { Ok(()) } else { Err(missing()) }
                },
            )
            .await
        }
        "Images/Get" => {
            unary(request, |q: api::GetImageRequest| {
                let state = state();
                let digest = state.images.get(&q.name).ok_or_else(missing)?;
                Ok(api::GetImageResponse { image: Some(image(&q.name, digest)) })
            })
            .await
        }
        "Images/List" => {
            unary(request, |_: api::ListImagesRequest| {
                let images = state().images.iter().map(|(name, digest)| image(name, digest)).collect();
                Ok(api::ListImagesResponse { images })
            })
            .await
        }
        "Images/Create" => {
            unary(request, |q: api::CreateImageRequest| {
                let (mut state, image) = (state(), q.image.unwrap());
                if state.images.contains_key(&image.name) {
                    return Err(there());
                }
                state.images.insert(image.name, image.target.unwrap().digest);
                Ok(api::CreateImageResponse::default())
            })
            .await
        }
        "Images/Update" => {
            unary(request, |q: api::UpdateImageRequest| {
                let image = q.image.unwrap();
                state().images.insert(image.name, image.target.unwrap().digest);
                Ok(api::UpdateImageResponse::default())
            })
            .await
        }
        "Images/Delete" => {
            unary(request, |q: api::DeleteImageRequest| {
                state().images.remove(&q.name).map(drop).ok_or_else(missing)
            })
            .await
        }
        "Snapshots/Stat" => {
            unary(request, |q: snapshots::StatSnapshotRequest| {
                let state = state();
                if !state.committed.contains(&q.key) {
                    return Err(missing());
                }
                let info = snapshots::Info { kind: snapshots::Kind::Committed as i32, ..Default::default() };
                Ok(snapshots::StatSnapshotResponse { info: Some(info) })
            })
            .await
        }
        "Snapshots/Prepare" => {
            unary(request, |q: snapshots::PrepareSnapshotRequest| {
                let mut state = state();
                assert!(q.parent.is_empty() || state.committed.contains(&q.parent));
                assert!(state.leases.contains(&lease), "garbage collection would take it");
                state.active.insert(q.key, lease.clone());
                Ok(snapshots::PrepareSnapshotResponse { mounts: vec![Mount::default()] })
            })
            .await
        }
        "Snapshots/View" => {
            unary(request, |q: snapshots::ViewSnapshotRequest| {
                let mut state = state();
                assert!(state.committed.contains(&q.parent));
                state.active.insert(q.key, lease.clone());
                let mount =
                    Mount { r#type: "bind".to_owned(), source: state.root.clone(), ..Default::default() };
                Ok(snapshots::ViewSnapshotResponse { mounts: vec![mount] })
            })
            .await
        }
        "Snapshots/Commit" => {
            unary(request, |q: snapshots::CommitSnapshotRequest| {
                let mut state = state();
                state.active.remove(&q.key).ok_or_else(missing)?;
                if state.committed.insert(q.name) { Ok(()) } else { Err(there()) }
            })
            .await
        }
        "Snapshots/Remove" => {
            unary(request, |q: snapshots::RemoveSnapshotRequest| {
                state().active.remove(&q.key).map(drop).ok_or_else(missing)
            })
            .await
        }
        "Diff/Apply" => {
            unary(request, |q: api::ApplyRequest| {
                let state = state();
                let (data, _) = state.blobs.get(&q.diff.unwrap().digest).ok_or_else(missing)?;
                let applied = Descriptor { digest: Hasher::of(data).to_string(), ..Default::default() };
                Ok(api::ApplyResponse { applied: Some(applied) })
            })
            .await
        }
        "Content/Update" => {
            unary(request, |q: api::UpdateRequest| {
                let info = q.info.unwrap();
                state().blobs.get_mut(&info.digest).ok_or_else(missing)?.1.extend(info.labels);
                Ok(api::UpdateResponse::default())
            })
            .await
        }
        "Content/Read" => {
            let codec = ProstCodec::<api::ReadContentResponse, api::ReadContentRequest>::default();
            Grpc::new(codec).server_streaming(Read(Arc::clone(shared)), request).await
        }
        "Content/Write" => {
            let codec = ProstCodec::<api::WriteContentResponse, api::WriteContentRequest>::default();
            Grpc::new(codec).streaming(Write(Arc::clone(shared)), request).await
        }
        _ => Status::new(Code::Unimplemented, name).into_http(),
    }
}

fn image(name: &str, digest: &str) -> api::Image {
    let target = Descriptor { digest: digest.to_owned(), ..Default::default() };
    api::Image { name: name.to_owned(), target: Some(target), ..Default::default() }
}
