//! Reading rtnetlink messages: lengths, the few fields that matter, and nothing else.
//!
//! Total: whatever bytes come, each reader either finds a field or does not; a message that is cut short ends the
//! walk.

use std::net::IpAddr;

/// Of every netlink message: length, type, flags, sequence number, port.
pub const HEADER: usize = 16;

/// As the field has it; the C library has it as an int.
const NLM_F_DUMP_INTR: u16 = 0x10;
/// A type of ICMPv6 (RFC 4861, 4.2).
const ROUTER_ADVERTISEMENT: u8 = 134;
/// Not in the C library.
const IFA_FLAGS: u16 = 8;
const IFLA_PERM_ADDRESS: u16 = 54;
/// Within `IFLA_LINKINFO`.
const IFLA_INFO_KIND: u16 = 1;
/// Within `IFLA_AF_SPEC`: what IPv6 has, and therein its flags.
const AF_INET6: u16 = 10;
const IFLA_INET6_FLAGS: u16 = 1;
/// Of Linux's `if_inet6.h`: what the last router advertisement says of DHCPv6.
pub const RA_MANAGED: u32 = 0x40;
pub const RA_OTHER: u32 = 0x80;

/// One message, as far as Kelson reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// 0 for what nobody asked for.
    pub sequence: u32,
    /// A dump was overtaken by a change and is not to be trusted.
    pub interrupted: bool,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Done,
    /// errno, positive; 0 is an acknowledgement.
    Error(i32),
    /// The kernel dropped messages.
    Overrun,
    Link {
        gone: bool,
        link: Link,
    },
    Address {
        gone: bool,
        address: Address,
    },
    DefaultRoute {
        gone: bool,
        route: Route,
    },
    /// To some other destination.
    Route {
        gone: bool,
        route: Route,
    },
    /// Options of a router advertisement that the kernel leaves to programs.
    Advertised {
        index: u32,
        options: Vec<u8>,
    },
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    pub index: u32,
    /// IFF_*.
    pub flags: u32,
    /// ARPHRD_*: 1 is Ethernet.
    pub kind: u16,
    pub name: String,
    /// `None`: it has no address of Ethernet's form.
    pub hardware: Option<[u8; 6]>,
    /// The longest packet, in bytes.
    pub mtu: u32,
    /// That of the hardware, where the kernel knows one: a member of a bond has the address of the bond besides.
    pub permanent: Option<[u8; 6]>,
    /// The kind of a link that exists in software alone: `vlan`, `bridge`; empty for hardware.
    pub made_as: String,
    /// The number of the bridge or of the bond that it is a member of, else 0.
    pub master: u32,
    /// How often it began or ceased to carry packets.
    pub carrier_changes: u32,
    /// [`RA_MANAGED`] and [`RA_OTHER`], with other flags of IPv6.
    pub ipv6_flags: u32,
}

impl Link {
    /// Switched on, and able to carry packets.
    pub fn is_running(&self) -> bool {
        is_running(self.flags)
    }
}

/// Whether these flags (IFF_*) are of a link that is switched on, and able to carry packets.
pub fn is_running(flags: u32) -> bool {
    let wanted = (libc::IFF_UP | libc::IFF_RUNNING).cast_unsigned();
    flags & wanted == wanted
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub index: u32,
    pub family: u8,
    pub prefix: u8,
    /// RT_SCOPE_*; 0 is global.
    pub scope: u8,
    /// IFA_F_*.
    pub flags: u32,
    pub bytes: Vec<u8>,
    /// How long the kernel keeps it, in seconds; `u32::MAX` without an end.
    pub valid: u32,
}

impl Address {
    /// `None`: of neither family.
    pub fn ip(&self) -> Option<IpAddr> {
        ip(&self.bytes)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub family: u8,
    pub table: u32,
    /// `None`: it is the default route.
    pub destination: Option<IpAddr>,
    /// Of the destination.
    pub prefix: u8,
    /// `None`: on the link itself, or there are several next hops.
    pub gateway: Option<IpAddr>,
    pub metric: u32,
    /// RTPROT_*.
    pub protocol: u8,
    /// The interfaces of its next hops; empty where the kernel names a next hop object alone.
    pub interfaces: Vec<u32>,
}

/// The messages of one datagram.
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    pub fn new(datagram: &'a [u8]) -> Self {
        Messages { rest: datagram }
    }
}

impl Iterator for Messages<'_> {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        let length = usize::try_from(u32_at(self.rest, 0)?).ok()?;
        let kind = u16_at(self.rest, 4)?;
        let flags = u16_at(self.rest, 6)?;
        let sequence = u32_at(self.rest, 8)?;
        let body = self.rest.get(HEADER..length)?;
        self.rest = self.rest.get(aligned(length)?..).unwrap_or_default();
        let content = content(kind, body).unwrap_or(Content::Other);
        Some(Message { sequence, interrupted: flags & NLM_F_DUMP_INTR != 0, content })
    }
}

fn content(kind: u16, body: &[u8]) -> Option<Content> {
    Some(match i32::from(kind) {
        libc::NLMSG_DONE => Content::Done,
        libc::NLMSG_OVERRUN => Content::Overrun,
        libc::NLMSG_ERROR => Content::Error(i32::from_ne_bytes(array(body, 0)?).saturating_abs()),
        _ => match kind {
            libc::RTM_NEWLINK => Content::Link { gone: false, link: link(body)? },
            libc::RTM_DELLINK => Content::Link { gone: true, link: link(body)? },
            libc::RTM_NEWADDR => Content::Address { gone: false, address: address(body)? },
            libc::RTM_DELADDR => Content::Address { gone: true, address: address(body)? },
            libc::RTM_NEWROUTE => route_content(false, body)?,
            libc::RTM_DELROUTE => route_content(true, body)?,
            libc::RTM_NEWNDUSEROPT => advertised(body)?,
            _ => Content::Other,
        },
    })
}

fn route_content(gone: bool, body: &[u8]) -> Option<Content> {
    let route = route(body)?;
    Some(match route.prefix {
        0 => Content::DefaultRoute { gone, route },
        _ => Content::Route { gone, route },
    })
}

/// struct nduseroptmsg: family, pad, length of the options u16, index i32, type and code of ICMPv6, six unused; the options.
fn advertised(body: &[u8]) -> Option<Content> {
    if body.get(8) != Some(&ROUTER_ADVERTISEMENT) {
        return None;
    }
    let length = usize::from(u16_at(body, 2)?);
    let options = body.get(16..16_usize.checked_add(length)?)?.to_vec();
    Some(Content::Advertised { index: u32_at(body, 4)?, options })
}

/// struct ifinfomsg: family, pad, type u16, index i32, flags u32, change u32.
fn link(body: &[u8]) -> Option<Link> {
    // AF_BRIDGE messages tell of a bridge's ports, not of links.
    if *body.first()? != 0 {
        return None;
    }
    let mut link =
        Link { index: u32_at(body, 4)?, flags: u32_at(body, 8)?, kind: u16_at(body, 2)?, ..Link::default() };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            IFLA_PERM_ADDRESS => link.permanent = value.try_into().ok(),
            libc::IFLA_MASTER => link.master = u32_at(value, 0)?,
            libc::IFLA_LINKINFO => link.made_as = made_as(value),
            libc::IFLA_ADDRESS => link.hardware = value.try_into().ok(),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0)?,
            libc::IFLA_CARRIER_CHANGES => link.carrier_changes = u32_at(value, 0)?,
            libc::IFLA_AF_SPEC => link.ipv6_flags = ipv6_flags(value).unwrap_or_default(),
            _ => {}
        }
    }
    Some(link)
}

fn ipv6_flags(families: &[u8]) -> Option<u32> {
    let (_, ipv6) = attributes(families).find(|(family, _)| *family == AF_INET6)?;
    let (_, flags) = attributes(ipv6).find(|(kind, _)| *kind == IFLA_INET6_FLAGS)?;
    u32_at(flags, 0)
}

fn made_as(information: &[u8]) -> String {
    let kind = attributes(information).find(|(kind, _)| *kind == IFLA_INFO_KIND);
    kind.map(|(_, value)| text(value)).unwrap_or_default()
}

/// Ends at the first zero byte.
fn text(value: &[u8]) -> String {
    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// struct ifaddrmsg: family, prefix length, flags, scope, index u32.
fn address(body: &[u8]) -> Option<Address> {
    let mut flags = u32::from(*body.get(2)?);
    let mut bytes = Vec::new();
    let mut local = None;
    let mut valid = u32::MAX;
    for (kind, value) in attributes(body.get(8..)?) {
        match kind {
            libc::IFA_ADDRESS => bytes = value.to_vec(),
            // Beside the peer's address, where there is a peer.
            libc::IFA_LOCAL => local = Some(value.to_vec()),
            IFA_FLAGS => flags = u32_at(value, 0)?,
            // struct ifa_cacheinfo: preferred, valid, two times.
            libc::IFA_CACHEINFO => valid = u32_at(value, 4)?,
            _ => {}
        }
    }
    Some(Address {
        index: u32_at(body, 4)?,
        family: *body.first()?,
        prefix: *body.get(1)?,
        scope: *body.get(3)?,
        flags,
        bytes: local.unwrap_or(bytes),
        valid,
    })
}

/// struct rtmsg: family, destination length, source length, tos, table, protocol, scope, type, flags u32.
fn route(body: &[u8]) -> Option<Route> {
    let usable = *body.get(7)? == libc::RTN_UNICAST && u32_at(body, 8)? & libc::RTM_F_CLONED == 0;
    if !usable {
        return None;
    }
    let mut route = Route {
        family: *body.first()?,
        table: u32::from(*body.get(4)?),
        destination: None,
        prefix: *body.get(1)?,
        gateway: None,
        metric: 0,
        protocol: *body.get(5)?,
        interfaces: Vec::new(),
    };
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            libc::RTA_TABLE => route.table = u32_at(value, 0)?,
            libc::RTA_DST => route.destination = ip(value),
            libc::RTA_GATEWAY => route.gateway = ip(value),
            libc::RTA_PRIORITY => route.metric = u32_at(value, 0)?,
            libc::RTA_OIF => route.interfaces.push(u32_at(value, 0)?),
            libc::RTA_MULTIPATH => next_hops(value, &mut route.interfaces),
            _ => {}
        }
    }
    let family = i32::from(route.family);
    (family == libc::AF_INET || family == libc::AF_INET6).then_some(route)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let four = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
    four().or_else(|| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)))
}

/// A list of struct rtnexthop: length u16, flags, hops, index i32, then attributes of its own.
fn next_hops(mut rest: &[u8], interfaces: &mut Vec<u32>) {
    while let (Some(length), Some(index)) = (u16_at(rest, 0), u32_at(rest, 4)) {
        let length = usize::from(length);
        if length < 8 || length > rest.len() {
            return;
        }
        interfaces.push(index);
        rest = aligned(length).and_then(|next| rest.get(next..)).unwrap_or_default();
    }
}

/// Type and value of each attribute; ends at the first that is cut short.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        // The two upper bits say how the value is encoded.
        let kind = u16_at(rest, 2)? & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(aligned(length)?..).unwrap_or_default();
        Some((kind, value))
    })
}

fn aligned(length: usize) -> Option<usize> {
    Some(length.checked_add(3)? & !3)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests;
