//! A containerd that is played: it keeps records as the real one does, its tasks are real processes (without a
//! container around them), and it misbehaves as it is told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use containerd_client::services::v1 as api;
use containerd_client::services::v1::snapshots;
use containerd_client::types::v1::{Process, Status as TaskStatus};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

/// What is done with a call instead of answering it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is carried out, and the connection breaks before the answer.
    Lost,
    /// It is carried out a second later.
    Slow,
    /// It is carried out when nobody waits for it any more.
    Hangs,
    /// It is refused.
    Refused,
    /// containerd dies in the middle of the making of a task: the shim is there, and knows no task.
    Halfway,
}

#[derive(Default)]
pub struct State {
    pub calls: Vec<String>,
    pub faults: BTreeMap<String, VecDeque<Fault>>,
    pub containers: BTreeMap<String, api::Container>,
    pub snapshots: BTreeSet<String>,
    pub leases: BTreeSet<String>,
    pub task: Option<Task>,
    /// A shim without a task: in the way of a new one, seen by nobody who asks for the task.
    pub shim: bool,
    /// So many more answers say that a task runs that has ended: its shim has yet to see it.
    pub unseen: u32,
    /// How many tasks were ever started.
    pub started: usize,
}

pub struct Task {
    pub child: Child,
    pub status: TaskStatus,
    pub code: u32,
}

impl Task {
    pub fn new(status: TaskStatus) -> Task {
        let child = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        Task { child, status, code: 0 }
    }

    fn look(&mut self) {
        use std::os::unix::process::ExitStatusExt;
        if self.status != TaskStatus::Stopped
            && let Some(exit) = self.child.try_wait().unwrap()
        {
            self.status = TaskStatus::Stopped;
            let code = exit.code().unwrap_or_else(|| 128 + exit.signal().unwrap());
            self.code = u32::try_from(code).unwrap();
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server; it goes away when it is dropped, its records stay.
pub struct Fake {
    socket: PathBuf,
    broken: Arc<Notify>,
    stop: watch::Sender<bool>,
}

impl Fake {
    pub fn start(socket: &Path, state: Arc<Mutex<State>>) -> Fake {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (broken, (stop, stopped)) = (Arc::new(Notify::new()), watch::channel(false));
        let (shared, breaks) = (state, Arc::clone(&broken));
        tokio::spawn(async move {
            let mut gone = stopped.clone();
            loop {
                let stream = tokio::select! {
                    _ = gone.changed() => return,
                    accepted = listener.accept() => accepted.unwrap().0,
                };
                let (state, breaks, mut stopped) =
                    (Arc::clone(&shared), Arc::clone(&breaks), stopped.clone());
                tokio::spawn(async move {
                    let told = Arc::clone(&breaks);
                    let service =
                        service_fn(move |request| answer(Arc::clone(&state), Arc::clone(&told), request));
                    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service);
                    tokio::select! {
                        _ = connection => {}
                        () = breaks.notified() => {}
                        _ = stopped.changed() => {}
                    }
                });
            }
        });
        Fake { socket: socket.to_owned(), broken, stop }
    }

    /// The connection breaks.
    pub fn break_off(&self) {
        self.broken.notify_waiters();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        let _ = std::fs::remove_file(&self.socket);
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    broken: Arc<Notify>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let name = path.rsplit('.').next().unwrap().to_owned();
    assert!(
        path.starts_with("/grpc.health")
            || request.headers().get("containerd-namespace").unwrap() == "kelson"
    );
    let fault = {
        let mut state = state.lock().unwrap();
        state.calls.push(name.clone());
        state.faults.get_mut(&name).and_then(VecDeque::pop_front)
    };
    match fault {
        Some(Fault::Refused) => return Ok(refusal(Code::Unknown, &format!("{name} is refused"))),
        Some(Fault::Slow) => tokio::time::sleep(Duration::from_secs(1)).await,
        Some(Fault::Hangs) => tokio::time::sleep(Duration::from_secs(3)).await,
        Some(Fault::Halfway) => {
            state.lock().unwrap().shim = true;
            broken.notify_waiters();
            std::future::pending::<()>().await;
        }
        _ => {}
    }
    let response = carry_out(&state, &name, request).await;
    if fault == Some(Fault::Lost) {
        broken.notify_waiters();
        std::future::pending::<()>().await;
    }
    Ok(response)
}

fn refusal(code: Code, text: &str) -> Response<Body> {
    Status::new(code, text).into_http()
}

/// One kind of call: a request becomes an answer.
struct One<F>(F);

impl<Q, A, F: FnMut(Q) -> Result<A, Status>> UnaryService<Q> for One<F> {
    type Response = A;
    type Future = std::future::Ready<Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        std::future::ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}

async fn one<Q, A>(request: Request<Incoming>, answer: impl FnMut(Q) -> Result<A, Status>) -> Response<Body>
where
    Q: Message + Default + Send + 'static,
    A: Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(One(answer), request).await
}

#[derive(Clone, PartialEq, Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}

fn missing<T>(found: Option<T>) -> Result<T, Status> {
    found.ok_or_else(|| Status::not_found("it is not there"))
}

fn fresh(new: bool) -> Result<(), Status> {
    if new { Ok(()) } else { Err(Status::already_exists("it is there")) }
}

async fn carry_out(state: &Mutex<State>, name: &str, request: Request<Incoming>) -> Response<Body> {
    let records = || state.lock().unwrap();
    match name {
        "Health/Check" => one(request, |(): ()| Ok(Health { status: 1 })).await,
        "Leases/Create" => {
            one(request, |q: api::CreateRequest| {
                fresh(records().leases.insert(q.id)).map(|()| api::CreateResponse::default())
            })
            .await
        }
        "Leases/Delete" => {
            one(request, |q: api::DeleteRequest| missing(records().leases.take(&q.id)).map(drop)).await
        }
        "Snapshots/Prepare" => {
            one(request, |q: snapshots::PrepareSnapshotRequest| {
                fresh(records().snapshots.insert(q.key))
                    .map(|()| snapshots::PrepareSnapshotResponse::default())
            })
            .await
        }
        "Snapshots/Mounts" => {
            one(request, |q: snapshots::MountsRequest| {
                missing(records().snapshots.get(&q.key)).map(|_| snapshots::MountsResponse::default())
            })
            .await
        }
        "Snapshots/Remove" => {
            one(request, |q: snapshots::RemoveSnapshotRequest| {
                let mut records = records();
                if records.task.is_some() {
                    return Err(Status::failed_precondition("it is in use"));
                }
                missing(records.snapshots.take(&q.key)).map(drop)
            })
            .await
        }
        "Containers/Create" => {
            one(request, |q: api::CreateContainerRequest| {
                let container = q.container.unwrap_or_default();
                let old = records().containers.insert(container.id.clone(), container);
                fresh(old.is_none()).map(|()| api::CreateContainerResponse::default())
            })
            .await
        }
        "Containers/Get" => {
            one(request, |q: api::GetContainerRequest| {
                let container = Some(missing(records().containers.get(&q.id).cloned())?);
                Ok(api::GetContainerResponse { container })
            })
            .await
        }
        "Containers/Update" => {
            one(request, |q: api::UpdateContainerRequest| {
                assert_eq!(q.update_mask.unwrap_or_default().paths, ["spec"]);
                let new = q.container.unwrap_or_default();
                missing(records().containers.get_mut(&new.id))?.spec = new.spec;
                Ok(api::UpdateContainerResponse::default())
            })
            .await
        }
        "Containers/Delete" => {
            one(request, |q: api::DeleteContainerRequest| {
                missing(records().containers.remove(&q.id)).map(drop)
            })
            .await
        }
        "Tasks/Create" => {
            one(request, |q: api::CreateTaskRequest| {
                let mut records = records();
                missing(records.containers.get(&q.container_id))?;
                fresh(records.task.is_none() && !records.shim)?;
                assert!(std::fs::metadata(&q.stdout).is_ok() && std::fs::metadata(&q.stderr).is_ok());
                let task = records.task.insert(Task::new(TaskStatus::Created));
                Ok(api::CreateTaskResponse { pid: task.child.id(), ..Default::default() })
            })
            .await
        }
        "Tasks/Start" => {
            one(request, |_: api::StartRequest| {
                let mut records = records();
                let task = missing(records.task.as_mut())?;
                if task.status != TaskStatus::Created {
                    return Err(Status::failed_precondition("it is started already"));
                }
                task.status = TaskStatus::Running;
                let pid = task.child.id();
                records.started += 1;
                Ok(api::StartResponse { pid })
            })
            .await
        }
        "Tasks/Get" => {
            one(request, |_: api::GetRequest| {
                let mut records = records();
                let unseen = records.unseen;
                let task = missing(records.task.as_mut())?;
                task.look();
                let hidden = task.status == TaskStatus::Stopped && unseen > 0;
                let process = Process {
                    pid: task.child.id(),
                    status: if hidden { TaskStatus::Running } else { task.status } as i32,
                    exit_status: task.code,
                    ..Default::default()
                };
                records.unseen = unseen.saturating_sub(u32::from(hidden));
                Ok(api::GetResponse { process: Some(process) })
            })
            .await
        }
        "Tasks/Kill" => {
            one(request, |_: api::KillRequest| {
                missing(records().task.as_mut())?.child.kill().map_err(|e| Status::not_found(e.to_string()))
            })
            .await
        }
        "Tasks/Delete" => {
            one(request, |_: api::DeleteTaskRequest| {
                let mut records = records();
                if std::mem::take(&mut records.shim) {
                    return Ok(api::DeleteResponse::default());
                }
                let task = missing(records.task.as_mut())?;
                task.look();
                if task.status == TaskStatus::Running {
                    return Err(Status::failed_precondition("it runs"));
                }
                records.task = None;
                Ok(api::DeleteResponse::default())
            })
            .await
        }
        "Tasks/Wait" => {
            let ended = loop {
                let status = records().task.as_mut().map(|task| {
                    task.look();
                    (task.status, task.code)
                });
                match status {
                    None => break Err(Status::not_found("it is not there")),
                    Some((TaskStatus::Stopped, code)) => break Ok(code),
                    // The real one is told; this one looks.
                    Some(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            };
            one(request, |_: api::WaitRequest| {
                let exit_status = ended.clone()?;
                Ok(api::WaitResponse { exit_status, ..Default::default() })
            })
            .await
        }
        other => refusal(Code::Unimplemented, other),
    }
}
