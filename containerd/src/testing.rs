//! A containerd for tests, played within the process: it keeps records as the real one does, its tasks are real
//! processes (without a container around them), and it misbehaves on demand.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

mod answers;
mod streams;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::convert::Infallible;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use containerd_client::services::v1 as api;
use containerd_client::types::v1::Status as TaskStatus;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};
use tonic::Status;
use tonic::body::Body;

/// A fault that replaces or accompanies the answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before it is carried out.
    LostRequest,
    /// It is carried out, and the connection breaks before the answer.
    LostAnswer,
    /// It is carried out this much later.
    Slow(Duration),
    /// It is never answered.
    Hangs,
    Refused,
    DiskFull,
    /// containerd dies in the middle of the making of a task: the shim is there, and knows no task.
    Halfway,
}

#[derive(Default)]
pub struct State {
    /// `Content/Write`, in the order of their beginnings; `committed sha256:…` for each blob.
    pub calls: Vec<String>,
    pub faults: BTreeMap<String, VecDeque<Fault>>,
    pub blobs: BTreeMap<String, (Vec<u8>, HashMap<String, String>)>,
    pub ingests: BTreeSet<String>,
    pub images: BTreeMap<String, String>,
    pub leases: BTreeSet<String>,
    pub committed: BTreeSet<String>,
    /// Key of each writable snapshot or view, and the lease that holds it.
    pub active: BTreeMap<String, String>,
    /// The snapshotter's folder, and where a view shows the files of.
    pub root: String,
    pub containers: BTreeMap<String, api::Container>,
    pub task: Option<Task>,
    /// A shim without a task: in the way of a new one, seen by nobody who asks for the task.
    pub shim: bool,
    /// So many more answers give the status a task had before this one: its shim has yet to see the change.
    pub unseen: u32,
    /// How many tasks were ever started.
    pub started: usize,
}

impl State {
    /// How many calls were made whose names begin so.
    pub fn count(&self, call: &str) -> usize {
        self.calls.iter().filter(|made| made.starts_with(call)).count()
    }

    pub fn fault(&mut self, call: &str, faults: &[Fault]) {
        self.faults.insert(call.to_owned(), faults.iter().copied().collect());
    }
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
    pub state: Arc<Mutex<State>>,
    /// Tells each call that hangs.
    pub hanging: Arc<Notify>,
    socket: PathBuf,
    broken: Arc<Notify>,
    stop: watch::Sender<bool>,
}

/// The parts that the calls of one connection share.
#[derive(Clone)]
struct Connection {
    state: Arc<Mutex<State>>,
    hanging: Arc<Notify>,
    broken: Arc<Notify>,
}

impl Fake {
    pub fn start(socket: &Path, state: Arc<Mutex<State>>) -> Fake {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (stop, gone) = watch::channel(false);
        let (hanging, broken): (Arc<Notify>, Arc<Notify>) = Default::default();
        let fake = Fake {
            state: Arc::clone(&state),
            hanging: Arc::clone(&hanging),
            socket: socket.to_owned(),
            broken: Arc::clone(&broken),
            stop,
        };
        tokio::spawn(async move {
            let mut stopped = gone.clone();
            loop {
                let stream = tokio::select! {
                    _ = stopped.changed() => return,
                    accepted = listener.accept() => accepted.unwrap().0,
                };
                // A fault breaks the connection of its call alone.
                let shared = Connection {
                    state: Arc::clone(&state),
                    hanging: Arc::clone(&hanging),
                    broken: Arc::default(),
                };
                let (own, all, mut gone) = (Arc::clone(&shared.broken), Arc::clone(&broken), gone.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(shared.clone(), request));
                    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service);
                    tokio::select! {
                        _ = connection => {}
                        () = own.notified() => {}
                        () = all.notified() => {}
                        _ = gone.changed() => {}
                    }
                });
            }
        });
        fake
    }

    /// All connections break.
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

async fn answer(shared: Connection, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let name = path.rsplit('.').next().unwrap().to_owned();
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert!(
        path.starts_with("/grpc.health")
            || header("containerd-namespace").as_deref() == Some(crate::NAMESPACE)
    );
    let lease = header("containerd-lease").unwrap_or_default();
    let fault = {
        let mut state = shared.state.lock().unwrap();
        state.calls.push(name.clone());
        state.faults.get_mut(&name).and_then(VecDeque::pop_front)
    };
    let refused = |text: String| Ok(Status::unknown(text).into_http());
    match fault {
        Some(Fault::Refused) => return refused(format!("{name} is refused")),
        Some(Fault::DiskFull) => return refused(String::from("write /x: no space left on device")),
        Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
        Some(Fault::LostRequest) => return shared.lost().await,
        Some(Fault::Halfway) => {
            shared.state.lock().unwrap().shim = true;
            return shared.lost().await;
        }
        Some(Fault::Hangs) => {
            shared.hanging.notify_one();
            std::future::pending::<()>().await;
        }
        Some(Fault::LostAnswer) | None => {}
    }
    let response = answers::carry_out(&shared.state, &name, lease, request).await;
    match fault {
        Some(Fault::LostAnswer) => shared.lost().await,
        _ => Ok(response),
    }
}

impl Connection {
    async fn lost<T>(&self) -> T {
        self.broken.notify_one();
        std::future::pending().await
    }
}
