//! The links, addresses and default routes that the kernel has reported, and what follows from them.

use std::collections::{HashMap, HashSet};

use kelson_sys::netlink::{Address, Content, Link, Route, is_running};
use kelson_sys::ordered;

/// The levels that conditions ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) addresses: bool,
    pub(super) connectivity: bool,
    /// The names of interfaces that are up and can carry packets, sorted.
    pub(super) running: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Flags and name.
    links: HashMap<u32, (u32, String)>,
    addresses: HashSet<AddressKey>,
    routes: HashSet<Vec<u32>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AddressKey {
    index: u32,
    family: u8,
    prefix: u8,
    bytes: Vec<u8>,
}

impl Tables {
    /// Takes a message in, `asked` for or not. True: the tables can no longer be trusted and all must be asked for
    /// again.
    ///
    /// Only what comes into being is taken from a message alone. The kernel removes IPv4 routes without a word when
    /// their link or their address goes, and lets one message stand for the replacement of another route: whenever
    /// something goes, it is asked.
    pub(super) fn take(&mut self, content: Content, asked: bool) -> bool {
        match content {
            Content::Overrun => true,
            Content::Link { gone, link: Link { index, flags, name, .. } } => {
                if gone {
                    self.links.remove(&index).is_some()
                } else {
                    let before = self.links.insert(index, (flags, name));
                    before.is_some_and(|(before, _)| is_running(before) && !is_running(flags))
                }
            }
            Content::Address { gone, address } => {
                let usable = is_usable(&address);
                let Address { index, family, prefix, bytes, .. } = address;
                let key = AddressKey { index, family, prefix, bytes };
                if usable && !gone {
                    self.addresses.insert(key);
                    false
                } else {
                    self.addresses.remove(&key);
                    gone
                }
            }
            Content::DefaultRoute { gone: true, .. } => true,
            Content::DefaultRoute { gone: false, route: Route { interfaces, .. } } => {
                let new = self.routes.insert(interfaces);
                // A route that the kernel reports unasked may have replaced another.
                new && !asked && self.routes.len() > 1
            }
            Content::Done
            | Content::Error(_)
            | Content::Route { .. }
            | Content::Advertised { .. }
            | Content::Other => false,
        }
    }

    /// `bridge`: its addresses do not count.
    pub(super) fn levels(&self, bridge: Option<&str>) -> Levels {
        let carries = |index: &u32| {
            self.links.get(index).is_some_and(|(flags, _)| is_running(*flags) && !is_loopback(*flags))
        };
        let counts = |index: &u32| self.links.get(index).is_some_and(|(_, name)| bridge != Some(name));
        let up = self.links.values().filter(|(flags, _)| is_running(*flags));
        let mut running: Vec<String> = up.map(|(_, name)| name.clone()).collect();
        ordered::sort(&mut running);
        Levels {
            addresses: self.addresses.iter().any(|address| carries(&address.index) && counts(&address.index)),
            connectivity: self.routes.iter().any(|interfaces| match interfaces.as_slice() {
                [] => self.links.keys().any(carries),
                some => some
                    .iter()
                    .any(|index| self.links.get(index).is_some_and(|(flags, _)| is_running(*flags))),
            }),
            running,
        }
    }
}

fn is_loopback(flags: u32) -> bool {
    flags & libc::IFF_LOOPBACK.cast_unsigned() != 0
}

/// Of global scope, and no other host is still being asked whether it has it.
fn is_usable(address: &Address) -> bool {
    address.scope == libc::RT_SCOPE_UNIVERSE
        && address.flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: u32 = 0x41;

    fn link(gone: bool, index: u32, flags: u32) -> Content {
        Content::Link { gone, link: Link { index, flags, kind: 1, ..Link::default() } }
    }

    fn address(gone: bool, index: u32, scope: u8, flags: u32, bytes: &[u8]) -> Content {
        let family = if bytes.len() == 4 { 2 } else { 10 };
        let address =
            Address { index, family, prefix: 24, scope, flags, bytes: bytes.to_vec(), valid: u32::MAX };
        Content::Address { gone, address }
    }

    fn default_route(gone: bool, interface: u32) -> Content {
        let (destination, gateway, interfaces) = (None, None, vec![interface]);
        let route = Route {
            family: 2,
            table: 254,
            destination,
            prefix: 0,
            gateway,
            metric: 0,
            protocol: 3,
            interfaces,
        };
        Content::DefaultRoute { gone, route }
    }

    /// Whether all must be asked for again, and the levels, after one message that nobody asked for.
    fn after(tables: &mut Tables, content: Content) -> (bool, bool, bool) {
        let again = tables.take(content, false);
        let levels = tables.levels(None);
        (again, levels.addresses, levels.connectivity)
    }

    #[test]
    fn an_address_counts_while_its_link_is_up() {
        let mut tables = Tables::default();
        let of_link = |gone| address(gone, 2, 0, 0x80, &[10, 0, 2, 15]);
        assert_eq!(after(&mut tables, link(false, 2, 0x1)), (false, false, false));
        assert_eq!(after(&mut tables, of_link(false)), (false, false, false));
        assert_eq!(after(&mut tables, link(false, 2, UP)), (false, true, false));
        assert_eq!(after(&mut tables, link(false, 2, 0x1)), (true, false, false));
        assert_eq!(after(&mut tables, link(false, 2, UP)), (false, true, false));
        assert_eq!(after(&mut tables, of_link(true)), (true, false, false));
    }

    #[test]
    fn loopback_link_scope_and_tentative_addresses_do_not_count() {
        let mut tables = Tables::default();
        after(&mut tables, link(false, 1, UP | 0x8));
        after(&mut tables, link(false, 2, UP));
        assert!(!after(&mut tables, address(false, 1, 0, 0x80, &[10, 0, 0, 1])).1, "of the loopback");
        assert!(!after(&mut tables, address(false, 2, 253, 0x80, &[0xfe; 16])).1, "of the link alone");
        let new = |flags| address(false, 2, 0, flags, &[0x20; 16]);
        assert!(!after(&mut tables, new(0xc0)).1, "tentative");
        assert_eq!(after(&mut tables, new(0x80)), (false, true, false));
        assert!(!after(&mut tables, new(0xc0)).1, "it is asked about again");
    }

    #[test]
    fn a_default_route_counts_while_its_link_is_up() {
        let mut tables = Tables::default();
        after(&mut tables, link(false, 2, UP));
        after(&mut tables, link(false, 3, 0x1));
        assert_eq!(after(&mut tables, Content::Other), (false, false, false));
        assert_eq!(after(&mut tables, default_route(false, 3)), (false, false, false));
        assert_eq!(after(&mut tables, default_route(false, 2)), (true, false, true));
        assert_eq!(after(&mut tables, link(true, 2, 0)), (true, false, false));
        assert!(after(&mut tables, default_route(true, 3)).0);
    }
}
