//! The scopes of the host and of its groups, kept by what changed: nothing here looks at all services at once.

#[cfg(test)]
mod tests;

use kelson_sys::ordered;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kelson_spec::machine::NodeHealthSpec;
use kelson_spec::service::Check;
use kelson_spec::{GroupSpec, Loaded, ServiceSpec};
use tokio::time::Instant;

use super::part::{Part, part};
use super::recovery::Recovery;
use super::scope::{HealthState, Scope};
use crate::model::Snapshot;
use crate::state_store::numbers::nanos;
use crate::state_store::{StateStore, StoredCulprit};

/// The last known state of a service.
struct Seen {
    run: u64,
    part: Part,
    group: Option<Arc<str>>,
    /// The spec that it runs with. A new file alone does not change it.
    spec: Option<Arc<ServiceSpec>>,
}

/// When the host and its groups count as healthy, and when as failed.
#[derive(Debug, Clone, Default)]
pub struct HealthSpecs {
    pub node: NodeHealthSpec,
    /// The files of groups. A group without one is judged as the host.
    pub groups: BTreeMap<String, GroupSpec>,
    /// Why the files of the host are not known: it has failed while that is so.
    pub unread: Option<Arc<str>>,
}

impl HealthSpecs {
    pub fn new(node: NodeHealthSpec, groups: &[GroupSpec]) -> HealthSpecs {
        let groups = groups.iter().map(|group| (group.name.clone(), group.clone()));
        HealthSpecs { node, groups: ordered::map(groups), unread: None }
    }

    /// Of a group; `None`: of the host.
    pub fn of(&self, group: Option<&str>) -> NodeHealthSpec {
        let spec = group.and_then(|group| self.groups.get(group));
        spec.map_or(self.node, |spec| spec.health(&self.node))
    }
}

impl From<&Loaded> for HealthSpecs {
    fn from(loaded: &Loaded) -> HealthSpecs {
        let unread = loaded.unread().map(Arc::from);
        HealthSpecs { unread, ..HealthSpecs::new(loaded.machine.health, &loaded.groups) }
    }
}

impl From<NodeHealthSpec> for HealthSpecs {
    fn from(node: NodeHealthSpec) -> HealthSpecs {
        HealthSpecs::new(node, &[])
    }
}

#[derive(Default)]
struct Group {
    /// The group is there while it has any.
    members: usize,
    /// How often it was restarted.
    restarts: u64,
}

pub struct Tracker {
    specs: HealthSpecs,
    pub node: Scope,
    groups: BTreeMap<Arc<str>, (Group, Scope)>,
    seen: HashMap<Arc<str>, Seen>,
    /// The records of an earlier incarnation of PID 1, until all services are there again.
    recovery: Option<Recovery>,
    /// Services that became culprits or are none any more, and groups that are gone, since this was written down.
    changed_culprits: BTreeSet<Arc<str>>,
    gone_groups: BTreeSet<Arc<str>>,
}

/// A scope whose state no event has named yet; `None`: the host.
pub type Change = (Option<Arc<str>>, HealthState);

impl Tracker {
    pub fn new(specs: impl Into<HealthSpecs>, now: Instant) -> Tracker {
        let specs = specs.into();
        Tracker {
            node: Scope { unread: specs.unread.clone(), ..Scope::new(now) },
            specs,
            groups: BTreeMap::new(),
            seen: HashMap::new(),
            recovery: None,
            changed_culprits: BTreeSet::new(),
            gone_groups: BTreeSet::new(),
        }
    }

    /// Goes on from what an earlier incarnation of PID 1 knew. Nothing is concluded before [`Tracker::recovered`].
    pub fn recovering(specs: HealthSpecs, mut recovery: Recovery, now: Instant) -> Tracker {
        let mut tracker = Tracker::new(specs, now);
        for (group, restarts, scope) in recovery.scopes() {
            if group.is_empty() {
                tracker.node = Scope { unread: tracker.specs.unread.clone(), ..scope };
            } else {
                tracker.groups.insert(group, (Group { members: 0, restarts }, scope));
            }
        }
        tracker.recovery = Some(recovery);
        tracker
    }

    /// When the host (`None`) or a group counts as healthy.
    pub fn spec(&self, group: Option<&str>) -> NodeHealthSpec {
        self.specs.of(group)
    }

    /// Goes by other settings from now on. A group whose own file changed has its whole deadline again.
    pub fn set_specs(&mut self, specs: HealthSpecs, at: Instant) {
        for (name, (_, scope)) in &mut self.groups {
            let (before, now) = (self.specs.groups.get(&**name), specs.groups.get(&**name));
            if before != now {
                scope.renew(at);
            }
            let checks = |spec: Option<&GroupSpec>| spec.map_or_else(Vec::new, |spec| spec.health.clone());
            let (before, now) = (checks(before), checks(now));
            if before != now && !now.is_empty() {
                // The new ones have passed nothing yet.
                (scope.steady, scope.together) = (None, None);
            }
        }
        self.node.unread.clone_from(&specs.unread);
        self.specs = specs;
    }

    /// All services are there again.
    pub fn recovered(&mut self) {
        let Some(recovery) = self.recovery.take() else { return };
        // Those that are no culprits any more, or not of that group.
        self.changed_culprits.extend(recovery.rest());
        let gone = &mut self.gone_groups;
        self.groups.retain(|name, (group, _)| {
            let stays = group.members > 0;
            if !stays {
                gone.insert(Arc::clone(name));
            }
            stays
        });
    }

    /// Since when a service is a culprit of the host, and of its group.
    pub fn culprit(&self, service: &str) -> Option<(Instant, Option<Instant>)> {
        let group = self.seen.get(service).and_then(|seen| seen.group.as_deref());
        let in_group = group.and_then(|group| self.group(group)?.culprits.get(service).copied());
        Some((*self.node.culprits.get(service)?, in_group))
    }

    /// All scopes with how often each group was restarted; `None`: the host.
    pub fn scopes(&mut self) -> impl Iterator<Item = (Option<&Arc<str>>, u64, &mut Scope)> {
        let groups = self.groups.iter_mut();
        let groups = groups.map(|(name, (group, scope))| (Some(name), group.restarts, scope));
        std::iter::once((None, 0, &mut self.node)).chain(groups)
    }

    /// Nothing is concluded yet: services of an earlier incarnation of PID 1 are still to come.
    pub fn recovers(&self) -> bool {
        self.recovery.is_some()
    }

    /// The groups whose checks are to be asked, with these: all their services are up, and there are any that must be.
    pub fn checked(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut Scope, &[Check])> {
        let specs = &self.specs;
        self.groups.iter_mut().filter_map(|(name, (_, scope))| {
            let checks = specs.groups.get(&**name).map(|spec| spec.health.as_slice())?;
            let asked = !checks.is_empty() && scope.asked > 0 && scope.culprits.is_empty();
            asked.then_some((name, scope, checks))
        })
    }

    /// An event has named the state of the host or of a group.
    pub fn report(&mut self, group: Option<&str>) {
        let scope = match group {
            None => Some(&mut self.node),
            Some(group) => self.groups.get_mut(group).map(|(_, scope)| scope),
        };
        if let Some(scope) = scope {
            scope.report();
        }
    }

    pub fn group(&self, name: &str) -> Option<&Scope> {
        self.groups.get(name).map(|(_, scope)| scope)
    }

    pub fn groups(&self) -> impl Iterator<Item = (&Arc<str>, &Scope)> {
        self.groups.iter().map(|(name, (_, scope))| (name, scope))
    }

    /// A service is like this now. Call [`Tracker::conclude`] after the last one.
    pub fn see(&mut self, now: &Snapshot, spec: Option<&ServiceSpec>, at: Instant) {
        let before = self.seen.remove(&now.name);
        if let Some(before) = &before
            && before.group != now.group
        {
            self.leave(&now.name, before);
        }
        let newcomer = before.as_ref().is_none_or(|before| before.group != now.group);
        let seen =
            Seen { run: now.run, part: part(now, spec), group: now.group.clone(), spec: now.spec.clone() };
        if newcomer && let Some(group) = &now.group {
            let (group, _) =
                self.groups.entry(Arc::clone(group)).or_insert_with(|| (Group::default(), Scope::new(at)));
            group.members = group.members.saturating_add(1);
        }
        // Between two looks it may have gone down and come up again, in another run.
        let broke = before.as_ref().is_some_and(|before| before.part == Part::Well && before.run != now.run);
        let was_asked = |scope_is_new: bool| {
            !scope_is_new && before.as_ref().is_some_and(|before| before.part != Part::Aside)
        };
        let adopted = before
            .as_ref()
            .and_then(|before| before.spec.as_ref())
            .is_some_and(|before| now.spec.as_ref().is_none_or(|spec| !Arc::ptr_eq(before, spec)));
        // A service that is seen for the first time after a recovery was known before.
        let recalled = self.recovery.as_mut().filter(|_| before.is_none());
        let joined = newcomer && recalled.is_none();
        let (since, spawned) = recalled.map(|recovery| recovery.of(&now.name)).unwrap_or_default();
        let mut group = now.group.as_ref().and_then(|name| self.groups.get_mut(name)).map(|(_, scope)| scope);
        if let Some(scope) = group.as_mut().filter(|_| joined || adopted) {
            scope.renew(at);
        }
        let (node_since, group_since) = since;
        let scopes = [
            (Some(&mut self.node), was_asked(before.is_none()), node_since),
            (group, was_asked(newcomer), group_since),
        ];
        let mut is_new = false;
        for (scope, was_asked, since) in scopes {
            let Some(scope) = scope else { continue };
            match (was_asked, seen.part != Part::Aside) {
                (false, true) => scope.asked = scope.asked.saturating_add(1),
                (true, false) => scope.asked = scope.asked.saturating_sub(1),
                _ => {}
            }
            // A run that began after all were up: nobody saw that the one before it ended.
            let unseen = seen.part == Part::Well && spawned > scope.together;
            if broke || (unseen && scope.together.is_some()) {
                scope.broke(&now.name, &now.message, at);
            }
            is_new |= match (seen.part, since) {
                (Part::Culprit, Some(since)) => {
                    scope.culprits.insert(Arc::clone(&now.name), since);
                    false
                }
                (Part::Culprit, None) => scope.blame(&now.name, &now.message, at),
                (Part::Well | Part::Aside, since) => scope.clear(&now.name) || since.is_some(),
            };
        }
        if is_new {
            self.changed_culprits.insert(Arc::clone(&now.name));
        }
        self.seen.insert(Arc::clone(&now.name), seen);
    }

    /// A service is gone.
    pub fn forget(&mut self, name: &str) {
        let Some((name, seen)) = self.seen.remove_entry(name) else { return };
        if self.node.clear(&name) {
            self.changed_culprits.insert(Arc::clone(&name));
        }
        if seen.part != Part::Aside {
            self.node.asked = self.node.asked.saturating_sub(1);
        }
        self.leave(&name, &seen);
    }

    fn leave(&mut self, name: &Arc<str>, seen: &Seen) {
        let Some(group) = &seen.group else { return };
        let Some((members, scope)) = self.groups.get_mut(group) else { return };
        members.members = members.members.saturating_sub(1);
        if members.members == 0 {
            self.groups.remove(group);
            self.gone_groups.insert(Arc::clone(group));
            return;
        }
        scope.clear(name);
        if seen.part != Part::Aside {
            scope.asked = scope.asked.saturating_sub(1);
        }
    }

    /// How often a group was restarted until now.
    pub fn restarted(&mut self, group: &str, restarts: u64, at: Instant) {
        if let Some((group, scope)) = self.groups.get_mut(group)
            && group.restarts != restarts
        {
            group.restarts = restarts;
            scope.renew(at);
        }
    }

    /// Draws the conclusions from all changes seen, and from the time.
    pub fn conclude(&mut self, at: Instant) -> Vec<Change> {
        let mut turns = Vec::new();
        if self.recovers() {
            return turns;
        }
        let specs = std::mem::take(&mut self.specs);
        for (group, _, scope) in self.scopes() {
            scope.conclude(&specs.of(group.map(AsRef::as_ref)), at);
            if scope.state != scope.reported {
                turns.push((group.cloned(), scope.state));
            }
        }
        self.specs = specs;
        turns
    }

    /// Writes down what is not written yet, and nothing else.
    pub fn write(&mut self, store: &StateStore, origin: Instant) {
        let since_start = |at: Instant| nanos(at.saturating_duration_since(origin));
        for service in std::mem::take(&mut self.changed_culprits) {
            match self.culprit(&service) {
                Some((since, in_group)) => store.write_culprit(StoredCulprit {
                    service: service.to_string(),
                    since: since_start(since),
                    since_in_group: in_group.map(since_start),
                }),
                None => store.forget_culprit(&service),
            }
        }
        for group in std::mem::take(&mut self.gone_groups) {
            store.forget_scope(&group);
        }
        for (group, restarts, scope) in self.scopes() {
            if std::mem::take(&mut scope.unwritten) {
                store.write_scope(scope.to_stored(group.map_or("", |group| group), restarts, origin));
            }
        }
    }

    /// When time alone changes something.
    pub fn due(&self) -> Option<Instant> {
        if self.recovers() {
            return None;
        }
        let groups = self.groups().filter_map(|(name, scope)| scope.due(&self.spec(Some(name))));
        groups.chain(self.node.due(&self.spec(None))).min()
    }
}
