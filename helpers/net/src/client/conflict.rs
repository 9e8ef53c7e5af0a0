//! Whether another host has the address: asked before it is taken, and heard of afterwards (RFC 5227).

use std::net::Ipv4Addr;
use std::time::Duration;

use kelson_sys::packet::Mac;

use super::{ANNOUNCE_WAIT, Client};
use crate::lease::{Lease, Moment};
use crate::message::{Kind, code};
use crate::state::{Action, State};

/// RFC 2131, 3.1: the time before the client begins again after it has declined an address.
pub(super) const DECLINE_PAUSE: Duration = Duration::from_secs(10);
/// RFC 5227, 1.1.
const PROBES: u8 = 3;
const PROBE_MIN: Duration = Duration::from_secs(1);
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

impl Client {
    pub(super) fn probe(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let more = Duration::from_millis((self.dice)().checked_rem(1000).unwrap_or_default().into());
        let State::Probing { lease, sent, next } = &mut self.state else { return };
        if *next > now {
            return;
        }
        if *sent >= PROBES {
            let lease = lease.clone();
            self.bind(now, lease, actions);
            return;
        }
        *sent = sent.saturating_add(1);
        *next =
            now.saturating_add(if *sent == PROBES { ANNOUNCE_WAIT } else { PROBE_MIN.saturating_add(more) });
        actions.push(Action::Arp { sender: Ipv4Addr::UNSPECIFIED, about: lease.address });
    }

    pub(super) fn conflict(&mut self, now: Moment, other: Mac, actions: &mut Vec<Action>) {
        if other == self.identity.hardware {
            return;
        }
        let host = other.map(|byte| format!("{byte:02x}")).join(":");
        if let State::Probing { lease, .. } = &self.state {
            actions.push(Action::Log(format!("{} is declined: {host} uses it", lease.address)));
            let lease = lease.clone();
            self.decline(now, &lease, actions);
        } else if self.watched().is_some() {
            let again = self.defended.is_some_and(|last| now.saturating_sub(last) < DEFEND_INTERVAL);
            self.defended = Some(now);
            if !again {
                actions.extend(self.announcement());
                actions.push(Action::Log(format!("{host} uses the address of this host, too")));
            } else if let Some(held) = self.held.take() {
                actions.push(Action::Remove(held.lease.clone(), "another host uses it, too"));
                self.announce = None;
                self.decline(now, &held.lease, actions);
            }
        }
    }

    fn decline(&mut self, now: Moment, lease: &Lease, actions: &mut Vec<Action>) {
        let addresses = [(code::REQUESTED_ADDRESS, lease.address), (code::SERVER, lease.server)];
        let message = self.identity.message(Kind::Decline, (self.dice)(), &addresses);
        actions.push(Action::Broadcast(message, Ipv4Addr::UNSPECIFIED));
        self.fail(now, DECLINE_PAUSE);
    }
}
