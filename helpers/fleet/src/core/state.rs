//! How the host and its services stand, for PID 1.

use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{FleetConnection, FleetRegister, FleetServiceState};
use prost_types::Timestamp;

use super::facts::Unknown;
use super::report::ABSENT;
use super::{Core, Fleet};
use crate::clock::{Moment, Now};
use crate::entry::{Entry as _, ServiceEntry};
use crate::step::{Change, Step};

impl Core {
    /// The next report to PID 1.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.next()
    }

    /// Reports what has changed.
    pub(super) fn report(&mut self, now: Now) {
        self.answer_removals(now);
        let Some(fleet) = &self.fleet else { return };
        let connection = self.connection_state(now);
        let is_connected = connection.connected;
        // Before the first answer, or failure, PID 1 keeps what the helper before this one reported.
        let is_first = self.reports.connection.is_none();
        if is_connected || !self.problem.is_empty() || !is_first {
            self.reports.set_connection(connection);
        }
        let wanted = self.truth.services.values();
        let wanted = wanted.map(|register| self.wanted_state(fleet, register, is_connected));
        let removed = self.removals.services().map(|service| self.removed_state(service));
        let states: Vec<FleetServiceState> = wanted.chain(removed).collect();
        states.into_iter().for_each(|state| self.reports.set_service(state));
        let mut removals = std::mem::take(&mut self.removals);
        removals.forget(|service| self.is_absent(service));
        self.removals = removals;
    }

    fn answer_removals(&mut self, now: Now) {
        let late = format!("the store has not confirmed it: {}", self.problem());
        let mut removals = std::mem::take(&mut self.removals);
        // The store has removed all keys of the host by then, or cannot be asked.
        let is_lost = self.lost_at().is_some_and(|lost| now.at >= lost);
        let at = if is_lost { Moment::MAX } else { now.at };
        let answers = removals.answers(at, &late, |service| self.is_absent(service));
        // Nothing is left without a lease.
        let left = removals.left(at, &late, self.lease.is_none());
        self.removals = removals;
        answers.into_iter().chain(left).for_each(|answer| self.reports.push(Report::Removed(answer)));
    }

    /// Whether the store is known not to have a service.
    fn is_absent(&self, service: &str) -> bool {
        let Some(fleet) = &self.fleet else { return true };
        let is_of = |key: &[u8]| {
            let place = fleet.keys.parse_service(key);
            place.is_some_and(|place| place.host == fleet.name && place.service == service)
        };
        // What is under way may arrive.
        let changes = match &self.under_way {
            Some((Step::Commit(transaction), _)) => transaction.changes.as_slice(),
            _ => &[],
        };
        let is_put = changes.iter().any(|change| matches!(change, Change::Put(key, _) if is_of(key)));
        self.store.is_certain && !is_put && !self.store.looked.entries.keys().any(|key| is_of(key))
    }

    fn connection_state(&self, now: Now) -> FleetConnection {
        let known = self.reports.connection.as_ref();
        let is_registered = self.is_registered();
        let connected = is_registered && self.lost_at().is_some_and(|lost| now.at < lost);
        let since = match known {
            Some(known) if known.connected == connected => known.since,
            None if !connected => None,
            _ => Some(Timestamp::from(now.wall)),
        };
        let confirmed = self.lease.and_then(|lease| lease.confirmed).filter(|_| is_registered);
        FleetConnection {
            connected,
            since,
            last_confirmed: match confirmed {
                Some(confirmed) => Some(confirmed.wall.into()),
                None => known.and_then(|known| known.last_confirmed),
            },
            problem: if connected { String::new() } else { self.problem().to_owned() },
            lease: self.lease().unwrap_or_default(),
            id: self.host.id.clone(),
            ..FleetConnection::default()
        }
    }

    fn wanted_state(&self, fleet: &Fleet, register: &FleetRegister, is_connected: bool) -> FleetServiceState {
        let stored = self.store.looked.entries.get(&self.key_of(fleet, register));
        let stored = stored.filter(|stored| Some(stored.lease) == self.lease());
        let stored = stored.and_then(|stored| ServiceEntry::read(&stored.value).ok());
        let wanted = self.service_entry(fleet, register);
        let is_registered = is_connected
            && match (stored, &wanted) {
                (Some(stored), Ok(wanted)) => {
                    ServiceEntry { since: stored.since.clone(), ..wanted.clone() } == stored
                }
                // What an earlier helper wrote stays until it is known.
                (stored, Err(Unknown::NotYet)) => stored.is_some(),
                _ => false,
            };
        let problem = match wanted {
            _ if is_registered => String::new(),
            Err(unknown) if is_connected => unknown.to_string(),
            _ => self.problem.clone(),
        };
        FleetServiceState {
            service: register.service.clone(),
            state: if is_registered { "registered" } else { "registering" }.to_owned(),
            address: self.address_of(register),
            problem,
        }
    }

    fn removed_state(&self, service: &str) -> FleetServiceState {
        let is_absent = self.is_absent(service);
        FleetServiceState {
            service: service.to_owned(),
            state: if is_absent { ABSENT } else { "removing" }.to_owned(),
            address: String::new(),
            problem: if is_absent { String::new() } else { self.problem.clone() },
        }
    }
}
