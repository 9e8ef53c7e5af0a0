//! A client's connection that is not closed under its hands when logd ends.
//!
//! HTTP/2 clients still send acknowledgements while they read the last lines; one that finds the socket closed then gives
//! up before it has read them. So at the end the connections are shut down for writing, kept, and closed by the client.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tonic::transport::server::Connected;

use super::store::Store;

/// Connections that logd has done with and clients have not.
pub type Leaving = Arc<Mutex<Vec<UnixStream>>>;

/// See the module.
pub struct Client {
    stream: Option<UnixStream>,
    store: Arc<Store>,
    leaving: Leaving,
}

/// Who it is, by SO_PEERCRED.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub Option<UCred>);

impl Client {
    pub fn new(stream: UnixStream, store: Arc<Store>, leaving: Leaving) -> Client {
        Client { stream: Some(stream), store, leaving }
    }

    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut UnixStream>> {
        self.get_mut().stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.store.is_closed() {
            self.leaving.lock().unwrap_or_else(PoisonError::into_inner).extend(self.stream.take());
        }
    }
}

/// Waits until the clients have closed their ends; cancelled by dropping.
pub async fn left(leaving: &Leaving) {
    let streams = std::mem::take(&mut *leaving.lock().unwrap_or_else(PoisonError::into_inner));
    let mut rest = [0; 512];
    for stream in streams {
        while stream.readable().await.is_ok() {
            match stream.try_read(&mut rest) {
                Ok(read) if read > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => break,
            }
        }
    }
}

impl Connected for Client {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer(self.stream.as_ref().and_then(|stream| stream.peer_cred().ok()))
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Client {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}
