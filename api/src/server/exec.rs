//! The service Exec: an operator's command beside a service.

mod session;

use std::time::Duration;

use kelson_proto::v1;
use kelson_proto::v1::exec_server::Exec;
use kelson_proto::v1::run_request::Request as Asked;
use kelson_services::Manager;
use kelson_services::exec::ExecRequest;
use tokio::sync::{mpsc, watch};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::audit::record;
use super::model;
use super::services::{about, caller};
use session::{Session, window_size};

/// How long the first message of a stream, with the command, may take.
const FIRST: Duration = Duration::from_secs(10);
/// Responses that wait for a client to read them. Each pump of a session holds one place while it waits for more.
const WAITING: usize = 4;

pub struct ExecApi {
    pub manager: Manager,
    /// Its sender is dropped when PID 1 ends.
    pub closed: watch::Receiver<()>,
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Exec for ExecApi {
    async fn run(
        &self,
        request: Request<Streaming<v1::RunRequest>>,
    ) -> Result<Response<BoxStream<v1::RunResponse>>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let mut requests = request.into_inner();
        let first = tokio::time::timeout(FIRST, requests.message());
        let first =
            first.await.map_err(|_| Status::deadline_exceeded("the first request did not come"))??;
        let Some(v1::RunRequest { request: Some(Asked::Start(start)) }) = first else {
            return Err(Status::invalid_argument("the first request must be `start`"));
        };
        // Its arguments may hold what is nobody's business.
        let program = start.command.first().cloned().unwrap_or_default();
        about(record.as_deref(), &format!("{}: {program}", start.name));
        if self.manager.get(&start.name).is_none() {
            return Err(model::status(self.manager.unknown(&start.name)));
        }
        let name = start.name.clone();
        let request = exec_request(start)?;
        let on_terminal = request.terminal.is_some();
        let executing = self.manager.exec(&name, request).await.map_err(model::status)?;
        tracing::info!("{name}: {caller} runs {program:?} (process {})", executing.pid);
        if let Some(record) = &record {
            record.note(&format!("process {}", executing.pid));
        }
        let (sender, responses) = mpsc::channel(WAITING);
        let session = Session::new(executing, on_terminal, sender)
            .map_err(|error| Status::internal(format!("cannot wait for the command's output: {error}")))?;
        let serving = session.serve(requests, self.closed.clone());
        kelson_sys::spawn(async move {
            let ended = serving.await;
            if let Some(record) = record {
                record.outcome(&ended);
            }
        });
        let stream = futures_util::stream::unfold(responses, |mut responses| async move {
            Some((responses.recv().await?, responses))
        });
        Ok(Response::new(Box::pin(stream)))
    }
}

fn exec_request(start: v1::RunStart) -> Result<ExecRequest, Status> {
    if start.command.first().is_none_or(String::is_empty) {
        return Err(Status::invalid_argument("name a command"));
    }
    let environment = start.environment.iter().map(|entry| match entry.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Status::invalid_argument(format!("the environment takes NAME=VALUE, not {entry:?}"))),
    });
    Ok(ExecRequest {
        environment: environment.collect::<Result<_, _>>()?,
        command: start.command,
        literal: true,
        input: start.input,
        outputs: None,
        terminal: start.terminal.map(window_size),
        ..ExecRequest::default()
    })
}
