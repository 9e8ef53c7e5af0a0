//! PID 1's side of a fleet: which services are to be registered now, and the process that keeps the store so.
//!
//! [`Fleet`] is a handle. On a host whose machine file has `fleet`, one driver future does the work with a
//! [`Supervisor`](kelson_helper::supervisor::Supervisor) that keeps one `kelson-fleet` at work. What is registered follows
//! from the published snapshots: a service is while it is up and the checks of its registration pass. PID 1 speaks to no store. A helper that is replaced gets all
//! of it again, and continues with the lease of the one before.

mod condition;
mod cut_off;
mod discovery;
mod driver;
mod duty;
mod members;
mod plans;
mod templates;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::{Answers, Registered, TemplateStates, Templates};
use kelson_helper::supervisor::{self, Status};
use kelson_helper::{BoxFuture, Launcher};
use kelson_proto::v1;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::fleet::FleetSpec;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::manager::Manager;
use crate::model::since_boot;
use crate::node_health::NodeHealth;
use crate::service_runner::gate::Registry;
use cut_off::{Act, CutOff};
use discovery::Discovery;
use members::{Command, Members, Question, SharedTable};
pub use members::{FleetStatus, Report};

/// Whether this build knows fleets: what it leaves out then is not in the program.
pub const SUPPORTED: bool = OWN.has(Feature::Fleet);
/// Why none runs before the services are known.
const NOTHING: &str = "the services are not known yet";
/// The helper answers before, also where the store does not.
const REMOVAL: Duration = Duration::from_secs(7);
/// The store may have to be asked again.
const QUESTION: Duration = Duration::from_secs(15);
/// After a failure to give a service its files.
const RENEWAL: Duration = Duration::from_secs(10);

/// Why nothing is known of the fleet, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

impl NoAnswer {
    fn of_helper() -> NoAnswer {
        NoAnswer("the helper kelson-fleet did not answer; kelsonctl status fleet says how it is".to_owned())
    }
}

/// Registers the host and its services. Cheap to clone.
#[derive(Clone)]
pub struct Fleet {
    registry: Registry,
    /// `None`: the machine file has no `fleet`.
    member: Option<Member>,
}

#[derive(Clone)]
struct Member {
    spec: Arc<FleetSpec>,
    commands: mpsc::UnboundedSender<Command>,
    table: SharedTable,
    status: watch::Receiver<FleetStatus>,
    found: watch::Receiver<Answers>,
    templates: watch::Receiver<TemplateStates>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.member.as_ref().map(|member| &member.spec);
        f.debug_struct("Fleet").field("spec", &spec).finish_non_exhaustive()
    }
}

/// The driver of a host in a fleet, to be spawned, and what is worth an event. The driver ends after the handles are dropped.
pub type Driver = (BoxFuture<'static, ()>, mpsc::Receiver<Report>);

impl Fleet {
    /// On a host that belongs to no fleet.
    pub fn none(registry: Registry) -> Fleet {
        Fleet { registry, member: None }
    }

    pub fn new(spec: FleetSpec, launcher: Arc<dyn Launcher>, registry: Registry) -> (Fleet, Driver) {
        let (commands, queue) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::channel(64);
        let (publish, status) = watch::channel(FleetStatus { helper: Status::new(NOTHING), closing: false });
        let (spec, table) = (Arc::new(spec), SharedTable::default());
        let (answers, found) = watch::channel(Answers::new());
        let (states, templates) = watch::channel(TemplateStates::new());
        let followed =
            (CutOff::new(since_boot), Discovery::new(since_boot, answers), templates::Templates::new(states));
        let members = Members::new(Arc::clone(&spec), Arc::clone(&table), publish, reports, followed);
        let driver = driver::run(launcher, members, registry.clone(), queue);
        let member = Member { spec, commands, table, status, found, templates };
        (Fleet { registry, member: Some(member) }, (Box::pin(driver), reported))
    }

    /// What services wait for in the registry of the fleet.
    pub fn registered(&self) -> Registered {
        self.member.as_ref().map_or_else(Registered::default, |member| Registered::new(member.found.clone()))
    }

    /// What is known of the templates of services.
    pub fn templates(&self) -> Templates {
        self.member
            .as_ref()
            .map_or_else(Templates::default, |member| Templates::new(member.templates.clone()))
    }

    /// All services are known, those of earlier incarnations too: from now on what is up is registered, and nothing else.
    pub fn begin(&self, manager: &Manager, health: &NodeHealth) {
        let Some(member) = &self.member else { return };
        let (acts, to_do) = mpsc::unbounded_channel();
        member.send(Command::Begin { acts, ago: manager.since_start() });
        kelson_sys::spawn(perform(manager.clone(), to_do, member.commands.clone()));
        kelson_sys::spawn(pass_on(manager.follow_facts(), member.commands.clone()));
        kelson_sys::spawn(condition::follow(health.clone(), member.commands.clone()));
    }

    /// Has the registration of a service removed, and waits until the store has confirmed it or the deadline has passed. What
    /// is to be said of a failure.
    pub async fn withdraw(&self, service: &Arc<str>) -> Option<String> {
        let member = self.member.as_ref()?;
        let (done, removed) = oneshot::channel();
        member.send(Command::Withdraw { service: Arc::clone(service), done });
        let problem = match tokio::time::timeout(REMOVAL, removed).await {
            Ok(Ok(problem)) => problem?,
            // The driver ends with the host.
            Ok(Err(_)) => return None,
            Err(_) => NoAnswer::of_helper().0,
        };
        Some(format!("its registration may be seen until its lease ends: {problem}"))
    }

    /// What the services of this host register, sorted by service.
    pub fn registrations(&self) -> Vec<v1::FleetRegistration> {
        let states = self.member.as_ref().map(|member| member.table().states.clone());
        let mut all = Vec::new();
        for name in self.registry.names() {
            let Some(snapshot) = self.registry.get(&name) else { continue };
            let now = snapshot.borrow();
            let Some(registration) = now.spec.as_ref().and_then(|spec| spec.register.as_ref()) else {
                continue;
            };
            let withheld = now.withheld.as_ref().filter(|_| now.up || now.awaits_registration);
            let state = match &states {
                Some(states) => states.get(&name).cloned().unwrap_or_else(|| state("absent")),
                // The table of the host itself: nobody has to confirm it.
                None => state(if now.up && withheld.is_none() { "registered" } else { "absent" }),
            };
            let address = registration.address.clone().unwrap_or(state.address);
            all.push(v1::FleetRegistration {
                service: name.to_string(),
                name: registration.name.clone(),
                port: registration.port.map_or(0, u32::from),
                tags: registration.tags.clone(),
                address,
                meta: registration.meta.clone().into_iter().collect(),
                up: now.up,
                state: state.state,
                problem: withheld.map_or(state.problem, ToString::to_string),
            });
        }
        kelson_sys::ordered::sort_by(&mut all, |one, other| one.service.cmp(&other.service));
        all
    }

    /// How the host belongs to a fleet. `None`: it does not.
    pub fn membership(&self) -> Option<v1::FleetMembership> {
        let member = self.member.as_ref()?;
        let FleetSpec { name, prefix, endpoints, consul, labels, .. } = &*member.spec;
        let agent = consul.iter().map(|consul| consul.address.clone());
        Some(v1::FleetMembership {
            name: name.clone().unwrap_or_else(hostname),
            prefix: prefix.clone(),
            endpoints: endpoints.iter().cloned().chain(agent).collect(),
            labels: labels.clone().into_iter().collect(),
            connection: Some(member.table().connection.clone()),
        })
    }

    /// A page of the hosts of the fleet.
    ///
    /// # Errors
    /// There is no fleet, the helper does not answer, or the store does not.
    pub async fn hosts(&self, request: v1::FleetHostsRequest) -> Result<v1::FleetHostsResponse, NoAnswer> {
        let page = self.question(Question::Hosts(request)).await?;
        Ok(v1::FleetHostsResponse { hosts: page.hosts, more: page.rest })
    }

    /// A page of the registered services of the fleet.
    ///
    /// # Errors
    /// There is no fleet, the helper does not answer, or the store does not.
    pub async fn instances(
        &self,
        request: v1::FleetInstancesRequest,
    ) -> Result<v1::FleetInstancesResponse, NoAnswer> {
        let page = self.question(Question::Instances(request)).await?;
        Ok(v1::FleetInstancesResponse { instances: page.instances, cursor: page.cursor })
    }

    async fn question(&self, question: Question) -> Result<v1::FleetPage, NoAnswer> {
        let member = self.member.as_ref();
        let member = member
            .ok_or_else(|| NoAnswer("the machine file has no `fleet`: this host belongs to none".into()))?;
        let (done, answer) = oneshot::channel();
        member.send(Command::Ask { question, done });
        match tokio::time::timeout(QUESTION, answer).await {
            Ok(Ok(page)) if page.problem.is_empty() => Ok(page),
            Ok(Ok(page)) => Err(NoAnswer(page.problem)),
            Ok(Err(_)) | Err(_) => Err(NoAnswer::of_helper()),
        }
    }

    /// The helper as it is. `None`: there is no fleet.
    pub fn status(&self) -> Option<watch::Receiver<FleetStatus>> {
        Some(self.member.as_ref()?.status.clone())
    }

    /// An operator's restart of the helper.
    pub fn restart(&self) {
        if let Some(member) = &self.member {
            member.send(Command::Restart);
        }
    }

    /// Has everything of the host removed from the store; the helper is killed at `deadline`.
    pub async fn shutdown(&self, deadline: Instant) {
        let Some(member) = &self.member else { return };
        let left = supervisor::ask(&member.commands, Command::Leave);
        let _ = tokio::time::timeout_at(deadline, left).await;
        supervisor::ask(&member.commands, |done| Command::Shutdown { deadline, done }).await;
    }
}

impl Member {
    fn send(&self, command: Command) {
        // The driver ends with the host.
        let _ = self.commands.send(command);
    }

    fn table(&self) -> std::sync::MutexGuard<'_, members::Table> {
        self.table.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Sends the driver the facts of the host, until one of both ends.
async fn pass_on(
    mut facts: watch::Receiver<BTreeMap<String, String>>,
    commands: mpsc::UnboundedSender<Command>,
) {
    while facts.changed().await.is_ok() {
        let now = facts.borrow_and_update().clone();
        if commands.send(Command::Facts(now)).is_err() {
            return;
        }
    }
}

/// Stops and starts services as their rules for a host that is cut off say.
async fn perform(
    manager: Manager,
    mut acts: mpsc::UnboundedReceiver<Act>,
    commands: mpsc::UnboundedSender<Command>,
) {
    while let Some(act) = acts.recv().await {
        let (manager, commands) = (manager.clone(), commands.clone());
        // A stop may take long, and the store may answer meanwhile.
        kelson_sys::spawn(async move {
            match act {
                Act::Stop(services, why) => manager.stop_cut_off(&services, why).await,
                Act::Start(services) => {
                    let names: Vec<String> = services.iter().map(ToString::to_string).collect();
                    let text = "the store of the fleet confirms the registration again";
                    names.iter().for_each(|name| manager.service_event(name, text));
                    manager.start(&names, false).await;
                }
                Act::Registered(service, problem) => manager.registered(&service, problem),
                Act::Renew(service) => renew(&manager, service, &commands).await,
            }
        });
    }
}

/// Has a service look at its files from templates.
async fn renew(manager: &Manager, service: Arc<str>, commands: &mpsc::UnboundedSender<Command>) {
    let renewed = manager.renew_templates(&service).await;
    let is_done = renewed.is_ok();
    if let Err(problem) = renewed {
        manager.service_event(
            &service,
            &format!("its files from templates are not as they should be: {problem}"),
        );
        tokio::time::sleep(RENEWAL).await;
    }
    // The driver ends with the host.
    let _ = commands.send(Command::Renewed { service, is_done });
}

fn hostname() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.unwrap_or_default()
}

fn state(word: &str) -> v1::FleetServiceState {
    v1::FleetServiceState { state: word.to_owned(), ..v1::FleetServiceState::default() }
}
