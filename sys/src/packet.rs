//! Packet sockets (packet(7)): datagrams of one interface below IP, with a filter that the kernel applies.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};

use libc::{sock_filter, sock_fprog, sockaddr_ll};

/// An address of Ethernet.
pub type Mac = [u8; 6];

/// Every station of the link.
pub const BROADCAST: Mac = [0xff; 6];

/// A kind of packet, as the header of Ethernet has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Ipv4,
    Arp,
}

impl Protocol {
    fn number(self) -> u16 {
        let number = match self {
            Protocol::Ipv4 => libc::ETH_P_IP,
            Protocol::Arp => libc::ETH_P_ARP,
        };
        u16::try_from(number).unwrap_or_default()
    }
}

/// A step of a filter: a test that lets the packet go on to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// The byte at this offset is this.
    Byte(u32, u8),
    /// The two bytes at this offset are this, in the order of the network.
    Half(u32, u16),
    /// The four bytes at this offset are this, in the order of the network.
    Word(u32, u32),
    /// The IPv4 header says that this is no later fragment.
    FirstFragment,
    /// The two bytes at this offset behind the IPv4 header are this.
    HalfAfterIpv4(u32, u16),
}

/// A socket for packets of one kind on one interface, without their header of Ethernet. It does not wait.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    index: u32,
    protocol: Protocol,
}

impl PacketSocket {
    /// `tests`: the socket gets the packets that pass all of them.
    ///
    /// # Errors
    /// As of socket(2), setsockopt(2) and bind(2): without `CAP_NET_RAW`, or without the interface.
    pub fn open(index: u32, protocol: Protocol, tests: &[Test]) -> io::Result<PacketSocket> {
        let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: it takes numbers only. Protocol 0: the socket receives nothing before it is bound, so nothing that
        // the filter has not seen.
        let raw = check(unsafe { libc::socket(libc::AF_PACKET, flags, 0) })?;
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
        let socket = PacketSocket { socket, index, protocol };
        socket.attach(tests)?;
        let address = socket.address([0; 6]);
        // SAFETY: the address is a live sockaddr_ll of the size that is given.
        check(unsafe { libc::bind(raw, (&raw const address).cast(), SIZE) })?;
        Ok(socket)
    }

    fn attach(&self, tests: &[Test]) -> io::Result<()> {
        let mut program = program(tests);
        let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let filter = sock_fprog { len: length, filter: program.as_mut_ptr() };
        let size = libc::socklen_t::try_from(size_of::<sock_fprog>()).unwrap_or_default();
        let raw = self.socket.as_raw_fd();
        // SAFETY: `filter` names `len` instructions, which live until the call has copied them.
        let attached = unsafe {
            libc::setsockopt(raw, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const filter).cast(), size)
        };
        check(attached).map(drop)
    }

    fn address(&self, to: Mac) -> sockaddr_ll {
        // SAFETY: all zeroes are a valid sockaddr_ll.
        let mut address: sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
        address.sll_protocol = self.protocol.number().to_be();
        address.sll_ifindex = i32::try_from(self.index).unwrap_or_default();
        address.sll_halen = 6;
        for (slot, byte) in address.sll_addr.iter_mut().zip(to) {
            *slot = byte;
        }
        address
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// As of sendto(2): ENETDOWN where the interface is down.
    pub fn send(&self, packet: &[u8], to: Mac) -> io::Result<()> {
        let address = self.address(to);
        // SAFETY: packet and address are live and of the sizes that are given.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_NOSIGNAL,
                (&raw const address).cast(),
                SIZE,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Takes one packet; `None`: there is none now.
    ///
    /// # Errors
    /// As of recv(2): ENETDOWN once the interface went down.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        // SAFETY: the buffer is live and of the size that is given.
        let length =
            unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        match usize::try_from(length) {
            Ok(length) => Ok(buffer.get(..length)),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Of `sockaddr_ll`.
#[allow(clippy::cast_possible_truncation)]
const SIZE: libc::socklen_t = size_of::<sockaddr_ll>() as libc::socklen_t;

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The filter in the kernel's language (Documentation/networking/filter.rst): each test loads a value and, if it is
/// another one, jumps to the last instruction, which drops the packet.
fn program(tests: &[Test]) -> Vec<sock_filter> {
    let step =
        |code: u32, k: u32| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k };
    let load = |size: u32, mode: u32, at: u32| step(libc::BPF_LD | size | mode, at);
    let equal = |value: u32| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value);
    let mut all: Vec<sock_filter> = Vec::new();
    for test in tests {
        match *test {
            Test::Byte(at, value) => {
                all.extend([load(libc::BPF_B, libc::BPF_ABS, at), equal(value.into())]);
            }
            Test::Half(at, value) => {
                all.extend([load(libc::BPF_H, libc::BPF_ABS, at), equal(value.into())]);
            }
            Test::Word(at, value) => all.extend([load(libc::BPF_W, libc::BPF_ABS, at), equal(value)]),
            Test::FirstFragment => {
                let offset = step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0x1fff);
                all.extend([load(libc::BPF_H, libc::BPF_ABS, 6), offset, equal(0)]);
            }
            Test::HalfAfterIpv4(at, value) => {
                let header = step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0);
                all.extend([header, load(libc::BPF_H, libc::BPF_IND, at), equal(value.into())]);
            }
        }
    }
    all.push(step(libc::BPF_RET | libc::BPF_K, u32::MAX));
    let last = all.len();
    let jumps = u32::from(u16::try_from(libc::BPF_JMP).unwrap_or_default());
    for (place, step) in all.iter_mut().enumerate() {
        if u32::from(step.code) & 7 == jumps {
            let distance = last.saturating_sub(place).saturating_sub(1);
            step.jf = u8::try_from(distance).unwrap_or(u8::MAX);
        }
    }
    all.push(step(libc::BPF_RET | libc::BPF_K, 0));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(socket: &PacketSocket, buffer: &mut [u8]) -> Vec<u8> {
        let mut poll = libc::pollfd { fd: socket.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 10_000) }, 1, "nothing has come");
        socket.receive(buffer).unwrap().unwrap().to_vec()
    }

    #[test]
    fn packets_arrive_without_their_link_header_and_the_filter_decides_which() {
        let done = std::thread::spawn(|| {
            // SAFETY: it changes this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "run it as root");
            crate::netlink::set_up(1).unwrap();
            let tests = [
                Test::Byte(9, 17),
                Test::FirstFragment,
                Test::HalfAfterIpv4(2, 68),
                Test::Word(16, 0x0a00_0001),
            ];
            let socket = PacketSocket::open(1, Protocol::Ipv4, &tests).unwrap();
            let all = PacketSocket::open(1, Protocol::Ipv4, &[]).unwrap();
            // Two with options, of which the second alone is for port 68.
            for (port, tail) in [(67_u8, 1_u8), (68, 2)] {
                let mut packet = [0_u8; 40];
                (packet[0], packet[9], packet[16], packet[19]) = (0x47, 17, 10, 1);
                (packet[31], packet[39]) = (port, tail);
                all.send(&packet, BROADCAST).unwrap();
            }
            let mut buffer = [0; 64];
            assert_eq!(wait(&socket, &mut buffer)[39], 2);
            assert_eq!(wait(&all, &mut buffer)[39], 1);
            assert!(socket.receive(&mut buffer).unwrap().is_none());
            assert!(PacketSocket::open(4711, Protocol::Arp, &[]).is_err());
        });
        done.join().unwrap();
    }
}
