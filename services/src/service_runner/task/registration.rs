//! A service that is up only once its registration in the fleet is confirmed: from the first confirmation to a run on, whatever
//! becomes of the registration later.

use std::sync::Arc;

use kelson_spec::features::{Feature, OWN};

use super::{Core, Next};
use crate::service_runner::table::Rules;

/// The registration of a run that is up but for it.
#[derive(Default)]
pub(super) struct Confirmation {
    /// The run whose registration the store has confirmed.
    confirmed: u64,
    /// Why it is not, as far as it is known.
    problem: Option<Arc<str>>,
}

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
            && self.registration.confirmed != run
    }

    /// The text for one that waits.
    pub(super) fn unregistered(&self) -> Arc<str> {
        let problem = self.registration.problem.as_deref().unwrap_or("etcd has not answered yet");
        Arc::from(format!("{}, its registration is not confirmed: {problem}", self.service.reason()))
    }

    /// The store has confirmed the registration, or why it has not.
    pub(super) fn registered(&mut self, problem: Option<Arc<str>>) -> Next {
        if !self.awaits_registration(&self.rules()) {
            return Next::Same;
        }
        // An event has said already why it is not.
        if problem.is_none() {
            self.registration.confirmed = self.service.run;
            self.note("its registration is confirmed, so it is up");
        }
        self.registration.problem = problem;
        self.publish();
        Next::Same
    }
}
