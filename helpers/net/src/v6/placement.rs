//! Puts what a lease has on interfaces: compares what is to be there with what the kernel has, and does what is missing.
//!
//! The kernel asks the link for other hosts with a new address (RFC 4862, 5.4), and removes one with an end that another
//! host has. So an address that goes while the kernel still asks is a conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};

use kelson_sys::netlink::{self, Address, FOREVER};

use crate::lease::{Moment, NEVER};

/// An address lasts a little longer in the kernel than here, so that the client removes it, with its reason.
const LATE: u64 = 2;

/// An address on an interface, by the number of that.
pub type Place = (u32, Ipv6Addr);

/// What is to be at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address6 {
    pub prefix: u8,
    pub preferred: Moment,
    pub valid: Moment,
}

/// What was put there.
#[derive(Debug, Clone, Copy)]
struct Placed {
    address: Address6,
    /// The kernel asks the link for it still.
    is_tentative: bool,
}

/// The addresses of one lease.
#[derive(Debug, Default)]
pub struct Placement {
    placed: BTreeMap<Place, Placed>,
}

/// What there is to do.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    put: Vec<(Place, Address6)>,
    remove: Vec<(Place, u8)>,
    conflicts: Vec<Place>,
}

impl Placement {
    /// What is missing next has gone with the link, which was out.
    pub fn forgive(&mut self) {
        self.placed.values_mut().for_each(|placed| placed.is_tentative = false);
    }

    /// Does what is missing: new addresses first. Returns those that other hosts have.
    ///
    /// # Errors
    /// The first one of the kernel; the rest is done nevertheless.
    pub fn settle(
        &mut self,
        wanted: &BTreeMap<Place, Address6>,
        up: &BTreeSet<u32>,
        kernel: &[Address],
        now: Moment,
    ) -> (Vec<Place>, io::Result<()>) {
        let plan = self.plan(wanted, up, kernel);
        let mut done = Ok(());
        for ((index, ip), address) in plan.put {
            let times = (seconds(address.preferred, now, 0), seconds(address.valid, now, LATE));
            let put = netlink::lease_address_until(index, ip.into(), address.prefix, times);
            if put.is_err() {
                // The next look tries it again.
                self.placed.remove(&(index, ip));
            }
            done = done.and(put);
        }
        for ((index, ip), prefix) in plan.remove {
            // An interface that is gone has no addresses.
            let removed = netlink::remove_address(index, ip.into(), prefix);
            done = done.and(removed.or_else(|error| match error.raw_os_error() {
                Some(libc::ENODEV) => Ok(()),
                _ => Err(error),
            }));
        }
        (plan.conflicts, done)
    }

    fn plan(&mut self, wanted: &BTreeMap<Place, Address6>, up: &BTreeSet<u32>, kernel: &[Address]) -> Plan {
        let mut plan = Plan::default();
        for (place, address) in wanted {
            let there =
                kernel.iter().find(|known| known.index == place.0 && known.ip() == Some(IpAddr::V6(place.1)));
            let known = self.placed.get(place);
            let has_failed = there.is_some_and(|there| there.flags & libc::IFA_F_DADFAILED != 0);
            let has_gone = there.is_none() && known.is_some_and(|known| known.is_tentative);
            if !up.contains(&place.0) {
                // The kernel removes what it has, and asks for it again when the interface is switched on.
                self.placed.remove(place);
                continue;
            }
            if has_failed || has_gone {
                self.placed.remove(place);
                plan.conflicts.push(*place);
                continue;
            }
            if there.is_none() || known.is_none_or(|known| known.address != *address) {
                plan.put.push((*place, *address));
            }
            let is_tentative = there.is_none_or(|there| there.flags & libc::IFA_F_TENTATIVE != 0);
            self.placed.insert(*place, Placed { address: *address, is_tentative });
        }
        self.placed.retain(|place, placed| {
            let is_wanted = wanted.contains_key(place);
            plan.remove.extend((!is_wanted).then_some((*place, placed.address.prefix)));
            is_wanted
        });
        plan
    }
}

fn seconds(end: Moment, now: Moment, more: u64) -> u32 {
    if end == NEVER {
        return FOREVER;
    }
    let left = end.saturating_sub(now).as_secs().saturating_add(more);
    u32::try_from(left).unwrap_or(FOREVER).min(FOREVER.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PLACE: Place = (2, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7));

    fn wanted(valid: u64) -> BTreeMap<Place, Address6> {
        let valid = Duration::from_secs(valid);
        BTreeMap::from([(PLACE, Address6 { prefix: 128, preferred: valid, valid })])
    }

    fn kernel(flags: u32) -> [Address; 1] {
        let bytes = PLACE.1.octets().to_vec();
        [Address { index: 2, family: 10, prefix: 128, scope: 0, flags, bytes, valid: 100 }]
    }

    /// What is put, what is removed, and whether there is a conflict.
    fn plan(
        placement: &mut Placement,
        wanted: &BTreeMap<Place, Address6>,
        kernel: &[Address],
    ) -> (usize, usize, bool) {
        let plan = placement.plan(wanted, &BTreeSet::from([2]), kernel);
        (plan.put.len(), plan.remove.len(), !plan.conflicts.is_empty())
    }

    #[test]
    fn an_address_is_put_once_and_again_for_other_times_and_when_it_is_missing() {
        let mut placement = Placement::default();
        let mut then = |wanted: &_, kernel: &[Address]| plan(&mut placement, wanted, kernel);
        assert_eq!(then(&wanted(100), &[]), (1, 0, false));
        assert_eq!(then(&wanted(100), &kernel(libc::IFA_F_TENTATIVE)), (0, 0, false));
        assert_eq!(then(&wanted(100), &kernel(0)), (0, 0, false));
        assert_eq!(then(&wanted(200), &kernel(0)), (1, 0, false));
        assert_eq!(then(&wanted(200), &[]), (1, 0, false), "somebody has removed it");
        assert_eq!(then(&BTreeMap::new(), &kernel(0)), (0, 1, false));
        assert_eq!(then(&BTreeMap::new(), &[]), (0, 0, false));
        // The next process finds what this one has left.
        assert_eq!(plan(&mut Placement::default(), &wanted(100), &kernel(0)), (1, 0, false));
    }

    #[test]
    fn an_address_that_goes_while_the_kernel_asks_is_a_conflict() {
        for kernel in [&[][..], &kernel(libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED)] {
            let mut placement = Placement::default();
            plan(&mut placement, &wanted(100), &[]);
            assert_eq!(plan(&mut placement, &wanted(100), kernel), (0, 0, true));
        }
        let mut placement = Placement::default();
        plan(&mut placement, &wanted(100), &[]);
        placement.forgive();
        assert_eq!(plan(&mut placement, &wanted(100), &[]), (1, 0, false), "the link was out");
        assert_eq!(placement.plan(&wanted(100), &BTreeSet::new(), &[]), Plan::default(), "it is off");
        assert_eq!(plan(&mut placement, &wanted(100), &[]), (1, 0, false), "it is on again");
    }

    #[test]
    fn the_kernel_keeps_it_a_little_longer() {
        let second = Duration::from_secs;
        assert_eq!(seconds(second(100), second(40), LATE), 62);
        assert_eq!(seconds(second(10), second(40), LATE), 2);
        assert_eq!(seconds(NEVER, second(40), LATE), FOREVER);
        assert_eq!(seconds(second(u64::MAX - 10), second(40), LATE), FOREVER - 1);
    }
}
