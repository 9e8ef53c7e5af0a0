//! Netlink: sockets, and the few rtnetlink messages that Kelson reads and writes.

mod link;
mod message;
mod request;
mod rule;
mod unreachable;

use std::os::fd::{AsRawFd as _, OwnedFd};

pub use link::{
    NewLink, create_cable, create_link, remove_link, set_down, set_hardware, set_master, set_mtu, set_up,
};
pub use message::{
    Address, Content, HEADER, Link, Message, Messages, RA_MANAGED, RA_OTHER, Route, is_running,
};
pub use request::{
    FOREVER, MAIN, NewRoute, RTPROT_DHCP, Request, add_address, add_sure_address, dump, lease_address,
    lease_address_until, remove_address, remove_route, set_route,
};
pub use rule::{NewRule, add_rule};
pub use unreachable::{set_unreachable, unset_unreachable};

use nix::sys::socket::{AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket};

/// A socket that does not wait, and receives these multicast groups (bits).
///
/// # Errors
/// What the kernel says: no descriptor is left, or it has no such protocol.
pub fn open(protocol: SockProtocol, groups: u32) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

/// The group (a bit) of the kernel's own messages about devices (uevents). Programs such as udev send to others.
pub const UEVENTS: u32 = 1;

/// The group (a bit) of the options that a router advertisement has for programs.
pub const ADVERTISEMENTS: u32 = 1 << (libc::RTNLGRP_ND_USEROPT - 1);

/// The group (a bit) of what IPv6 has of each interface, which includes what routers say.
pub const IPV6_INTERFACES: u32 = libc::RTMGRP_IPV6_IFINFO.cast_unsigned();

/// The number of an interface; `None`: there is none of that name.
pub fn index_of(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}
