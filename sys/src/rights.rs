//! Messages of Unix sockets that bring descriptors along.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// A run has two pipes.
const MOST: usize = 2;

/// One message.
#[derive(Debug)]
pub struct Received {
    /// Bytes of it in the buffer; 0: the other end is closed.
    pub length: usize,
    pub descriptors: Vec<OwnedFd>,
    /// It was longer than the buffer.
    pub is_cut: bool,
}

/// Sends a message of at least one byte, whole or not at all. It never waits.
///
/// # Errors
/// What the kernel says: EAGAIN if there is no room for it, EMSGSIZE if it is too long.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> nix::Result<()> {
    let raw: Vec<RawFd> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None).map(drop)
}

/// Takes one message off a socket, with at most two descriptors. It never waits.
///
/// # Errors
/// What the kernel says: EAGAIN if there is none. EMFILE: no descriptor was free for those that came along, and they are lost.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<Received> {
    let mut space = nix::cmsg_space!([RawFd; MOST]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let mut slices = [IoSliceMut::new(buffer)];
    let received = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    if received.flags.contains(MsgFlags::MSG_CTRUNC) {
        return Err(Errno::EMFILE);
    }
    let mut descriptors = Vec::new();
    for control in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(rights) = control {
            for raw in rights {
                // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(raw) });
            }
        }
    }
    let is_cut = received.flags.contains(MsgFlags::MSG_TRUNC);
    Ok(Received { length: received.bytes, descriptors, is_cut })
}
