//! The body of an answer on its way through: frame by frame as the client takes them, nothing is collected.

use std::future::Future;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use super::term::Calls;

/// The connection of one call; dropped, it is closed. Otherwise a client that goes away while the host does not read what
/// it had sent would never be missed there.
pub struct Connection(std::os::unix::net::UnixStream);

impl Connection {
    /// # Errors
    /// When there is no descriptor left.
    pub fn new(stream: &UnixStream) -> std::io::Result<Connection> {
        Ok(Connection(stream.as_fd().try_clone_to_owned()?.into()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Those that serve it hold on to it while something of the call waits to be sent: they see its end.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Passes the frames on. Where the stream breaks off, by the other side, because the connection's term ends or because
/// apid does, the client gets a status of gRPC, and need not guess from a reset.
pub struct Relay {
    body: Incoming,
    cut: Pin<Box<dyn Future<Output = Status> + Send>>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
    _connection: Connection,
}

impl Relay {
    /// `closed` ends the stream when its sender is dropped.
    pub fn new(
        body: Incoming,
        connection: Connection,
        calls: Calls,
        mut closed: watch::Receiver<()>,
    ) -> Relay {
        let closed = Box::pin(async move { while closed.changed().await.is_ok() {} });
        Relay { body, cut: Box::pin(calls.cut()), closed, ended: false, _connection: connection }
    }

    fn end(&mut self, status: &Status) -> Option<Result<Frame<Bytes>, Status>> {
        self.ended = true;
        let mut trailers = HeaderMap::new();
        Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers)))
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // A client whose term is over gets nothing more, however much there is.
        if let Poll::Ready(status) = self.cut.as_mut().poll(cx) {
            return Poll::Ready(self.end(&status));
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => return Poll::Ready(Some(Ok(frame))),
            Poll::Ready(Some(Err(error))) => {
                let status = Status::unavailable(format!("the machine ended the stream: {error}"));
                return Poll::Ready(self.end(&status));
            }
            Poll::Ready(None) => {
                self.ended = true;
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        ready!(self.closed.as_mut().poll(cx));
        Poll::Ready(self.end(&Status::unavailable("kelson-apid is being stopped")))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }
}
