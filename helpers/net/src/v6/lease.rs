//! What a server of DHCPv6 grants: addresses and prefixes, each for its own time, and what belongs to them.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::message::{Association, Item, Message, Status, Wanted, code};
use crate::lease::{Moment, NEVER};
use crate::names;

/// What is granted for less is not taken: it would be asked for more than once a second.
const SHORTEST: Duration = Duration::from_secs(2);
/// How long something stays that a server has taken back, so that the next one is there before it goes.
const GRACE: Duration = Duration::from_secs(10);
/// As of `resolv.conf`(5).
const NAME_SERVERS: usize = 3;
/// RFC 8415, 7.6: how often names are asked for that have no time of their own.
const REFRESH: u32 = 86_400;
const SHORTEST_REFRESH: u32 = 600;

/// Why something has an end that is not that of its lease.
pub const TAKEN_BACK: &str = "the server has taken it back";
pub const REPLACED: &str = "another one has replaced it";

/// An address (its length is 128) or a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    pub address: Ipv6Addr,
    pub length: u8,
    /// From then on the kernel prefers others for new connections.
    pub preferred: Moment,
    pub valid: Moment,
    /// Why it goes before its time.
    pub reason: Option<&'static str>,
}

impl Granted {
    pub fn is_address(&self) -> bool {
        self.length == 128
    }

    pub fn is_same(&self, other: &Granted) -> bool {
        (self.address, self.length) == (other.address, other.length)
    }

    fn end_at(&mut self, end: Moment, reason: &'static str) {
        if self.valid > end {
            (self.valid, self.reason) = (end, Some(reason));
        }
        self.preferred = self.preferred.min(self.valid);
    }
}

/// A lease of DHCPv6. Without items: names alone, which are asked for again at `renew`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The identifier of the server.
    pub server: Vec<u8>,
    /// The address that the server has on the link.
    pub from: Ipv6Addr,
    pub items: Vec<Granted>,
    /// When the client asks its server for more time.
    pub renew: Moment,
    /// When it asks all servers.
    pub rebind: Moment,
    pub name_servers: Vec<Ipv6Addr>,
    pub search: Vec<String>,
}

/// Why an answer is no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("the server does not name itself")]
    Server,
    #[error("it has neither an address nor a prefix for this host")]
    Nothing,
    #[error("the server does not know what this host has")]
    NoBinding,
}

impl Lease {
    /// Reads what `message` grants under this number; the rest of `held` stays as it is, to its end. The times count from
    /// `asked`.
    ///
    /// # Errors
    /// When it grants nothing and takes nothing back.
    pub fn read(
        (message, from): (&Message, Ipv6Addr),
        number: u32,
        held: Option<&Lease>,
        (asked, now): (Moment, Moment),
    ) -> Result<Lease, Unfit> {
        let server = message.options.first(code::SERVER).filter(|server| is_identifier(server));
        let server = server.ok_or(Unfit::Server)?.to_vec();
        let mut items: Vec<Granted> = held.map(|held| held.items.clone()).unwrap_or_default();
        let (mut changed, mut renew, mut rebind) = (false, NEVER, NEVER);
        for wanted in [Wanted::Address, Wanted::Prefix] {
            let Some(association) = Association::find(message, wanted, number) else { continue };
            if association.status == Status::NoBinding && held.is_some() {
                return Err(Unfit::NoBinding);
            }
            let mut shortest = None;
            for item in &association.items {
                changed |= take(item, &mut items, (asked, now));
                let preferred = item.preferred.filter(|preferred| !preferred.is_zero()).or(item.valid);
                let time = preferred.unwrap_or(NEVER);
                shortest = shortest.or(Some(time)).map(|known: Duration| known.min(time));
            }
            if let Some(shortest) = shortest.filter(|shortest| !shortest.is_zero()) {
                renew = renew.min(chosen(association.renew, shortest, 5));
                rebind = rebind.min(chosen(association.rebind, shortest, 8));
            }
        }
        if !changed {
            return Err(Unfit::Nothing);
        }
        let at = |time: Duration| asked.saturating_add(time.max(SHORTEST));
        let (renew, rebind) = (at(renew.min(rebind)), at(rebind));
        Ok(Lease { server, from, items, renew, rebind, ..Lease::names_of(message) })
    }

    /// The names that an answer without addresses has.
    pub fn informed((message, from): (&Message, Ipv6Addr), now: Moment) -> Lease {
        let refresh = message.options.number(code::REFRESH).unwrap_or(REFRESH).max(SHORTEST_REFRESH);
        let after = if refresh == u32::MAX { NEVER } else { Duration::from_secs(refresh.into()) };
        Lease { from, renew: now.saturating_add(after), ..Lease::names_of(message) }
    }

    fn names_of(message: &Message) -> Lease {
        let mut name_servers: Vec<Ipv6Addr> = Vec::new();
        let (all, _) = message.options.first(code::NAME_SERVERS).unwrap_or_default().as_chunks::<16>();
        for server in all.iter().map(|bytes| Ipv6Addr::from(*bytes)) {
            let is_host = !server.is_multicast() && !server.is_unspecified() && !server.is_loopback();
            if name_servers.len() < NAME_SERVERS && is_host && !name_servers.contains(&server) {
                name_servers.push(server);
            }
        }
        Lease {
            server: Vec::new(),
            from: Ipv6Addr::UNSPECIFIED,
            items: Vec::new(),
            renew: NEVER,
            rebind: NEVER,
            name_servers,
            search: message.options.first(code::DOMAINS).map(names::search_list).unwrap_or_default(),
        }
    }

    pub fn addresses(&self) -> impl Iterator<Item = &Granted> {
        self.items.iter().filter(|item| item.is_address())
    }

    pub fn prefixes(&self) -> impl Iterator<Item = &Granted> {
        self.items.iter().filter(|item| !item.is_address())
    }

    /// When all of it has ended.
    pub fn end(&self) -> Moment {
        self.items.iter().map(|item| item.valid).max().unwrap_or(NEVER)
    }

    /// Whether there is something in it that a server has not taken back.
    pub fn is_whole(&self) -> bool {
        self.items.iter().any(|item| item.reason.is_none())
    }

    /// Ends all that it has: the host is on another link.
    pub fn take_back(&mut self, now: Moment) {
        for item in &mut self.items {
            item.end_at(now.saturating_add(GRACE), TAKEN_BACK);
            item.preferred = item.preferred.min(now);
        }
    }

    /// Ends what `before` had and this answer to a new request does not name.
    pub fn replace(&mut self, before: &Lease, now: Moment) {
        let is_stale = |item: &Granted| before.items.contains(item);
        let fresh: Vec<Granted> = self.items.iter().filter(|item| !is_stale(item)).copied().collect();
        for item in self.items.iter_mut().filter(|item| is_stale(item)) {
            if fresh.iter().any(|fresh| fresh.is_address() == item.is_address()) {
                item.end_at(now, REPLACED);
            }
        }
    }

    /// Whether it says the same as another one, for another time.
    pub fn differs_only_in_time(&self, other: &Lease) -> bool {
        let same = |one: &Granted, other: &Granted| one.is_same(other);
        self.items.len() == other.items.len()
            && self.items.iter().all(|item| other.items.iter().any(|known| same(item, known)))
            && self.from == other.from
    }
}

/// Takes in an item of a server. Returns whether it has changed something.
fn take(item: &Item, items: &mut Vec<Granted>, (asked, now): (Moment, Moment)) -> bool {
    let known = items.iter_mut().find(|known| (known.address, known.length) == (item.address, item.length));
    let valid = item.valid.unwrap_or(NEVER);
    if valid.is_zero() {
        let Some(known) = known else { return false };
        known.end_at(now.saturating_add(GRACE), TAKEN_BACK);
        known.preferred = known.preferred.min(now);
        return true;
    }
    if valid < SHORTEST {
        return false;
    }
    let granted = Granted {
        address: item.address,
        length: item.length,
        preferred: asked.saturating_add(item.preferred.unwrap_or(NEVER)),
        valid: asked.saturating_add(valid),
        reason: None,
    };
    match known {
        Some(known) => *known = granted,
        None => items.push(granted),
    }
    true
}

/// RFC 8415, 21.4: where the server leaves a time to the client, it is these tenths of the shortest preferred one.
fn chosen(given: Option<Duration>, shortest: Duration, tenths: u32) -> Duration {
    match given {
        Some(Duration::ZERO) if shortest < NEVER => {
            shortest.saturating_mul(tenths).checked_div(10).unwrap_or_default()
        }
        Some(Duration::ZERO) | None => NEVER,
        Some(given) => given,
    }
}

/// RFC 8415, 11.1: a kind of two bytes, and at most 128 more.
fn is_identifier(bytes: &[u8]) -> bool {
    (3..=130).contains(&bytes.len())
}

#[cfg(test)]
mod tests {
    use super::super::message::Kind;
    use super::super::message::testing::{granted, status};
    use super::*;

    const NOW: Moment = Duration::from_secs(1000);
    const LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    fn message(options: Vec<(u16, Vec<u8>)>) -> Message {
        let mut message = Message::new(Kind::Reply, 1);
        message.options.put(code::SERVER, *b"server");
        message.options.0.extend(options);
        message
    }

    fn read(options: Vec<(u16, Vec<u8>)>, held: Option<&Lease>) -> Result<Lease, Unfit> {
        Lease::read((&message(options), LINK), 7, held, (NOW, NOW))
    }

    fn times(lease: &Lease) -> [u64; 3] {
        [lease.renew, lease.rebind, lease.end()].map(|time| (time.saturating_sub(NOW)).as_secs())
    }

    #[test]
    fn the_earliest_times_of_addresses_and_prefixes_count() {
        let both = |one, other| {
            let address = granted(7, one, &[("2001:db8::7", 1000, 2000)]);
            let prefix = granted(7, other, &[("2001:db8:100::/56", 500, 4000)]);
            times(&read(vec![address, prefix], None).unwrap())
        };
        assert_eq!(both((300, 700), (400, 600)), [300, 600, 4000]);
        assert_eq!(both((0, 0), (0, 0)), [250, 400, 4000], "half, and four fifths");
        assert_eq!(both((u32::MAX, u32::MAX), (0, 0)), [250, 400, 4000]);
        assert_eq!(both((1, 1), (0, 0)), [2, 2, 4000], "not more than once a second");
        let forever = read(vec![granted(7, (0, 0), &[("2001:db8::7", u32::MAX, u32::MAX)])], None).unwrap();
        assert_eq!((forever.renew, forever.end()), (NEVER, NEVER));
    }

    #[test]
    fn what_is_no_lease_is_told_with_its_reason() {
        assert_eq!(read(Vec::new(), None), Err(Unfit::Nothing));
        assert_eq!(read(vec![granted(8, (0, 0), &[("2001:db8::7", 10, 20)])], None), Err(Unfit::Nothing));
        assert_eq!(read(vec![granted(7, (0, 0), &[("2001:db8::7", 1, 1)])], None), Err(Unfit::Nothing));
        assert_eq!(read(vec![granted(7, (0, 0), &[("2001:db8::7", 0, 0)])], None), Err(Unfit::Nothing));
        let nameless = Message::new(Kind::Reply, 1);
        assert_eq!(Lease::read((&nameless, LINK), 7, None, (NOW, NOW)), Err(Unfit::Server));
        let held = read(vec![granted(7, (0, 0), &[("2001:db8::7", 10, 20)])], None).unwrap();
        let mut inner = super::super::message::Options::default();
        inner.0.push(status(3));
        let unknown = super::super::message::testing::association(7, (0, 0), &inner);
        assert_eq!(read(vec![(code::ADDRESSES, unknown)], Some(&held)), Err(Unfit::NoBinding));
    }

    #[test]
    fn an_answer_takes_nothing_away_that_it_does_not_name() {
        let held =
            read(vec![granted(7, (0, 0), &[("2001:db8::7", 100, 200), ("2001:db8::8", 100, 200)])], None)
                .unwrap();
        let next = read(vec![granted(7, (0, 0), &[("2001:db8::7", 300, 400)])], Some(&held)).unwrap();
        assert_eq!(next.items.len(), 2);
        assert_eq!(next.items[0].valid, NOW + Duration::from_secs(400));
        assert_eq!(next.items[1], held.items[1]);
        let next = read(vec![granted(7, (0, 0), &[("2001:db8::7", 0, 0)])], Some(&held)).unwrap();
        let gone = next.items[0];
        assert_eq!((gone.valid, gone.preferred, gone.reason), (NOW + GRACE, NOW, Some(TAKEN_BACK)));
        assert!(next.is_whole(), "the other one is left");
    }

    #[test]
    fn an_answer_to_a_new_request_replaces_what_it_does_not_name() {
        let prefix = || granted(7, (0, 0), &[("2001:db8:100::/56", 100, 200)]);
        let held = read(vec![granted(7, (0, 0), &[("2001:db8::7", 100, 200)]), prefix()], None).unwrap();
        let mut next = read(vec![granted(7, (0, 0), &[("2001:db8::8", 300, 400)])], Some(&held)).unwrap();
        next.replace(&held, NOW);
        let ends: Vec<_> = next.items.iter().map(|item| item.reason).collect();
        assert_eq!(ends, [Some(REPLACED), None, None], "an address does not replace a prefix");
        assert_eq!(next.items[0].valid, NOW);
    }

    #[test]
    fn names_are_checked() {
        let servers = ["::1", "2001:db8::53", "2001:db8::53", "ff02::1"].map(|text| text.parse::<Ipv6Addr>());
        let servers: Vec<u8> = servers.into_iter().flat_map(|server| server.unwrap().octets()).collect();
        let domains = b"\x07example\x04test\x00\x03a b\x00".to_vec();
        let names = message(vec![(code::NAME_SERVERS, servers), (code::DOMAINS, domains)]);
        let lease = Lease::informed((&names, LINK), NOW);
        assert_eq!(lease.name_servers, ["2001:db8::53".parse::<Ipv6Addr>().unwrap()]);
        assert_eq!(lease.search, ["example.test"]);
        assert_eq!(lease.renew - NOW, Duration::from_secs(REFRESH.into()));
        let often = message(vec![(code::REFRESH, vec![0, 0, 0, 1])]);
        assert_eq!(Lease::informed((&often, LINK), NOW).renew - NOW, Duration::from_secs(600));
    }
}
