//! The Manager: all the services of the host, and all that may be asked of them.
//!
//! It holds a handle of each service (its mailbox and its published snapshot) and no state of its own about them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// The outcome of an operator's request.
pub use kelson_proto::v1::action_result::Outcome;
use kelson_spec::service::LifecycleHook;
use kelson_spec::{GroupSpec, ServiceSpec};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub use crate::events::EventBatch;
use crate::events::EventLog;
use crate::groups::GroupRestarts;
pub use crate::metrics::Usage;
use crate::model::{Details, Event, Snapshot, State};
use crate::run_end::{ServiceEnd, exit_status};
use crate::service_runner::gate::Registry;
use crate::service_runner::host_context::HostContext;
use crate::service_runner::table::Input;
use crate::service_runner::task::{Command, ServiceHandle};
use crate::state_store::StateStore;

mod actions;
mod asked;
mod changes;
mod conflicts;
mod exec;
mod facts;
mod faulty;
mod files;
mod groups;
mod metrics;
mod mistakes;
mod order;
mod reload;
mod resume;
mod resumed;
mod templates;
pub(crate) mod timers;
mod view;

use faulty::Mistakes;
pub use order::StopSummary;
pub use resume::child_of;

#[derive(Debug, Clone)]
pub struct ActionResult {
    pub name: String,
    pub outcome: Outcome,
    pub message: String,
    /// Absent where there is no such service.
    pub snapshot: Option<Snapshot>,
}

/// The state that an operator waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    Up,
    Down,
    Finished,
}

/// Tells what a service uses.
pub trait UsageSource: Send + Sync {
    fn usage(&self, service: &str) -> Usage;
}

/// A helper of PID 1 as a built-in service: its supervisor runs it, and no ServiceRunner does.
pub struct SupervisedHelper {
    pub snapshot: watch::Receiver<Snapshot>,
    /// An operator's restart.
    pub restart: Box<dyn Fn() + Send + Sync>,
}

enum Kind {
    Live(ServiceHandle),
    /// Its file has mistakes, or this host cannot run it: it shows as failed with that text.
    Faulty(watch::Sender<Snapshot>),
    Helper(SupervisedHelper),
}

struct Entry {
    /// As its file says now.
    spec: Option<Arc<ServiceSpec>>,
    kind: Kind,
}

impl Entry {
    /// As it runs, and as its file says now where that is another: who needs whom is what either says.
    fn specs(&self) -> impl Iterator<Item = Arc<ServiceSpec>> + use<> {
        let runs = self.watch().borrow().spec.clone();
        let newer =
            self.spec.clone().filter(|spec| !runs.as_ref().is_some_and(|runs| Arc::ptr_eq(runs, spec)));
        runs.into_iter().chain(newer)
    }

    /// `None`: no ServiceRunner runs it.
    fn live(&self) -> Option<&ServiceHandle> {
        match &self.kind {
            Kind::Live(handle) => Some(handle),
            Kind::Faulty(_) | Kind::Helper(_) => None,
        }
    }

    fn watch(&self) -> watch::Receiver<Snapshot> {
        match &self.kind {
            Kind::Live(handle) => handle.snapshot.clone(),
            Kind::Faulty(publisher) => publisher.subscribe(),
            Kind::Helper(helper) => helper.snapshot.clone(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.watch().borrow().clone()
    }
}

/// All the services of the host. Cheap to clone.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

struct Inner {
    entries: RwLock<BTreeMap<Arc<str>, Entry>>,
    host_context: Arc<HostContext>,
    usage: Arc<dyn UsageSource>,
    request_ids: AtomicU64,
    closing: AtomicBool,
    taking_in: watch::Sender<bool>,
    /// Permits for further commands beside services.
    execs: Arc<Semaphore>,
    /// The files of groups.
    group_specs: Mutex<BTreeMap<String, GroupSpec>>,
    /// Groups that were restarted.
    group_restarts: Mutex<BTreeMap<Arc<str>, GroupRestarts>>,
    /// The findings of the last reading of the files.
    mistakes: Mutex<Mistakes>,
    /// Services whose files are gone and that are still stopping.
    removals: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    /// Empty: nobody needs them.
    facts: OnceLock<watch::Receiver<facts::Known>>,
}

impl Manager {
    pub fn new(host_context: Arc<HostContext>, usage: Arc<dyn UsageSource>) -> Manager {
        Manager {
            inner: Arc::new(Inner {
                entries: RwLock::default(),
                host_context,
                usage,
                request_ids: AtomicU64::new(0),
                closing: AtomicBool::new(false),
                taking_in: watch::Sender::new(false),
                execs: Arc::new(Semaphore::new(exec::MOST)),
                group_specs: Mutex::default(),
                group_restarts: Mutex::default(),
                mistakes: Mutex::default(),
                removals: Mutex::default(),
                facts: OnceLock::new(),
            }),
        }
    }

    fn entries(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.inner.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries_mut(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.inner.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> &EventLog {
        &self.inner.host_context.events
    }

    /// The published snapshots, and the followers of their changes.
    pub(crate) fn registry(&self) -> &Registry {
        &self.inner.host_context.registry
    }

    fn request_id(&self) -> u64 {
        self.inner.request_ids.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// The store of the state that must outlive this incarnation of PID 1.
    pub(crate) fn store(&self) -> Option<&StateStore> {
        self.inner.host_context.store.as_ref()
    }

    /// PID 1's start.
    pub(crate) fn origin(&self) -> Instant {
        self.inner.host_context.origin
    }

    /// The time since PID 1's start.
    pub fn since_start(&self) -> Duration {
        Instant::now().saturating_duration_since(self.origin())
    }

    /// The host is stopping.
    pub(crate) fn closing(&self) -> bool {
        self.inner.closing.load(Ordering::Relaxed)
    }

    fn live(&self, name: &str) -> Option<ServiceHandle> {
        self.entries().get(name)?.live().cloned()
    }

    /// Sends a service an input whose answer nobody awaits. One that is gone by now does not need it.
    fn tell(&self, name: &str, input: Input) {
        if let Some(handle) = self.live(name) {
            tell(&handle, input);
        }
    }

    /// All services sorted by name, built-in ones too.
    pub fn list(&self) -> Vec<Snapshot> {
        self.entries().values().map(Entry::snapshot).collect()
    }

    pub fn get(&self, name: &str) -> Option<Snapshot> {
        self.entries().get(name).map(Entry::snapshot)
    }

    /// Its snapshots, as they are published. Closed once the service is gone.
    pub fn watch(&self, name: &str) -> Option<watch::Receiver<Snapshot>> {
        self.entries().get(name).map(Entry::watch)
    }

    /// `None` for a service without a good spec.
    pub fn spec(&self, name: &str) -> Option<Arc<ServiceSpec>> {
        self.entries().get(name)?.spec.clone()
    }

    /// All services, as they run and as their files say now where that is another.
    pub fn known_specs(&self) -> Vec<Arc<ServiceSpec>> {
        self.entries().values().flat_map(Entry::specs).collect()
    }

    /// Whether the process is a child of the one that the service runs.
    pub fn is_child_of(&self, name: &str, pid: i32) -> bool {
        let first = self.get(name).and_then(|service| service.pid);
        first.is_some_and(|first| kelson_sys::process::parent(pid) == Some(first))
    }

    pub fn usage(&self, name: &str) -> Usage {
        self.inner.usage.usage(name)
    }

    /// Events numbered `since` and up that are still kept, at most `limit`; `since` 0: from the oldest.
    pub fn events(&self, since: u64, limit: usize) -> EventBatch {
        self.log().since(since, limit)
    }

    /// The last events of one service, oldest first, at most 64.
    pub fn events_of(&self, name: &str) -> Vec<Event> {
        self.log().of_service(name)
    }

    /// The number of the newest event; changes with each. The sender is dropped when PID 1 ends: streams end then,
    /// after the last event.
    pub fn newest_event(&self) -> watch::Receiver<u64> {
        self.log().newest()
    }

    /// Returns once a service has ended by whose end the host ends. Cancelled by dropping, without loss.
    pub async fn service_end(&self) -> ServiceEnd {
        self.inner.host_context.run_end.next().await
    }

    /// The exit status of the main service's last run; `None`: there is none, or it has not ended.
    pub fn main_status(&self) -> Option<u8> {
        let main = self.get(self.inner.host_context.run_end.main.as_deref()?)?;
        (main.exit.is_some() && main.state.at_rest()).then(|| exit_status(&main))
    }

    /// No more events will come, and nothing is waited for.
    pub async fn close(&self) {
        self.log().close();
        self.inner.host_context.sources.end().await;
    }

    /// Tells an event of the host itself.
    pub fn host_event(&self, message: &str) {
        self.log().host(message);
    }

    /// Tells an event of a service that changes nothing of its state.
    pub fn service_event(&self, name: &str, message: &str) {
        self.detailed_event(name, message, None);
    }

    /// As [`Self::service_event`], with what the message says for programs.
    pub fn detailed_event(&self, name: &str, message: &str, details: Details) {
        let (state, run) = self.get(name).map(|now| (now.state, now.run)).unwrap_or_default();
        self.log().add_detailed(&Arc::from(name), state, message, run, details);
    }

    /// Returns once every service that the boot starts has been up or down: a one-shot that still runs is neither. Not
    /// waited for are those with `required: false`, and those that wait for the end of their group's mains.
    pub async fn settled(&self) {
        let waiting: Vec<(bool, watch::Receiver<Snapshot>)> = self
            .entries()
            .values()
            .filter_map(|entry| {
                let hook = entry.spec.as_ref().and_then(|spec| spec.lifecycle.hook);
                Some((hook == Some(LifecycleHook::Poststop), entry.live()?.snapshot.clone()))
            })
            .collect();
        for (poststop, mut snapshot) in waiting {
            let done = |now: &Snapshot| {
                now.up || now.down || !now.required || (poststop && now.state == State::Waiting)
            };
            // A service that was removed meanwhile is not waited for.
            let _ = snapshot.wait_for(done).await;
        }
    }
}

/// Where its mailbox is full, a request that is to change something is refused too.
fn tell(handle: &ServiceHandle, input: Input) {
    let _ = handle.mailbox.send(Command::Request { input, reply: None });
}

/// The snapshot of a service that cannot be run.
pub(crate) fn failed_snapshot(name: &Arc<str>, message: &str, builtin: bool) -> Snapshot {
    Snapshot { down: true, builtin, ..Snapshot::new(Arc::clone(name), State::Failed, Arc::from(message)) }
}
