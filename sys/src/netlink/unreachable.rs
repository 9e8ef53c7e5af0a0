//! Networks of IPv6 that no packet leaves for: a sender hears at once that there is no route.

use std::io;
use std::net::Ipv6Addr;

use super::request::{MAIN, RTPROT_DHCP, Request, SET, ask, unless};

/// Any other route to a part of the network, or to all of it, goes before.
const METRIC: u32 = i32::MAX.cast_unsigned();

fn message(kind: u16, flags: i32, network: Ipv6Addr, length: u8) -> Vec<u8> {
    let family = u8::try_from(libc::AF_INET6).unwrap_or_default();
    // struct rtmsg: family, two prefix lengths, tos, table, protocol, scope, type, flags
    Request::new(kind, libc::NLM_F_ACK | flags, 1)
        .put(&[family, length, 0, 0, libc::RT_TABLE_UNSPEC, RTPROT_DHCP, libc::RT_SCOPE_UNIVERSE])
        .put(&[libc::RTN_UNREACHABLE])
        .put(&[0; 4])
        .attribute(libc::RTA_DST, &network.octets())
        .attribute(libc::RTA_PRIORITY, &METRIC.to_ne_bytes())
        .attribute(libc::RTA_TABLE, &MAIN.to_ne_bytes())
        .finish()
}

/// Makes a network unreachable, except where there is another route. The kernel keeps it so: it has no time for such routes.
///
/// # Errors
/// What the kernel says.
pub fn set_unreachable(network: Ipv6Addr, length: u8) -> io::Result<()> {
    ask(&message(libc::RTM_NEWROUTE, SET, network, length))
}

/// Ends what [`set_unreachable`] does; a network for which it is not done is no error.
///
/// # Errors
/// What the kernel says.
pub fn unset_unreachable(network: Ipv6Addr, length: u8) -> io::Result<()> {
    unless(libc::ESRCH, ask(&message(libc::RTM_DELROUTE, 0, network, length)))
}
