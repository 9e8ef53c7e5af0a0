//! Messages of ICMPv6 that a host sends by itself.

use std::io;
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, sendto, setsockopt, socket,
    sockopt,
};

/// All routers of a link.
const ALL_ROUTERS: [u16; 8] = [0xff02, 0, 0, 0, 0, 0, 0, 2];
/// Router solicitation (RFC 4861, 4.1): type, code, checksum that the kernel fills in, four unused.
const SOLICITATION: [u8; 8] = [133, 0, 0, 0, 0, 0, 0, 0];

/// Asks the routers of an interface's link for an advertisement.
///
/// # Errors
/// As of sendto(2): EADDRNOTAVAIL while the interface has no address of its link.
pub fn solicit_routers(index: u32) -> io::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Inet6, SockType::Raw, flags, SockProtocol::IcmpV6)?;
    // Routers ignore what may have come from another link.
    setsockopt(&socket, sockopt::Ipv6MulticastHops, &255)?;
    let routers = std::net::SocketAddrV6::new(ALL_ROUTERS.into(), 0, 0, index);
    sendto(socket.as_raw_fd(), &SOLICITATION, &SockaddrIn6::from(routers), MsgFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_link_of_this_number() {
        assert!(solicit_routers(4711).is_err());
    }
}
