//! What a server grants: an address for some time, and what belongs to it.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use kelson_sys::{ipv4, units};

use crate::message::{Message, code};
use crate::names;

/// A time since the boot of the machine, which counts while it is suspended, too.
pub type Moment = Duration;

/// The time now.
///
/// # Errors
/// When the kernel does not say it.
pub fn now() -> io::Result<Moment> {
    Ok(nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)?.into())
}

/// The end of what has none.
pub const NEVER: Moment = Duration::MAX;

/// `for 1h`, of what ends then.
pub fn remaining(end: Moment, now: Moment) -> String {
    match end {
        NEVER => "without an end".to_owned(),
        end => format!("for {}", units::duration(Duration::from_secs(end.saturating_sub(now).as_secs()))),
    }
}

/// A server that grants less would be asked more than once a second.
const SHORTEST: u32 = 2;
/// As of `resolv.conf`(5).
const NAME_SERVERS: usize = 3;
/// More than any server of a network for people needs.
const ROUTES: usize = 64;
const NTP_SERVERS: usize = 4;
/// What every host has to take (RFC 791).
const LEAST_MTU: u32 = 576;

/// A route that a server gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub destination: Ipv4Addr,
    pub prefix: u8,
    /// `None`: the destination is on the link.
    pub gateway: Option<Ipv4Addr>,
}

/// A lease of DHCPv4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub address: Ipv4Addr,
    pub prefix: u8,
    pub server: Ipv4Addr,
    /// When the client asks its server for more time.
    pub renew: Moment,
    /// When it asks all servers.
    pub rebind: Moment,
    pub end: Moment,
    pub routes: Vec<Route>,
    pub name_servers: Vec<Ipv4Addr>,
    pub search: Vec<String>,
    pub mtu: Option<u32>,
    pub host_name: Option<String>,
    pub ntp_servers: Vec<Ipv4Addr>,
}

/// Why what a server sends is no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it does not name itself")]
    Server,
    #[error("{0} is not the address of a host")]
    Address(Ipv4Addr),
    #[error("{0} is not a netmask")]
    Netmask(Ipv4Addr),
    #[error("it grants no time")]
    NoTime,
    #[error("it grants {0} s, which is too short")]
    Time(u32),
}

impl Lease {
    /// Reads an offer or an acknowledgement of a request that was sent at `asked`.
    ///
    /// # Errors
    /// When a part without which there is no lease is missing or wrong. Other parts that are wrong are left out.
    pub fn read(message: &Message, asked: Moment) -> Result<Lease, Unfit> {
        let address = message.yours;
        if !is_host(address) {
            return Err(Unfit::Address(address));
        }
        let server = message.address(code::SERVER).filter(|server| is_host(*server)).ok_or(Unfit::Server)?;
        let prefix = match message.address(code::SUBNET_MASK) {
            Some(mask) => ipv4::prefix(mask).filter(|prefix| *prefix > 0).ok_or(Unfit::Netmask(mask))?,
            None => ipv4::usual_prefix(address),
        };
        let seconds = message.number(code::LEASE_TIME).ok_or(Unfit::NoTime)?;
        if seconds < SHORTEST {
            return Err(Unfit::Time(seconds));
        }
        let granted = Duration::from_secs(seconds.into());
        let given = |code| message.number(code).map(|seconds| Duration::from_secs(seconds.into()));
        // RFC 2131, 4.4.5: the half and seven eighths, unless the server says otherwise.
        let eighth = granted.checked_div(8).unwrap_or_default();
        let usual_rebind = granted.saturating_sub(eighth);
        let rebind = given(code::REBINDING).filter(|rebind| *rebind < granted && !rebind.is_zero());
        let rebind = rebind.unwrap_or(usual_rebind);
        let least = Duration::from_secs(1);
        let renew = given(code::RENEWAL).filter(|renew| *renew < rebind && *renew >= least);
        let renew = renew.unwrap_or_else(|| rebind.min(granted.checked_div(2).unwrap_or_default()));
        let at = |after: Duration| if seconds == u32::MAX { NEVER } else { asked.saturating_add(after) };
        Ok(Lease {
            address,
            prefix,
            server,
            renew: at(renew),
            rebind: at(rebind),
            end: at(granted),
            routes: routes(message),
            name_servers: addresses(message, code::NAME_SERVER, NAME_SERVERS),
            search: search(message),
            mtu: mtu(message),
            host_name: message.option(code::HOST_NAME).and_then(names::sound),
            ntp_servers: addresses(message, code::NTP_SERVER, NTP_SERVERS),
        })
    }

    /// Whether it says the same as another one, for another time.
    pub fn differs_only_in_time(&self, other: &Lease) -> bool {
        let timeless = |lease: &Lease| Lease { renew: NEVER, rebind: NEVER, end: NEVER, ..lease.clone() };
        timeless(self) == timeless(other)
    }

    /// Whether the address reaches this one on its link.
    pub fn is_on_link(&self, other: Ipv4Addr) -> bool {
        ipv4::same_network(self.address, other, self.prefix)
    }
}

/// Whether one host can have this address.
fn is_host(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first != 0 && !address.is_loopback() && first < 224
}

/// The addresses of hosts in an option, each once.
fn addresses(message: &Message, code: u8, most: usize) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let (all, _) = message.option(code).unwrap_or_default().as_chunks::<4>();
    for address in all.iter().map(|bytes| Ipv4Addr::from(*bytes)) {
        if found.len() < most && is_host(address) && !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

fn search(message: &Message) -> Vec<String> {
    let list = message.option(code::SEARCH).map(names::search_list).unwrap_or_default();
    let domain = || message.option(code::DOMAIN_NAME).and_then(names::sound).into_iter().collect();
    if list.is_empty() { domain() } else { list }
}

fn mtu(message: &Message) -> Option<u32> {
    let bytes: [u8; 2] = message.option(code::MTU)?.try_into().ok()?;
    Some(u32::from(u16::from_be_bytes(bytes))).filter(|mtu| *mtu >= LEAST_MTU)
}

/// Option 121, where there is one (RFC 3442), else the first router.
fn routes(message: &Message) -> Vec<Route> {
    let Some(option) = message.option(code::ROUTES) else {
        let router = addresses(message, code::ROUTER, 1).into_iter();
        let by = |router| Route { destination: Ipv4Addr::UNSPECIFIED, prefix: 0, gateway: Some(router) };
        return router.map(by).collect();
    };
    let mut routes = Vec::new();
    let mut rest = option;
    while routes.len() < ROUTES
        && let Some((route, after)) = classless(rest)
    {
        let known = |known: &Route| (known.destination, known.prefix) == (route.destination, route.prefix);
        if !routes.iter().any(known) {
            routes.push(route);
        }
        rest = after;
    }
    routes
}

/// A route of option 121: the length of the prefix, as many bytes as it needs, and the gateway.
fn classless(bytes: &[u8]) -> Option<(Route, &[u8])> {
    let (prefix, rest) = bytes.split_first()?;
    let prefix = Some(*prefix).filter(|prefix| *prefix <= 32)?;
    let (some, rest) = rest.split_at_checked(usize::from(prefix.div_ceil(8)))?;
    let (gateway, rest) = rest.split_first_chunk::<4>()?;
    let mut destination = [0; 4];
    for (slot, byte) in destination.iter_mut().zip(some) {
        *slot = *byte;
    }
    let destination = Ipv4Addr::from_bits(u32::from_be_bytes(destination) & ipv4::mask(prefix));
    let gateway = Ipv4Addr::from(*gateway);
    let gateway = (!gateway.is_unspecified()).then_some(gateway);
    Some((Route { destination, prefix, gateway }, rest))
}

#[cfg(test)]
pub mod testing {
    use super::*;
    use crate::message::Kind;

    /// An acknowledgement of 192.0.2.7/24 for some seconds, with more options.
    pub fn ack(seconds: u32, more: &[(u8, &[u8])]) -> Message {
        let mut options = vec![
            (code::SERVER, vec![192, 0, 2, 1]),
            (code::SUBNET_MASK, vec![255, 255, 255, 0]),
            (code::LEASE_TIME, seconds.to_be_bytes().to_vec()),
        ];
        options.retain(|(known, _)| !more.iter().any(|(code, _)| code == known));
        options.extend(more.iter().map(|(code, value)| (*code, value.to_vec())));
        Message {
            kind: Kind::Ack,
            transaction: 1,
            seconds: 0,
            client: Ipv4Addr::UNSPECIFIED,
            yours: [192, 0, 2, 7].into(),
            hardware: [2, 0, 0, 0, 0, 1],
            options,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::ack;
    use super::*;

    const NOW: Moment = Duration::from_secs(1000);

    fn lease(more: &[(u8, &[u8])]) -> Lease {
        Lease::read(&ack(800, more), NOW).unwrap()
    }

    fn times(seconds: u32, more: &[(u8, &[u8])]) -> [u64; 3] {
        let lease = Lease::read(&ack(seconds, more), NOW).unwrap();
        [lease.renew, lease.rebind, lease.end].map(|time| (time - NOW).as_secs())
    }

    #[test]
    fn times_are_the_servers_if_they_are_in_order() {
        let four = |seconds: u32| seconds.to_be_bytes();
        assert_eq!(times(800, &[]), [400, 700, 800]);
        let own = [(code::RENEWAL, &four(10)[..]), (code::REBINDING, &four(20)[..])];
        assert_eq!(times(800, &own), [10, 20, 800]);
        let late = [(code::RENEWAL, &four(900)[..]), (code::REBINDING, &four(900)[..])];
        assert_eq!(times(800, &late), [400, 700, 800]);
        assert_eq!(times(800, &[(code::REBINDING, &four(100)[..])]), [100, 100, 800]);
        assert_eq!(times(800, &[(code::RENEWAL, &four(0)[..])]), [400, 700, 800]);
        let forever = Lease::read(&ack(u32::MAX, &[]), NOW).unwrap();
        assert_eq!((forever.renew, forever.end), (NEVER, NEVER));
    }

    #[test]
    fn what_is_no_lease_is_told_with_its_reason() {
        let unfit = |seconds, more: &[(u8, &[u8])]| Lease::read(&ack(seconds, more), NOW).unwrap_err();
        assert_eq!(unfit(1, &[]), Unfit::Time(1));
        assert_eq!(unfit(9, &[(code::LEASE_TIME, &[1])]), Unfit::NoTime);
        assert_eq!(unfit(9, &[(code::SERVER, &[0; 4])]), Unfit::Server);
        for mask in [[255, 0, 255, 0], [0; 4], [0, 0, 0, 255]] {
            assert_eq!(unfit(9, &[(code::SUBNET_MASK, &mask)]), Unfit::Netmask(mask.into()));
        }
        for address in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
            let message = Message { yours: address.into(), ..ack(9, &[]) };
            assert_eq!(Lease::read(&message, NOW), Err(Unfit::Address(address.into())));
        }
    }

    #[test]
    fn the_routes_of_option_121_replace_the_router() {
        let router: (u8, &[u8]) = (code::ROUTER, &[192, 0, 2, 1, 192, 0, 2, 2]);
        let default = |last| Route {
            destination: Ipv4Addr::UNSPECIFIED,
            prefix: 0,
            gateway: Some([192, 0, 2, last].into()),
        };
        assert_eq!(lease(&[router]).routes, [default(1)]);
        let option = [0, 192, 0, 2, 9, 20, 10, 1, 0x1f, 192, 0, 2, 8, 32, 1, 2, 3, 4, 0, 0, 0, 0, 24, 7];
        let far =
            Route { destination: [10, 1, 16, 0].into(), prefix: 20, gateway: Some([192, 0, 2, 8].into()) };
        let near = Route { destination: [1, 2, 3, 4].into(), prefix: 32, gateway: None };
        assert_eq!(lease(&[router, (code::ROUTES, &option)]).routes, [default(9), far, near]);
        assert!(lease(&[router, (code::ROUTES, &[33, 1])]).routes.is_empty());
        let many: Vec<u8> = (0..200).flat_map(|n| [24, 10, 0, n, 192, 0, 2, 1]).collect();
        assert_eq!(lease(&[(code::ROUTES, &many)]).routes.len(), ROUTES);
    }

    #[test]
    fn wrong_parts_are_left_out() {
        let wrong = lease(&[
            (code::NAME_SERVER, &[0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 224, 0, 0, 1, 1]),
            (code::MTU, &[0, 68]),
            (code::HOST_NAME, b"a b"),
            (code::DOMAIN_NAME, b"example.com\0"),
            (code::SEARCH, b"\xff"),
        ]);
        assert_eq!(wrong.name_servers, [Ipv4Addr::new(9, 9, 9, 9)]);
        assert_eq!((wrong.mtu, wrong.host_name), (None, None));
        assert_eq!(wrong.search, ["example.com"]);
        let right = lease(&[(code::MTU, &[5, 0]), (code::SEARCH, b"\x01a\x00"), (code::HOST_NAME, b"edge")]);
        assert_eq!((right.mtu, right.host_name.as_deref()), (Some(1280), Some("edge")));
        assert_eq!(right.search, ["a"]);
        assert!(right.is_on_link([192, 0, 2, 200].into()) && !right.is_on_link([192, 0, 3, 1].into()));
    }
}
