//! The health of the host as a whole, and of each group: whether all that should be up is up, and has been for a while.
//!
//! It is a level over the published snapshots, evaluated again with each of their changes and at the two moments that
//! time brings ([`scope`]): after the minimum without a break, and at the deadline. [`part`] says which services it
//! goes by, [`tracker`] keeps the culprits of the host and of each group by what changed, [`checks`] has the checks of
//! groups asked, and [`report`] puts all that in words when somebody asks. Nothing polls; a change costs the same among
//! a thousand services as among ten. [`recovery`] writes down what the next incarnation of PID 1 has to know of it.

use kelson_sys::ordered;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kelson_proto::v1;
pub use kelson_spec::machine::NodeHealthSpec;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::manager::Manager;
use crate::service_runner::gate::Registry;
use crate::service_runner::registry::Changes;
use crate::state_store::{PastChecks, PastHealth};

mod causes;
mod checks;
mod part;
mod recovery;
mod report;
mod scope;
mod tracker;

pub use causes::Cause;
use checks::GroupChecks;
use part::part_if_required;
pub use part::{Part, part};
use recovery::Recovery;
pub use scope::HealthState;
use scope::Scope;
pub use tracker::HealthSpecs;
use tracker::Tracker;

/// The health of the host and of its groups. Cheap to clone.
#[derive(Clone)]
pub struct NodeHealth {
    inner: Arc<Inner>,
}

struct Inner {
    manager: Manager,
    registry: Registry,
    tracker: Mutex<Tracker>,
    changed: watch::Sender<u64>,
    /// The settings changed: time may bring something else now.
    renewed: Notify,
}

impl NodeHealth {
    /// Follows all services from now on; the deadline counts from here. Call it within a Tokio runtime.
    pub fn of(manager: &Manager, specs: impl Into<HealthSpecs>) -> NodeHealth {
        NodeHealth::follow(manager, Tracker::new(specs, Instant::now()), HashMap::new())
    }

    /// Goes on from what an earlier incarnation of PID 1 knew. Until [`NodeHealth::recovered`] the states are those of
    /// that one.
    pub fn recovering(manager: &Manager, specs: impl Into<HealthSpecs>, mut past: PastHealth) -> NodeHealth {
        manager.recall_group_restarts(&past.restarts);
        let checks = std::mem::take(&mut past.checks);
        if past.scopes.iter().all(|scope| !scope.group.is_empty()) {
            manager.host_event("the health of the host is not in the state, so its deadline begins again");
        }
        let recovery = Recovery::new(past, manager.origin());
        NodeHealth::follow(manager, Tracker::recovering(specs.into(), recovery, Instant::now()), checks)
    }

    /// All services of an earlier incarnation of PID 1 are there again: states change from now on.
    pub fn recovered(&self) {
        let mut tracker = self.inner.tracker();
        // The task that follows them may not have come to look at any of them yet.
        self.inner.see(&mut tracker, &self.inner.registry.names(), Instant::now());
        tracker.recovered();
        drop(tracker);
        self.inner.renewed.notify_one();
    }

    fn follow(manager: &Manager, tracker: Tracker, past: HashMap<String, PastChecks>) -> NodeHealth {
        let registry = manager.registry().clone();
        let changes = registry.follow();
        let inner = Arc::new(Inner {
            manager: manager.clone(),
            registry,
            tracker: Mutex::new(tracker),
            changed: watch::channel(0).0,
            renewed: Notify::new(),
        });
        let checks = GroupChecks::new(manager.clone(), past);
        kelson_sys::spawn(follow(Arc::clone(&inner), changes, checks));
        NodeHealth { inner }
    }

    /// Goes by other settings from now on. The host's deadline still counts from the beginning; that of a group whose
    /// file changed begins again.
    pub fn set_specs(&self, specs: impl Into<HealthSpecs>) {
        let mut tracker = self.inner.tracker();
        tracker.set_specs(specs.into(), Instant::now());
        // Recorded before the new settings are: results of checks by the old ones count for nothing.
        self.inner.write(&mut tracker);
        drop(tracker);
        self.inner.renewed.notify_one();
    }

    /// How the host is.
    pub fn node(&self) -> v1::HealthReport {
        let tracker = self.inner.tracker();
        self.report(&tracker, None, &tracker.node)
    }

    /// How a group is. `None`: no service is in a group of that name.
    pub fn group(&self, name: &str) -> Option<v1::HealthReport> {
        let tracker = self.inner.tracker();
        Some(self.report(&tracker, Some(name), tracker.group(name)?))
    }

    /// All groups, by name.
    pub fn groups(&self) -> Vec<v1::HealthReport> {
        let tracker = self.inner.tracker();
        tracker.groups().map(|(name, scope)| self.report(&tracker, Some(name), scope)).collect()
    }

    fn report(&self, tracker: &Tracker, group: Option<&str>, scope: &Scope) -> v1::HealthReport {
        let Inner { registry, manager, .. } = &*self.inner;
        let health = report::report(scope, &tracker.spec(group), registry, Instant::now());
        let (warnings, optional) = (manager.faulty_files(group), self.optional(group));
        v1::HealthReport { group: group.unwrap_or_default().to_owned(), warnings, optional, ..health }
    }

    /// Those that are named though the state does not go by them.
    fn optional(&self, group: Option<&str>) -> Vec<v1::Culprit> {
        let mut snapshots = self.inner.manager.list();
        snapshots.retain(|now| {
            !now.required
                && !now.builtin
                && (group.is_none() || now.group.as_deref() == group)
                && part_if_required(now, self.inner.manager.spec(&now.name).as_deref()) == Part::Culprit
        });
        ordered::sort_by(&mut snapshots, |a, b| a.name.cmp(&b.name));
        snapshots.iter().map(report::culprit).collect()
    }

    /// The states of all groups alone, by name.
    pub fn group_states(&self) -> Vec<(Arc<str>, HealthState)> {
        let tracker = self.inner.tracker();
        tracker.groups().map(|(name, scope)| (Arc::clone(name), scope.state)).collect()
    }

    /// The state of the host alone, without its culprits.
    pub fn node_state(&self) -> HealthState {
        self.inner.tracker().node.state
    }

    /// Why the host is not healthy, the most important causes first. `None`: nothing is missing, but it may have to last.
    pub fn causes(&self) -> Option<Vec<Cause>> {
        let tracker = self.inner.tracker();
        let is_well = tracker.node.culprits.is_empty() && tracker.node.unread.is_none();
        (!is_well).then(|| causes::causes(&tracker.node, &self.inner.registry))
    }

    /// Whether its causes are known: after a re-exec it takes a moment.
    pub fn knows_causes(&self) -> bool {
        causes::are_known(&self.inner.tracker().node, &self.inner.registry)
    }

    /// The state of a group alone.
    pub fn group_state(&self, name: &str) -> Option<HealthState> {
        self.inner.tracker().group(name).map(|scope| scope.state)
    }

    /// Changes whenever something of it may have: a service came, went or changed, or a state did.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }
}

impl Inner {
    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the tracker how these services are now.
    fn see(&self, tracker: &mut Tracker, names: &HashSet<Arc<str>>, now: Instant) {
        for name in names {
            let spec = self.manager.spec(name);
            match self.registry.get(name) {
                Some(snapshot) => tracker.see(&snapshot.borrow(), spec.as_deref(), now),
                None => tracker.forget(name),
            }
        }
    }

    /// Takes in what changed and tells what came of it.
    fn take_in(&self, names: &HashSet<Arc<str>>, checks: &mut GroupChecks) {
        let now = Instant::now();
        let mut tracker = self.tracker();
        self.see(&mut tracker, names, now);
        for (group, restarts) in self.manager.group_restarts() {
            tracker.restarted(&group, restarts, now);
        }
        if !tracker.recovers() {
            checks.tend(&mut tracker, |tracker| self.write(tracker), now);
        }
        let turns = tracker.conclude(now);
        // Written down before anybody sees it.
        self.write(&mut tracker);
        for (group, _) in turns {
            tracker.report(group.as_deref());
            // That services go down when the host stops is no news.
            if self.manager.closing() {
                continue;
            }
            let (subject, scope) = match &group {
                None => ("the host".to_owned(), Some(&tracker.node)),
                Some(name) => (format!("group {name}"), tracker.group(name)),
            };
            if let Some(scope) = scope {
                let spec = tracker.spec(group.as_deref());
                let health = report::report(scope, &spec, &self.registry, now);
                self.manager.host_event(&report::event(&subject, scope.state, &health));
            }
        }
        self.write(&mut tracker);
        drop(tracker);
        self.changed.send_modify(|number| *number = number.wrapping_add(1));
    }

    fn write(&self, tracker: &mut Tracker) {
        if let Some(store) = self.manager.store() {
            tracker.write(store, self.manager.origin());
        }
    }
}

/// Sees every change until the runtime ends.
async fn follow(inner: Arc<Inner>, mut changes: Changes, mut checks: GroupChecks) {
    // A host without services would be healthy.
    inner.manager.taken_in().await;
    loop {
        let due = inner.tracker().due();
        let in_time = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let names = tokio::select! {
            names = changes.next() => names,
            () = in_time => HashSet::new(),
            () = inner.renewed.notified() => HashSet::new(),
            (group, news) = checks.next() => {
                checks.act(&group, news);
                HashSet::new()
            }
        };
        inner.take_in(&names, &mut checks);
    }
}
