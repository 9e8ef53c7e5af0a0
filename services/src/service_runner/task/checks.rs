//! The checks of the present run: when they begin and end, and what their results are to the table.

use std::sync::Arc;

use kelson_spec::service::RestartScope;

use super::super::host_context::RunningProcess;
use super::{Core, Next};
use crate::error::ServicesError;
use crate::health::network::Network;
use crate::health::{self, Asks, Checks, News, OwnCheck, Plan, Recall, ToMind};
use crate::model::{CheckReport, RestartReason, Standing};
use crate::service_runner::table::{Input, Report};

impl Core {
    /// Begins the checks of a run that is ready, and drops those of a run that is ending: both are asked after each
    /// step, so that no other place has to think of them.
    pub(super) fn mind_checks(&mut self) -> Option<Input> {
        let Some(active) = self.service.active() else {
            self.checks = None;
            self.past_checks = None;
            self.health_kept = false;
            return None;
        };
        let has_health = self.has_health();
        if let Some(checks) = &mut self.checks {
            // Once it is ready again, a check that it waits for is the better reason again.
            let (run, again) = (self.service.run, checks.turns_ready(active.ready()));
            return (again && has_health).then(|| {
                Input::Report(run, Report::Health { healthy: checks.healthy(), missing: checks.missing() })
            });
        }
        let none = self.spec.checks().next().is_none() && self.own_check.is_none();
        if none || !active.has_been_ready() {
            return None;
        }
        let random = self.random.branch();
        let own_name = self.own_check.iter().map(|own| Arc::clone(&own.plan.name));
        let names = self.spec.checks().map(|(check, _)| Arc::from(check.name.as_str()));
        let totals = self.totals.begin(own_name.chain(names));
        let mut past = self.past_checks.take().unwrap_or_default();
        let (store, origin) = (&self.host_context.store, self.host_context.origin);
        let mut recall = |check: &str| {
            store.as_ref().map(|store| Recall {
                record: store.check_record(&self.name, check, self.service.run),
                origin,
                past: past.take(check, self.service.run),
            })
        };
        let own = self.own_check.iter().map(|own| ToMind {
            plan: own.plan.clone(),
            asks: Asks::Here(Arc::clone(&own.probe)),
            totals: totals.first().map(|(_, totals)| Arc::clone(totals)),
            recall: recall(&own.plan.name),
        });
        let own: Vec<ToMind> = own.collect();
        // All that ask over the network of this run share what was made for it.
        let mut network = None;
        let of_spec = self.spec.checks().zip(totals.iter().skip(self.own_check.iter().len())).map(
            |((check, registration), (_, totals))| {
                let asks = health::asks(
                    check,
                    || self.executor(),
                    || network.get_or_insert_with(|| self.network()).clone(),
                    |asked| {
                        self.host_context.runners.volume_probe(&self.spec, self.running_process()?, asked)
                    },
                );
                let recall = recall(&check.name);
                let plan = Plan { registration, ..Plan::from(check) };
                ToMind { plan, asks, totals: Some(Arc::clone(totals)), recall }
            },
        );
        let mut checks = Box::new(Checks::begin(own.into_iter().chain(of_spec), random));
        checks.turns_ready(active.ready());
        let (healthy, missing) = (checks.healthy(), checks.missing());
        self.checks = Some(checks);
        if !has_health || (self.health_kept && healthy.is_none()) {
            return None;
        }
        self.health_kept = false;
        Some(Input::Report(self.service.run, Report::Health { healthy, missing }))
    }

    /// Takes in what a result means.
    pub(super) fn checked(&mut self, news: News) -> Next {
        let News { changes, healthy, missing, restart } = news;
        let run = self.service.run;
        for text in &changes {
            self.note(text);
        }
        let next = match restart {
            Some(text) => {
                if self.spec.restart.scope == RestartScope::Group {
                    // It runs on until its group stops it in its turn, and is not to look healthy meanwhile.
                    self.step(Input::Report(run, Report::Health { healthy, missing }));
                }
                self.step(Input::Report(run, Report::Broken { reason: RestartReason::Check, text }))
            }
            // Not every check has a result yet in this incarnation of PID 1: those of the one before still
            // counts.
            None if !self.has_health() || (self.health_kept && healthy.is_none()) => Next::Same,
            None => {
                self.health_kept = false;
                self.step(Input::Report(run, Report::Health { healthy, missing }))
            }
        };
        if self.publisher.borrow().withheld != self.withheld() {
            self.publish();
        }
        next
    }

    /// It has checks that decide whether it is up.
    fn has_health(&self) -> bool {
        self.own_check.is_some() || !self.spec.health.is_empty()
    }

    /// Performs checks in the network of the present run.
    fn network(&self) -> Result<Arc<dyn Network>, ServicesError> {
        self.host_context.runners.network(&self.spec, self.running_process()?)
    }

    fn running_process(&self) -> Result<RunningProcess, ServicesError> {
        let pid = self.service.pid();
        let pid = pid.ok_or_else(|| ServicesError::NotNow("nothing runs that could be asked".into()))?;
        Ok(RunningProcess { run: self.service.run, pid, start_time: self.start_time })
    }

    /// How the checks stand; of a service that is not checked now, which there are.
    pub(super) fn reports(&self) -> Vec<CheckReport> {
        if let Some(checks) = &self.checks {
            return checks.reports();
        }
        let own = self.own_check.iter().map(|own| {
            let OwnCheck { plan, probe } = &**own;
            (Arc::clone(&plan.name), probe.kind(), plan.startup, false)
        });
        let of_spec = self
            .spec
            .checks()
            .map(|(check, of)| (Arc::from(check.name.as_str()), check.probe.kind(), check.startup, of));
        own.chain(of_spec)
            .map(|(name, kind, startup, registration)| CheckReport {
                name,
                kind,
                startup,
                registration,
                standing: Standing::Pending,
                since: None,
                lasts: None,
                late: None,
                results: Vec::new(),
            })
            .collect()
    }
}
