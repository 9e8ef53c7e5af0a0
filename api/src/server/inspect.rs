//! The service Inspect: what the kernel and the disks say, passed on as it comes from a process of its own.

use std::time::Duration;

use kelson_proto::v1;
use kelson_proto::v1::inspect_question::Question;
use kelson_proto::v1::inspect_server::Inspect;
use kelson_proto::v1::write_file_request::Request as Piece;
use kelson_services::Manager;
use kelson_services::inspect::{Answers, Inspector, Writing};
use prost::Message;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::audit::record;
use super::model::status_of_inspect as status;
use super::services::{about, caller, ending};

/// Messages that wait for a client to read them.
const WAITING: usize = 2;
/// A client that takes nothing for so long gives its place up.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest file that is written, in bytes.
const SIZE_MAX: u64 = 1 << 30;
/// The permissions that a file may be written with.
const MODE_MAX: u32 = 0o777;
/// The longest path, in bytes (`PATH_MAX`).
const PATH_MAX: usize = 4096;

pub struct InspectApi {
    pub manager: Manager,
    pub inspector: Inspector,
    /// Its sender is dropped when PID 1 ends.
    pub closed: watch::Receiver<()>,
}

async fn next<T: Message + Default>(answers: &mut Answers) -> Result<Option<T>, Status> {
    let Some(bytes) = answers.next().await.map_err(status)? else { return Ok(None) };
    let decoded = T::decode(bytes.as_slice());
    decoded.map(Some).map_err(|error| Status::internal(format!("kelson-inspect makes no sense: {error}")))
}

impl InspectApi {
    /// The one message that answers.
    async fn one<T: Message + Default>(&self, question: Question) -> Result<Response<T>, Status> {
        let mut answers = self.inspector.ask(&self.manager, question).await.map_err(status)?;
        let message = next(&mut answers).await?;
        message.map(Response::new).ok_or_else(|| Status::internal("kelson-inspect has said nothing"))
    }

    /// All messages, as fast as the client takes them. A mistake in the question shows before the first.
    async fn many<T>(&self, question: Question) -> Result<Response<BoxStream<T>>, Status>
    where
        T: Message + Default + Send + 'static,
    {
        let mut answers = self.inspector.ask(&self.manager, question).await.map_err(status)?;
        let mut message = next(&mut answers).await?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut closed = self.closed.clone();
        let pump = async move {
            while let Some(taken) = message.take() {
                let sent = sender.send_timeout(Ok(taken), TIMEOUT).await;
                if sent.is_err() {
                    return;
                }
                match next(&mut answers).await {
                    Ok(found) => message = found,
                    Err(error) => drop(sender.send_timeout(Err(error), TIMEOUT).await),
                }
            }
        };
        kelson_sys::spawn(async move {
            tokio::select! {
                () = pump => {}
                _ = closed.changed() => {}
            }
        });
        let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
            Some((receiver.recv().await?, receiver))
        });
        Ok(Response::new(Box::pin(stream)))
    }

    /// Of files, which are for admins alone: it is written down who read what.
    async fn path<R, T>(
        &self,
        request: Request<R>,
        what: &str,
        question: impl FnOnce(R) -> (String, Question),
    ) -> Result<Response<BoxStream<T>>, Status>
    where
        T: Message + Default + Send + 'static,
    {
        let (caller, record) = (caller(&request), record(&request));
        let (path, question) = question(request.into_inner());
        about(record.as_deref(), &path);
        absolute(&path)?;
        tracing::info!("{caller} {what} {path:?}");
        self.many(question).await
    }
}

fn absolute(path: &str) -> Result<(), Status> {
    if !path.starts_with('/') || path.len() > PATH_MAX || path.contains('\0') {
        return Err(Status::invalid_argument("the path must be absolute, such as /etc/hosts"));
    }
    Ok(())
}

/// Hands what the client sends on to one that writes it.
async fn write(
    mut pieces: Streaming<v1::WriteFileRequest>,
    mut writing: Writing,
    size: u64,
    mut closed: watch::Receiver<()>,
) -> Result<v1::WriteFileResponse, Status> {
    let mut left = size;
    let cut_short = loop {
        let next = tokio::select! {
            next = timeout(TIMEOUT, pieces.message()) => next,
            _ = closed.changed() => break Some(ending(())),
        };
        match next {
            Ok(Ok(Some(v1::WriteFileRequest { request: Some(Piece::Data(bytes)) }))) => {
                match left.checked_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX)) {
                    Some(rest) => left = rest,
                    None => break Some(Status::invalid_argument(format!("more than {size} bytes came"))),
                }
                if !writing.put(&bytes).await.map_err(status)? {
                    break None;
                }
            }
            Ok(Ok(Some(_))) => break Some(Status::invalid_argument("only bytes follow the first message")),
            Ok(Ok(None)) => break None,
            Ok(Err(status)) => break Some(status),
            Err(_) => {
                let seconds = TIMEOUT.as_secs();
                break Some(Status::deadline_exceeded(format!("the client sent nothing for {seconds} s")));
            }
        }
    };
    // It cleans up, whatever the outcome.
    let ended = writing.end().await;
    match cut_short {
        Some(status) => Err(status),
        None => {
            let answer = v1::WriteFileResponse::decode(ended.map_err(status)?.as_slice());
            answer.map_err(|error| Status::internal(format!("kelson-inspect makes no sense: {error}")))
        }
    }
}

/// Refuses a file that cannot be written anywhere.
fn unwritable(begin: &v1::WriteFileBegin) -> Result<(), Status> {
    if begin.mode > MODE_MAX {
        return Err(Status::invalid_argument(format!("the mode {:o} is not one of 0 to 777", begin.mode)));
    }
    if begin.size > SIZE_MAX {
        let text = format!("{} bytes are too many: a file has at most {SIZE_MAX}", begin.size);
        return Err(Status::invalid_argument(text));
    }
    Ok(())
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Inspect for InspectApi {
    async fn processes(
        &self,
        request: Request<v1::ProcessesRequest>,
    ) -> Result<Response<BoxStream<v1::ProcessesResponse>>, Status> {
        self.many(Question::Processes(request.into_inner())).await
    }

    async fn mounts(
        &self,
        request: Request<v1::MountsRequest>,
    ) -> Result<Response<BoxStream<v1::MountsResponse>>, Status> {
        self.many(Question::Mounts(request.into_inner())).await
    }

    async fn memory(
        &self,
        request: Request<v1::MemoryRequest>,
    ) -> Result<Response<v1::MemoryResponse>, Status> {
        self.one(Question::Memory(request.into_inner())).await
    }

    async fn cpu(&self, request: Request<v1::CpuRequest>) -> Result<Response<v1::CpuResponse>, Status> {
        self.one(Question::Cpu(request.into_inner())).await
    }

    async fn disks(
        &self,
        request: Request<v1::DisksRequest>,
    ) -> Result<Response<BoxStream<v1::DisksResponse>>, Status> {
        self.many(Question::Disks(request.into_inner())).await
    }

    async fn sockets(
        &self,
        request: Request<v1::SocketsRequest>,
    ) -> Result<Response<BoxStream<v1::SocketsResponse>>, Status> {
        self.many(Question::Sockets(request.into_inner())).await
    }

    async fn network(
        &self,
        request: Request<v1::NetworkRequest>,
    ) -> Result<Response<BoxStream<v1::NetworkResponse>>, Status> {
        self.many(Question::Network(request.into_inner())).await
    }

    async fn cgroups(
        &self,
        request: Request<v1::CgroupsRequest>,
    ) -> Result<Response<BoxStream<v1::CgroupsResponse>>, Status> {
        self.many(Question::Cgroups(request.into_inner())).await
    }

    async fn clock(&self, request: Request<v1::ClockRequest>) -> Result<Response<v1::ClockResponse>, Status> {
        self.one(Question::Clock(request.into_inner())).await
    }

    async fn facts(
        &self,
        request: Request<v1::FactsRequest>,
    ) -> Result<Response<BoxStream<v1::FactsResponse>>, Status> {
        self.many(Question::Facts(request.into_inner())).await
    }

    async fn files(
        &self,
        request: Request<v1::FilesRequest>,
    ) -> Result<Response<BoxStream<v1::FilesResponse>>, Status> {
        self.path(request, "lists", |request| (request.path.clone(), Question::Files(request))).await
    }

    async fn read_file(
        &self,
        request: Request<v1::ReadFileRequest>,
    ) -> Result<Response<BoxStream<v1::ReadFileResponse>>, Status> {
        self.path(request, "reads", |request| (request.path.clone(), Question::ReadFile(request))).await
    }

    async fn copy(
        &self,
        request: Request<v1::CopyRequest>,
    ) -> Result<Response<BoxStream<v1::CopyResponse>>, Status> {
        self.path(request, "copies", |request| (request.path.clone(), Question::Copy(request))).await
    }

    async fn write_file(
        &self,
        request: Request<Streaming<v1::WriteFileRequest>>,
    ) -> Result<Response<v1::WriteFileResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let mut pieces = request.into_inner();
        let first = timeout(TIMEOUT, pieces.message());
        let first = first.await.map_err(|_| Status::deadline_exceeded("the client sent nothing"))??;
        let Some(v1::WriteFileRequest { request: Some(Piece::Begin(begin)) }) = first else {
            return Err(Status::invalid_argument("the first message says what is to be written"));
        };
        about(record.as_deref(), &format!("{} ({} bytes, mode {:o})", begin.path, begin.size, begin.mode));
        absolute(&begin.path)?;
        unwritable(&begin)?;
        tracing::info!("{caller} writes {:?}, {} bytes", begin.path, begin.size);
        let size = begin.size;
        let writing = self.inspector.write(begin).await.map_err(status)?;
        // A task of its own: a client that goes away leaves no half of a file.
        let work = kelson_sys::spawn(write(pieces, writing, size, self.closed.clone()));
        work.await.map_err(ending)?.map(Response::new)
    }
}
