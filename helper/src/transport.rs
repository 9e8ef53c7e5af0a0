//! The socket between PID 1 and logd: one protobuf message a packet, descriptors along with it.
//!
//! Both ends are nonblocking; what does not fit is `WouldBlock`, and the caller keeps it.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
    socketpair,
};
use prost::Message;

/// Longer packets are not ours: the longest is a path or a reason.
const MAX_PACKET: usize = 16 * 1024;
/// A run has two pipes.
const MAX_DESCRIPTORS: usize = 2;

/// A connected pair: PID 1's end (nonblocking), logd's end (nonblocking).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?)
}

/// Sends one message whole or not at all.
pub fn send(
    socket: BorrowedFd<'_>,
    message: &impl Message,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = message.encode_to_vec();
    if bytes.len() > MAX_PACKET {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is longer than 16 KiB"));
    }
    let raw: Vec<RawFd> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&bytes)], control, flags, None)?;
    Ok(())
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

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver { buffer: vec![0; MAX_PACKET].into_boxed_slice() }
    }
}

impl Receiver {
    /// `Ok(None)`: the other end is closed. `InvalidData`: a packet that is none of ours; it is gone, go on. EMFILE: no
    /// descriptor was free for those that came along, and they are lost.
    pub fn receive<M: Message + Default>(&mut self, socket: BorrowedFd<'_>) -> io::Result<Option<Packet<M>>> {
        let mut space = nix::cmsg_space!([RawFd; MAX_DESCRIPTORS]);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let (length, descriptors, cut) = {
            let mut slices = [IoSliceMut::new(&mut self.buffer)];
            let received = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
            let mut descriptors = Vec::new();
            if received.flags.contains(MsgFlags::MSG_CTRUNC) {
                return Err(nix::errno::Errno::EMFILE.into());
            }
            for control in received.cmsgs()? {
                if let ControlMessageOwned::ScmRights(rights) = control {
                    for raw in rights {
                        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
                        descriptors.push(unsafe { OwnedFd::from_raw_fd(raw) });
                    }
                }
            }
            let cut = received.flags.contains(MsgFlags::MSG_TRUNC);
            (received.bytes, descriptors, cut)
        };
        if length == 0 {
            return Ok(None);
        }
        let bytes = self.buffer.get(..length).unwrap_or_default();
        match M::decode(bytes) {
            Ok(message) if !cut => Ok(Some(Packet { message, descriptors })),
            Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut off")),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
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
        let ping = v1::LogdPing { number: 7 };
        send(ours.as_fd(), &ping, &[read.as_fd(), read.as_fd()]).unwrap();
        let packet: Packet<v1::LogdPing> = Receiver::default().receive(theirs.as_fd()).unwrap().unwrap();
        assert_eq!(packet.message.number, 7);
        assert_eq!(packet.descriptors.len(), 2);
    }

    #[test]
    fn garbage_is_invalid_data_and_the_next_packet_still_arrives() {
        let (ours, theirs) = pair().unwrap();
        nix::unistd::write(&ours, &[0xff; 40]).unwrap();
        send(ours.as_fd(), &v1::LogdPing { number: 8 }, &[]).unwrap();
        let mut receiver = Receiver::default();
        let error = receiver.receive::<v1::LogdPing>(theirs.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(receiver.receive::<v1::LogdPing>(theirs.as_fd()).unwrap().unwrap().message.number, 8);
    }

    #[test]
    fn an_empty_socket_would_block_and_a_closed_one_ends() {
        let (ours, theirs) = pair().unwrap();
        let mut receiver = Receiver::default();
        assert!(would_block(&receiver.receive::<v1::LogdPing>(theirs.as_fd()).unwrap_err()));
        drop(ours);
        assert!(receiver.receive::<v1::LogdPing>(theirs.as_fd()).unwrap().is_none());
    }
}
