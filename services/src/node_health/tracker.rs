//! The scopes of the host and of its groups, kept by what changed: nothing here looks at all services at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kelson_spec::ServiceSpec;
use kelson_spec::machine::NodeHealthSpec;
use tokio::time::Instant;

use super::part::{Part, part};
use super::scope::{HealthState, Scope};
use crate::model::Snapshot;

/// What is remembered of a service.
struct Seen {
    run: u64,
    part: Part,
    group: Option<Arc<str>>,
    /// A new file of it waits for its next start.
    changed: bool,
}

#[derive(Default)]
struct Group {
    /// The group is there while it has any.
    members: usize,
    /// How often it was restarted.
    restarts: u64,
}

pub struct Tracker {
    pub spec: NodeHealthSpec,
    pub node: Scope,
    groups: BTreeMap<Arc<str>, (Group, Scope)>,
    seen: HashMap<Arc<str>, Seen>,
}

/// A scope that came to another state; `None`: the host.
pub type Turn = (Option<Arc<str>>, HealthState);

impl Tracker {
    pub fn new(spec: NodeHealthSpec, now: Instant) -> Tracker {
        Tracker { spec, node: Scope::new(now), groups: BTreeMap::new(), seen: HashMap::new() }
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
            Seen { run: now.run, part: part(now, spec), group: now.group.clone(), changed: now.changed };
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
        let adopted = before.as_ref().is_some_and(|before| before.changed && !now.changed);
        let mut group = now.group.as_ref().and_then(|name| self.groups.get_mut(name)).map(|(_, scope)| scope);
        if let Some(scope) = group.as_mut().filter(|_| newcomer || adopted) {
            scope.renew(at);
        }
        let scopes = [(Some(&mut self.node), was_asked(before.is_none())), (group, was_asked(newcomer))];
        for (scope, was_asked) in scopes {
            let Some(scope) = scope else { continue };
            match (was_asked, seen.part != Part::Aside) {
                (false, true) => scope.asked = scope.asked.saturating_add(1),
                (true, false) => scope.asked = scope.asked.saturating_sub(1),
                _ => {}
            }
            if broke {
                scope.broke(&now.name, &now.message, at);
            }
            match seen.part {
                Part::Culprit => drop(scope.blame(&now.name, &now.message, at)),
                Part::Well | Part::Aside => drop(scope.clear(&now.name)),
            }
        }
        self.seen.insert(Arc::clone(&now.name), seen);
    }

    /// A service is gone.
    pub fn forget(&mut self, name: &str) {
        let Some((name, seen)) = self.seen.remove_entry(name) else { return };
        self.node.clear(&name);
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

    /// What came of all that was seen, and of the time.
    pub fn conclude(&mut self, at: Instant) -> Vec<Turn> {
        let mut turns = Vec::new();
        if self.node.conclude(&self.spec, at) {
            turns.push((None, self.node.state));
        }
        for (name, (_, scope)) in &mut self.groups {
            if scope.conclude(&self.spec, at) {
                turns.push((Some(Arc::clone(name)), scope.state));
            }
        }
        turns
    }

    /// When time alone changes something.
    pub fn due(&self) -> Option<Instant> {
        let groups = self.groups().filter_map(|(_, scope)| scope.due(&self.spec));
        groups.chain(self.node.due(&self.spec)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::failed_snapshot;
    use crate::model::State;

    fn service(name: &str, up: bool, group: Option<&str>) -> Snapshot {
        Snapshot {
            state: if up { State::Running } else { State::Backoff },
            up,
            down: false,
            run: 1,
            group: group.map(Arc::from),
            ..failed_snapshot(&Arc::from(name), "", false)
        }
    }

    fn culprits(scope: &Scope) -> Vec<&str> {
        scope.culprits.keys().map(AsRef::as_ref).collect()
    }

    #[test]
    fn a_group_is_there_while_it_has_members() {
        let at = Instant::now();
        let mut tracker = Tracker::new(NodeHealthSpec::default(), at);
        tracker.see(&service("web", false, Some("shop")), None, at);
        tracker.see(&service("db", true, Some("shop")), None, at);
        tracker.see(&service("lone", false, None), None, at);
        tracker.see(&service("db", true, Some("shop")), None, at);
        let shop = tracker.group("shop").unwrap();
        assert_eq!((culprits(shop), shop.asked), (vec!["web"], 2));
        assert_eq!((culprits(&tracker.node), tracker.node.asked), (vec!["lone", "web"], 3));
        // It moves, with a new file.
        tracker.see(&service("web", false, Some("other")), None, at);
        let shop = tracker.group("shop").unwrap();
        assert_eq!((culprits(shop), shop.asked), (vec![], 1));
        let other = tracker.group("other").unwrap();
        assert_eq!((culprits(other), other.asked), (vec!["web"], 1));
        assert_eq!((culprits(&tracker.node), tracker.node.asked), (vec!["lone", "web"], 3));
        tracker.forget("web");
        tracker.forget("web");
        assert!(tracker.group("other").is_none());
        assert_eq!((culprits(&tracker.node), tracker.node.asked), (vec!["lone"], 2));
    }

    #[test]
    fn a_change_of_a_member_and_a_restart_renew_the_deadline() {
        let begun = Instant::now();
        let at = |seconds| begun + std::time::Duration::from_secs(seconds);
        let mut tracker = Tracker::new(NodeHealthSpec::default(), begun);
        let web = service("web", false, Some("shop"));
        tracker.see(&web, None, begun);
        let begun_of = |tracker: &Tracker| tracker.group("shop").map(|scope| scope.begun);
        // A new file alone changes nothing yet.
        tracker.see(&Snapshot { changed: true, ..web.clone() }, None, at(10));
        assert_eq!(begun_of(&tracker), Some(at(0)));
        tracker.see(&web, None, at(20));
        assert_eq!(begun_of(&tracker), Some(at(20)));
        tracker.see(&service("db", false, Some("shop")), None, at(30));
        assert_eq!(begun_of(&tracker), Some(at(30)));
        for seconds in [40, 50] {
            tracker.restarted("shop", 1, at(seconds));
        }
        assert_eq!(begun_of(&tracker), Some(at(40)));
        assert_eq!(tracker.node.begun, begun);
    }

    #[test]
    fn a_service_that_is_not_asked_any_more_is_no_culprit() {
        let at = Instant::now();
        let mut tracker = Tracker::new(NodeHealthSpec::default(), at);
        tracker.see(&service("web", false, Some("shop")), None, at);
        let aside = Snapshot { required: false, ..service("web", false, Some("shop")) };
        tracker.see(&aside, None, at);
        assert_eq!((culprits(&tracker.node), tracker.node.asked), (vec![], 0));
        let shop = tracker.group("shop").unwrap();
        assert_eq!((culprits(shop), shop.asked), (vec![], 0));
    }

    #[test]
    fn another_run_is_a_break_that_nobody_saw() {
        let at = Instant::now();
        let spec = NodeHealthSpec { minimum: std::time::Duration::ZERO, ..NodeHealthSpec::default() };
        let mut tracker = Tracker::new(spec, at);
        tracker.spec.minimum = std::time::Duration::from_secs(1);
        tracker.see(&service("web", true, Some("shop")), None, at);
        tracker.conclude(at);
        let later = at + std::time::Duration::from_secs(2);
        assert_eq!(tracker.conclude(later).len(), 2);
        tracker.see(&Snapshot { run: 2, ..service("web", true, Some("shop")) }, None, later);
        let turns = tracker.conclude(later);
        assert_eq!(
            turns,
            [(None, HealthState::Unhealthy), (Some(Arc::from("shop")), HealthState::Unhealthy)]
        );
    }
}
