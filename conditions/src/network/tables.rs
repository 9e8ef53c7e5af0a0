//! What the kernel has told of links, addresses and default routes, and what follows from it.

use std::collections::{HashMap, HashSet};

use super::message::{Address, Content, Link, Route};

const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;

/// The levels that conditions ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Levels {
    pub(super) addresses: bool,
    pub(super) connectivity: bool,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    links: HashMap<u32, u32>,
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
    /// Takes a message in, `asked` for or not. True: the tables can no longer be trusted and all must be asked for again.
    ///
    /// Only what comes into being is taken from a message alone. The kernel removes IPv4 routes without a word when
    /// their link or their address goes, and lets one message stand for the replacement of another route: whenever
    /// something goes, it is asked.
    pub(super) fn take(&mut self, content: Content, asked: bool) -> bool {
        match content {
            Content::Overrun => true,
            Content::Link { gone, link: Link { index, flags } } => {
                if gone {
                    self.links.remove(&index).is_some()
                } else {
                    let before = self.links.insert(index, flags);
                    before.is_some_and(|before| is_up(before) && !is_up(flags))
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
                // What the kernel tells unasked may have replaced another.
                new && !asked && self.routes.len() > 1
            }
            Content::Done | Content::Error(_) | Content::Other => false,
        }
    }

    pub(super) fn levels(&self) -> Levels {
        let carries =
            |index: &u32| self.links.get(index).is_some_and(|flags| is_up(*flags) && !is_loopback(*flags));
        Levels {
            addresses: self.addresses.iter().any(|address| carries(&address.index)),
            connectivity: self.routes.iter().any(|interfaces| match interfaces.as_slice() {
                [] => self.links.keys().any(carries),
                some => some.iter().any(|index| self.links.get(index).is_some_and(|flags| is_up(*flags))),
            }),
        }
    }
}

/// Up by the operator's will, and able to carry packets.
fn is_up(flags: u32) -> bool {
    let wanted = (libc::IFF_UP | libc::IFF_RUNNING).cast_unsigned();
    flags & wanted == wanted
}

fn is_loopback(flags: u32) -> bool {
    flags & libc::IFF_LOOPBACK.cast_unsigned() != 0
}

/// Of global scope, and no other host is still being asked whether it has it.
fn is_usable(address: &Address) -> bool {
    address.scope == libc::RT_SCOPE_UNIVERSE && address.flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED) == 0
}

#[cfg(test)]
mod tests {
    use super::super::message::Messages;
    use super::super::message::tests::{address_body, link_body, message, route_body};
    use super::*;

    const UP: u32 = 0x41;

    /// Whether all must be asked for again, and the levels, after one message.
    fn after(tables: &mut Tables, kind: u16, body: &[u8]) -> (bool, bool, bool) {
        let bytes = message(kind, 0, body);
        let content = Messages::new(&bytes).next().expect("whole").content;
        let again = tables.take(content, false);
        let levels = tables.levels();
        (again, levels.addresses, levels.connectivity)
    }

    #[test]
    fn an_address_counts_while_its_link_is_up() {
        let mut tables = Tables::default();
        let address = address_body(2, libc::AF_INET, 0, 0x80, &[10, 0, 2, 15]);
        assert_eq!(after(&mut tables, libc::RTM_NEWLINK, &link_body(2, 0x1, "eth0")), (false, false, false));
        assert_eq!(after(&mut tables, libc::RTM_NEWADDR, &address), (false, false, false));
        assert_eq!(after(&mut tables, libc::RTM_NEWLINK, &link_body(2, UP, "eth0")), (false, true, false));
        assert_eq!(after(&mut tables, libc::RTM_NEWLINK, &link_body(2, 0x1, "eth0")), (true, false, false));
        assert_eq!(after(&mut tables, libc::RTM_NEWLINK, &link_body(2, UP, "eth0")), (false, true, false));
        assert_eq!(after(&mut tables, libc::RTM_DELADDR, &address), (true, false, false));
    }

    #[test]
    fn loopback_link_scope_and_tentative_addresses_do_not_count() {
        let mut tables = Tables::default();
        after(&mut tables, libc::RTM_NEWLINK, &link_body(1, UP | 0x8, "lo"));
        after(&mut tables, libc::RTM_NEWLINK, &link_body(2, UP, "eth0"));
        let on_loopback = address_body(1, libc::AF_INET, 0, 0x80, &[10, 0, 0, 1]);
        assert!(!after(&mut tables, libc::RTM_NEWADDR, &on_loopback).1);
        let link_local = address_body(2, libc::AF_INET6, 253, 0x80, &[0xfe; 16]);
        assert!(!after(&mut tables, libc::RTM_NEWADDR, &link_local).1);
        let tentative = address_body(2, libc::AF_INET6, 0, 0xc0, &[0x20; 16]);
        assert!(!after(&mut tables, libc::RTM_NEWADDR, &tentative).1);
        let settled = address_body(2, libc::AF_INET6, 0, 0x80, &[0x20; 16]);
        assert_eq!(after(&mut tables, libc::RTM_NEWADDR, &settled), (false, true, false));
        assert!(!after(&mut tables, libc::RTM_NEWADDR, &tentative).1, "it is asked about again");
    }

    #[test]
    fn a_default_route_counts_while_its_link_is_up() {
        let mut tables = Tables::default();
        after(&mut tables, libc::RTM_NEWLINK, &link_body(2, UP, "eth0"));
        after(&mut tables, libc::RTM_NEWLINK, &link_body(3, 0x1, "eth1"));
        assert_eq!(after(&mut tables, libc::RTM_NEWROUTE, &route_body(24, 1, 2)), (false, false, false));
        assert_eq!(after(&mut tables, libc::RTM_NEWROUTE, &route_body(0, 1, 3)), (false, false, false));
        assert_eq!(after(&mut tables, libc::RTM_NEWROUTE, &route_body(0, 1, 2)), (true, false, true));
        assert_eq!(after(&mut tables, libc::RTM_DELLINK, &link_body(2, 0, "eth0")), (true, false, false));
        assert!(after(&mut tables, libc::RTM_DELROUTE, &route_body(0, 1, 3)).0);
    }
}
