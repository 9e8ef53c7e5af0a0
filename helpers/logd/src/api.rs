//! The gRPC service `Logs` on `log.sock`: the past from files, then live lines from memory.
//!
//! Its thread is started at the first client. A client that reads slowly has nothing queued for it: it has a
//! position in the ring, and learns how many lines it missed. A disk that does not answer costs a client its
//! history, said as a note, and a bounded number of threads.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kelson_proto::v1;
use kelson_proto::v1::logs_server::{Logs, LogsServer};
use kelson_sys::boxed;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{BoxStream, Service as _, http};
use tonic::{Request, Response, Status};

use super::admission::Admission;
use super::client::{self, Client, Leaving, Peer};
use super::history::{History, Text, Wanted, WantedRun};
use super::line::{self, Source};
use super::run::Run;
use super::store::{OwnedLine, Store, client_note};
use super::troubles::Troubles;
use kelson_spec::names::is_name;

/// Threads that read files for clients; each may hang on a dead disk.
const READERS: usize = 4;
const STREAMS: usize = 64;
const NAMES: usize = 256;
/// Lines that came before the request are in files by then, or come from memory.
const WRITTEN: Duration = Duration::from_millis(300);
/// Opening files and finding the beginning; reading a piece of them.
const OPENING: Duration = Duration::from_secs(5);
const READING: Duration = Duration::from_secs(5);
/// At the end, until clients have read the last lines.
const LEAVING: Duration = Duration::from_millis(500);
/// Text in one message, lines in one look at the ring.
const CHUNK: usize = 32 * 1024;
const LIVE: usize = 256;
/// Bytes of a text that is looked for.
const TEXT: usize = 1024;

/// Serves until the store is closed and the last stream has ended.
pub fn serve(
    listener: OwnedFd,
    store: Arc<Store>,
    admission: Arc<Admission>,
    troubles: Arc<Troubles>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(READERS)
        .thread_stack_size(super::STACK)
        .build()?;
    let result = runtime.block_on(async {
        let listener = tokio::net::UnixListener::from_std(UnixListener::from(listener))?;
        let leaving = Leaving::default();
        let (accepted, clients) = mpsc::channel(1);
        kelson_sys::spawn(client::take_in(
            listener,
            accepted,
            store.clone(),
            leaving.clone(),
            admission,
            troubles,
        ));
        let closed = closed(store.clone());
        let service = LogsServer::new(Service {
            store,
            readers: Arc::new(Semaphore::new(READERS)),
            streams: Arc::new(Semaphore::new(STREAMS)),
        });
        connections(clients, service, closed).await;
        // Clients that do not care are not waited for.
        let _ = tokio::time::timeout(LEAVING, client::left(&leaving)).await;
        Ok(())
    });
    // A thread that hangs on a dead disk stays behind.
    runtime.shutdown_background();
    result
}

/// Serves clients until `closed`, then until their last streams have ended.
async fn connections(
    mut clients: mpsc::Receiver<Client>,
    service: LogsServer<Service>,
    closed: impl Future<Output = ()>,
) {
    let (closing, leaving) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut closed = std::pin::pin!(closed);
    loop {
        tokio::select! {
            () = &mut closed => break,
            Some(_) = connections.join_next() => {}
            Some(client) = clients.recv() => {
                connections.spawn(boxed(connection(client, service.clone(), leaving.clone())));
            }
        }
    }
    drop(clients);
    drop(closing);
    while connections.join_next().await.is_some() {}
}

/// Serves one client, until it goes or until logd ends and its streams have ended.
async fn connection(client: Client, service: LogsServer<Service>, mut leaving: watch::Receiver<()>) {
    let peer = client.peer();
    let service = hyper::service::service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        service.clone().call(request)
    });
    let connection =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(client), service);
    let mut connection = std::pin::pin!(connection);
    // A client learns of an error by itself.
    let _ = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = leaving.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}

async fn closed(store: Arc<Store>) {
    let _interest = store.interest(false);
    changed(&store, |store| store.is_closed().then_some(())).await;
}

/// Waits until `look` finds something; cancelled by dropping.
async fn changed<T>(store: &Store, look: impl Fn(&Store) -> Option<T>) -> T {
    loop {
        let news = store.news().notified();
        tokio::pin!(news);
        news.as_mut().enable();
        if let Some(found) = look(store) {
            return found;
        }
        news.await;
    }
}

struct Service {
    store: Arc<Store>,
    readers: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// The rest of a request after it was looked at.
struct Asked {
    names: Vec<Arc<str>>,
    wanted: Wanted,
    follow: bool,
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Logs for Service {
    async fn read(
        &self,
        request: Request<v1::ReadRequest>,
    ) -> Result<Response<BoxStream<v1::ReadResponse>>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        match &peer {
            Some(peer) => peer.asked.clone().wait().await?,
            None => return Err(Status::internal("nobody knows who asks")),
        }
        let asked = look_at(request.into_inner())?;
        let Ok(permit) = self.streams.clone().try_acquire_owned() else {
            return Err(Status::resource_exhausted(format!("{STREAMS} clients read logs already")));
        };
        let (sender, receiver) = mpsc::channel(2);
        let (store, readers) = (self.store.clone(), self.readers.clone());
        kelson_sys::spawn(async move {
            let _reads = peer.map(|peer| peer.call());
            let gone = sender.clone();
            tokio::select! {
                _ = Reading { store, readers, sender }.run(asked) => {}
                () = gone.closed() => {}
            }
            drop(permit);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

fn look_at(request: v1::ReadRequest) -> Result<Asked, Status> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for name in request.names {
        if !is_name(&name) {
            return Err(Status::invalid_argument(format!("\"{name:.60}\" is not the name of a service")));
        }
        if !names.iter().any(|known| **known == *name) {
            names.push(name.into());
        }
    }
    if names.is_empty() || names.len() > NAMES {
        return Err(Status::invalid_argument(format!("name 1 to {NAMES} services")));
    }
    let ago = |span: prost_types::Duration| {
        let span = span.seconds.max(0).saturating_mul(1_000_000_000).saturating_add(span.nanos.max(0).into());
        line::now().saturating_sub(span)
    };
    let (since, until) = (request.last.map(ago), request.until.map(ago));
    let run = match (request.run, request.previous) {
        (None, false) => None,
        (None, true) => Some(WantedRun::Previous),
        (Some(number @ 1..), false) => Some(WantedRun::Number(u32::try_from(number).unwrap_or(u32::MAX))),
        (Some(0), _) => return Err(Status::invalid_argument("runs are counted from 1")),
        (Some(_), true) => return Err(Status::invalid_argument("ask for one run, or for the previous one")),
    };
    if request.follow && (run.is_some() || until.is_some()) {
        return Err(Status::invalid_argument("a log cannot be followed up to a time, or for one run"));
    }
    if request.text.len() > TEXT {
        return Err(Status::invalid_argument(format!("a text to look for has at most {TEXT} bytes")));
    }
    let wanted = Wanted { tail: request.tail, since, until, run, text: Text(request.text.into()) };
    Ok(Asked { names, wanted, follow: request.follow })
}

/// The client is gone.
struct Gone;

/// One answer.
struct Reading {
    store: Arc<Store>,
    readers: Arc<Semaphore>,
    sender: mpsc::Sender<Result<v1::ReadResponse, Status>>,
}

impl Reading {
    async fn run(self, asked: Asked) -> Result<(), Gone> {
        let _interest = self.store.interest(asked.follow);
        self.wait_for_writer(&asked.names).await;
        let (history, why) = self.open(&asked).await;
        if let Some(why) = why {
            let first = asked.names.first().cloned().unwrap_or_else(|| "logd".into());
            self.send(vec![client_note(&first, line::now(), why)]).await?;
        }
        let Some(history) = history else { return Ok(()) };
        let mut expected = history.next.clone();
        self.past(history).await?;
        if asked.follow { self.live(&mut expected, &asked.wanted.text).await } else { Ok(()) }
    }

    /// So that what came before is, as a rule, in the files.
    async fn wait_for_writer(&self, names: &[Arc<str>]) {
        let numbers = self.store.numbers(names);
        let written = changed(&self.store, |store| store.all_written(&numbers).then_some(()));
        // If not, memory has it, or a note reports the loss.
        let _ = tokio::time::timeout(WRITTEN, written).await;
    }

    /// The history, or what memory has of it, and why.
    async fn open(&self, asked: &Asked) -> (Option<History>, Option<String>) {
        let (store, names, wanted) = (self.store.clone(), asked.names.clone(), asked.wanted.clone());
        let opened = self.on_disk(OPENING, move || History::open(&store, &names, wanted)).await;
        match opened {
            Ok(history) => (Some(history), None),
            Err(why) => {
                let memory = History::of_memory(&self.store, &asked.names, asked.wanted.clone()).ok();
                (memory, Some(format!("only what is in memory: the log files cannot be read: {why}")))
            }
        }
    }

    /// Calls what may hang for ever, on one of few threads.
    async fn on_disk<T: Send + 'static>(
        &self,
        within: Duration,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let by = Instant::now().checked_add(within).unwrap_or_else(Instant::now);
        let hangs = |_| io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer");
        let permit = timeout_at(by, self.readers.clone().acquire_owned()).await.map_err(hangs)?;
        let task = tokio::task::spawn_blocking(move || {
            let result = call();
            drop(permit);
            result
        });
        timeout_at(by, task).await.map_err(hangs)?.map_err(io::Error::other)?
    }

    async fn past(&self, mut history: History) -> Result<(), Gone> {
        loop {
            let read = move || {
                let lines = history.chunk(CHUNK)?;
                Ok((history, lines))
            };
            match self.on_disk(READING, read).await {
                Ok((_, None)) => return Ok(()),
                Ok((rest, Some(lines))) => {
                    history = rest;
                    if !lines.is_empty() {
                        self.send(lines).await?;
                    }
                }
                Err(why) => {
                    let text = format!("lines are missing here: the log files cannot be read: {why}");
                    return self.send(vec![client_note(&"logd".into(), line::now(), text)]).await;
                }
            }
        }
    }

    async fn live(&self, expected: &mut HashMap<Arc<str>, u64>, text: &Text) -> Result<(), Gone> {
        let mut position = 0;
        loop {
            let state = std::sync::Mutex::new((&mut position, &mut *expected));
            let lines = changed(&self.store, |store| {
                let mut state = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let (position, expected) = &mut *state;
                let closed = store.is_closed();
                let lines = store.live(position, expected, LIVE, |line| text.is_in(line));
                (closed || !lines.is_empty()).then_some(lines)
            })
            .await;
            if lines.is_empty() {
                return Ok(());
            }
            self.send(lines).await?;
        }
    }

    async fn send(&self, lines: Vec<OwnedLine>) -> Result<(), Gone> {
        let lines = lines.into_iter().map(message).collect();
        self.sender.send(Ok(v1::ReadResponse { lines })).await.map_err(|_| Gone)
    }
}

fn message(line: OwnedLine) -> v1::Line {
    const NANOS: i64 = 1_000_000_000;
    let nanos = i32::try_from(line.time.rem_euclid(NANOS)).unwrap_or(0);
    let time = Some(prost_types::Timestamp { seconds: line.time.div_euclid(NANOS), nanos });
    let stream = match line.source {
        Source::Stdout => v1::line::Stream::Stdout,
        Source::Stderr => v1::line::Stream::Stderr,
        Source::Note => v1::line::Stream::Note,
    };
    let OwnedLine { service, run: Run { number, boot }, partial, text, .. } = line;
    let (service, stream) = (service.to_string(), stream.into());
    v1::Line { service, time, stream, text, partial, run: number.into(), boot: boot.into() }
}
