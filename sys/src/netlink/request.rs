//! Writing rtnetlink messages: a question for all objects of a kind, an interface up, an address, a default route. Our
//! own, because the crates for it are larger than the whole of `init`'s boot (docs/decisions/003-netlink.md).

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, NetlinkAddr, SockProtocol, recv, sendto};

use super::message::{Content, Messages};

/// Make it if it is not there, or put it in the place of what is there.
const SET: i32 = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

/// One message that is being written; its length is filled in at the end.
#[derive(Debug)]
pub struct Request(Vec<u8>);

impl Request {
    /// `flags`: `NLM_F_*` besides that it is a request.
    pub fn new(kind: u16, flags: i32, sequence: u32) -> Request {
        let flags = u16::try_from(libc::NLM_F_REQUEST | flags).unwrap_or_default();
        Request(vec![0; 4])
            .put(&kind.to_ne_bytes())
            .put(&flags.to_ne_bytes())
            .put(&sequence.to_ne_bytes())
            .put(&0_u32.to_ne_bytes())
    }

    /// Asks for all objects of a kind, of all address families.
    pub fn dump(kind: u16, sequence: u32) -> Vec<u8> {
        // Room for the largest of the headers that may follow: ifinfomsg, 16 bytes; ifaddrmsg and rtmsg are shorter, and
        // the kernel takes zeroes after them as no attributes.
        Request::new(kind, libc::NLM_F_DUMP, sequence).put(&[0; 16]).finish()
    }

    #[must_use]
    pub fn put(mut self, bytes: &[u8]) -> Request {
        self.0.extend_from_slice(bytes);
        self
    }

    /// An attribute: length, type, value, filled up to four bytes.
    #[must_use]
    pub fn attribute(self, kind: u16, value: &[u8]) -> Request {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX).saturating_add(4);
        let mut request = self.put(&length.to_ne_bytes()).put(&kind.to_ne_bytes()).put(value);
        request.0.resize(request.0.len().next_multiple_of(4), 0);
        request
    }

    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX).to_ne_bytes();
        for (slot, byte) in self.0.iter_mut().zip(length) {
            *slot = byte;
        }
        self.0
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn family(address: IpAddr) -> u8 {
    // AF_INET and AF_INET6, which rtnetlink has as bytes.
    if address.is_ipv4() { 2 } else { 10 }
}

fn link_up_message(index: u32) -> Vec<u8> {
    let up = u32::try_from(libc::IFF_UP).unwrap_or(1).to_ne_bytes();
    // struct ifinfomsg: family, padding, type, index, flags, which of them to change
    Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, 1)
        .put(&[0; 4])
        .put(&index.to_ne_bytes())
        .put(&up)
        .put(&up)
        .finish()
}

fn address_message(index: u32, address: IpAddr, prefix: u8) -> Vec<u8> {
    // struct ifaddrmsg: family, prefix, flags, scope, index
    let mut message = Request::new(libc::RTM_NEWADDR, libc::NLM_F_ACK | SET, 1)
        .put(&[family(address), prefix, 0, 0])
        .put(&index.to_ne_bytes())
        .attribute(libc::IFA_LOCAL, &octets(address))
        .attribute(libc::IFA_ADDRESS, &octets(address));
    if let IpAddr::V4(v4) = address
        && prefix < 31
    {
        let hosts = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
        message = message.attribute(libc::IFA_BROADCAST, &(u32::from(v4) | hosts).to_be_bytes());
    }
    message.finish()
}

fn default_route_message(index: u32, gateway: IpAddr) -> Vec<u8> {
    // struct rtmsg: family, two prefix lengths, tos, table main, protocol static, scope universe, type unicast, flags
    Request::new(libc::RTM_NEWROUTE, libc::NLM_F_ACK | SET, 1)
        .put(&[family(gateway), 0, 0, 0, 254, 4, 0, 1])
        .put(&[0; 4])
        .attribute(libc::RTA_GATEWAY, &octets(gateway))
        .attribute(libc::RTA_OIF, &index.to_ne_bytes())
        .finish()
}

/// Sends one request and reads its answer, which the kernel has put there before the send returns.
fn ask(message: &[u8]) -> io::Result<()> {
    let fd = super::open(SockProtocol::NetlinkRoute, 0)?;
    sendto(fd.as_raw_fd(), message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; 1024];
    let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match answer.get(..length).and_then(|answer| Messages::new(answer).next()).map(|message| message.content)
    {
        Some(Content::Error(0)) => Ok(()),
        Some(Content::Error(errno)) => Err(io::Error::from_raw_os_error(errno)),
        _ => Err(io::Error::other("the kernel's answer was not understood")),
    }
}

/// # Errors
/// What the kernel says.
pub fn set_up(index: u32) -> io::Result<()> {
    ask(&link_up_message(index))
}

/// Gives an interface an address; one that it has already is no error.
///
/// # Errors
/// What the kernel says.
pub fn add_address(index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    match ask(&address_message(index, address, prefix)) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        result => result,
    }
}

/// # Errors
/// What the kernel says: "network is unreachable" where no address of the interface reaches the gateway.
pub fn set_default_route(index: u32, gateway: IpAddr) -> io::Result<()> {
    ask(&default_route_message(index, gateway))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_kernels_form() {
        let message = address_message(3, "10.0.2.15".parse().unwrap(), 24);
        assert_eq!(u32::from_ne_bytes(message[..4].try_into().unwrap()) as usize, message.len());
        assert_eq!(message.len(), 16 + 8 + 3 * 8);
        assert_eq!(message[16..20], [2, 24, 0, 0]);
        assert_eq!(message[24..32], [8, 0, 2, 0, 10, 0, 2, 15]);
        assert_eq!(message[44..48], [10, 0, 2, 255]);
        let message = address_message(3, "fd00::5".parse().unwrap(), 64);
        assert_eq!(message.len(), 16 + 8 + 2 * 20);
        assert_eq!(link_up_message(1).len(), 32);
        assert_eq!(default_route_message(1, "10.0.0.1".parse().unwrap()).len(), 16 + 12 + 16);
    }

    #[test]
    fn the_kernel_takes_them() {
        // In a network namespace of this thread's own, where the loopback is down.
        let done = std::thread::spawn(|| {
            // SAFETY: it changes this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "run it as root");
            let loopback = super::super::index_of("lo").unwrap();
            set_up(loopback).unwrap();
            add_address(loopback, "10.9.8.7".parse().unwrap(), 24).unwrap();
            add_address(loopback, "10.9.8.7".parse().unwrap(), 24).unwrap();
            set_default_route(loopback, "10.9.8.1".parse().unwrap()).unwrap();
            let unreachable = set_default_route(loopback, "10.1.1.1".parse().unwrap()).unwrap_err();
            assert_eq!(unreachable.raw_os_error(), Some(libc::ENETUNREACH));
            assert!(set_up(4711).is_err());
        });
        done.join().unwrap();
    }
}
