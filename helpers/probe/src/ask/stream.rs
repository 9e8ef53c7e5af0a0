//! A connection of a check, which leaves nothing behind: no state in the kernel, no error in the service's log.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

use super::answer::{Answer, Deadline};
use super::tcp::leave_no_trace;
use super::text;

/// Bytes to and from a peer, with or without TLS.
pub trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// Drives a connection while messages go over it. Where the connection ends first and that leaves the talk
/// waiting, `end` may give what is made of it.
pub async fn beside<C: Future, T>(
    connection: C,
    talk: impl Future<Output = T>,
    end: impl Fn(C::Output) -> Option<T>,
) -> T {
    let (mut connection, mut talk) = (pin!(connection), pin!(talk));
    let mut open = true;
    poll_fn(|context| {
        let ended = match open {
            true => connection.as_mut().poll(context),
            false => Poll::Pending,
        };
        open &= ended.is_pending();
        // First the one who talks: the whole answer may have come with the end.
        match (talk.as_mut().poll(context), ended) {
            (Poll::Pending, Poll::Ready(ended)) => end(ended).map_or(Poll::Pending, Poll::Ready),
            (talked, _) => talked,
        }
    })
    .await
}

/// Connects, to end as the connections of [`super::tcp`] do.
pub async fn connect(address: SocketAddr, deadline: Deadline) -> Result<TcpStream, Answer> {
    let connect = async {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        leave_no_trace(&socket)?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let connect = async { connect.await.map_err(|error: io::Error| Answer::fails(text::io_error(&error))) };
    deadline.bounds("connection", connect).await
}
