//! The way to a host: one connection, made when a call needs it and again when it takes no more calls.
//!
//! A server may say that a connection takes no new calls (GOAWAY of HTTP/2) while those that it has go on: kelson-apid
//! does so after `api.connectionLifetime`. A call that meets this was never sent, and is sent on a new connection. The
//! channel of tonic would fail the call.
//!
//! A call that was sent and has no answer may have been carried out: PID 1 may have crashed at that moment, or executed
//! itself again. One that only reads is made again; any other fails.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use tokio::sync::OnceCell;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};

use super::Failure;
use kelson_proto::access;

/// Connections on which a call is tried that is never sent.
const ATTEMPTS: u32 = 3;
/// Before a call that only reads is made again. PID 1 listens all the time; kelson-apid is gone for a moment.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(500)];
/// As it stands in the headers of an answer without a message.
const UNAVAILABLE: &str = "14";

type Error = Box<dyn std::error::Error + Send + Sync>;
type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;
pub type Sender = SendRequest<Body>;
pub type Connecting = Boxed<Sender, Failure>;

/// Cheap to clone; all clones share the connection.
#[derive(Clone)]
pub struct Link(Arc<Shared>);

struct Shared {
    connect: Box<dyn Fn() -> Connecting + Send + Sync>,
    /// Empty until a call needs it. Replaced once it takes no more calls.
    current: Mutex<Arc<OnceCell<Sender>>>,
}

impl Link {
    /// `connect` makes a connection, within a time of its own.
    pub fn new(connect: impl Fn() -> Connecting + Send + Sync + 'static) -> Link {
        Link(Arc::new(Shared { connect: Box::new(connect), current: Mutex::default() }))
    }

    async fn sender(&self) -> Result<Sender, Failure> {
        let current = {
            let mut current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner);
            if current.get().is_some_and(SendRequest::is_closed) {
                *current = Arc::default();
            }
            Arc::clone(&current)
        };
        current.get_or_try_init(&self.0.connect).await.cloned()
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Error> {
        if !access::only_reads(request.uri().path()) {
            return self.send_once(request).await;
        }
        let (parts, body) = request.into_parts();
        // One message, which stands in memory already.
        let body = body.collect().await?.to_bytes();
        let (mut pauses, mut reached) = (PAUSES.iter(), false);
        loop {
            let copy = Request::from_parts(parts.clone(), Body::new(Full::new(body.clone())));
            let mut answer = self.send_once(copy).await;
            if access::answers_in_one_message(parts.uri.path())
                && let Ok(live) = answer
            {
                answer = read(live).await;
            }
            let passes = match &answer {
                Ok(answer) => answer.headers().get("grpc-status").is_some_and(|code| code == UNAVAILABLE),
                Err(error) => match error.downcast_ref::<Failure>() {
                    None | Some(Failure::Lost(_)) => true,
                    Some(Failure::NotReachable(_)) => reached,
                    Some(_) => false,
                },
            };
            reached |= passes;
            match pauses.next() {
                Some(pause) if passes => tokio::time::sleep(*pause).await,
                _ => return answer,
            }
        }
    }

    /// Fails where it is not known whether the other side has the request.
    async fn send_once(&self, mut request: Request<Body>) -> Result<Response<Body>, Error> {
        let mut attempt = 1;
        loop {
            let mut sender = self.sender().await.map_err(|failure| match failure {
                // The host was reached by the attempt before.
                Failure::NotReachable(said) if attempt > 1 => Failure::Lost(said),
                failure => failure,
            })?;
            let mut failed = match sender.try_send_request(request).await {
                Ok(response) => return Ok(response.map(Body::new)),
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(unsent) if attempt < ATTEMPTS => request = unsent,
                _ => return Err(failed.into_error().into()),
            }
            attempt = attempt.saturating_add(1);
        }
    }
}

/// Reads all of an answer: PID 1 may crash between its headers and its message.
async fn read(answer: Response<Body>) -> Result<Response<Body>, Error> {
    let (head, body) = answer.into_parts();
    Ok(Response::from_parts(head, Body::new(body.collect().await?)))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link { .. }")
    }
}

impl Service<Request<Body>> for Link {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Boxed<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let link = self.clone();
        Box::pin(async move { link.send(request).await })
    }
}
