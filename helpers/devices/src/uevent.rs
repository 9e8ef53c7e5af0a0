//! The kernel's messages about devices that come, change and go.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use kelson_sys::netlink;
use nix::errno::Errno;
use nix::sys::socket::{NetlinkAddr, SockProtocol, recvfrom};

use crate::device::Device;

/// Longer than any message: the kernel's own bound is 2048 bytes of variables.
const LONGEST: usize = 16 << 10;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uevent {
    pub action: Action,
    pub device: Device,
    /// The path of the device before it was moved.
    pub moved_from: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `add`, and all by which something about the device becomes another.
    Present,
    Removed,
}

impl Uevent {
    /// Reads a message: `add@/devices/…`, and then variables, each with a NUL behind it. `None`: it is none of the kernel's.
    pub fn parse(message: &[u8]) -> Option<Uevent> {
        let text = std::str::from_utf8(message).ok()?;
        let mut fields = text.split_terminator('\0');
        let (action, path) = fields.next()?.split_once('@')?;
        let mut device = Device::new(path);
        let mut moved_from = None;
        for field in fields {
            let Some((name, value)) = field.split_once('=') else { continue };
            match name {
                "SUBSYSTEM" => value.clone_into(&mut device.subsystem),
                "DEVPATH_OLD" => moved_from = Some(value.to_owned()),
                "ACTION" | "DEVPATH" | "SEQNUM" => {}
                _ => device.put(name, value),
            }
        }
        let action = if action == "remove" { Action::Removed } else { Action::Present };
        Device::is_path(path).then_some(Uevent { action, device, moved_from })
    }
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    Uevent(Box<Uevent>),
    /// The kernel had no room for a message.
    Lost,
    /// Nothing is there at the moment.
    Nothing,
}

/// Receives the messages of the kernel.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Listener {
    /// # Errors
    /// When the kernel has no such messages, or no descriptor is left.
    pub fn open() -> io::Result<Listener> {
        let socket = netlink::open(SockProtocol::NetlinkKObjectUEvent, netlink::UEVENTS)?;
        Ok(Listener { socket, buffer: vec![0; LONGEST] })
    }

    /// The next message, without waiting for one. A message of any other sender than the kernel is passed over.
    ///
    /// # Errors
    /// When the socket is of no use any more.
    pub fn receive(&mut self) -> io::Result<News> {
        loop {
            match recvfrom::<NetlinkAddr>(self.socket.as_raw_fd(), &mut self.buffer) {
                Ok((length, Some(sender))) if sender.pid() == 0 && sender.groups() == netlink::UEVENTS => {
                    let message = self.buffer.get(..length).unwrap_or_default();
                    if let Some(uevent) = Uevent::parse(message) {
                        return Ok(News::Uevent(Box::new(uevent)));
                    }
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => return Ok(News::Lost),
                Err(Errno::EAGAIN) => return Ok(News::Nothing),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{MsgFlags, getsockname, sendto};

    use super::*;

    const ADDED: &[u8] = b"add@/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/vda1\0ACTION=add\0\
        DEVPATH=/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/vda1\0SUBSYSTEM=block\0MAJOR=254\0MINOR=1\0\
        DEVNAME=vda1\0DEVTYPE=partition\0PARTN=1\0PARTNAME=DATA\0SEQNUM=812\0";

    #[test]
    fn a_message_names_the_device_and_its_properties() {
        let uevent = Uevent::parse(ADDED).unwrap();
        assert_eq!((uevent.action, uevent.moved_from), (Action::Present, None));
        let device = uevent.device;
        assert_eq!(device.path, "/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/vda1");
        assert_eq!((device.subsystem.as_str(), device.node()), ("block", Some("vda1")));
        assert_eq!(device.get("PARTNAME"), Some("DATA"));
        assert_eq!(device.get("SEQNUM"), None);
    }

    #[test]
    fn a_removal_and_a_move_are_told_apart() {
        let removed = Uevent::parse(b"remove@/devices/a\0ACTION=remove\0SUBSYSTEM=tty\0").unwrap();
        assert_eq!(removed.action, Action::Removed);
        let moved = Uevent::parse(b"move@/devices/b\0DEVPATH_OLD=/devices/a\0").unwrap();
        assert_eq!((moved.action, moved.moved_from.as_deref()), (Action::Present, Some("/devices/a")));
    }

    #[test]
    fn other_bytes_are_no_message() {
        for bytes in [
            &b""[..],
            b"libudev\0\xfe\xed\xca\xfe",
            b"add@relative\0",
            b"add@/devices/../../etc\0",
            b"add@/module/x\0",
            b"add",
            b"\xff@/devices/a\0",
        ] {
            assert_eq!(Uevent::parse(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_message_of_a_program_is_passed_over() {
        let mut listener = Listener::open().unwrap();
        let address: NetlinkAddr = getsockname(listener.socket.as_raw_fd()).unwrap();
        let program = netlink::open(SockProtocol::NetlinkKObjectUEvent, 0).unwrap();
        let to = NetlinkAddr::new(address.pid(), 0);
        let sent = sendto(program.as_raw_fd(), ADDED, &to, MsgFlags::empty());
        // Only root may send such messages.
        assert!(matches!(sent, Ok(_) | Err(Errno::EPERM)), "{sent:?}");
        loop {
            match listener.receive().unwrap() {
                News::Nothing => return,
                // Of a device of this computer.
                News::Uevent(uevent) => assert_ne!(uevent.device.get("PARTNAME"), Some("DATA")),
                News::Lost => {}
            }
        }
    }
}
