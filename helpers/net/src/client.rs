//! The client of DHCPv4 on one interface: states and times alone, without sockets and without a clock.
//!
//! RFC 2131 says what a client sends when. The states are its own, with two more: `Pausing`, before the client begins
//! again, and `Probing`, in which RFC 5227 asks whether another host has the address. Apart from the state stands what the
//! interface has, `held`: a lease outlasts a link that goes down, a server that is gone, and this process.
//!
//! Where an answer and a time compete, the order is: the end of a lease, then the state's own time. An answer counts
//! only if it has the number of the exchange under way, and comes from a server that this state listens to.

mod conflict;

use std::net::Ipv4Addr;
use std::time::Duration;

use kelson_sys::packet::Mac;

use crate::exchange::{Exchange, FIRST_PAUSE};
use crate::identity::Identity;
use crate::lease::{Lease, Moment, NEVER};
use crate::message::{Kind, Message, code};
pub use crate::state::{Action, Input};
use crate::state::{Held, State};

/// How often a request is sent before the client begins again.
const REQUESTS: u32 = 4;
/// How often it asks for an address that it had. Without an answer it keeps the address (RFC 2131, 3.2).
const REBOOTS: u32 = 3;
/// How long an address stays that a server has taken back, so that the next one is there before it goes.
const GRACE: Duration = Duration::from_secs(10);

/// More than any chain of states that follow each other at the same moment.
const STEPS: usize = 8;

/// RFC 5227, 1.1.
const PROBE_WAIT_MS: u32 = 1000;
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);

/// The client of one interface.
pub struct Client {
    identity: Identity,
    /// Whether it asks the link before it takes an address.
    probes: bool,
    state: State,
    held: Option<Held>,
    /// How often it has begun again since it last had a lease.
    failures: u32,
    /// When to announce the address a second time.
    announce: Option<Moment>,
    /// When it last told another host that the address is its own.
    defended: Option<Moment>,
    dice: Box<dyn FnMut() -> u32>,
}

impl Client {
    /// `held`: what the interface has from before. `dice`: random numbers.
    pub fn new(
        hardware: Mac,
        host_name: Option<String>,
        probes: bool,
        held: Option<Lease>,
        dice: Box<dyn FnMut() -> u32>,
    ) -> Client {
        let held = held.map(|lease| Held { until: lease.end, lease });
        let (state, failures, announce, defended) = (State::NoLink, 0, None, None);
        let identity = Identity { hardware, host_name };
        Client { identity, probes, state, held, failures, announce, defended, dice }
    }

    /// What the interface has.
    pub fn lease(&self) -> Option<&Lease> {
        self.held.as_ref().map(|held| &held.lease)
    }

    /// Words for the status of the service.
    pub fn status(&self) -> &'static str {
        match self.state {
            State::NoLink => "no link",
            State::Pausing { .. } => "pausing",
            State::Selecting(_) => "looking for a server",
            State::Requesting { .. } => "requesting an address",
            State::Rebooting(_) => "asking for its earlier address",
            State::Probing { .. } => "probing its address",
            State::Bound => "bound",
            State::Renewing(_) => "renewing",
            State::Rebinding(_) => "looking for another server",
        }
    }

    /// The address of which conflicts are to be reported, and whether probes of other hosts count.
    pub fn watched(&self) -> Option<(Ipv4Addr, bool)> {
        match &self.state {
            State::Probing { lease, .. } => Some((lease.address, true)),
            State::Bound | State::Renewing(_) | State::Rebinding(_) => {
                self.held.as_ref().map(|held| (held.lease.address, false))
            }
            _ => None,
        }
    }

    /// When [`Input::Time`] is due.
    pub fn deadline(&self) -> Option<Moment> {
        let own = match &self.state {
            State::Pausing { until } => *until,
            State::Probing { next, .. } => *next,
            State::Bound => self.held.as_ref().map_or(NEVER, |held| held.lease.renew),
            state => state.exchange().map_or(NEVER, |exchange| exchange.next),
        };
        let end = self.held.as_ref().map_or(NEVER, |held| held.until);
        let first = own.min(end).min(self.announce.unwrap_or(NEVER));
        (first < NEVER).then_some(first)
    }

    /// Takes in what has happened. Returns what is to be done.
    pub fn handle(&mut self, now: Moment, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        self.end(now, &mut actions);
        match input {
            Input::Link(true) if self.state == State::NoLink => self.begin(now, &mut actions),
            Input::Link(true) | Input::Time => {}
            Input::Link(false) => {
                self.state = State::NoLink;
                self.announce = None;
            }
            Input::Message(message) if message.hardware == self.identity.hardware => {
                self.answer(now, &message, &mut actions);
            }
            Input::Message(_) => {}
            Input::Conflict(other) => self.conflict(now, other, &mut actions),
        }
        self.settle(now, &mut actions);
        actions
    }

    /// Does what has become due, also by what was done for that: a lease that took long to get may be half over.
    fn settle(&mut self, now: Moment, actions: &mut Vec<Action>) {
        for _ in 0..STEPS {
            self.end(now, actions);
            self.time(now, actions);
            if self.deadline().is_none_or(|next| next > now) {
                return;
            }
        }
    }

    /// Removes what the interface has once its time is over.
    fn end(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let Some(Held { lease, until }) = self.held.take_if(|held| held.until <= now) else { return };
        let reason =
            if until < lease.end { "the server has taken it back" } else { "no server has extended it" };
        actions.push(Action::Remove(lease, reason));
        self.announce = None;
        if matches!(self.state, State::Bound | State::Renewing(_) | State::Rebinding(_) | State::Rebooting(_))
        {
            self.state = State::Pausing { until: now };
        }
    }

    fn begin(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.failures = 0;
        if self.held.as_ref().is_some_and(|held| held.until == held.lease.end) {
            let exchange = self.exchange(now);
            self.state = State::Rebooting(exchange);
            self.send(now, actions);
        } else {
            self.state = State::Pausing { until: now };
        }
    }

    fn exchange(&mut self, now: Moment) -> Exchange {
        Exchange::new((self.dice)(), now)
    }

    /// Does what the state's own time asks for.
    fn time(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if let Some(at) = self.announce
            && at <= now
        {
            self.announce = None;
            actions.extend(self.announcement());
        }
        match &mut self.state {
            State::Pausing { until } if *until <= now => {
                let exchange = self.exchange(now);
                self.state = State::Selecting(exchange);
                self.send(now, actions);
            }
            State::Requesting { exchange, server, .. }
                if exchange.next <= now && exchange.count >= REQUESTS =>
            {
                actions.push(Action::Log(format!("{server} does not answer a request for what it offered")));
                self.fail(now, Duration::ZERO);
                self.time(now, actions);
            }
            State::Rebooting(exchange) if exchange.next <= now && exchange.count >= REBOOTS => {
                self.state = State::Bound;
                self.time(now, actions);
            }
            State::Selecting(exchange) | State::Requesting { exchange, .. } | State::Rebooting(exchange)
                if exchange.next <= now =>
            {
                self.send(now, actions);
            }
            State::Probing { .. } => self.probe(now, actions),
            State::Bound | State::Renewing(_) | State::Rebinding(_) => self.extend(now, actions),
            _ => {}
        }
    }

    /// Asks for more time: its server, and from the time for that on all servers.
    fn extend(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let Some((renew, rebind)) = self.held.as_ref().map(|held| (held.lease.renew, held.lease.rebind))
        else {
            self.state = State::Pausing { until: now };
            return;
        };
        match &self.state {
            State::Bound | State::Renewing(_) if rebind <= now => {
                let exchange = self.exchange(now);
                self.state = State::Rebinding(exchange);
            }
            State::Bound if renew <= now => {
                let exchange = self.exchange(now);
                self.state = State::Renewing(exchange);
            }
            State::Renewing(exchange) | State::Rebinding(exchange) if exchange.next <= now => {}
            _ => return,
        }
        self.send(now, actions);
    }

    /// Sends the next message of the exchange, and sets the time for the one after it.
    fn send(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let jitter = Duration::from_millis((self.dice)().checked_rem(2000).unwrap_or_default().into());
        let held = self.held.as_ref().map(|held| &held.lease);
        let own = held.map_or(Ipv4Addr::UNSPECIFIED, |lease| lease.address);
        let nobody = Ipv4Addr::UNSPECIFIED;
        let (kind, client, server, addresses) = match &mut self.state {
            State::Selecting(exchange) => {
                exchange.send(now, jitter);
                (Kind::Discover, nobody, None, Vec::new())
            }
            State::Requesting { exchange, address, server } => {
                exchange.send(now, jitter);
                let addresses = vec![(code::REQUESTED_ADDRESS, *address), (code::SERVER, *server)];
                (Kind::Request, nobody, None, addresses)
            }
            State::Rebooting(exchange) => {
                exchange.send(now, jitter);
                (Kind::Request, nobody, None, vec![(code::REQUESTED_ADDRESS, own)])
            }
            State::Renewing(exchange) => {
                exchange.send_before(now, held.map_or(now, |lease| lease.rebind));
                (Kind::Request, own, held.map(|lease| lease.server), Vec::new())
            }
            State::Rebinding(exchange) => {
                exchange.send_before(now, held.map_or(now, |lease| lease.end));
                (Kind::Request, own, None, Vec::new())
            }
            State::NoLink | State::Pausing { .. } | State::Probing { .. } | State::Bound => return,
        };
        let Some(exchange) = self.state.exchange() else { return };
        let mut message = self.identity.request(kind, exchange.transaction, client, &addresses);
        message.seconds = exchange.seconds(now);
        actions.push(match server {
            Some(server) => Action::Unicast(message, client, server),
            None => Action::Broadcast(message, client),
        });
    }

    fn answer(&mut self, now: Moment, message: &Message, actions: &mut Vec<Action>) {
        let server = message.address(code::SERVER);
        let held = self.held.as_ref().map(|held| &held.lease);
        let listens = match &self.state {
            State::Selecting(_) => message.kind == Kind::Offer,
            State::Requesting { server: chosen, .. } => server == Some(*chosen),
            State::Renewing(_) => server == held.map(|lease| lease.server),
            _ => server.is_some(),
        };
        let Some(exchange) = self.state.exchange() else { return };
        if !listens || exchange.transaction != message.transaction {
            return;
        }
        let asked = exchange.sent;
        match message.kind {
            Kind::Nak => self.refused(now, actions),
            Kind::Offer | Kind::Ack => match Lease::read(message, asked) {
                Err(unfit) => {
                    let from = server.map_or_else(|| "a server".to_owned(), |server| server.to_string());
                    actions.push(Action::Log(format!("the answer of {from} is ignored: {unfit}")));
                }
                Ok(lease) => self.granted(now, message.kind, lease, actions),
            },
            Kind::Discover | Kind::Request | Kind::Decline => {}
        }
    }

    fn granted(&mut self, now: Moment, kind: Kind, lease: Lease, actions: &mut Vec<Action>) {
        let same = self.held.as_ref().is_some_and(|held| held.lease.address == lease.address);
        match (&mut self.state, kind) {
            (State::Selecting(exchange), Kind::Offer) => {
                let exchange = exchange.again();
                self.state = State::Requesting { exchange, address: lease.address, server: lease.server };
                self.send(now, actions);
            }
            (State::Requesting { address, .. }, Kind::Ack) => {
                if lease.address != *address {
                    let text = format!("{} offered {address} and grants {}", lease.server, lease.address);
                    actions.push(Action::Log(text));
                    self.fail(now, Duration::ZERO);
                } else if same || !self.probes {
                    self.bind(now, lease, actions);
                } else {
                    let wait = (self.dice)().checked_rem(PROBE_WAIT_MS).unwrap_or_default();
                    let next = now.saturating_add(Duration::from_millis(wait.into()));
                    self.state = State::Probing { lease, sent: 0, next };
                }
            }
            (State::Rebooting(_) | State::Renewing(_) | State::Rebinding(_), Kind::Ack) if same => {
                self.bind(now, lease, actions);
            }
            _ => {}
        }
    }

    fn bind(&mut self, now: Moment, lease: Lease, actions: &mut Vec<Action>) {
        let held = Held { until: lease.end, lease: lease.clone() };
        let before = self.held.replace(held).filter(|before| before.lease.address != lease.address);
        let is_new = !matches!(self.state, State::Renewing(_) | State::Rebinding(_));
        actions.push(Action::Apply(lease));
        actions.extend(before.map(|before| Action::Remove(before.lease, "another address has replaced it")));
        if is_new {
            actions.extend(self.announcement());
            self.announce = Some(now.saturating_add(ANNOUNCE_WAIT));
        }
        self.state = State::Bound;
        self.failures = 0;
    }

    fn announcement(&self) -> Option<Action> {
        let address = self.held.as_ref()?.lease.address;
        Some(Action::Arp { sender: address, about: address })
    }

    /// The server says that the address is wrong here.
    fn refused(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let requested = matches!(self.state, State::Requesting { .. });
        if let Some(held) = self.held.as_mut().filter(|_| !requested) {
            held.until = held.until.min(now.saturating_add(GRACE));
            actions.push(Action::Log(format!("a server has taken {} back", held.lease.address)));
        }
        self.fail(now, Duration::ZERO);
    }

    /// Begins again: at once for the first time, then after growing pauses, none of them shorter than `least`.
    fn fail(&mut self, now: Moment, least: Duration) {
        let pause = match self.failures {
            0 => Duration::ZERO,
            count => FIRST_PAUSE.saturating_mul(1 << count.saturating_sub(1).min(4)),
        };
        self.failures = self.failures.saturating_add(1);
        self.state = State::Pausing { until: now.saturating_add(pause.max(least)) };
    }
}

#[cfg(test)]
mod tests;
