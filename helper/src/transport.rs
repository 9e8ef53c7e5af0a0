//! The socket between PID 1 and a helper that runs for long: one protobuf message in each packet, with descriptors.
//!
//! Both ends are nonblocking; what does not fit is `WouldBlock`, and the caller keeps it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, FromRawFd, OwnedFd};

use kelson_sys::descriptor::Watched;
use kelson_sys::rights::{self, Received};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, setsockopt, socketpair, sockopt};
use prost::Message;
use tokio::io::Interest;

use crate::launch::CONTROL;

/// The longest message to a helper: a network check with its CA.
pub const TO_HELPER: usize = 256 << 10;
/// The longest message of a helper: PID 1 has a buffer for it.
pub const FROM_HELPER: usize = 16 << 10;

/// A connected pair: PID 1's end (nonblocking), the helper's end (nonblocking).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
    // The kernel sends no packet that is longer than this buffer.
    setsockopt(&ours, sockopt::SndBuf, &TO_HELPER)?;
    Ok((ours, theirs))
}

/// The helper's end: descriptor 3.
///
/// # Errors
/// When it is no socket, as where a person starts the helper.
pub fn control() -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is ours by the contract with PID 1; if it is not open the next call fails.
    let control = unsafe { OwnedFd::from_raw_fd(CONTROL) };
    getsockopt(&control, sockopt::SockType)?;
    fcntl(&control, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(control)
}

/// Sends one message whole or not at all.
///
/// # Errors
/// `InvalidInput`: it is longer than `max`, or than the kernel allows. See also [`would_block`].
pub fn send(
    socket: BorrowedFd<'_>,
    message: &impl Message,
    max: usize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = message.encode_to_vec();
    let too_long = || {
        io::Error::new(io::ErrorKind::InvalidInput, format!("a message of {} bytes is too long", bytes.len()))
    };
    if bytes.len() > max {
        return Err(too_long());
    }
    match rights::send(socket, &bytes, descriptors) {
        Ok(()) => Ok(()),
        Err(Errno::EMSGSIZE) => Err(too_long()),
        Err(errno) => Err(errno.into()),
    }
}

/// One packet: the message, and the descriptors that came along.
#[derive(Debug)]
pub struct Packet<M> {
    pub message: M,
    pub descriptors: Vec<OwnedFd>,
}

/// Takes packets off a socket; holds the one buffer for all of them.
pub struct Receiver {
    buffer: Box<[u8]>,
}

impl Receiver {
    /// Takes packets of at most `max` bytes.
    pub fn new(max: usize) -> Receiver {
        Receiver { buffer: vec![0; max].into_boxed_slice() }
    }

    /// `Ok(None)`: the other end is closed, with or without what was sent to it. `InvalidData`: a packet that is none of ours; it is gone, go on. EMFILE: no
    /// descriptor was free for those that came along, and they are lost.
    pub fn receive<M: Message + Default>(&mut self, socket: BorrowedFd<'_>) -> io::Result<Option<Packet<M>>> {
        let Received { length, descriptors, is_cut } = match rights::receive(socket, &mut self.buffer) {
            Err(Errno::ECONNRESET) => return Ok(None),
            received => received?,
        };
        if length == 0 {
            return Ok(None);
        }
        let bytes = self.buffer.get(..length).unwrap_or_default();
        match M::decode(bytes) {
            Ok(message) if !is_cut => Ok(Some(Packet { message, descriptors })),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut off")),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    /// The next packet of a socket that an event loop watches. `Ok(None)`: there is none now.
    ///
    /// # Errors
    /// `UnexpectedEof`: the other end is closed. Others as those of [`Receiver::receive`].
    pub fn next<M: Message + Default>(&mut self, socket: &Watched<OwnedFd>) -> io::Result<Option<Packet<M>>> {
        loop {
            match socket.try_io(Interest::READABLE, |socket| self.receive(socket.as_fd())) {
                Ok(Some(packet)) => return Ok(Some(packet)),
                Ok(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if would_block(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a failed call may be tried again once the socket is ready.
pub fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::Interrupted
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_proto::v1;
    use std::os::fd::AsFd;

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (ours, theirs) = pair().unwrap();
        let (read, _write) = nix::unistd::pipe().unwrap();
        let ping = v1::HelperPing { number: 7, ..Default::default() };
        send(ours.as_fd(), &ping, FROM_HELPER, &[read.as_fd(), read.as_fd()]).unwrap();
        let packet: Packet<v1::HelperPing> =
            Receiver::new(FROM_HELPER).receive(theirs.as_fd()).unwrap().unwrap();
        assert_eq!(packet.message.number, 7);
        assert_eq!(packet.descriptors.len(), 2);
    }

    #[test]
    fn garbage_is_invalid_data_and_the_next_packet_still_arrives() {
        let (ours, theirs) = pair().unwrap();
        nix::unistd::write(&ours, &[0xff; 40]).unwrap();
        send(ours.as_fd(), &v1::HelperPing { number: 8, ..Default::default() }, FROM_HELPER, &[]).unwrap();
        let mut receiver = Receiver::new(FROM_HELPER);
        let error = receiver.receive::<v1::HelperPing>(theirs.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(receiver.receive::<v1::HelperPing>(theirs.as_fd()).unwrap().unwrap().message.number, 8);
    }

    #[test]
    fn an_empty_socket_would_block_and_a_closed_one_ends() {
        let (ours, theirs) = pair().unwrap();
        let mut receiver = Receiver::new(FROM_HELPER);
        assert!(would_block(&receiver.receive::<v1::HelperPing>(theirs.as_fd()).unwrap_err()));
        drop(ours);
        assert!(receiver.receive::<v1::HelperPing>(theirs.as_fd()).unwrap().is_none());
    }

    #[test]
    fn a_message_to_a_helper_may_be_long_but_not_without_a_limit() {
        let (ours, theirs) = pair().unwrap();
        let of = |length: usize| v1::HelperPing { version: "x".repeat(length), ..Default::default() };
        let sent = |length| send(ours.as_fd(), &of(length), TO_HELPER, &[]).map_err(|error| error.kind());
        assert_eq!(sent(TO_HELPER), Err(io::ErrorKind::InvalidInput));
        assert_eq!(sent(TO_HELPER - 8), Ok(()));
        let received = Receiver::new(TO_HELPER).receive::<v1::HelperPing>(theirs.as_fd()).unwrap().unwrap();
        assert_eq!(received.message.version.len(), TO_HELPER - 8);
        // One that is longer than the buffer is none.
        assert_eq!(sent(FROM_HELPER), Ok(()));
        let error = Receiver::new(FROM_HELPER).receive::<v1::HelperPing>(theirs.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
