//! Writing rtnetlink messages: a question for all objects of a kind, addresses, routes. Our
//! own, because the crates for it are larger than the whole of `init`'s boot (docs/decisions/003-netlink.md).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, NetlinkAddr, SockProtocol, recv, sendto};

use super::message::{Content, Messages};
use crate::ipv4::broadcast;

/// Make it if it is not there, or put it in the place of what is there.
pub(super) const SET: i32 = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

/// The time of an address that the kernel keeps until somebody removes it.
pub const FOREVER: u32 = u32::MAX;

/// The table of routes that is used where no policy rule leads to another.
pub const MAIN: u32 = 254;
/// Who made a route: DHCP. Of Linux's `rtnetlink.h`; not in the C library.
pub const RTPROT_DHCP: u8 = 16;
/// As above, as a byte.
const IFA_F_NODAD: u8 = 2;
/// As above.
const RTNH_F_ONLINK: u32 = 4;
/// How often a dump is tried that changes overtake.
const DUMPS: u32 = 10;
/// The kernel fits the parts of a dump into what is read at once, up to this.
const BUFFER: usize = 32 << 10;

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

    /// What is put into an attribute of another message.
    pub(super) fn nested() -> Request {
        Request(Vec::new())
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX).to_ne_bytes();
        for (slot, byte) in self.0.iter_mut().zip(length) {
            *slot = byte;
        }
        self.0
    }
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub(super) fn family(address: IpAddr) -> u8 {
    // AF_INET and AF_INET6, which rtnetlink has as bytes.
    if address.is_ipv4() { 2 } else { 10 }
}

/// `about`: IFA_F_*.
fn address_request(kind: u16, flags: i32, about: u8, index: u32, address: IpAddr, prefix: u8) -> Request {
    // struct ifaddrmsg: family, prefix, flags, scope, index
    Request::new(kind, libc::NLM_F_ACK | flags, 1)
        .put(&[family(address), prefix, about, 0])
        .put(&index.to_ne_bytes())
        .attribute(libc::IFA_LOCAL, &octets(address))
        .attribute(libc::IFA_ADDRESS, &octets(address))
}

/// How long the kernel prefers the address and how long it keeps it, in seconds; [`FOREVER`] without an end.
fn address_message(
    about: u8,
    index: u32,
    address: IpAddr,
    prefix: u8,
    (preferred, valid): (u32, u32),
) -> Vec<u8> {
    let mut message = address_request(libc::RTM_NEWADDR, SET, about, index, address, prefix);
    if (preferred, valid) != (FOREVER, FOREVER) {
        // struct ifa_cacheinfo: preferred and valid in seconds, then two times that the kernel fills in.
        let times = [preferred.to_ne_bytes(), valid.to_ne_bytes(), [0; 4], [0; 4]];
        message = message.attribute(libc::IFA_CACHEINFO, &times.concat());
    }
    if let IpAddr::V4(v4) = address
        && prefix < 31
    {
        message = message.attribute(libc::IFA_BROADCAST, &broadcast(v4, prefix).octets());
    }
    message.finish()
}

/// A route through one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRoute {
    pub destination: IpAddr,
    /// Of the destination; 0 with an address of zeroes is the default route.
    pub prefix: u8,
    /// `None`: the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// The gateway is on the link, although no address of the interface says so.
    pub gateway_on_link: bool,
    /// Of several routes to the same destination the kernel takes the one with the lowest.
    pub metric: u32,
    /// [`MAIN`], or one that a policy rule leads to.
    pub table: u32,
    /// `RTPROT_*`: who made it.
    pub protocol: u8,
}

impl NewRoute {
    /// The default route of an operator.
    pub fn default_by(gateway: IpAddr) -> NewRoute {
        let zeroes: IpAddr =
            if gateway.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        NewRoute {
            destination: zeroes,
            prefix: 0,
            gateway: Some(gateway),
            gateway_on_link: false,
            metric: 0,
            table: MAIN,
            protocol: libc::RTPROT_STATIC,
        }
    }
}

fn route_message(kind: u16, flags: i32, index: u32, route: &NewRoute) -> Vec<u8> {
    let scope = if route.gateway.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
    let on_link = if route.gateway_on_link { RTNH_F_ONLINK } else { 0 };
    // struct rtmsg: family, two prefix lengths, tos, table, protocol, scope, type, flags
    let mut request = Request::new(kind, libc::NLM_F_ACK | flags, 1)
        .put(&[family(route.destination), route.prefix, 0, 0, libc::RT_TABLE_UNSPEC, route.protocol, scope])
        .put(&[libc::RTN_UNICAST])
        .put(&on_link.to_ne_bytes());
    if route.prefix > 0 {
        request = request.attribute(libc::RTA_DST, &octets(route.destination));
    }
    if let Some(gateway) = route.gateway {
        request = request.attribute(libc::RTA_GATEWAY, &octets(gateway));
    }
    if route.metric > 0 {
        request = request.attribute(libc::RTA_PRIORITY, &route.metric.to_ne_bytes());
    }
    request
        .attribute(libc::RTA_TABLE, &route.table.to_ne_bytes())
        .attribute(libc::RTA_OIF, &index.to_ne_bytes())
        .finish()
}

/// Sends one request and reads its answer, which the kernel has put there before the send returns.
pub(super) fn ask(message: &[u8]) -> io::Result<()> {
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

/// All objects of a kind (`RTM_GET*`), with those of all address families. Blocks for as long as the kernel works.
///
/// # Errors
/// What the kernel says; EINTR where they change all the time.
pub fn dump(kind: u16) -> io::Result<Vec<Content>> {
    for _ in 0..DUMPS {
        if let Some(all) = dump_once(kind)? {
            return Ok(all);
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

/// `None`: they changed meanwhile.
fn dump_once(kind: u16) -> io::Result<Option<Vec<Content>>> {
    let fd = super::open(SockProtocol::NetlinkRoute, 0)?;
    sendto(fd.as_raw_fd(), &Request::dump(kind, 1), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let (mut all, mut interrupted) = (Vec::new(), false);
    let mut buffer = vec![0; BUFFER];
    loop {
        // The kernel writes the next part before this returns, so there is always one.
        let length = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        for message in Messages::new(buffer.get(..length).unwrap_or_default()) {
            interrupted |= message.interrupted;
            match message.content {
                Content::Done => return Ok((!interrupted).then_some(all)),
                Content::Error(errno) => return Err(io::Error::from_raw_os_error(errno)),
                content => all.push(content),
            }
        }
    }
}

/// Gives an interface an address; one that it has already is no error.
///
/// # Errors
/// What the kernel says.
pub fn add_address(index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    lease_address(index, address, prefix, FOREVER)
}

/// As [`add_address`], of which nobody else can have it: it is used at once, and the link is not asked.
///
/// # Errors
/// What the kernel says.
pub fn add_sure_address(index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    ask(&address_message(IFA_F_NODAD, index, address, prefix, (FOREVER, FOREVER)))
}

/// Gives an interface an address that the kernel removes after `seconds`, or gives that time to one that it has.
///
/// # Errors
/// What the kernel says.
pub fn lease_address(index: u32, address: IpAddr, prefix: u8, seconds: u32) -> io::Result<()> {
    lease_address_until(index, address, prefix, (seconds, seconds))
}

/// As [`lease_address`], of which the first time is that for which the kernel prefers it to others.
///
/// # Errors
/// What the kernel says.
pub fn lease_address_until(index: u32, address: IpAddr, prefix: u8, times: (u32, u32)) -> io::Result<()> {
    unless(libc::EEXIST, ask(&address_message(0, index, address, prefix, times)))
}

/// Takes an address from an interface; one that it does not have is no error.
///
/// # Errors
/// What the kernel says.
pub fn remove_address(index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    let message = address_request(libc::RTM_DELADDR, 0, 0, index, address, prefix).finish();
    unless(libc::EADDRNOTAVAIL, ask(&message))
}

/// Makes a route; one to the same destination with the same metric is replaced.
///
/// # Errors
/// What the kernel says.
pub fn set_route(index: u32, route: &NewRoute) -> io::Result<()> {
    ask(&route_message(libc::RTM_NEWROUTE, SET, index, route))
}

/// Removes a route; one that is not there is no error.
///
/// # Errors
/// What the kernel says.
pub fn remove_route(index: u32, route: &NewRoute) -> io::Result<()> {
    unless(libc::ESRCH, ask(&route_message(libc::RTM_DELROUTE, 0, index, route)))
}

/// Success also where this is the error.
pub(super) fn unless(errno: i32, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(errno) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{index_of, set_mtu, set_up};

    #[test]
    fn messages_have_the_kernels_form() {
        let message = address_message(0, 3, "10.0.2.15".parse().unwrap(), 24, (FOREVER, FOREVER));
        assert_eq!(u32::from_ne_bytes(message[..4].try_into().unwrap()) as usize, message.len());
        assert_eq!(message.len(), 16 + 8 + 3 * 8);
        assert_eq!(message[16..20], [2, 24, 0, 0]);
        assert_eq!(message[24..32], [8, 0, 2, 0, 10, 0, 2, 15]);
        assert_eq!(message[44..48], [10, 0, 2, 255]);
        let message = address_message(0, 3, "fd00::5".parse().unwrap(), 64, (0, 60));
        assert_eq!(message.len(), 16 + 8 + 3 * 20);
        let route = NewRoute::default_by("10.0.0.1".parse().unwrap());
        assert_eq!(route_message(0, 0, 1, &route).len(), 16 + 12 + 24);
    }

    #[test]
    fn the_kernel_takes_them() {
        // In a network namespace of this thread's own, where the loopback is down.
        let done = std::thread::spawn(|| {
            // SAFETY: it changes this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "run it as root");
            let loopback = index_of("lo").unwrap();
            set_up(loopback).unwrap();
            add_address(loopback, "10.9.8.7".parse().unwrap(), 24).unwrap();
            add_address(loopback, "10.9.8.7".parse().unwrap(), 24).unwrap();
            let default =
                |gateway: &str| set_route(loopback, &NewRoute::default_by(gateway.parse().unwrap()));
            default("10.9.8.1").unwrap();
            let unreachable = default("10.1.1.1").unwrap_err();
            assert_eq!(unreachable.raw_os_error(), Some(libc::ENETUNREACH));
            assert!(set_up(4711).is_err());
            let leased: IpAddr = "10.9.7.7".parse().unwrap();
            remove_address(loopback, leased, 24).unwrap();
            lease_address(loopback, leased, 24, 100).unwrap();
            lease_address(loopback, leased, 24, 200).unwrap();
            let far = NewRoute {
                destination: "192.0.2.0".parse().unwrap(),
                prefix: 24,
                gateway: Some("10.1.1.1".parse().unwrap()),
                gateway_on_link: true,
                metric: 1025,
                table: MAIN,
                protocol: 16,
            };
            let near = NewRoute { gateway: None, gateway_on_link: false, table: 1000, ..far };
            for route in [far, near] {
                set_route(loopback, &route).unwrap();
                set_route(loopback, &route).unwrap();
                remove_route(loopback, &route).unwrap();
                remove_route(loopback, &route).unwrap();
            }
            set_mtu(loopback, 1400).unwrap();
            let links = dump(libc::RTM_GETLINK).unwrap();
            let named = |content: &Content| matches!(content, Content::Link { link, .. } if link.name == "lo" && link.mtu == 1400);
            assert!(links.iter().any(named), "{links:?}");
            let addresses = dump(libc::RTM_GETADDR).unwrap();
            let is_leased = |content: &Content| matches!(content, Content::Address { address, .. } if address.ip() == Some(leased) && address.valid <= 200);
            assert!(addresses.iter().any(is_leased), "{addresses:?}");
            assert!(!dump(libc::RTM_GETROUTE).unwrap().is_empty());
            remove_address(loopback, leased, 24).unwrap();
        });
        done.join().unwrap();
    }
}
