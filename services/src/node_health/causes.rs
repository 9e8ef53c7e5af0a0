//! Why the host is not healthy: the services at which the chains of those that are not up end, each with one cause.

use std::collections::BTreeMap;
use std::sync::Arc;

use kelson_conditions::{Missing, Reason, Subject};
use kelson_spec::service::ServiceEvent;
use kelson_sys::text::start_of;

use super::scope::Scope;
use crate::model::{Failure, Snapshot, State};
use crate::service_runner::gate::Registry;

/// How many are named.
const NAMED: usize = 8;
/// The most bytes of a text of others. The helper makes it shorter.
const DETAIL: usize = 512;

/// What keeps a service from being up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Empty: the host itself.
    pub service: Arc<str>,
    pub failure: Failure,
}

/// How much a cause matters beside another one that keeps the same number of services waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// It does not do what it should.
    Failed,
    /// Something else is missing.
    Waits,
    /// Somebody wants it so.
    Stopped,
}

/// A service on the way to a cause.
#[derive(Default)]
struct Visited {
    is_seen: bool,
    /// How many services wait for it.
    needed: usize,
    cause: Option<(Weight, Failure)>,
}

/// The most important ones first. None of a service that is on its way up.
pub fn causes(scope: &Scope, registry: &Registry) -> Vec<Cause> {
    let mut visited = BTreeMap::new();
    scope.culprits.keys().for_each(|name| visit(name, registry, &mut visited));
    let mut found: Vec<_> = visited
        .into_iter()
        .filter_map(|(service, Visited { needed, cause, .. })| {
            let (weight, mut failure) = cause?;
            failure.detail = start_of(&failure.detail, DETAIL).to_owned();
            Some((std::cmp::Reverse(needed), weight, Cause { service, failure }))
        })
        .collect();
    kelson_sys::ordered::sort_by(&mut found, |one, other| {
        (one.0, one.1, &one.2.service).cmp(&(other.0, other.1, &other.2.service))
    });
    let unread = scope.unread.iter().map(|why| Cause { service: Arc::from(""), failure: said(why) });
    unread.chain(found.into_iter().map(|(_, _, cause)| cause)).take(NAMED).collect()
}

/// Whether it is known what each of them waits for: another incarnation of PID 1 asks first.
pub fn are_known(scope: &Scope, registry: &Registry) -> bool {
    let is_asked = |name: &Arc<str>| {
        registry
            .get(name)
            .is_some_and(|now| now.borrow().state == State::Waiting && now.borrow().missing.is_empty())
    };
    !scope.culprits.keys().any(is_asked)
}

fn own(cause: String) -> Failure {
    Failure { cause, detail: String::new() }
}

fn said(text: &str) -> Failure {
    Failure { cause: String::new(), detail: text.to_owned() }
}

/// Looks at a service that is not up, and at those that it waits for. Each is looked at once: there may be cycles.
fn visit(first: &Arc<str>, registry: &Registry, visited: &mut BTreeMap<Arc<str>, Visited>) {
    let mut left = vec![Arc::clone(first)];
    while let Some(name) = left.pop() {
        let service = visited.entry(Arc::clone(&name)).or_default();
        if std::mem::replace(&mut service.is_seen, true) {
            continue;
        }
        let Some(now) = registry.get(&name).map(|snapshot| snapshot.borrow().clone()) else { continue };
        let mut alone = None;
        for missing in &now.missing {
            let others = behind(missing, registry);
            alone = alone.or_else(|| others.is_empty().then(|| text(missing)));
            for other in others {
                let needed = &mut visited.entry(Arc::clone(&other)).or_default().needed;
                *needed = needed.saturating_add(1);
                left.push(other);
            }
        }
        let cause = match alone {
            Some(missing) => Some((Weight::Waits, own(format!("waiting for {missing}")))),
            None if now.missing.is_empty() => of(&now),
            None => None,
        };
        if let Some(service) = visited.get_mut(&name) {
            service.cause = cause;
        }
    }
}

/// The services that are to come up for this. None: something else is missing.
fn behind(missing: &Missing, registry: &Registry) -> Vec<Arc<str>> {
    use ServiceEvent::{Finished, Running, Up};
    match &missing.subject {
        Subject::Service { name, event: Up | Running | Finished } => {
            let is_to_come = registry.get(name).is_some_and(|other| !other.borrow().up);
            is_to_come.then(|| Arc::clone(name)).into_iter().collect()
        }
        Subject::Any(alternatives) => {
            alternatives.iter().flatten().flat_map(|one| behind(one, registry)).collect()
        }
        _ => Vec::new(),
    }
}

fn text(missing: &Missing) -> String {
    match &missing.reason {
        // These have values of the host, or a time.
        Some(Reason::NoHelper(_) | Reason::NotRead(_) | Reason::Value(_) | Reason::TooFew { .. }) => {
            missing.subject.to_string()
        }
        _ => missing.to_string(),
    }
}

/// Why a service is not up that waits for nothing. None: it is on its way.
fn of(now: &Snapshot) -> Option<(Weight, Failure)> {
    Some(match (&now.failure, now.state) {
        (Some(failure), _) => (Weight::Failed, Failure::clone(failure)),
        (None, State::Failed) => (Weight::Failed, said(&now.message)),
        (None, State::Stopped | State::Skipped) if now.down => (Weight::Stopped, said(&now.message)),
        (None, State::Initialized) if now.down => (Weight::Stopped, own(Reason::Manual.to_string())),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use kelson_spec::facts::FactTest;
    use kelson_spec::service::NetworkAspect;
    use tokio::sync::watch;
    use tokio::time::Instant;

    use super::*;

    /// A host on which none of its services is up, but those of this name.
    struct Host {
        registry: Registry,
        scope: Scope,
    }

    impl Host {
        fn new() -> Host {
            Host { registry: Registry::default(), scope: Scope::new(Instant::now()) }
        }

        fn add(&mut self, name: &str, state: State, change: impl FnOnce(&mut Snapshot)) -> &mut Host {
            let name: Arc<str> = Arc::from(name);
            let message = Arc::from(format!("message of {name}"));
            let mut snapshot = Snapshot::new(Arc::clone(&name), state, message);
            change(&mut snapshot);
            if !snapshot.up && snapshot.required {
                self.scope.culprits.insert(Arc::clone(&name), Instant::now());
            }
            // A receiver outlives its sender.
            self.registry.add(name, watch::channel(snapshot).1);
            self
        }

        fn waits(&mut self, name: &str, missing: Vec<Missing>) -> &mut Host {
            self.add(name, State::Waiting, |now| now.missing = missing)
        }

        fn fails(&mut self, name: &str, cause: &str) -> &mut Host {
            self.add(name, State::Backoff, |now| now.failure = Some(Arc::new(own(cause.to_owned()))))
        }

        fn causes(&self) -> Vec<String> {
            let text = |cause: Cause| {
                let Failure { cause: own, detail } = cause.failure;
                format!("{}: {own}{detail}", cause.service)
            };
            causes(&self.scope, &self.registry).into_iter().map(text).collect()
        }
    }

    fn up(name: &str) -> Missing {
        Subject::Service { name: Arc::from(name), event: ServiceEvent::Up }.into()
    }

    #[test]
    fn a_chain_ends_at_its_cause() {
        let mut host = Host::new();
        host.waits("web", vec![up("app")]).waits("app", vec![up("db"), up("cache")]);
        host.fails("db", "exited with status 3").add("cache", State::Preparing, |_| {});
        assert_eq!(host.causes(), ["db: exited with status 3"]);
    }

    #[test]
    fn others_that_the_host_does_not_need_are_causes_where_one_waits_for_them() {
        let mut host = Host::new();
        host.waits("web", vec![up("tool")]).add("idle", State::Failed, |now| now.required = false);
        host.add("tool", State::Failed, |now| (now.required, now.down) = (false, true));
        host.waits("api", vec![up("manual")]);
        host.add("manual", State::Initialized, |now| (now.required, now.down) = (false, true));
        assert_eq!(
            host.causes(),
            ["tool: message of tool", "manual: nothing starts it; its start is manual"]
        );
    }

    #[test]
    fn what_most_wait_for_comes_first_and_eight_are_named() {
        let mut host = Host::new();
        for number in 0..12 {
            host.fails(&format!("a{number:02}"), "killed by SIGSEGV");
        }
        host.waits("x", vec![up("db")]).waits("y", vec![up("db")]);
        host.waits("db", vec![Subject::Network(NetworkAspect::Addresses).into()]);
        host.add("stopped", State::Stopped, |now| now.down = true);
        let causes = host.causes();
        assert_eq!(causes.len(), NAMED);
        assert_eq!(causes[..2], ["db: waiting for network addresses", "a00: killed by SIGSEGV"]);
        host.scope.unread = Some(Arc::from("/etc/kelson: permission denied"));
        assert_eq!(host.causes()[0], ": /etc/kelson: permission denied");
    }

    #[test]
    fn what_comes_by_itself_and_a_circle_are_no_cause() {
        let mut host = Host::new();
        host.add("db", State::Starting, |_| {}).waits("web", vec![up("db")]);
        host.waits("one", vec![up("other")]).waits("other", vec![up("one")]).waits("self", vec![up("self")]);
        assert_eq!(host.causes(), [""; 0]);
        assert!(are_known(&host.scope, &host.registry));
        host.waits("asked", vec![]);
        assert!(!are_known(&host.scope, &host.registry), "another incarnation asks");
    }

    #[test]
    fn a_wait_for_no_service_that_is_to_come_is_a_cause_of_its_own() {
        let mut host = Host::new();
        let unknown = Missing { reason: Some(Reason::UnknownService), ..up("gone") };
        let down = Subject::Service { name: Arc::from("old"), event: ServiceEvent::Down };
        host.add("old", State::Running, |now| now.up = true);
        host.waits("api", vec![unknown]).waits("new", vec![down.into()]);
        let path = |path: &str| vec![Subject::Path(path.into()).into()];
        host.waits("any", vec![Subject::Any(vec![path("/a"), path("/b")]).into()]);
        // The text is the same on hosts with other values.
        let large = FactTest { name: "memory.total".into(), at_least: Some(4), ..FactTest::default() };
        let value = Some(Reason::Value(Arc::from("2")));
        host.waits("large", vec![Missing { subject: Subject::Fact(large), reason: value }]);
        assert_eq!(
            host.causes(),
            [
                "any: waiting for path \"/a\" to exist or path \"/b\" to exist",
                "api: waiting for service \"gone\" to be up (there is no such service)",
                "large: waiting for fact memory.total to be at least 4",
                "new: waiting for service \"old\" to be down",
            ]
        );
    }
}
