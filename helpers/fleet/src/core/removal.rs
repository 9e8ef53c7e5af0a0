//! Removals that PID 1 waits for.

use std::collections::BTreeSet;

use kelson_proto::v1::{FleetRemove, FleetRemoved};

use crate::clock::Moment;

#[derive(Default)]
pub struct Removals {
    /// Services that are not to be registered, until the store is known not to have them.
    services: BTreeSet<String>,
    /// What is not answered yet, each with its deadline.
    asked: Vec<(FleetRemove, Moment)>,
    leave: Option<Leave>,
}

/// The host leaves the fleet.
struct Leave {
    deadline: Moment,
    is_answered: bool,
    is_done: bool,
}

impl Removals {
    pub fn add(&mut self, remove: FleetRemove, deadline: Moment) {
        self.services.insert(remove.service.clone());
        self.asked.push((remove, deadline));
    }

    /// The service is to be registered again.
    pub fn take_back(&mut self, service: &str) {
        self.services.remove(service);
    }

    pub fn has(&self, service: &str) -> bool {
        self.services.contains(service)
    }

    pub fn services(&self) -> impl Iterator<Item = &String> {
        self.services.iter()
    }

    pub fn leave(&mut self, deadline: Moment) {
        self.leave.get_or_insert(Leave { deadline, is_answered: false, is_done: false });
    }

    pub fn is_leaving(&self) -> bool {
        self.leave.is_some()
    }

    pub fn has_left(&self) -> bool {
        self.leave.as_ref().is_some_and(|leave| leave.is_done)
    }

    /// The next deadline of an answer.
    pub fn wake(&self) -> Option<Moment> {
        let leave = self.leave.as_ref().filter(|leave| !leave.is_answered).map(|leave| leave.deadline);
        self.asked.iter().map(|(_, deadline)| *deadline).chain(leave).min()
    }

    /// The answers that are due: of services that the store is known not to have, and of those that take too long.
    pub fn answers(
        &mut self,
        now: Moment,
        late: &str,
        is_absent: impl Fn(&str) -> bool,
    ) -> Vec<FleetRemoved> {
        let mut answers = Vec::new();
        let services = &self.services;
        self.asked.retain(|(remove, deadline)| {
            let problem = match services.contains(&remove.service) {
                false => "the service is to be registered again",
                true if is_absent(&remove.service) => "",
                true if now >= *deadline => late,
                true => return true,
            };
            answers.push(FleetRemoved { number: remove.number, problem: problem.to_owned() });
            false
        });
        answers
    }

    /// The answer about leaving, once it is due.
    pub fn left(&mut self, now: Moment, late: &str, is_done: bool) -> Option<FleetRemoved> {
        let leave = self.leave.as_mut()?;
        leave.is_done |= is_done;
        let is_due = !leave.is_answered && (leave.is_done || now >= leave.deadline);
        leave.is_answered |= is_due;
        let problem = if leave.is_done { "" } else { late };
        is_due.then(|| FleetRemoved { number: 0, problem: problem.to_owned() })
    }

    /// Forgets services that the store is known not to have.
    pub fn forget(&mut self, is_absent: impl Fn(&str) -> bool) {
        self.services.retain(|service| !is_absent(service));
    }
}
