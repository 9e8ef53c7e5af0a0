//! The machine, as the test says it is.

use kelson_proto::v1::inspect_server::Inspect;
use kelson_proto::v1::*;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::{Answer, Shared};

/// The visible state of the machine.
#[derive(Default)]
pub struct Seen {
    pub processes: Vec<Process>,
    pub mounts: Vec<Mount>,
    pub memory: MemoryResponse,
    /// One answer after the other; the last one stays.
    pub cpu: Vec<CpuResponse>,
    pub disks: Vec<Disk>,
    pub facts: Vec<Fact>,
    pub sockets: Vec<Socket>,
    pub links: Vec<Link>,
    pub cgroups: CgroupsResponse,
    pub clock: ClockResponse,
    pub files: Vec<File>,
    pub content: Vec<Vec<u8>>,
    pub copy: Vec<copy_response::Response>,
    /// The status that ends streams of bytes.
    pub broken: Option<Status>,
    /// The host was made before there was such a service.
    pub unknown: bool,
    /// The look that is never answered.
    pub hangs: Option<&'static str>,
}

impl Shared {
    async fn look(&self, words: String) -> Result<(), Status> {
        self.note(words.clone())?;
        let hangs = self.state().seen.hangs.is_some_and(|look| words == look);
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn broken(&self) -> Option<Status> {
        self.state().seen.broken.clone()
    }
}

/// One on each page: a reader must take all of them.
fn pages<T, P: Send + 'static>(
    all: Vec<T>,
    page: impl Fn(T) -> P,
    end: Option<Status>,
) -> Answer<BoxStream<P>> {
    let mut pages: Vec<_> = all.into_iter().map(|each| Ok(page(each))).collect();
    pages.extend(end.map(Err));
    Ok(Response::new(Box::pin(tokio_stream::iter(pages))))
}

#[tonic::async_trait]
impl Inspect for Shared {
    async fn processes(&self, _: Request<ProcessesRequest>) -> Answer<BoxStream<ProcessesResponse>> {
        self.look("processes".to_owned()).await?;
        let all = self.state().seen.processes.clone();
        pages(all, |one| ProcessesResponse { processes: vec![one] }, None)
    }

    async fn mounts(&self, _: Request<MountsRequest>) -> Answer<BoxStream<MountsResponse>> {
        self.look("mounts".to_owned()).await?;
        let all = self.state().seen.mounts.clone();
        pages(all, |one| MountsResponse { mounts: vec![one] }, None)
    }

    async fn memory(&self, _: Request<MemoryRequest>) -> Answer<MemoryResponse> {
        self.look("memory".to_owned()).await?;
        Ok(Response::new(self.state().seen.memory))
    }

    async fn cpu(&self, _: Request<CpuRequest>) -> Answer<CpuResponse> {
        self.look("cpu".to_owned()).await?;
        let cpu = &mut self.state().seen.cpu;
        let next = if cpu.len() > 1 { cpu.remove(0) } else { cpu.first().cloned().unwrap_or_default() };
        Ok(Response::new(next))
    }

    async fn disks(&self, _: Request<DisksRequest>) -> Answer<BoxStream<DisksResponse>> {
        self.look("disks".to_owned()).await?;
        let all = self.state().seen.disks.clone();
        pages(all, |one| DisksResponse { disks: vec![one] }, None)
    }

    async fn facts(&self, _: Request<FactsRequest>) -> Answer<BoxStream<FactsResponse>> {
        self.look("facts".to_owned()).await?;
        let all = self.state().seen.facts.clone();
        pages(all, |one| FactsResponse { facts: vec![one] }, None)
    }

    async fn sockets(&self, request: Request<SocketsRequest>) -> Answer<BoxStream<SocketsResponse>> {
        self.look(format!("sockets connections={}", request.into_inner().connections)).await?;
        let all = self.state().seen.sockets.clone();
        pages(all, |one| SocketsResponse { sockets: vec![one] }, None)
    }

    async fn network(&self, _: Request<NetworkRequest>) -> Answer<BoxStream<NetworkResponse>> {
        self.look("network".to_owned()).await?;
        let all = self.state().seen.links.clone();
        pages(all, |one| NetworkResponse { links: vec![one] }, None)
    }

    async fn cgroups(&self, _: Request<CgroupsRequest>) -> Answer<BoxStream<CgroupsResponse>> {
        self.look("cgroups".to_owned()).await?;
        let CgroupsResponse { root, cgroups } = self.state().seen.cgroups.clone();
        pages(cgroups, |one| CgroupsResponse { root: root.clone(), cgroups: vec![one] }, None)
    }

    async fn clock(&self, _: Request<ClockRequest>) -> Answer<ClockResponse> {
        self.look("clock".to_owned()).await?;
        Ok(Response::new(self.state().seen.clock.clone()))
    }

    async fn files(&self, request: Request<FilesRequest>) -> Answer<BoxStream<FilesResponse>> {
        let FilesRequest { path, recursive } = request.into_inner();
        self.look(format!("files {path} recursive={recursive}")).await?;
        let all = self.state().seen.files.clone();
        pages(all, |one| FilesResponse { files: vec![one] }, self.broken())
    }

    async fn read_file(&self, request: Request<ReadFileRequest>) -> Answer<BoxStream<ReadFileResponse>> {
        self.look(format!("read {}", request.into_inner().path)).await?;
        let all = self.state().seen.content.clone();
        pages(all, |data| ReadFileResponse { data }, self.broken())
    }

    async fn copy(&self, request: Request<CopyRequest>) -> Answer<BoxStream<CopyResponse>> {
        self.look(format!("copy {}", request.into_inner().path)).await?;
        let all = self.state().seen.copy.clone();
        pages(all, |one| CopyResponse { response: Some(one) }, self.broken())
    }

    async fn write_file(
        &self,
        request: Request<tonic::Streaming<WriteFileRequest>>,
    ) -> Answer<WriteFileResponse> {
        use write_file_request::Request;
        let mut pieces = request.into_inner();
        let Some(WriteFileRequest { request: Some(Request::Begin(begin)) }) = pieces.message().await? else {
            return Err(Status::invalid_argument("no beginning"));
        };
        let mut bytes = 0;
        while let Some(piece) = pieces.message().await? {
            if let Some(Request::Data(data)) = piece.request {
                bytes += data.len();
            }
        }
        let WriteFileBegin { path, name, size, mode, overwrite } = begin;
        self.look(format!("write {path} {name} {size} {mode:o} {overwrite}: {bytes}")).await?;
        match self.broken() {
            Some(status) => Err(status),
            None => Ok(Response::new(WriteFileResponse { path: format!("{path}{name}") })),
        }
    }
}
