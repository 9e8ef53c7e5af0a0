//! `tcp`: whether somebody takes connections.
//!
//! A thousand of these a second must cost hardly more than the connections themselves. On this host the
//! peer's kernel has answered by the time that `connect` returns, so a second call tells at once what came of
//! it, and nothing has to be waited for. [`leave_no_trace`] describes how it ends.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};

use tokio::net::TcpStream;

use super::answer::{Answer, Deadline};
use super::text;

const CONNECTED: &str = "connected";

/// Whether asking is done, or takes a while.
pub enum Attempt {
    Done(Answer),
    Takes(Option<Begun>),
}

/// A connection that is being made.
pub struct Begun(OwnedFd);

pub fn attempt(address: SocketAddr) -> Attempt {
    match begin(address) {
        Ok(socket) => match advance(&socket, address) {
            Progress::Connected => Attempt::Done(Answer::passes(CONNECTED)),
            Progress::Under => Attempt::Takes(Some(Begun(socket))),
            Progress::Failed(error) => Attempt::Done(Answer::fails(text::io_error(&error))),
        },
        Err(error) => Attempt::Done(Answer::fails(text::io_error(&error))),
    }
}

/// Waits for what [`attempt`] has begun.
pub async fn finish(begun: Option<Begun>, address: SocketAddr, deadline: Deadline) -> Result<Answer, Answer> {
    let socket = match begun {
        Some(Begun(socket)) => socket,
        None => begin(address).map_err(|error| Answer::fails(text::io_error(&error)))?,
    };
    let connected = async {
        let stream = TcpStream::from_std(socket.into())?;
        stream.writable().await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    };
    let connected = async { connected.await.map_err(|error| Answer::fails(text::io_error(&error))) };
    drop(deadline.bounds("connection", connected).await?);
    Ok(Answer::passes(CONNECTED))
}

enum Progress {
    Connected,
    Under,
    Failed(io::Error),
}

/// A socket whose connection is under way.
fn begin(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: three numbers.
    let raw = unsafe { libc::socket(family, kind, libc::IPPROTO_TCP) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    leave_no_trace(&socket)?;
    // Our last word of the handshake goes along with the end: one packet less, and the service is woken once.
    set(&socket, libc::TCP_QUICKACK, 0)?;
    match advance(&socket, address) {
        Progress::Failed(error) => Err(error),
        Progress::Connected | Progress::Under => Ok(socket),
    }
}

/// Has a connection end so that the service reads a plain end of its input, and nothing of it stays in the kernel: once the
/// peer has the end, closing also resets it, before the service can answer. In order, each connection would stay for a
/// minute (TIME_WAIT); by a reset alone (SO_LINGER of 0) the service would read an error, and log it.
pub fn leave_no_trace(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::TCP_LINGER2, -1)
}

fn set(socket: &impl AsRawFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = length_of::<libc::c_int>();
    // SAFETY: the value is whole and lives until the call returns.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, (&raw const value).cast(), length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Begins the connection, or tells what has come of it.
fn advance(socket: &OwnedFd, address: SocketAddr) -> Progress {
    let raw = socket.as_raw_fd();
    let result = match address {
        SocketAddr::V4(address) => {
            let peer = libc::sockaddr_in {
                sin_family: family_of(libc::AF_INET),
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the address is whole and lives until the call returns.
            unsafe { libc::connect(raw, (&raw const peer).cast(), length_of::<libc::sockaddr_in>()) }
        }
        SocketAddr::V6(address) => {
            let peer = libc::sockaddr_in6 {
                sin6_family: family_of(libc::AF_INET6),
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { libc::connect(raw, (&raw const peer).cast(), length_of::<libc::sockaddr_in6>()) }
        }
    };
    if result == 0 {
        return Progress::Connected;
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EISCONN) => Progress::Connected,
        Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) => Progress::Under,
        _ => Progress::Failed(error),
    }
}

fn family_of(number: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(number).unwrap_or_default()
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or_default()
}
