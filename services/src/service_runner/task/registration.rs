//! A service that is up only once its registration in the fleet is confirmed: from the first confirmation to a run on, whatever
//! becomes of the registration later. And the checks that it is registered by.

use std::sync::Arc;

use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Check;

use super::{Confirmation, Core, Next};
use crate::service_runner::table::Rules;

impl Core {
    /// The registration of the present run is all that keeps it from being up.
    pub(super) fn awaits_registration(&self, rules: &Rules) -> bool {
        if const { !OWN.has(Feature::Fleet) } {
            return false;
        }
        let run = self.service.run;
        self.spec.register.as_ref().is_some_and(|registration| registration.required)
            && self.host_context.sources.registered.has_fleet()
            && self.service.up(rules)
            // It was up before, perhaps in an earlier incarnation of PID 1.
            && self.start_took_run != run
            && self.registration.as_ref().is_none_or(|registration| registration.confirmed != run)
    }

    /// The checks of its registration that do not pass, and why. `None`: they do not keep it from being registered.
    pub(super) fn withheld(&self) -> Option<Arc<str>> {
        let checks = self.spec.registration_checks();
        if const { !OWN.has(Feature::Fleet) } || checks.is_empty() {
            return None;
        }
        let missing = match &self.checks {
            Some(checks) => checks.missing_of_registration(),
            None => {
                // What an earlier incarnation of PID 1 knew counts until they begin in this one.
                let (run, past) = (self.service.run, self.past_checks.as_ref());
                let passed = |check: &&Check| past.is_some_and(|past| past.passed(&check.name, run));
                let first = checks.iter().find(|check| !passed(check));
                first.map(|check| format!("check {}: no result yet", check.name)).unwrap_or_default()
            }
        };
        (!missing.is_empty()).then(|| Arc::from(missing))
    }

    /// The text for one that waits. `withheld`: for these checks.
    pub(super) fn unregistered(&self, withheld: Option<&str>) -> Arc<str> {
        let problem = self.registration.as_ref().and_then(|registration| registration.problem.as_deref());
        let problem = withheld.or(problem).unwrap_or("etcd has not answered yet");
        Arc::from(format!("{}, its registration is not confirmed: {problem}", self.service.reason()))
    }

    /// The store has confirmed the registration, or why it has not.
    pub(super) fn registered(&mut self, problem: Option<Arc<str>>) -> Next {
        if !self.awaits_registration(&self.rules()) {
            return Next::Same;
        }
        // An event has said already why it is not.
        if problem.is_none() {
            self.note("its registration is confirmed, so it is up");
        }
        let confirmed = if problem.is_none() { self.service.run } else { 0 };
        self.registration = Some(Box::new(Confirmation { confirmed, problem }));
        self.publish();
        Next::Same
    }
}
