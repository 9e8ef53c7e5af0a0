//! What happens to a client, what it is about, and what it wants to be done.

use std::net::Ipv4Addr;

use kelson_sys::packet::Mac;

use crate::exchange::Exchange;
use crate::lease::{Lease, Moment};
use crate::message::Message;

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The interface is up and has a cable, or not.
    Link(bool),
    Message(Message),
    /// Another host uses, or is about to use, the address that [`Client::watched`](crate::client::Client::watched) names.
    Conflict(Mac),
    /// The time of [`Client::deadline`](crate::client::Client::deadline) has come.
    Time,
}

/// What the client wants to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send it to all servers of the link, from this address.
    Broadcast(Message, Ipv4Addr),
    /// Send it from the first address to the second.
    Unicast(Message, Ipv4Addr, Ipv4Addr),
    /// Send a question of ARP.
    Arp {
        sender: Ipv4Addr,
        about: Ipv4Addr,
    },
    /// Give the interface what this lease says, or the new times.
    Apply(Lease),
    /// Take it from the interface; why.
    Remove(Lease, &'static str),
    Log(String),
}

/// What the client is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    NoLink,
    Pausing {
        until: Moment,
    },
    Selecting(Exchange),
    Requesting {
        exchange: Exchange,
        address: Ipv4Addr,
        server: Ipv4Addr,
    },
    /// Asks for what it held before the link or the process ended.
    Rebooting(Exchange),
    Probing {
        lease: Lease,
        sent: u8,
        next: Moment,
    },
    Bound,
    Renewing(Exchange),
    Rebinding(Exchange),
}

impl State {
    /// What is under way.
    pub fn exchange(&self) -> Option<&Exchange> {
        match self {
            State::Selecting(exchange)
            | State::Requesting { exchange, .. }
            | State::Rebooting(exchange)
            | State::Renewing(exchange)
            | State::Rebinding(exchange) => Some(exchange),
            State::NoLink | State::Pausing { .. } | State::Probing { .. } | State::Bound => None,
        }
    }
}

/// What the interface has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub lease: Lease,
    /// The end of the lease, or an earlier one.
    pub until: Moment,
}
