//! What happens to a client, what it is about, and what it wants to be done.

use std::net::Ipv6Addr;

use super::lease::{Granted, Lease};
use super::message::Message;
use crate::exchange::Exchange;
use crate::lease::Moment;

/// What routers say of DHCPv6 (RFC 4861, 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Servers give addresses.
    pub managed: bool,
    /// Servers give other settings.
    pub other: bool,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The interface can send, or not.
    Link(bool),
    Routers(Flags),
    /// A message, and the address that it came from.
    Message(Message, Ipv6Addr),
    /// Another host has this address of the lease.
    Conflict(Ipv6Addr),
    /// The time of [`Client::deadline`](super::client::Client::deadline) has come.
    Time,
}

/// What the client wants to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send it to all servers of the link.
    Send(Message),
    /// Give the interface what this lease says, or the new times.
    Apply(Lease),
    /// Take it from the interface; why.
    Remove(Granted, &'static str),
    Log(String),
}

/// What the client is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    NoLink,
    /// No router says that there is a server.
    Idle,
    Pausing {
        until: Moment,
    },
    Soliciting {
        exchange: Exchange,
        offer: Option<Offer>,
    },
    Requesting {
        exchange: Exchange,
        offer: Offer,
    },
    /// Asks whether what it has belongs to this link.
    Confirming(Exchange),
    /// Asks all servers for the time of what it has, before the time for that: it may be on another link.
    Resuming(Exchange),
    Bound,
    Renewing(Exchange),
    Rebinding(Exchange),
    Declining {
        exchange: Exchange,
        message: Message,
    },
    /// Asks for names alone.
    Informing(Exchange),
}

/// What a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub server: Vec<u8>,
    pub items: Vec<Granted>,
    pub preference: u8,
}

impl State {
    /// What is under way.
    pub fn exchange(&self) -> Option<&Exchange> {
        match self {
            State::Soliciting { exchange, .. }
            | State::Requesting { exchange, .. }
            | State::Declining { exchange, .. }
            | State::Confirming(exchange)
            | State::Resuming(exchange)
            | State::Renewing(exchange)
            | State::Rebinding(exchange)
            | State::Informing(exchange) => Some(exchange),
            State::NoLink | State::Idle | State::Pausing { .. } | State::Bound => None,
        }
    }

    pub fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        match self {
            State::Soliciting { exchange, .. }
            | State::Requesting { exchange, .. }
            | State::Declining { exchange, .. }
            | State::Confirming(exchange)
            | State::Resuming(exchange)
            | State::Renewing(exchange)
            | State::Rebinding(exchange)
            | State::Informing(exchange) => Some(exchange),
            State::NoLink | State::Idle | State::Pausing { .. } | State::Bound => None,
        }
    }
}
