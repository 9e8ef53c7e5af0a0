//! What the routers of each interface say about names, for as long as they say it.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kelson_helper::log::line;
use kelson_proto::v1::{Advertised, AdvertisedName};
use kelson_sys::icmpv6;

use crate::advertisement::{self, Advice};
use crate::lease::{Moment, NEVER};
use crate::record::{get, of_time, put, to_time};

/// More than a host uses, of each kind.
const MOST: usize = 8;
/// How often a router is asked, and the time between (RFC 4861, 10).
const SOLICITATIONS: u8 = 3;
const PAUSE: Duration = Duration::from_secs(4);

/// One interface whose routers are listened to.
#[derive(Debug)]
struct Interface {
    name: String,
    is_running: bool,
    /// Each with its end.
    advice: Vec<(Advice, Moment)>,
    /// When a router is asked next, and how often still.
    asks: Option<(Moment, u8)>,
}

/// All of them, by their numbers.
#[derive(Debug)]
pub struct Routers {
    folder: PathBuf,
    interfaces: BTreeMap<u32, Interface>,
}

impl Routers {
    pub fn new(folder: &Path) -> Routers {
        Routers { folder: folder.to_owned(), interfaces: BTreeMap::new() }
    }

    /// These interfaces are there now, with their numbers and names, running or not. Returns whether names have changed.
    pub fn look<'a>(&mut self, there: impl Iterator<Item = (u32, &'a str, bool)>, now: Moment) -> bool {
        let there: Vec<(u32, &str, bool)> = there.collect();
        let before = self.interfaces.len();
        self.interfaces.retain(|index, interface| {
            there.iter().any(|(number, name, _)| (number, *name) == (index, interface.name.as_str()))
        });
        let mut changed = self.interfaces.len() != before;
        for (index, name, is_running) in there {
            let interface = self.interfaces.entry(index).or_insert_with(|| {
                let advice = read(&self.folder, name, now);
                changed |= !advice.is_empty();
                Interface { name: name.to_owned(), is_running: false, advice, asks: None }
            });
            // The kernel asks too, when the link comes up; its answer may have come before this process.
            if is_running && !interface.is_running {
                interface.asks = Some((now, SOLICITATIONS));
            }
            interface.is_running = is_running;
        }
        changed
    }

    /// Takes in the options of an advertisement. Returns whether names have changed.
    pub fn take(&mut self, index: u32, options: &[u8], now: Moment) -> bool {
        let Some(interface) = self.interfaces.get_mut(&index) else { return false };
        interface.asks = None;
        let before: Vec<Advice> = interface.names();
        for (advice, lifetime) in advertisement::read(options) {
            let end = lifetime.map_or(NEVER, |lifetime| now.saturating_add(lifetime));
            interface.put(advice, end);
        }
        interface.advice.retain(|(_, end)| *end > now);
        interface.keep(&self.folder, &before)
    }

    /// Forgets what has ended, and asks where it is time for it. Returns whether names have changed.
    pub fn time(&mut self, now: Moment) -> bool {
        let mut changed = false;
        for (index, interface) in &mut self.interfaces {
            let before = interface.names();
            interface.advice.retain(|(_, end)| *end > now);
            changed |= interface.keep(&self.folder, &before);
            if let Some((_, left)) = interface.asks.take_if(|(at, _)| *at <= now) {
                // Without an address of the link, which the kernel may be probing still, it is too early.
                let _ = icmpv6::solicit_routers(*index);
                let left = left.saturating_sub(1);
                interface.asks = (left > 0).then(|| (now.saturating_add(PAUSE), left));
            }
        }
        changed
    }

    /// When [`Routers::time`] is due.
    pub fn deadline(&self) -> Option<Moment> {
        let all = self.interfaces.values();
        let ends = all.clone().flat_map(|interface| interface.advice.iter().map(|(_, end)| *end));
        let asks = all.filter_map(|interface| interface.asks.map(|(at, _)| at));
        ends.chain(asks).min().filter(|at| *at < NEVER)
    }

    /// The name servers, as `resolv.conf`(5) has them.
    pub fn name_servers(&self) -> impl Iterator<Item = String> {
        self.interfaces.values().flat_map(|interface| {
            interface.advice.iter().filter_map(|(advice, _)| match advice {
                Advice::NameServer(server) => Some(scoped(*server, &interface.name)),
                Advice::Domain(_) => None,
            })
        })
    }

    pub fn domains(&self) -> impl Iterator<Item = &String> {
        let advice = self.interfaces.values().flat_map(|interface| &interface.advice);
        advice.filter_map(|(advice, _)| match advice {
            Advice::Domain(domain) => Some(domain),
            Advice::NameServer(_) => None,
        })
    }

    /// A line for the status of the service.
    pub fn status(&self) -> impl Iterator<Item = String> {
        self.interfaces.values().map(|interface| {
            format!("{}: {} names by router advertisements", interface.name, interface.advice.len())
        })
    }
}

impl Interface {
    fn names(&self) -> Vec<Advice> {
        self.advice.iter().map(|(advice, _)| advice.clone()).collect()
    }

    fn put(&mut self, advice: Advice, end: Moment) {
        if let Some((_, known)) = self.advice.iter_mut().find(|(known, _)| *known == advice) {
            *known = end;
            return;
        }
        let same_kind = |known: &Advice| {
            matches!(known, Advice::NameServer(_)) == matches!(advice, Advice::NameServer(_))
        };
        if self.advice.iter().filter(|(known, _)| same_kind(known)).count() < MOST {
            self.advice.push((advice, end));
        }
    }

    /// Records the advice for the next process, and logs what it is where that has changed.
    fn keep(&self, folder: &Path, before: &[Advice]) -> bool {
        if let Err(error) = write(folder, &self.name, &self.advice) {
            line(format_args!("{}: router advertisements are not recorded: {error}", self.name));
        }
        let now = self.names();
        if now == before {
            return false;
        }
        let text = now.iter().map(|advice| match advice {
            Advice::NameServer(server) => format!("name server {}", scoped(*server, &self.name)),
            Advice::Domain(domain) => format!("domain {domain}"),
        });
        let text = text.collect::<Vec<_>>().join(", ");
        let text = if text.is_empty() { "no names".to_owned() } else { text };
        line(format_args!("{}: {text} by router advertisements", self.name));
        true
    }
}

/// An address of the link means something together with the interface alone.
pub fn scoped(server: Ipv6Addr, interface: &str) -> String {
    if server.is_unicast_link_local() { format!("{server}%{interface}") } else { server.to_string() }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.advertised"))
}

fn write(folder: &Path, name: &str, advice: &[(Advice, Moment)]) -> io::Result<()> {
    let named = |wanted: fn(&Advice) -> Option<String>| {
        let named = advice.iter().filter_map(move |(advice, end)| {
            Some(AdvertisedName { name: wanted(advice)?, end: to_time(*end) })
        });
        named.collect()
    };
    let record = || Advertised {
        name_servers: named(|advice| match advice {
            Advice::NameServer(server) => Some(server.to_string()),
            Advice::Domain(_) => None,
        }),
        search: named(|advice| match advice {
            Advice::Domain(domain) => Some(domain.clone()),
            Advice::NameServer(_) => None,
        }),
    };
    put(&path(folder, name), (!advice.is_empty()).then(record))
}

/// What an earlier process has heard and has not ended.
fn read(folder: &Path, name: &str, now: Moment) -> Vec<(Advice, Moment)> {
    let Advertised { name_servers, search } = get(&path(folder, name)).unwrap_or_default();
    let servers = name_servers
        .iter()
        .filter_map(|name| Some((Advice::NameServer(name.name.parse().ok()?), of_time(name.end)?)));
    let domains =
        search.iter().filter_map(|name| Some((Advice::Domain(name.name.clone()), of_time(name.end)?)));
    servers.chain(domains).filter(|(_, end)| *end > now).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::advertisement::testing::option;

    fn server(last: u8) -> Vec<u8> {
        let mut bytes = [0; 16];
        (bytes[0], bytes[1], bytes[15]) = (0xfe, 0x80, last);
        bytes.to_vec()
    }

    fn seconds(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    #[test]
    fn names_last_as_long_as_the_router_says_and_survive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let there = || [(2, "eth0", true)].into_iter();
        let mut routers = Routers::new(folder.path());
        assert!(!routers.look(there(), seconds(1)));
        assert_eq!(routers.deadline(), Some(seconds(1)), "a router is asked at once");
        assert!(routers.take(2, &option(25, 100, &server(1)), seconds(10)));
        assert!(routers.take(2, &option(31, u32::MAX, b"\x01a\x00"), seconds(10)));
        assert!(!routers.take(2, &option(25, 200, &server(1)), seconds(20)), "the same for longer");
        assert!(!routers.take(3, &option(25, 200, &server(1)), seconds(20)), "of no interface");
        assert_eq!(routers.name_servers().collect::<Vec<_>>(), ["fe80::1%eth0"]);
        assert_eq!(routers.deadline(), Some(seconds(220)));

        let mut next = Routers::new(folder.path());
        assert!(next.look(there(), seconds(100)));
        assert_eq!(next.name_servers().collect::<Vec<_>>(), ["fe80::1%eth0"]);
        assert_eq!(next.domains().collect::<Vec<_>>(), ["a"]);
        assert!(next.time(seconds(220)));
        assert_eq!((next.name_servers().count(), next.domains().count()), (0, 1));
        assert!(next.take(2, &option(31, 0, b"\x01a\x00"), seconds(230)), "it is taken back");
        assert_eq!(next.domains().count(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut last = Routers::new(folder.path());
        assert!(!last.look(there(), seconds(240)));
        assert!(!last.look(std::iter::empty(), seconds(250)) || last.interfaces.is_empty());
    }

    #[test]
    fn a_router_is_asked_three_times_and_a_flood_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut routers = Routers::new(folder.path());
        routers.look([(4711, "eth0", true)].into_iter(), seconds(1));
        let mut asked = Vec::new();
        while let Some(at) = routers.deadline() {
            asked.push(at);
            routers.time(at);
        }
        assert_eq!(asked, [seconds(1), seconds(5), seconds(9)]);
        for number in 1..100 {
            routers.take(4711, &option(25, 100, &server(number)), seconds(10));
        }
        assert_eq!(routers.name_servers().count(), MOST);
    }
}
