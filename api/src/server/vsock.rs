//! The API on vsock: PID 1's own calls at one port, those of logd at the next.
//!
//! A connection for logd is passed on to its socket, byte by byte and unread. So logd needs no vsock, and its clients
//! are where they always are.

use std::io;
use std::path::{Path, PathBuf};

use kelson_proto::call::vsock_log_port;
use kelson_sys::vsock::Listener;
use tokio::io::{AsyncWriteExt as _, BufReader, copy_buf};
use tokio::net::UnixStream;

/// Bytes that are held for a side that is slow, in each direction.
const HELD: usize = 16 << 10;

/// The listeners.
pub struct Vsock {
    calls: Listener,
    logs: Listener,
    log_socket: PathBuf,
}

impl Vsock {
    /// Listens at `port` and the one after it. Must be called on the runtime.
    ///
    /// # Errors
    /// The kernel has no vsock, or one of the ports is taken.
    pub fn bind(port: u32, log_socket: PathBuf) -> io::Result<Vsock> {
        Ok(Vsock { calls: Listener::bind(port)?, logs: Listener::bind(vsock_log_port(port))?, log_socket })
    }

    /// The next connection; for logd it comes with the socket to which it is passed on. Cancelled by dropping.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, Option<&Path>)> {
        let (stream, passed_on) = tokio::select! {
            stream = self.calls.accept() => (stream?, None),
            stream = self.logs.accept() => (stream?, Some(self.log_socket.as_path())),
        };
        Ok((UnixStream::from_std(stream)?, passed_on))
    }
}

/// Passes a connection on until logd ends it.
pub(super) async fn pass_on(mut client: UnixStream, socket: PathBuf) {
    let passed = async {
        let mut logd = UnixStream::connect(&socket).await?;
        let (from_client, mut to_client) = client.split();
        let (from_logd, mut to_logd) = logd.split();
        let (mut from_client, mut from_logd) =
            (BufReader::with_capacity(HELD, from_client), BufReader::with_capacity(HELD, from_logd));
        let requests = async {
            copy_buf(&mut from_client, &mut to_logd).await?;
            to_logd.shutdown().await?;
            std::future::pending().await
        };
        tokio::select! {
            ended = copy_buf(&mut from_logd, &mut to_client) => ended,
            failed = requests => failed,
        }
    };
    if let Err(error) = passed.await {
        tracing::debug!("a connection from vsock to {} ended: {error}", socket.display());
    }
}
