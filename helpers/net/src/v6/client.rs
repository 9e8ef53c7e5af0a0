//! The client of DHCPv6 on one interface: states and times alone, without sockets and without a clock.
//!
//! RFC 8415 says what a client sends when; the states are its own, with `Idle`, in which the client waits for routers that
//! tell of a server. Apart from the state stands what the interface has, `held`: each address and each prefix lasts to its
//! own end, whatever becomes of the link, of the server and of this process. The client never releases anything: what a
//! host has is to survive a stop of this process, and the server gets it back at its end.
//!
//! Where an answer and a time compete, the order is: the end of an item, then the state's own time. An answer counts only
//! if it has the number of the exchange under way, names this client, and comes from a server that this state listens to.

mod answers;

use std::net::Ipv6Addr;
use std::time::Duration;

use super::identity::Identity;
use super::lease::Lease;
use super::message::Kind;
use super::state::State;
pub use super::state::{Action, Flags, Input};
use crate::exchange::{Exchange, Timing};
use crate::lease::{Moment, NEVER};

const SECOND: Duration = Duration::from_secs(1);
/// How often a request, or that an address is declined, is sent before the client begins again.
const REQUESTS: u32 = 10;
const DECLINES: u32 = 4;
/// How long the client asks whether its addresses belong to the link. Without an answer it keeps them.
const CONFIRM_TIME: Duration = Duration::from_secs(10);
/// The time before the client begins again, after it has declined an address or was refused one; it doubles.
const PAUSE: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);
/// More than any chain of states that follow each other at the same moment.
const STEPS: usize = 8;

const fn timing(first: u64, longest: u64) -> Timing {
    let (first, longest) = (Duration::from_secs(first), Duration::from_secs(longest));
    Timing { first, longest, is_solicitation: false }
}

/// The client of one interface.
pub struct Client {
    identity: Identity,
    /// Whether it asks without a router that tells of a server.
    always: bool,
    flags: Flags,
    state: State,
    held: Option<Lease>,
    /// How often it has begun again since it last had a lease.
    failures: u32,
    /// The longest pauses of solicitations and of questions for names.
    longest: (Duration, Duration),
    dice: Box<dyn FnMut() -> u32>,
}

impl Client {
    /// `held`: what the interface has from before. `dice`: random numbers.
    pub fn new(
        identity: Identity,
        always: bool,
        held: Option<Lease>,
        dice: Box<dyn FnMut() -> u32>,
    ) -> Client {
        let (flags, state, failures) = (Flags::default(), State::NoLink, 0);
        Client { identity, always, flags, state, held, failures, longest: (HOUR, HOUR), dice }
    }

    /// What the interface has.
    pub fn lease(&self) -> Option<&Lease> {
        self.held.as_ref()
    }

    /// Words for the status of the service.
    pub fn status(&self) -> &'static str {
        match self.state {
            State::NoLink => "no link",
            State::Idle => "no router tells of a server",
            State::Pausing { .. } => "pausing",
            State::Soliciting { .. } => "looking for a server",
            State::Requesting { .. } => "requesting an address",
            State::Confirming(_) | State::Resuming(_) => "asking for what it had",
            State::Bound => "bound",
            State::Renewing(_) => "renewing",
            State::Rebinding(_) => "looking for another server",
            State::Declining { .. } => "declining an address",
            State::Informing(_) => "asking for names",
        }
    }

    /// When [`Input::Time`] is due.
    pub fn deadline(&self) -> Option<Moment> {
        let own = match &self.state {
            State::Pausing { until } => *until,
            State::Bound => self.held.as_ref().map_or(NEVER, |held| held.renew.min(held.rebind)),
            state => state.exchange().map_or(NEVER, |exchange| exchange.next),
        };
        let ends = self.held.iter().flat_map(|held| held.items.iter().map(|item| item.valid));
        let first = ends.fold(own, Moment::min);
        (first < NEVER).then_some(first)
    }

    /// Takes in what has happened. Returns what is to be done.
    pub fn handle(&mut self, now: Moment, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        self.end(now, &mut actions);
        match input {
            Input::Link(true) if self.state == State::NoLink => self.begin(now),
            Input::Link(true) | Input::Time => {}
            Input::Link(false) => self.state = State::NoLink,
            Input::Routers(flags) => self.routers(now, flags),
            Input::Message(message, from) => self.answer(now, &message, from, &mut actions),
            Input::Conflict(address) => self.conflict(now, address, &mut actions),
        }
        self.settle(now, &mut actions);
        actions
    }

    /// Does what has become due, also by what was done for that.
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
        let Some(held) = self.held.as_mut() else { return };
        let ended = held.items.extract_if(.., |item| item.valid <= now);
        let before = actions.len();
        actions.extend(
            ended.map(|item| Action::Remove(item, item.reason.unwrap_or("no server has extended it"))),
        );
        if actions.len() > before && held.items.is_empty() {
            self.held = None;
            if matches!(
                self.state,
                State::Bound
                    | State::Renewing(_)
                    | State::Rebinding(_)
                    | State::Confirming(_)
                    | State::Resuming(_)
            ) {
                self.state = State::Pausing { until: now };
            }
        }
    }

    fn begin(&mut self, now: Moment) {
        self.failures = 0;
        let held = self.held.as_ref().filter(|held| held.is_whole());
        if held.is_none() {
            self.start(now, SECOND);
        } else if self.identity.prefix.is_some() {
            // RFC 8415, 18.2.12: a prefix is not confirmed.
            self.state = State::Resuming(self.exchange(now, SECOND));
        } else {
            self.state = State::Confirming(self.exchange(now, SECOND));
        }
    }

    /// Looks for a server, if one is wanted. `delay`: at most so long before the first message.
    fn start(&mut self, now: Moment, delay: Duration) {
        self.state = if self.always || self.flags.managed || self.identity.prefix.is_some() {
            State::Soliciting { exchange: self.exchange(now, delay), offer: None }
        } else if self.flags.other {
            State::Informing(self.exchange(now, delay))
        } else {
            State::Idle
        };
    }

    fn routers(&mut self, now: Moment, flags: Flags) {
        let before = std::mem::replace(&mut self.flags, flags);
        let has_names_alone = matches!(self.state, State::Informing(_))
            || (self.state == State::Bound && self.held.as_ref().is_some_and(|held| held.items.is_empty()));
        let more = flags.managed && !before.managed;
        if self.state == State::Idle || (has_names_alone && more) {
            self.start(now, SECOND);
        }
    }

    /// A new exchange, whose first message is sent after a random time of at most `delay`.
    fn exchange(&mut self, now: Moment, delay: Duration) -> Exchange {
        let wait = u32::try_from(delay.as_millis()).unwrap_or_default();
        let wait = (self.dice)().checked_rem(wait).unwrap_or_default();
        Exchange::new((self.dice)(), now.saturating_add(Duration::from_millis(wait.into())))
    }

    /// Does what the state's own time asks for.
    fn time(&mut self, now: Moment, actions: &mut Vec<Action>) {
        match &mut self.state {
            State::Pausing { until } if *until <= now => self.start(now, Duration::ZERO),
            State::Soliciting { exchange, offer } if exchange.next <= now => match offer.take() {
                Some(offer) => self.choose(now, offer, actions),
                None => self.send(now, actions),
            },
            State::Requesting { exchange, .. } if exchange.next <= now && exchange.count >= REQUESTS => {
                actions
                    .push(Action::Log("the server does not answer a request for what it offered".to_owned()));
                self.fail(now, Duration::ZERO);
            }
            State::Declining { exchange, .. } if exchange.next <= now && exchange.count >= DECLINES => {
                self.fail(now, PAUSE);
            }
            State::Confirming(exchange) | State::Resuming(exchange)
                if exchange.next <= now && exchange.has_lasted(CONFIRM_TIME) =>
            {
                self.keep(actions);
            }
            State::Bound => self.extend(now, actions),
            State::Renewing(_) if self.held.as_ref().is_some_and(|held| held.rebind <= now) => {
                self.extend(now, actions);
            }
            state if state.exchange().is_some_and(|exchange| exchange.next <= now) => {
                self.send(now, actions);
            }
            _ => {}
        }
    }

    /// Asks for more time: its server, and from the time for that on all servers.
    fn extend(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let Some(held) = &self.held else {
            self.start(now, Duration::ZERO);
            return;
        };
        let (renew, rebind, is_stateless) = (held.renew, held.rebind, held.items.is_empty());
        if is_stateless && renew <= now {
            self.start(now, Duration::ZERO);
        } else if rebind <= now {
            self.state = State::Rebinding(self.exchange(now, Duration::ZERO));
            self.send(now, actions);
        } else if renew <= now {
            self.state = State::Renewing(self.exchange(now, Duration::ZERO));
            self.send(now, actions);
        }
    }

    /// Sends the next message of the exchange, and sets the time for the one after it.
    fn send(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let end = self.held.as_ref().map_or(NEVER, Lease::end);
        let rebind = self.held.as_ref().map_or(NEVER, |held| held.rebind);
        let (kind, timing, latest) = match &self.state {
            State::Soliciting { .. } => {
                let longest = self.longest.0;
                (Kind::Solicit, Timing { is_solicitation: true, longest, ..timing(1, 0) }, NEVER)
            }
            State::Requesting { .. } => (Kind::Request, timing(1, 30), NEVER),
            State::Confirming(exchange) => (Kind::Confirm, timing(1, 4), exchange.latest(now, CONFIRM_TIME)),
            State::Resuming(exchange) => (Kind::Rebind, timing(1, 4), exchange.latest(now, CONFIRM_TIME)),
            State::Renewing(_) => (Kind::Renew, timing(10, 600), rebind),
            State::Rebinding(_) => (Kind::Rebind, timing(10, 600), end),
            State::Declining { .. } => (Kind::Decline, timing(1, 600), NEVER),
            State::Informing(_) => (Kind::Inform, Timing { longest: self.longest.1, ..timing(1, 0) }, NEVER),
            State::NoLink | State::Idle | State::Pausing { .. } | State::Bound => return,
        };
        let chance = (self.dice)();
        let Some(exchange) = self.state.exchange_mut() else { return };
        exchange.repeat(now, timing, chance);
        exchange.next = exchange.next.min(latest.max(now.saturating_add(SECOND)));
        let (transaction, elapsed) = (exchange.transaction, exchange.hundredths(now));
        let held = self.held.as_ref().map(|held| held.items.as_slice()).unwrap_or_default();
        let wants_address = self.always || self.flags.managed;
        let message = match &self.state {
            State::Declining { message, .. } => message.clone(),
            State::Requesting { offer, .. } => {
                let mut message = self.identity.message(kind, transaction, elapsed, Some(&offer.server));
                self.identity.ask(&mut message, &offer.items, wants_address);
                message
            }
            state => {
                let server = matches!(state, State::Renewing(_));
                let server = self.held.as_ref().filter(|_| server).map(|held| held.server.as_slice());
                let mut message = self.identity.message(kind, transaction, elapsed, server);
                if kind != Kind::Inform {
                    self.identity.ask(&mut message, held, wants_address && kind != Kind::Confirm);
                }
                message
            }
        };
        actions.push(Action::Send(message));
    }

    /// Begins again: at once for the first time, then after growing pauses, none of them shorter than `least`.
    fn fail(&mut self, now: Moment, least: Duration) {
        let pause = match self.failures {
            0 => Duration::ZERO,
            count => PAUSE.saturating_mul(1 << count.saturating_sub(1).min(6)),
        };
        self.failures = self.failures.saturating_add(1);
        self.state = State::Pausing { until: now.saturating_add(pause.max(least)) };
    }

    fn conflict(&mut self, now: Moment, address: Ipv6Addr, actions: &mut Vec<Action>) {
        let Some(held) = &mut self.held else { return };
        let is_it = |item: &super::lease::Granted| item.is_address() && item.address == address;
        let Some(place) = held.items.iter().position(is_it) else { return };
        let item = held.items.remove(place);
        actions.push(Action::Remove(item, "another host uses it, too"));
        let transaction = (self.dice)();
        let message = self.identity.decline(transaction, 0, held, &item);
        if held.items.is_empty() {
            self.held = None;
        }
        if self.state != State::NoLink {
            let exchange = Exchange::new(message.transaction, now);
            self.state = State::Declining { exchange, message };
        }
    }
}

#[cfg(test)]
mod tests;
