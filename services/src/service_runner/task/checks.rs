//! The checks of the present run: when they begin and end, and what their results are to the table.

use std::sync::Arc;

use super::{Core, Next};
use crate::health::{self, Checks, News, OwnCheck, Plan};
use crate::model::{CheckReport, RestartReason, Standing};
use crate::service_runner::table::{Input, Phase};

impl Core {
    /// Begins the checks of a run that is ready, and drops those of a run that is ending: both are asked after each
    /// step, so that no other place has to think of them.
    pub(super) fn mind_checks(&mut self) -> Option<Input> {
        if self.life.phase != Phase::Active {
            self.checks = None;
            return None;
        }
        let none = self.spec.health.is_empty() && self.own_check.is_none();
        if none || !self.life.ready || self.checks.is_some() {
            return None;
        }
        let own = self.own_check.iter().map(|own| (own.plan.clone(), Arc::clone(&own.probe)));
        let of_spec = self
            .spec
            .health
            .iter()
            .map(|check| (Plan::from(check), health::probe(check, || self.executor())));
        let checks = Box::new(Checks::begin(own.chain(of_spec)));
        let missing = checks.missing();
        self.checks = Some(checks);
        Some(Input::Health { run: self.life.run, healthy: None, missing })
    }

    /// Takes in what a result means.
    pub(super) fn checked(&mut self, news: News) -> Next {
        let News { change, healthy, missing, restart } = news;
        let run = self.life.run;
        if let Some(text) = change {
            self.note(&text);
        }
        match restart {
            // One restart, however many ask: with the run the other checks are gone.
            Some(text) => self.step(Input::Broken { run, reason: RestartReason::Check, text }),
            None => self.step(Input::Health { run, healthy, missing }),
        }
    }

    /// How the checks stand; of a service that is not checked now, which there are.
    pub(super) fn reports(&self) -> Vec<CheckReport> {
        if let Some(checks) = &self.checks {
            return checks.reports();
        }
        let own = self.own_check.iter().map(|own| {
            let OwnCheck { plan, probe } = &**own;
            (Arc::clone(&plan.name), probe.kind())
        });
        let of_spec =
            self.spec.health.iter().map(|check| (Arc::from(check.name.as_str()), check.probe.kind()));
        own.chain(of_spec)
            .map(|(name, kind)| CheckReport {
                name,
                kind,
                standing: Standing::Pending,
                since: None,
                results: Vec::new(),
            })
            .collect()
    }
}
