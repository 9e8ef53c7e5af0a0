//! Decides what is done next in the store. Pure: [`Core::decide`] gives one [`Step`], [`Core::done`] takes what came of it.
//!
//! Nothing is remembered that the store can say: after each connection the core looks what the store has, and the step
//! that follows is the difference to what should be.

mod decision;
mod difference;
pub mod discovery;
mod facts;
mod lease;
mod removal;
mod report;
mod state;
pub mod templates;
mod truth;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use kelson_helper::random::Random;
use kelson_proto::v1::fleet_command::Command;
use kelson_spec::fleet::FleetSpec;

use crate::clock::{Moment, Now};
use crate::entry::{Entry as _, HostEntry};
use crate::key::{Key, Keys, is_host};
use crate::limits::Limits;
use crate::step::{Change, Decision, Looked, Outcome, Step, Stored, Transaction};
use crate::template::Known;
use lease::Lease;
use removal::Removals;
use report::Reports;
use truth::Truth;

/// A connection over which the store refuses so often is closed.
const REFUSALS: u32 = 2;

/// What a process knows of itself.
#[derive(Debug, Clone)]
pub struct Host {
    pub id: String,
    pub boot_id: String,
    /// The name where the settings have none.
    pub name: String,
    /// The lease of the helper before this one.
    pub lease: Option<i64>,
    /// When the store confirmed the registration in this boot.
    pub contact: Option<Moment>,
}

pub struct Core {
    limits: Limits,
    random: Random,
    host: Host,
    fleet: Option<Fleet>,
    truth: Truth,
    removals: Removals,
    reports: Reports,
    /// The step under way, and since when.
    under_way: Option<(Step, Now)>,
    connection: Connection,
    store: Store,
    lease: Option<Lease>,
    problem: String,
    /// It has no certificate to connect with.
    is_held: bool,
}

/// The settings.
struct Fleet {
    spec: FleetSpec,
    keys: Keys,
    /// The key of the host.
    key: Key,
    name: String,
}

#[derive(Default)]
struct Connection {
    is_open: bool,
    /// The address of the host, as the last connection had it.
    address: Option<IpAddr>,
    endpoint: usize,
    /// Not before this.
    retry: Moment,
    /// Since it all was as it should be.
    failures: u32,
}

/// What the store has, as far as it is known.
#[derive(Default)]
struct Store {
    looked: Looked,
    /// It was read over this connection.
    is_read: bool,
    /// Nothing but what `looked` has can be there of this host's.
    is_certain: bool,
    /// When the causes of the host were put.
    causes: Option<Moment>,
    /// When it is read again.
    look: Moment,
    /// Without a lease: not before this.
    grant: Moment,
}

impl Core {
    pub fn new(host: Host, limits: Limits, now: Now) -> Core {
        let lease = host.lease.map(|id| Lease::new(id, limits.ttl, now.at));
        let mut reports = Reports::default();
        reports.contact(host.contact);
        Core {
            limits,
            random: Random::seeded(),
            host,
            fleet: None,
            truth: Truth::default(),
            removals: Removals::default(),
            reports,
            under_way: None,
            connection: Connection::default(),
            // Without a lease there is nothing that this boot has registered.
            store: Store { is_certain: lease.is_none(), ..Store::default() },
            lease,
            problem: String::new(),
            is_held: false,
        }
    }

    /// Takes what PID 1 wants, except questions.
    pub fn command(&mut self, command: Command, now: Now) {
        match command {
            Command::Register(register) => {
                self.removals.take_back(&register.service);
                self.truth.services.insert(register.service.clone(), register);
            }
            Command::Remove(remove) => {
                self.truth.services.remove(&remove.service);
                self.removals.add(remove, now.at.saturating_add(self.limits.removal));
                self.connection.retry = now.at;
            }
            Command::Complete(is_complete) => self.truth.is_complete = is_complete,
            Command::Health(health) => self.truth.health = Some(health),
            Command::Facts(facts) => self.truth.facts = Some(facts.facts.into_iter().collect()),
            Command::Leave(true) => {
                self.removals.leave(now.at.saturating_add(self.limits.removal));
                self.connection.retry = now.at;
            }
            _ => {}
        }
        self.settle(now);
    }

    /// Takes the settings. They do not change while the process runs.
    pub fn set(&mut self, spec: FleetSpec, now: Now) {
        let name = spec.name.clone().unwrap_or_else(|| self.host.name.clone());
        let keys = Keys::new(&spec.prefix);
        if !is_host(&name) {
            self.problem =
                format!("{name:?} is no name for a host of a fleet; set fleet.name in the machine file");
        }
        // Hosts begin with different members.
        self.connection.endpoint = self.number_below(spec.endpoints.len());
        let spec = FleetSpec { name: Some(name.clone()), ..spec };
        self.fleet = Some(Fleet { key: keys.host(&name), keys, name, spec });
        self.settle(now);
    }

    /// Connects with no member as long as there is a reason.
    pub fn hold(&mut self, reason: &str, now: Now) {
        (self.is_held, self.problem) = (!reason.is_empty(), reason.to_owned());
        self.settle(now);
    }

    /// Registers a service no more, and waits for nothing.
    pub fn forget_service(&mut self, service: &str) {
        self.truth.services.remove(service);
    }

    /// The name where the settings have none.
    pub fn host_name(&self) -> &str {
        &self.host.name
    }

    pub fn spec(&self) -> Option<&FleetSpec> {
        self.fleet.as_ref().map(|fleet| &fleet.spec)
    }

    /// The name of the host in the fleet.
    pub fn name(&self) -> Option<&str> {
        self.fleet.as_ref().map(|fleet| fleet.name.as_str())
    }

    /// What a template may show of the host.
    pub fn known(&self) -> Known {
        let fleet = self.fleet.as_ref();
        Known {
            host: fleet.map_or_else(|| self.host.name.clone(), |fleet| fleet.name.clone()),
            labels: fleet.map(|fleet| fleet.spec.labels.clone()).unwrap_or_default(),
            facts: self.truth.facts.clone(),
            registry: BTreeMap::new(),
        }
    }

    /// When the store confirmed the registration last.
    pub fn contact(&self) -> Option<Moment> {
        self.host.contact
    }

    pub fn lease(&self) -> Option<i64> {
        self.lease.map(|lease| lease.id)
    }

    /// Why there is no connection, for an operator.
    pub fn problem(&self) -> &str {
        match self.problem.as_str() {
            "" => "it is not connected with the store yet",
            problem => problem,
        }
    }

    /// The step that comes next; none while one is under way.
    pub fn step(&mut self, now: Now) -> Option<Step> {
        if self.under_way.is_some() {
            return None;
        }
        let Decision::Do(step) = self.decide(now) else { return None };
        self.under_way = Some((step.clone(), now));
        Some(step)
    }

    /// When to ask for a step again, although nothing comes.
    pub fn wake(&self, now: Now) -> Option<Moment> {
        let next = match self.under_way {
            Some(_) => None,
            None => match self.decide(now) {
                Decision::Do(_) => Some(now.at),
                Decision::Wait(until) => until,
            },
        };
        let lost = self.reports.is_connected().then(|| self.lost_at()).flatten();
        next.into_iter().chain(self.removals.wake()).chain(lost).min()
    }

    /// Takes note of the time.
    pub fn tick(&mut self, now: Now) {
        self.settle(now);
    }

    /// Takes what came of the step under way.
    pub fn done(&mut self, outcome: Outcome, now: Now) {
        let Some((step, began)) = self.under_way.take() else { return };
        let is_answer = !matches!(outcome, Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Connected(_));
        match (step, outcome) {
            (step, Outcome::Failed(problem)) => {
                // It may have been done nevertheless.
                self.store.is_certain &= !matches!(step, Step::Commit(_));
                self.failed(problem, now.at, self.lost_at());
                self.disconnect();
            }
            (step, Outcome::Refused(problem)) => {
                self.store.is_certain &= !matches!(step, Step::Commit(_));
                self.store.is_read = false;
                let is_renewal = matches!(step, Step::Renew(_));
                // A name or a proxy may lead to another member.
                let is_enough = self.connection.failures.saturating_add(1).is_multiple_of(REFUSALS);
                let until = self.lost_at().filter(|_| is_renewal || is_enough);
                self.failed(problem, now.at, until);
                let retry = self.connection.retry;
                if let Some(lease) = self.lease.as_mut().filter(|_| is_renewal) {
                    lease.renew = retry;
                }
                if is_enough {
                    self.disconnect();
                }
            }
            (_, Outcome::Connected(address)) => {
                (self.connection.is_open, self.connection.address) = (true, Some(address));
            }
            (_, Outcome::Renewed) => {
                if let Some(lease) = &mut self.lease {
                    lease.confirm(began, &mut self.random);
                }
            }
            (_, Outcome::Granted { lease, ttl }) => {
                self.lease.insert(Lease::new(lease, ttl, began.at)).confirm(began, &mut self.random);
            }
            (_, Outcome::Looked(looked)) => self.looked(looked, now.at),
            (_, Outcome::Conflict) => self.store.is_read = false,
            (Step::Commit(done), Outcome::Committed { revision }) => self.committed(done, revision, now.at),
            (_, Outcome::Revoked) => self.forget_lease(),
            (_, Outcome::LeaseGone) => {
                if self.lease.is_some_and(|lease| lease.is_used) {
                    self.store.grant = now.at.saturating_add(self.random.part_of(self.limits.spread));
                    self.problem =
                        "the lease of the host has expired; it registers again within seconds".into();
                }
                self.forget_lease();
            }
            _ => {}
        }
        if is_answer && self.is_registered() {
            self.host.contact = Some(began.at);
            self.reports.contact(self.host.contact);
        }
        self.settle(now);
    }

    /// When the store may have removed the keys of the host.
    fn lost_at(&self) -> Option<Moment> {
        self.lease?.lost_at()
    }

    /// The store has removed the lease with all its keys.
    fn forget_lease(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.store.looked.forget(lease.id);
            self.store.is_read = false;
        }
    }

    /// `until`: when the next attempt must have been.
    fn failed(&mut self, problem: String, now: Moment, until: Option<Moment>) {
        let first_retry = self.limits.first_retry;
        let mut longest = self.limits.longest_pause(self.connection.failures);
        if let Some(left) = until.and_then(|until| until.checked_sub(now)) {
            longest = longest.min(first_retry.max(left.checked_div(4).unwrap_or_default()));
        }
        self.connection.retry = now.saturating_add(self.random.part_of(longest));
        self.connection.failures = self.connection.failures.saturating_add(1);
        if self.connection.failures == 1 && self.reports.is_connected() {
            self.reports.trouble(problem.clone());
        }
        self.problem = problem;
    }

    /// The next connection is one with the next member.
    fn disconnect(&mut self) {
        let members = self.fleet.as_ref().map_or(1, |fleet| fleet.spec.endpoints.len());
        let next = self.connection.endpoint.saturating_add(1);
        self.connection.endpoint = next.checked_rem(members).unwrap_or_default();
        (self.connection.is_open, self.store.is_read) = (false, false);
    }

    fn looked(&mut self, looked: Looked, now: Moment) {
        self.store.looked = looked;
        (self.store.is_read, self.store.is_certain) = (true, true);
        let until = match self.taken() {
            Some(problem) => {
                self.problem = problem;
                let ttl = self.lease.map_or(self.limits.ttl, |lease| lease.ttl);
                lease::third(ttl, &mut self.random)
            }
            None => self.limits.look,
        };
        self.store.look = now.saturating_add(until);
    }

    fn committed(&mut self, done: Transaction, revision: i64, now: Moment) {
        let Transaction { host: (host, _), lease, changes } = done;
        for change in changes {
            match change {
                Change::Put(key, value) if key == host => {
                    let before = self.own_entry().map(|(entry, _)| entry.causes).unwrap_or_default();
                    let has_other = |entry: HostEntry| entry.causes != before;
                    if HostEntry::read(&value).is_ok_and(has_other) {
                        self.store.causes = Some(now);
                    }
                    self.store.looked.host = Some((Stored { value, lease }, revision));
                }
                Change::Put(key, value) => {
                    self.store.looked.entries.insert(key, Stored { value, lease });
                }
                Change::Delete(key) => drop(self.store.looked.entries.remove(&key)),
            }
        }
    }

    fn number_below(&mut self, count: usize) -> usize {
        let span = Duration::from_nanos(1024 * 1024);
        let drawn = usize::try_from(self.random.part_of(span).as_nanos()).unwrap_or_default();
        drawn.checked_rem(count).unwrap_or_default()
    }

    /// Reports what has changed.
    fn settle(&mut self, now: Now) {
        if self.is_settled(now) {
            self.connection.failures = 0;
            self.problem.clear();
            self.lease = self.lease.map(|lease| Lease { is_used: true, ..lease });
        }
        self.report(now);
    }
}
