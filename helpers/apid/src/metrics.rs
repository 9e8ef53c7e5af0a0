//! `GET /metrics`: what PID 1 tells of itself and of its services, as OpenMetrics text or in the classic format.
//!
//! The text is made here and as it is read, page by page: neither this process nor PID 1 ever holds all of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use kelson_proto::v1;
use kelson_proto::v1::metrics_client::MetricsClient;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY};
use tonic::codegen::http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status, Streaming};

use super::forward::{Caller, Forward};
use super::relay::Connection;
use crate::openmetrics;
use crate::openmetrics::Format;
use kelson_proto::access;

/// Where they are.
pub const PATH: &str = "/metrics";

/// Readers at the same time: fewer than PID 1 serves.
const READERS: usize = 2;
/// A client that has not read all of it by then never will.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Hands out metrics.
pub struct Metrics {
    readers: Arc<Semaphore>,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics { readers: Arc::new(Semaphore::new(READERS)) }
    }

    /// Answers a request for [`PATH`]; that there is nothing to tell is an answer too. Dropping it ends it.
    pub async fn answer(
        &self,
        forward: &Forward,
        caller: &Caller,
        request: &Request<Incoming>,
    ) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "metrics are read with GET\n".into());
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let accept = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let format = Format::wanted(accept);
        let body = match self.read(forward, caller, format).await {
            Ok(_) if request.method() == Method::HEAD => Body::empty(),
            Ok(pages) => Body::new(pages),
            Err(status) => return refusal(&status),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
        headers.insert(VARY, HeaderValue::from_static("accept"));
        response
    }

    async fn read(&self, forward: &Forward, caller: &Caller, format: Format) -> Result<Pages, Status> {
        access::check("/kelson.v1.Metrics/Get", caller.role)?;
        let place = Arc::clone(&self.readers).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!(
                "{READERS} others are reading the metrics through this endpoint, which is the limit: ask again \
                 in a moment"
            ))
        })?;
        let opening = async {
            let (sender, connection) = forward.init().await?;
            let mut client = MetricsClient::with_origin(Wire(sender), Uri::from_static("http://kelson"));
            let mut request = tonic::Request::new(v1::GetMetricsRequest::default());
            let mut headers = HeaderMap::new();
            caller.introduce(&mut headers);
            *request.metadata_mut() = MetadataMap::from_headers(headers);
            let mut pages = client.get(request).await?.into_inner();
            // The reader gets a refusal, not a text that breaks off.
            let first = pages.message().await?;
            Ok::<_, Status>((pages, first, connection))
        };
        let opened = tokio::time::timeout(LIMIT, opening).await;
        let (pages, first, connection) = opened.unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(format!("PID 1 sent no metrics within {} s", LIMIT.as_secs())))
        })?;
        let mut text = openmetrics::Text::new(format);
        let ended = first.is_none();
        first.iter().flat_map(|page| &page.families).for_each(|family| text.family(family));
        Ok(Pages::new(Reader { pages, text, ended, _connection: connection, _place: place }))
    }
}

/// A line for a reader in place of metrics.
pub fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn refusal(status: &Status) -> Response<Body> {
    let code = match status.code() {
        Code::Unavailable | Code::ResourceExhausted => StatusCode::SERVICE_UNAVAILABLE,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    let mut response = plain(code, format!("{}\n", status.message()));
    if code == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A connection to PID 1 as the generated client takes it.
struct Wire(SendRequest<Body>);

impl Service<Request<Body>> for Wire {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// The pages for one reader, and its place.
struct Reader {
    pages: Streaming<v1::GetMetricsResponse>,
    text: openmetrics::Text,
    /// PID 1 has sent all.
    ended: bool,
    _connection: Connection,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        loop {
            let written = self.text.take();
            if self.ended {
                return Poll::Ready(Ok(Bytes::from(written + openmetrics::END)));
            }
            if !written.is_empty() {
                return Poll::Ready(Ok(Bytes::from(written)));
            }
            let mut page = std::pin::pin!(self.pages.message());
            match std::task::ready!(page.as_mut().poll(context))? {
                Some(page) => page.families.iter().for_each(|family| self.text.family(family)),
                None => self.ended = true,
            }
        }
    }
}

/// The text on its way to the reader. One that does not take it gives its place up when the time is over.
struct Pages {
    /// Absent once all is sent, or the time is over.
    reader: Arc<Mutex<Option<Reader>>>,
    complete: bool,
    limit: JoinHandle<()>,
}

impl Pages {
    fn new(reader: Reader) -> Pages {
        let reader = Arc::new(Mutex::new(Some(reader)));
        let late = Arc::clone(&reader);
        // A client that takes nothing asks for nothing either: only a clock of its own ends it.
        let limit = tokio::spawn(async move {
            tokio::time::sleep(LIMIT).await;
            late.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
        Pages { reader, complete: false, limit }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.limit.abort();
    }
}

impl hyper::body::Body for Pages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.complete {
            return Poll::Ready(None);
        }
        let (next, ended) = {
            let mut held = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            match held.as_mut() {
                Some(reader) => (std::task::ready!(reader.poll(context)), reader.ended),
                None => {
                    let late = format!("the metrics were not read within {} s", LIMIT.as_secs());
                    (Err(Status::deadline_exceeded(late)), true)
                }
            }
        };
        // A text that breaks off has no end, and so is taken for none.
        if ended || next.is_err() {
            self.complete = true;
            self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        Poll::Ready(Some(next.map(Frame::data)))
    }
}
