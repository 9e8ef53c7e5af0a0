//! Stopping in the reverse order of the dependencies: a service stops as soon as all that depend on it are down.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kelson_spec::service::{Requirement, ServiceEvent, ServiceSpec};
use kelson_spec::{Graph, StopOrder, edges_of};
use kelson_sys::ordered;
use kelson_sys::text::first_of_many;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{Entry, Manager, tell};
use crate::model::State;
use crate::service_runner::gate::event_holds;
use crate::service_runner::table::{Input, StopReason};
use crate::service_runner::task::{Command, ServiceHandle};

/// After the total deadline everything is killed, and this long waited for.
const AFTER_KILL: Duration = Duration::from_secs(3);

/// How long a service may take to take a start up.
const TAKEN_UP: Duration = Duration::from_secs(5);

/// How the stop of all services went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopSummary {
    /// Not down when the total deadline passed; they were killed.
    pub killed: Vec<String>,
    /// Not down even after that.
    pub given_up: Vec<String>,
}

impl Manager {
    /// Names of the services that name it in `depends`, as they run or as their files say now.
    pub fn needed_by(&self, name: &str) -> Vec<String> {
        let entries = self.entries();
        let needs = |spec: &Arc<ServiceSpec>| {
            edges_of(spec).iter().any(|edge| edge.service == name && edge.event != ServiceEvent::Settled)
        };
        entries
            .iter()
            .filter(|(_, entry)| entry.specs().any(|spec| needs(&spec)))
            .map(|(name, _)| name.to_string())
            .collect()
    }

    /// Of each service, those that are starting or running and would miss it. Those that still wait do not count, nor
    /// those for which another alternative holds. Asked of all at once: one by one it would be asked a million times.
    pub(super) fn users_now(&self) -> HashMap<String, Vec<Arc<str>>> {
        let mut users: HashMap<String, Vec<Arc<str>>> = HashMap::new();
        for (name, entry) in self.entries().iter() {
            let state = entry.watch().borrow().state;
            if !matches!(state, State::Preparing | State::Starting | State::Running | State::Stopping) {
                continue;
            }
            let specs: Vec<_> = entry.specs().collect();
            let misses = |other: &&str| {
                let mut requirements = specs.iter().flat_map(|spec| &spec.depends);
                requirements.any(|requirement| !self.stands_without(requirement, other))
            };
            let others = ordered::set(specs.iter().flat_map(|spec| edges_of(spec)).map(|edge| edge.service));
            for other in others.into_iter().filter(misses) {
                users.entry(other.to_owned()).or_default().push(Arc::clone(name));
            }
        }
        users
    }

    /// Whether what a requirement asks for would still hold without a service.
    fn stands_without(&self, requirement: &Requirement, name: &str) -> bool {
        match requirement {
            Requirement::Service { name: other, event: ServiceEvent::Up | ServiceEvent::Running, .. } => {
                other != name
            }
            Requirement::Any(each) => {
                let is = |one: &Requirement| matches!(one, Requirement::Service { name: n, .. } if n == name);
                let registry = &self.inner.host_context.registry;
                !each.iter().any(is)
                    || each.iter().any(|one| match one {
                        Requirement::Service { name: other, event, .. } => {
                            other != name
                                && registry.get(other).is_some_and(|s| event_holds(&s.borrow(), *event))
                        }
                        _ => false,
                    })
            }
            _ => true,
        }
    }

    /// All that has to be stopped before these can be: their users, those users' users, and so on.
    pub(super) fn needed_closure(&self, names: &[String]) -> Vec<String> {
        let users = self.users_now();
        let named = ordered::set(names.iter().map(String::as_str));
        let mut found: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = names.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            for user in users.get(name).into_iter().flatten() {
                if !named.contains(&**user) && found.insert(user) {
                    open.push(user);
                }
            }
        }
        found.into_iter().map(str::to_owned).collect()
    }

    /// These, and before them the services that they need and that are down, and what those need in turn.
    pub fn with_dependencies(&self, names: &[String]) -> Vec<String> {
        let mut seen = ordered::set(names.iter().cloned());
        let mut open = names.to_vec();
        let mut found = Vec::new();
        while let Some(spec) = open.pop().map(|name| self.spec(&name)) {
            for other in spec.iter().flat_map(|spec| &spec.depends).filter_map(|one| self.lacking(one)) {
                if seen.insert(other.to_owned()) {
                    open.push(other.to_owned());
                    if self.get(other).is_some_and(|snapshot| snapshot.down) {
                        found.push(other.to_owned());
                    }
                }
            }
        }
        // Dependencies come first.
        found.reverse();
        found.extend(names.iter().cloned());
        found
    }

    /// The service whose start would help a requirement that does not hold. Alternatives are left to themselves unless
    /// all are services; then one that is on its way counts, or else the first.
    fn lacking<'a>(&self, requirement: &'a Requirement) -> Option<&'a str> {
        match requirement {
            Requirement::Service { event: ServiceEvent::Down | ServiceEvent::Settled, .. } => None,
            Requirement::Service { name, event, .. } => {
                let holds = self.get(name).is_some_and(|snapshot| event_holds(&snapshot, *event));
                (!holds).then_some(name)
            }
            Requirement::Any(each) => {
                let lacking = each.iter().map(|one| self.lacking(one)).collect::<Option<Vec<&str>>>()?;
                let comes = |name: &&&str| self.get(name).is_some_and(|snapshot| !snapshot.down);
                lacking.iter().find(comes).or(lacking.first()).copied()
            }
            _ => None,
        }
    }

    /// Stops `first` and `names`, these for a reason, in order.
    pub(super) async fn stop_cascade(&self, first: &[String], names: &[String], why: &StopReason) {
        let target = first_of_many(names.iter(), ", ");
        let named: HashSet<&str> = names.iter().map(String::as_str).collect();
        let all = ordered::set(first.iter().chain(names).map(|name| Arc::from(name.as_str())));
        let reason = |name: &str| {
            if named.contains(name) { why.clone() } else { StopReason::Cascade(target.clone()) }
        };
        let mut wave = self.wave(&all);
        wave.start(self, &reason);
        while let Some(name) = wave.next().await {
            wave.rested(self, &name, &reason);
        }
    }

    /// Stops services in their order, because the host is cut off from its fleet. Others that need them follow their own
    /// rules.
    pub(crate) async fn stop_cut_off(&self, services: &[Arc<str>], why: String) {
        let names: Vec<String> = services.iter().map(ToString::to_string).collect();
        self.stop_cascade(&[], &names, &StopReason::CutOff(why)).await;
    }

    /// Stops the members of a group in order, those at rest too: none of them is down permanently. Returns the number
    /// of the request that stopped each, and those that were not at rest by the deadline.
    pub(crate) async fn stop_for_group(
        &self,
        members: &BTreeSet<Arc<str>>,
        why: &str,
        deadline: Instant,
    ) -> (BTreeMap<Arc<str>, u64>, Vec<String>) {
        let reason = |_: &str| StopReason::Group(why.to_owned());
        let mut wave = self.wave(members);
        wave.start(self, &reason);
        wave.run(self, &reason, deadline).await;
        let left = wave.left();
        (ordered::map(wave.members.into_iter().map(|(name, member)| (name, member.request_id))), left)
    }

    /// Starts members of a group that are at rest, each after those that it needs: what they say of an earlier run must
    /// be gone before it looks.
    pub(crate) async fn start_for_group(&self, members: &BTreeSet<Arc<str>>, why: &str) {
        for layer in self.layers(members) {
            let mut taken = Vec::new();
            for name in layer {
                let Some(handle) = self.live(&name).filter(|_| !self.closing()) else { continue };
                let (reply, answer) = oneshot::channel();
                let input = Input::GroupStart { text: why.to_owned() };
                if handle.mailbox.send(Command::Request { input, reply: Some(reply) }).is_ok() {
                    taken.push(answer);
                }
            }
            for answer in taken {
                // No answer is one as well: it was taken up. A task waits for nothing that could keep it from that.
                let _ = tokio::time::timeout(TAKEN_UP, answer).await;
            }
        }
    }

    /// These services, each after those that it needs.
    pub(crate) fn in_order(&self, names: &BTreeSet<Arc<str>>) -> Vec<String> {
        self.layers(names).into_iter().flatten().collect()
    }

    /// These services from below: in the reverse of the order in which they stop.
    fn layers(&self, names: &BTreeSet<Arc<str>>) -> Vec<Vec<String>> {
        let specs: Vec<Arc<ServiceSpec>> = names.iter().filter_map(|name| self.spec(name)).collect();
        let graph = Graph::new(specs.iter().map(|spec| &**spec));
        let layers =
            graph.stop_order().into_iter().rev().map(|layer| {
                layer.into_iter().filter(|name| names.contains(*name)).map(str::to_owned).collect()
            });
        layers.collect()
    }

    /// No service is started any more. To be called before [`Manager::resume`] where the previous incarnation was
    /// stopping the host.
    pub fn starts_nothing_more(&self) {
        self.inner.closing.store(true, Ordering::Relaxed);
    }

    /// Starts nothing any more and stops all services, each as soon as all that depend on it are down; `last`
    /// ones, in their order, after all others. Services that are left at `deadline` are killed.
    pub async fn stop_all(&self, deadline: Instant, last: &[&str]) -> StopSummary {
        self.starts_nothing_more();
        // A service that must wait for others to stop first must not start meanwhile either.
        self.entries().values().filter_map(Entry::live).for_each(|handle| tell(handle, Input::Closing));
        let all = ordered::set(
            self.entries()
                .iter()
                .filter(|(name, entry)| entry.live().is_some() && !last.contains(&&***name))
                .map(|(name, _)| Arc::clone(name)),
        );
        let mut summary = StopSummary::default();
        self.stop_set(&all, deadline, &mut summary).await;
        for name in last {
            self.stop_set(&ordered::set([Arc::from(*name)]), deadline, &mut summary).await;
        }
        summary
    }

    async fn stop_set(&self, all: &BTreeSet<Arc<str>>, deadline: Instant, summary: &mut StopSummary) {
        let reason = |_: &str| StopReason::Shutdown;
        let mut wave = self.wave(all);
        wave.start(self, &reason);
        if wave.run(self, &reason, deadline).await {
            return;
        }
        let left = wave.left();
        let names = first_of_many(left.iter(), ", ");
        self.host_event(&format!("the total deadline of the stop has passed; killing {names}"));
        wave.tell_all(self, &reason);
        for name in &left {
            if let Some(handle) = self.live(name) {
                let _ = handle.mailbox.send(Command::Request { input: Input::Kill, reply: None });
            }
        }
        summary.killed.extend(left);
        let patience = Instant::now().checked_add(AFTER_KILL).unwrap_or(deadline);
        if wave.run(self, &reason, patience).await {
            return;
        }
        let left = wave.left();
        let names = first_of_many(left.iter(), ", ");
        self.host_event(&format!("gave up on {names}: its processes cannot be killed"));
        summary.given_up.extend(left);
    }

    /// A stop of several services, ordered by what they run with and by what their files say now.
    pub(super) fn wave(&self, all: &BTreeSet<Arc<str>>) -> Wave {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut members = BTreeMap::new();
        let mut specs = Vec::new();
        for (name, entry) in self.entries().iter().filter(|(name, _)| all.contains(&***name)) {
            if let Some(handle) = entry.live() {
                members.insert(Arc::clone(name), Member { handle: handle.clone(), request_id: 0 });
                specs.extend(entry.specs());
            }
        }
        let names = members.keys().map(Arc::clone);
        let order = StopOrder::new(names, specs.iter().map(|spec| &**spec));
        Wave { order, members, sender, receiver }
    }
}

struct Member {
    handle: ServiceHandle,
    /// Of the request that stopped it.
    request_id: u64,
}

/// One stop of many services, in order.
pub(super) struct Wave {
    order: StopOrder,
    members: BTreeMap<Arc<str>, Member>,
    sender: mpsc::UnboundedSender<Arc<str>>,
    receiver: mpsc::UnboundedReceiver<Arc<str>>,
}

impl Wave {
    pub(super) fn start(&mut self, manager: &Manager, reason: &impl Fn(&str) -> StopReason) {
        let free = self.order.first();
        self.tell(manager, free, reason);
    }

    /// Until all have come to rest or the deadline has passed. Returns whether all have.
    async fn run(
        &mut self,
        manager: &Manager,
        reason: &impl Fn(&str) -> StopReason,
        deadline: Instant,
    ) -> bool {
        loop {
            match tokio::time::timeout_at(deadline, self.next()).await {
                Ok(Some(name)) => self.rested(manager, &name, reason),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// The next service that came to rest; `None` when all have.
    pub(super) async fn next(&mut self) -> Option<Arc<str>> {
        if self.order.is_over() { None } else { self.receiver.recv().await }
    }

    pub(super) fn rested(
        &mut self,
        manager: &Manager,
        name: &Arc<str>,
        reason: &impl Fn(&str) -> StopReason,
    ) {
        let free = self.order.down(name);
        self.tell(manager, free, reason);
    }

    fn tell_all(&mut self, manager: &Manager, reason: &impl Fn(&str) -> StopReason) {
        let rest = self.order.rest();
        self.tell(manager, rest, reason);
    }

    fn tell(&mut self, manager: &Manager, names: Vec<Arc<str>>, reason: &impl Fn(&str) -> StopReason) {
        for name in names {
            let Some(member) = self.members.get_mut(&name) else { continue };
            member.request_id = manager.request_id();
            let (request_id, reason) = (member.request_id, reason(&name));
            let stop = Command::Stop { request_id, reason, rested: self.sender.clone() };
            if member.handle.mailbox.send(stop).is_err() {
                let _ = self.sender.send(name);
            }
        }
    }

    fn left(&self) -> Vec<String> {
        self.order.left()
    }
}
