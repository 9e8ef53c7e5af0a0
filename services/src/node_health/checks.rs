//! The checks of groups: begun once all services of a group are up, and dropped when one of them no longer is.
//!
//! A time in which all are up is to these checks what a run is to those of a service: it has a number, results are
//! recorded under that number, and nothing that was learnt in an earlier one counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use kelson_spec::service::Check;
use tokio::time::Instant;

use super::tracker::Tracker;
use crate::error::ServicesError::NotNow;
use crate::groups::GroupRequest;
use crate::health::{self, Checks, News, Plan, Recall, ToMind};
use crate::manager::Manager;
use crate::service_runner::random::Random;
use crate::state_store::PastChecks;

/// The checks of all groups that are asked now. Belongs to the task that follows health.
pub struct GroupChecks {
    manager: Manager,
    asked: BTreeMap<Arc<str>, Asked>,
    /// The checks as an earlier incarnation of PID 1 recorded them, until this one begins its own.
    past: HashMap<String, PastChecks>,
    random: Random,
}

/// Those of one group.
struct Asked {
    run: u64,
    checks: Checks,
    /// They have asked for a restart of the group and have not all passed since.
    restarts: bool,
}

impl GroupChecks {
    pub fn new(manager: Manager, past: HashMap<String, PastChecks>) -> GroupChecks {
        let random = Random::of("checks of groups", manager.since_start());
        GroupChecks { manager, asked: BTreeMap::new(), past, random }
    }

    /// Begins the checks whose time has come, ends those whose time is over, and has the tracker know how they stand.
    /// `write` records which run of the checks begins, before it does.
    pub fn tend(&mut self, tracker: &mut Tracker, write: impl FnOnce(&mut Tracker), now: Instant) {
        for (group, scope, _) in tracker.checked() {
            let same = |asked: &Asked| asked.run == scope.checks_run;
            let goes_on = self.asked.get(group).is_some_and(same) || self.past.contains_key(&**group);
            if scope.together.is_none() || !goes_on {
                scope.begin_checks(now);
            }
        }
        write(tracker);
        let mut before = std::mem::take(&mut self.asked);
        let mut past = std::mem::take(&mut self.past);
        for (_, _, scope) in tracker.scopes() {
            scope.unchecked();
        }
        for (group, scope, checks) in tracker.checked() {
            let asked = match before.remove(group).filter(|asked| asked.run == scope.checks_run) {
                Some(asked) => asked,
                None => {
                    let past = past.remove(&**group).unwrap_or_default();
                    self.begin(group, scope.checks_run, checks, past)
                }
            };
            scope.checked(checks.len(), asked.checks.missing_ones(), now);
            self.asked.insert(Arc::clone(group), asked);
        }
    }

    fn begin(&mut self, group: &str, run: u64, checks: &[Check], mut past: PastChecks) -> Asked {
        let (store, origin) = (self.manager.store(), self.manager.origin());
        let network = self.manager.host_network();
        let to_mind = checks.iter().map(|check| ToMind {
            plan: Plan::from(check),
            asks: health::asks(
                check,
                || Err(NotNow("a group runs no command".to_owned())),
                || network.clone(),
                |_| Err(NotNow("a group has no volume".to_owned())),
            ),
            totals: None,
            recall: store.map(|store| Recall {
                record: store.group_check_record(group, &check.name, run),
                origin,
                past: past.take(&check.name, run),
            }),
        });
        Asked { run, checks: Checks::begin(to_mind, self.random.branch()), restarts: false }
    }

    /// Waits for the next result that changes something, and returns its meaning and the group that it is
    /// for. Cancelled by dropping; loses nothing then.
    pub async fn next(&mut self) -> (Arc<str>, News) {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(Arc<str>, News)> {
        for (group, asked) in &mut self.asked {
            if let Poll::Ready(news) = asked.checks.poll_next(context) {
                return Poll::Ready((Arc::clone(group), news));
            }
        }
        Poll::Pending
    }

    /// Reports what changed, and asks for a restart of the group: once, until all its checks have passed again.
    pub fn act(&mut self, group: &Arc<str>, news: News) {
        let Some(asked) = self.asked.get_mut(group).filter(|_| !self.manager.closing()) else { return };
        for change in news.changes {
            self.manager.host_event(&format!("group {group}: {change}"));
        }
        asked.restarts &= news.healthy != Some(true);
        if let Some(text) = news.restart
            && !std::mem::replace(&mut asked.restarts, true)
        {
            let (group, after) = (Arc::clone(group), Duration::ZERO);
            self.manager.ask_for_group_restart(GroupRequest {
                group,
                member: None,
                text,
                after,
                begun: false,
            });
        }
    }
}
