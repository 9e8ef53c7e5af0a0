//! What a client does with the answers of servers.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::{Client, PAUSE};
use crate::lease::Moment;
use crate::v6::lease::{Lease, Unfit};
use crate::v6::message::{Kind, Message, Status, code};
use crate::v6::state::{Action, Offer, State};

/// The longest pauses that a server may set (RFC 8415, 21.24).
const SETTABLE: std::ops::RangeInclusive<u32> = 60..=86_400;
/// A server with this preference is taken at once.
const FIRST_CHOICE: u8 = 255;

impl Client {
    pub(super) fn answer(
        &mut self,
        now: Moment,
        message: &Message,
        from: Ipv6Addr,
        actions: &mut Vec<Action>,
    ) {
        let Some(exchange) = self.state.exchange() else { return };
        let (asked, count) = (exchange.sent, exchange.count);
        let server = message.options.first(code::SERVER);
        let held = self.held.as_ref();
        let listens = match &self.state {
            State::Soliciting { .. } => message.kind == Kind::Advertise,
            State::Requesting { offer, .. } => server == Some(&offer.server),
            State::Renewing(_) => server == held.map(|held| held.server.as_slice()),
            _ => true,
        };
        let is_kind = message.kind == Kind::Reply || matches!(self.state, State::Soliciting { .. });
        let is_ours = exchange.transaction & 0xff_ffff == message.transaction
            && count > 0
            && server.is_some()
            && self.identity.is_addressed(message);
        if !listens || !is_kind || !is_ours {
            return;
        }
        self.set_pauses(message);
        let held = self.held.as_ref();
        let status = message.options.status();
        match &self.state {
            State::Declining { .. } => self.fail(now, PAUSE),
            State::Informing(_) if status == Status::Success => {
                self.bind(Lease::informed((message, from), now), actions);
            }
            State::Confirming(_) if status == Status::Success => self.keep(actions),
            State::Confirming(_) | State::Requesting { .. } if status == Status::NotOnLink => {
                self.move_away(now, actions);
            }
            State::Soliciting { .. } if status == Status::Success => {
                self.offered(now, message, (from, asked), count, actions);
            }
            State::Requesting { .. } | State::Resuming(_) | State::Renewing(_) | State::Rebinding(_)
                if status == Status::Success =>
            {
                let read = Lease::read((message, from), self.identity.number, held, (asked, now));
                self.granted(now, read, message, actions);
            }
            // RFC 8415, 18.2.10: the client ignores the answer and asks again.
            _ => {}
        }
    }

    /// A server may make pauses longer or shorter, so that a link with many hosts stays quiet.
    fn set_pauses(&mut self, message: &Message) {
        let set = |longest: &mut Duration, code| {
            if let Some(seconds) = message.options.number(code).filter(|seconds| SETTABLE.contains(seconds)) {
                *longest = Duration::from_secs(seconds.into());
            }
        };
        set(&mut self.longest.0, code::SOLICIT_PAUSE);
        set(&mut self.longest.1, code::INFORM_PAUSE);
    }

    fn offered(
        &mut self,
        now: Moment,
        message: &Message,
        (from, asked): (Ipv6Addr, Moment),
        count: u32,
        actions: &mut Vec<Action>,
    ) {
        let lease = match Lease::read((message, from), self.identity.number, None, (asked, now)) {
            Ok(lease) => lease,
            Err(unfit) => {
                actions.push(Action::Log(format!("the offer of {from} is ignored: {unfit}")));
                return;
            }
        };
        let preference = message.options.first(code::PREFERENCE).and_then(|value| value.first());
        let preference = preference.copied().unwrap_or_default();
        let new = Offer { server: lease.server, items: lease.items, preference };
        let State::Soliciting { offer, .. } = &mut self.state else { return };
        let rank = |offer: &Offer| (offer.preference, offer.items.len());
        if count > 1 || preference == FIRST_CHOICE {
            self.choose(now, new, actions);
        } else if offer.as_ref().is_none_or(|known| rank(known) < rank(&new)) {
            *offer = Some(new);
        }
    }

    pub(super) fn choose(&mut self, now: Moment, offer: Offer, actions: &mut Vec<Action>) {
        self.state = State::Requesting { exchange: self.exchange(now, Duration::ZERO), offer };
        self.send(now, actions);
    }

    fn granted(
        &mut self,
        now: Moment,
        read: Result<Lease, Unfit>,
        message: &Message,
        actions: &mut Vec<Action>,
    ) {
        let requested = matches!(self.state, State::Requesting { .. });
        match read {
            Ok(mut lease) => {
                if let Some(before) = self.held.as_ref().filter(|_| requested) {
                    lease.replace(before, now);
                }
                if lease.is_whole() {
                    self.bind(lease, actions);
                } else {
                    actions.push(Action::Log("the server has taken everything back".to_owned()));
                    self.held = Some(lease.clone());
                    actions.push(Action::Apply(lease));
                    self.fail(now, Duration::ZERO);
                }
            }
            // RFC 8415, 18.2.10.1: it is requested from the server that says so.
            Err(Unfit::NoBinding) if !requested => {
                let server = message.options.first(code::SERVER).unwrap_or_default().to_vec();
                let items = self.held.as_ref().map(|held| held.items.clone()).unwrap_or_default();
                self.choose(now, Offer { server, items, preference: 0 }, actions);
            }
            Err(unfit) if requested => {
                actions.push(Action::Log(format!("the answer to a request is no lease: {unfit}")));
                self.fail(now, Duration::ZERO);
            }
            Err(_) => {}
        }
    }

    fn bind(&mut self, lease: Lease, actions: &mut Vec<Action>) {
        self.held = Some(lease.clone());
        actions.push(Action::Apply(lease));
        self.state = State::Bound;
        self.failures = 0;
    }

    /// What it had from before stays.
    pub(super) fn keep(&mut self, actions: &mut Vec<Action>) {
        actions.extend(self.held.clone().map(Action::Apply));
        self.state = State::Bound;
    }

    /// What it has belongs to another link.
    fn move_away(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if let Some(held) = &mut self.held {
            held.take_back(now);
            actions.push(Action::Log("a server says that the addresses belong to another link".to_owned()));
            actions.push(Action::Apply(held.clone()));
        }
        self.fail(now, Duration::ZERO);
    }
}
