//! One stop of several services: who may stop now, and who may once another is down.

use kelson_sys::ordered;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Graph;
use crate::service::ServiceSpec;

/// A stop that is under way. A service may stop once all that need it are down.
#[derive(Debug, Clone, Default)]
pub struct StopOrder {
    members: BTreeMap<Arc<str>, Member>,
    left: usize,
}

#[derive(Debug, Clone, Default)]
struct Member {
    needs: Vec<Arc<str>>,
    /// How many that need it are not down yet.
    users: usize,
    told: bool,
    down: bool,
}

impl StopOrder {
    /// Of `members`, ordered by all their `specs`: of a service that which it was started with, and that which its file
    /// says now. Specs of others order nothing.
    pub fn new<'s>(
        members: impl IntoIterator<Item = Arc<str>>,
        specs: impl IntoIterator<Item = &'s ServiceSpec> + Clone,
    ) -> StopOrder {
        let graph = Graph::new(specs);
        let mut members = ordered::map(members.into_iter().map(|name| (name, Member::default())));
        let names: Vec<Arc<str>> = members.keys().map(Arc::clone).collect();
        for name in &names {
            let users: Vec<&str> =
                graph.dependants(name).into_iter().filter(|user| members.contains_key(*user)).collect();
            if let Some(member) = members.get_mut(name) {
                member.users = users.len();
            }
            for user in users {
                if let Some(member) = members.get_mut(user) {
                    member.needs.push(Arc::clone(name));
                }
            }
        }
        StopOrder { left: members.len(), members }
    }

    /// Those that may stop at once. Each service is given out once, here or by what follows.
    pub fn first(&mut self) -> Vec<Arc<str>> {
        self.take(|member| member.users == 0)
    }

    /// One is down. Returns those that may stop now.
    pub fn down(&mut self, name: &str) -> Vec<Arc<str>> {
        let Some(member) = self.members.get_mut(name) else { return Vec::new() };
        if std::mem::replace(&mut member.down, true) {
            return Vec::new();
        }
        self.left = self.left.saturating_sub(1);
        let mut free = Vec::new();
        for need in std::mem::take(&mut member.needs) {
            let Some(needed) = self.members.get_mut(&need) else { continue };
            needed.users = needed.users.saturating_sub(1);
            if needed.users == 0 && !std::mem::replace(&mut needed.told, true) {
                free.push(need);
            }
        }
        free
    }

    /// All others, even if services need them: time is up.
    pub fn rest(&mut self) -> Vec<Arc<str>> {
        self.take(|_| true)
    }

    fn take(&mut self, which: impl Fn(&Member) -> bool) -> Vec<Arc<str>> {
        let mut taken = Vec::new();
        for (name, member) in &mut self.members {
            if which(member) && !std::mem::replace(&mut member.told, true) {
                taken.push(Arc::clone(name));
            }
        }
        taken
    }

    /// Whether all are down.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Those that are not down yet.
    pub fn left(&self) -> Vec<String> {
        self.members.iter().filter(|(_, member)| !member.down).map(|(name, _)| name.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::specs;
    use super::*;

    fn order(text: &str) -> StopOrder {
        let specs = specs(text);
        let names: std::collections::BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        StopOrder::new(names.into_iter().map(Arc::from), &specs)
    }

    fn said(names: Vec<Arc<str>>) -> String {
        names.join(" ")
    }

    #[test]
    fn each_stops_once_those_that_need_it_are_down() {
        let mut order = order("a:\nb: a\nc: a b\nd: b!down\n");
        assert_eq!(said(order.first()), "c d");
        assert_eq!(said(order.first()), "", "each once");
        assert_eq!(said(order.down("d")), "");
        assert_eq!(said(order.down("c")), "b");
        assert_eq!((order.left(), order.is_over()), (vec!["a".to_owned(), "b".to_owned()], false));
        assert_eq!(said(order.down("b")), "a");
        assert_eq!(said(order.down("b")), "", "a second report of it changes nothing");
        assert_eq!(said(order.down("a")), "");
        assert!(order.is_over());
        assert_eq!(said(order.down("stranger")), "");
    }

    #[test]
    fn a_circle_of_alternatives_waits_for_nobody_else() {
        let mut order = order("a: b|c\nb: a|c\nc:\nslow:\n");
        assert_eq!(said(order.first()), "a b slow");
        assert_eq!(said(order.down("a")), "");
        assert_eq!(said(order.down("b")), "c", "what is below the circle keeps its place");
    }

    #[test]
    fn a_circle_gives_way_where_it_is_an_alternative() {
        let mut order = order("a: b|/ready\nb: a\n");
        assert_eq!(said(order.first()), "b");
        assert_eq!(said(order.down("b")), "a");
    }

    #[test]
    fn when_time_is_up_all_the_others_are_told() {
        let mut order = order("a:\nb: a\nc: b\n");
        assert_eq!(said(order.first()), "c");
        assert_eq!(said(order.rest()), "a b");
        assert_eq!(said(order.down("c")), "", "it has been told");
        assert_eq!(order.left(), ["a", "b"]);
    }

    #[test]
    fn others_order_nothing() {
        let specs = specs("a:\nb: a\nc: b\n");
        let mut order = StopOrder::new(["a", "c"].map(Arc::from), &specs);
        assert_eq!(said(order.first()), "a c");
    }
}
