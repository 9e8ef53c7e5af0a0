//! Sockets between a virtual machine and its hypervisor (vsock(7)).
//!
//! An address is a context id (CID), which names a machine, and a port of 32 bits.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, VsockAddr, accept4, bind, connect, getpeername, listen,
    socket,
};

use crate::descriptor::Watched;

/// The CID of the machine itself, seen from itself: only with the kernel's module `vsock_loopback`.
pub const LOCAL: u32 = libc::VMADDR_CID_LOCAL;

/// Whether the kernel has vsock now. Asked before a socket is made: for a family that it does not know the kernel
/// executes modprobe(8) and waits for it, which a dead disk can hold up for ever.
pub fn is_there() -> bool {
    let misc = std::fs::read_to_string("/proc/misc").unwrap_or_default();
    misc.lines().any(|line| line.split_whitespace().nth(1) == Some("vsock"))
}

/// A socket that takes connections to one port, from any CID.
#[derive(Debug)]
pub struct Listener(Watched<OwnedFd>);

impl Listener {
    /// Must be called on the runtime.
    ///
    /// # Errors
    /// The kernel has no vsock, or the port is taken.
    pub fn bind(port: u32) -> io::Result<Listener> {
        if !is_there() {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket(AddressFamily::Vsock, SockType::Stream, flags, None)?;
        bind(listener.as_raw_fd(), &VsockAddr::new(libc::VMADDR_CID_ANY, port))?;
        listen(&listener, Backlog::MAXCONN)?;
        Ok(Listener(Watched::reading(listener)?))
    }

    /// The next connection, nonblocking. Cancelled by dropping.
    ///
    /// # Errors
    /// As accept(2).
    pub async fn accept(&self) -> io::Result<UnixStream> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        loop {
            let mut ready = self.0.readable().await?;
            let accepted = ready.try_io(|listener| Ok(accept4(listener.as_raw_fd(), flags)?));
            if let Ok(accepted) = accepted {
                // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
                return accepted.map(|raw| stream(unsafe { OwnedFd::from_raw_fd(raw) }));
            }
        }
    }
}

/// Connects to a port of a machine; the kernel gives up after two seconds. Blocks.
///
/// # Errors
/// As connect(2): ENODEV where the kernel has no way to this CID, ECONNRESET where nobody listens there.
pub fn dial(cid: u32, port: u32) -> io::Result<UnixStream> {
    let socket = socket(AddressFamily::Vsock, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    connect(socket.as_raw_fd(), &VsockAddr::new(cid, port))?;
    let stream = stream(socket);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// To be read and written, a connected socket of any family is like any other: std and Tokio have one for Unix.
fn stream(socket: OwnedFd) -> UnixStream {
    UnixStream::from(socket)
}

/// The CID and the port at the other end; `None` where the socket is of another family.
pub fn peer(socket: impl AsFd) -> Option<(u32, u32)> {
    let address = getpeername::<VsockAddr>(socket.as_fd().as_raw_fd()).ok()?;
    Some((address.cid(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_another_family_has_no_cid() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer(&one), None);
    }
}
