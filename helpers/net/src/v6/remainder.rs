//! The part of a delegated prefix that no interface has. The server's router sends all of the prefix here; without a route
//! of its own, a packet for that part would go back by the default route, and forth, until its hop limit ends it (RFC 7084,
//! WPD-5). So it is unreachable.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv6Addr;

use kelson_sys::netlink;

/// A prefix and its length.
pub type Network = (Ipv6Addr, u8);

/// The prefixes that may be unreachable, and whether this process has made them so.
#[derive(Debug, Default)]
pub struct Remainder(Vec<(Network, bool)>);

impl Remainder {
    /// An earlier process has left these.
    pub fn of(left: Vec<Network>) -> Remainder {
        Remainder(left.into_iter().map(|network| (network, false)).collect())
    }

    /// Does what is missing.
    ///
    /// # Errors
    /// The first one of the kernel; the rest is done nevertheless, and the next call tries it again.
    pub fn settle(&mut self, wanted: &BTreeSet<Network>) -> io::Result<()> {
        let mut done = Ok(());
        let known = std::mem::take(&mut self.0);
        for network in wanted {
            let mut is_set = known.contains(&(*network, true));
            if !is_set {
                let set = netlink::set_unreachable(network.0, network.1);
                is_set = set.is_ok();
                done = done.and(set);
            }
            self.0.push((*network, is_set));
        }
        for (network, is_set) in known.into_iter().filter(|(network, _)| !wanted.contains(network)) {
            let unset = netlink::unset_unreachable(network.0, network.1);
            if unset.is_err() {
                self.0.push((network, is_set));
            }
            done = done.and(unset);
        }
        done
    }
}
