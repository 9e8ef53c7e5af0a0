//! What is to be registered of this host, and what the helper reported of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kelson_helper::supervisor::Status;
use kelson_proto::v1;
use kelson_spec::fleet::{FleetSpec, Registration};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::cut_off::{Act, CutOff};
use super::discovery::Discovery;
use super::templates::Templates;
use crate::model::Snapshot;
use crate::service_runner::gate::Registry;

/// What is asked of the driver.
pub enum Command {
    /// All services are known. PID 1 started so long ago.
    Begin {
        acts: mpsc::UnboundedSender<Act>,
        ago: Duration,
    },
    /// How the host is.
    Health(v1::FleetHealth),
    /// The facts of the host.
    Facts(BTreeMap<String, String>),
    /// `done` gets the problem, if there is one.
    Withdraw {
        service: Arc<str>,
        done: oneshot::Sender<Option<String>>,
    },
    Ask {
        question: Question,
        done: oneshot::Sender<v1::FleetPage>,
    },
    /// A service has looked at its files from templates; or it is to be tried again.
    Renewed {
        service: Arc<str>,
        is_done: bool,
    },
    Restart,
    /// The host stops.
    Leave(oneshot::Sender<()>),
    Shutdown {
        deadline: Instant,
        done: oneshot::Sender<()>,
    },
}

/// What an operator asks of the store, or has written there.
#[derive(Clone)]
pub enum Question {
    Hosts(v1::FleetHostsRequest),
    Instances(v1::FleetInstancesRequest),
    Plans(v1::FleetPlansRequest),
    PutPlan(v1::PutFleetPlanRequest),
    RemovePlan(v1::RemoveFleetPlanRequest),
}

/// Something that an operator should know.
pub struct Report {
    /// `None`: of the membership itself.
    pub service: Option<Arc<str>>,
    pub message: String,
}

/// The helper as the built-in service `fleet` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetStatus {
    pub helper: Status,
    pub closing: bool,
}

/// What the helper reported last.
#[derive(Default)]
pub struct Table {
    pub states: BTreeMap<Arc<str>, v1::FleetServiceState>,
    pub connection: v1::FleetConnection,
}

pub type SharedTable = Arc<Mutex<Table>>;

/// What the helper is to know. It becomes a message when it is sent, by what is true then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    Settings,
    Health,
    Facts,
    Register(Arc<str>),
    Remove(Arc<str>),
    Complete,
    Question(u64),
    Leave,
    Interest,
    Templates,
}

/// A removal that the helper has not confirmed.
pub(super) struct Removal {
    pub(super) number: u64,
    waiting: Vec<oneshot::Sender<Option<String>>>,
}

/// A question, and the parts of its answer.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) page: v1::FleetPage,
    done: oneshot::Sender<v1::FleetPage>,
}

/// What is to be registered, and who waits for what.
pub struct Members {
    pub(super) spec: Arc<FleetSpec>,
    table: SharedTable,
    /// Those that are up only once the store has confirmed their registration.
    waiting: BTreeSet<Arc<str>>,
    /// What was reported to those last.
    confirmed: BTreeMap<Arc<str>, Option<Arc<str>>>,
    /// Of services that are up, or only wait for that.
    pub(super) wanted: BTreeMap<Arc<str>, Registration>,
    pub(super) removals: BTreeMap<Arc<str>, Removal>,
    pub(super) questions: BTreeMap<u64, Asked>,
    /// Of the last removal or question.
    number: u64,
    pub(super) health: v1::FleetHealth,
    /// Empty: not known yet.
    pub(super) facts: BTreeMap<String, String>,
    /// No service is missing here that an earlier incarnation of PID 1 has started.
    pub(super) is_complete: bool,
    /// They wait until nothing of the host is registered.
    leaving: Option<Vec<oneshot::Sender<()>>>,
    /// Those that must not run while the store does not answer.
    pub(super) cut_off: CutOff,
    /// What services wait for in the registry.
    pub(super) discovery: Discovery,
    pub(super) templates: Templates,
    pub(super) publish: watch::Sender<FleetStatus>,
    reports: mpsc::Sender<Report>,
}

impl Members {
    pub fn new(
        spec: Arc<FleetSpec>,
        table: SharedTable,
        publish: watch::Sender<FleetStatus>,
        reports: mpsc::Sender<Report>,
        (cut_off, discovery, templates): (CutOff, Discovery, Templates),
    ) -> Members {
        Members {
            spec,
            table,
            waiting: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            wanted: BTreeMap::new(),
            removals: BTreeMap::new(),
            questions: BTreeMap::new(),
            number: 0,
            health: v1::FleetHealth::default(),
            facts: BTreeMap::new(),
            is_complete: false,
            leaving: None,
            cut_off,
            discovery,
            templates,
            publish,
            reports,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    fn next_number(&mut self) -> u64 {
        self.number = self.number.saturating_add(1);
        self.number
    }

    /// Looks how a service is now.
    pub fn look(&mut self, registry: &Registry, service: &Arc<str>) -> Option<Outgoing> {
        let snapshot = registry.get(service);
        let snapshot = snapshot.as_ref().map(|snapshot| snapshot.borrow());
        self.cut_off.follow(service, snapshot.as_deref());
        self.discovery.follow(service, snapshot.as_deref());
        self.templates.follow(service, snapshot.as_deref());
        let waits = snapshot.as_deref().is_some_and(|now| now.awaits_registration);
        match waits {
            true => drop(self.waiting.insert(Arc::clone(service))),
            false => drop(self.waiting.remove(service)),
        }
        let is_fit = |now: &&Snapshot| (now.up || now.awaits_registration) && now.withheld.is_none();
        let spec = snapshot.as_deref().filter(is_fit).and_then(|now| now.spec.as_ref());
        self.follow(service, spec.and_then(|spec| spec.register.clone()))
    }

    /// A service registers this from now on; `None`: nothing.
    fn follow(&mut self, service: &Arc<str>, registration: Option<Registration>) -> Option<Outgoing> {
        match registration {
            Some(registration) => {
                if self.wanted.get(service) == Some(&registration) {
                    return None;
                }
                // A removal that nobody has confirmed is overtaken.
                self.removals.remove(service);
                self.wanted.insert(Arc::clone(service), registration);
                Some(Outgoing::Register(Arc::clone(service)))
            }
            None => self.wanted.contains_key(service).then(|| self.remove(service, None)),
        }
    }

    fn remove(&mut self, service: &Arc<str>, done: Option<oneshot::Sender<Option<String>>>) -> Outgoing {
        self.wanted.remove(service);
        let number = self.next_number();
        let removal = self.removals.entry(Arc::clone(service));
        let removal = removal.or_insert_with(|| Removal { number, waiting: Vec::new() });
        removal.waiting.extend(done);
        Outgoing::Remove(Arc::clone(service))
    }

    /// What services wait for has changed, or their templates have.
    pub fn interest(&mut self) -> impl Iterator<Item = Outgoing> + use<> {
        let waits = self.discovery.has_changed().then_some(Outgoing::Interest);
        waits.into_iter().chain(self.templates.has_changed().then_some(Outgoing::Templates))
    }

    /// What is known of the registrations that services wait for, where it was not reported to them.
    pub fn confirmations(&mut self) -> Vec<Act> {
        self.confirmed.retain(|service, _| self.waiting.contains(service));
        let mut acts = Vec::new();
        for service in &self.waiting {
            let state = self.table().states.get(service).cloned();
            // The one of an earlier run, which is to be removed.
            let Some(state) =
                state.filter(|_| self.wanted.contains_key(service) && !self.removals.contains_key(service))
            else {
                continue;
            };
            let answer = match state.state.as_str() {
                "registered" => None,
                _ if state.problem.is_empty() => continue,
                _ => Some(Arc::<str>::from(state.problem.as_str())),
            };
            if self.confirmed.get(service) != Some(&answer) {
                self.confirmed.insert(Arc::clone(service), answer.clone());
                acts.push(Act::Registered(Arc::clone(service), answer));
            }
        }
        acts
    }

    /// The helper reports how a template is.
    pub(super) fn template(&mut self, template: v1::FleetTemplate) {
        let Some((text, services)) = self.templates.reported(template) else { return };
        services.into_iter().for_each(|service| self.report(Some(service), text.clone()));
    }

    /// When to look at the time although nothing has happened.
    pub fn wake(&self) -> Option<Instant> {
        self.cut_off.wake().into_iter().chain(self.discovery.wake()).min()
    }

    pub fn complete(&mut self) -> Option<Outgoing> {
        (!std::mem::replace(&mut self.is_complete, true)).then_some(Outgoing::Complete)
    }

    /// Takes up a request, and returns what a running helper has to be sent for it.
    pub fn take(&mut self, command: Command, helper_is_up: bool) -> Option<Outgoing> {
        match command {
            Command::Health(health) => {
                self.health = health;
                Some(Outgoing::Health)
            }
            Command::Facts(facts) => {
                self.facts = facts;
                Some(Outgoing::Facts)
            }
            // One that was never up in this incarnation may be registered by an earlier one.
            Command::Withdraw { service, done } => Some(self.remove(&service, Some(done))),
            Command::Ask { question, done } => {
                let number = self.next_number();
                self.questions.insert(number, Asked { question, page: v1::FleetPage::default(), done });
                Some(Outgoing::Question(number))
            }
            Command::Leave(done) => {
                self.wanted.clear();
                // None that runs could register anything; the lease of an earlier one ends by itself.
                if !helper_is_up {
                    let _ = done.send(());
                    return None;
                }
                self.leaving.get_or_insert_default().push(done);
                Some(Outgoing::Leave)
            }
            Command::Renewed { service, is_done } => {
                self.templates.renewed(&service, is_done);
                None
            }
            Command::Begin { .. } | Command::Restart | Command::Shutdown { .. } => None,
        }
    }

    /// The host stops, and all services have.
    pub fn close(&mut self) {
        self.wanted.clear();
        self.removals.clear();
        self.questions.clear();
        self.publish.send_modify(|status| status.closing = true);
    }

    pub(super) fn report(&self, service: Option<Arc<str>>, message: String) {
        // The receiver is slow or gone; the status has the message too.
        let _ = self.reports.try_send(Report { service, message });
    }

    pub(super) fn connection(&self, connection: v1::FleetConnection) {
        let before = std::mem::replace(&mut self.table().connection, connection.clone());
        let is_news = before.connected != connection.connected
            || (before.problem.is_empty() && !connection.problem.is_empty());
        if !is_news {
            return;
        }
        let message = match connection.connected {
            true => "the host is registered in the store of its fleet".to_owned(),
            false => format!("the host is not registered in the store of its fleet: {}", connection.problem),
        };
        self.report(None, message);
    }

    pub(super) fn state(&self, state: v1::FleetServiceState) {
        let service: Arc<str> = Arc::from(state.service.as_str());
        let problem = state.problem.clone();
        let before = match state.state.as_str() {
            "absent" => self.table().states.remove(&service),
            _ => self.table().states.insert(Arc::clone(&service), state),
        };
        if !problem.is_empty() && before.is_none_or(|before| before.problem != problem) {
            self.report(Some(service), format!("not registered as it should be: {problem}"));
        }
    }

    pub(super) fn removed(&mut self, removed: v1::FleetRemoved) {
        if removed.number == 0 {
            return self.left();
        }
        let is_it = |(_, removal): &(&Arc<str>, &Removal)| removal.number == removed.number;
        let Some(service) = self.removals.iter().find(is_it).map(|(service, _)| Arc::clone(service)) else {
            return;
        };
        let problem = (!removed.problem.is_empty()).then_some(removed.problem);
        for done in self.removals.remove(&service).into_iter().flat_map(|removal| removal.waiting) {
            let _ = done.send(problem.clone());
        }
    }

    pub(super) fn page(&mut self, part: v1::FleetPage) {
        let (number, more) = (part.number, part.more);
        if let Some(asked) = self.questions.get_mut(&number) {
            asked.page.hosts.extend(part.hosts);
            asked.page.instances.extend(part.instances);
            asked.page.plans.extend(part.plans);
            (asked.page.rest, asked.page.problem, asked.page.cursor) = (part.rest, part.problem, part.cursor);
            asked.page.revision = part.revision;
        }
        if !more && let Some(asked) = self.questions.remove(&number) {
            // The one who asked may be gone.
            let _ = asked.done.send(asked.page);
        }
    }

    /// The next helper answers from the start, and reports all states again.
    pub(super) fn ended(&mut self, how: Option<&str>) {
        self.questions.values_mut().for_each(|asked| asked.page = v1::FleetPage::default());
        if let Some(how) = how {
            self.report(None, format!("replaced: {how}; no registration is lost"));
        }
        self.left();
    }

    fn left(&mut self) {
        for done in self.leaving.iter_mut().flat_map(std::mem::take) {
            let _ = done.send(());
        }
    }
}
