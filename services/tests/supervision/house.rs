//! A Manager over services that are played: the clock stands still and jumps, and each runner notes what is asked of
//! it.

use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kelson_conditions::{Clock, ClockSource, FactSource, Facts, FactsAnswer, Sources};
use kelson_helper::{Launched, Launcher, Start};
use kelson_runner::{BoxFuture, Exit};
use kelson_services::Manager;
use kelson_services::events::EventLog;
use kelson_services::groups::{self, Groups};
use kelson_services::manager::ActionResult;
use kelson_services::model::{Snapshot, State};
use kelson_services::node_health::{HealthSpecs, NodeHealth, NodeHealthSpec};
use kelson_services::service_runner::gate::Registry;
use kelson_services::service_runner::host_context::{HostContext, LogPipes, TURNS};
use kelson_services::state_store::{self, Incarnation, Record, StateStore};
use kelson_spec::service::{
    Check, Probe, Readiness, Requirement, RestartPolicy, RestartSpec, ServiceEvent, ServiceKind, ServiceSpec,
    StartMode,
};
use kelson_spec::{Diagnostic, GroupSpec, Loaded};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::fate::Fate;
pub use crate::stage::{Deed, Manners, Played, PlayedFacts, Stage, What};

/// The description of a service that the played host cannot run.
pub const IMPOSSIBLE: &str = "impossible";

/// By which hosts are judged here.
pub const HEALTH: NodeHealthSpec =
    NodeHealthSpec { minimum: Duration::from_secs(10), deadline: Duration::from_secs(300) };

pub const MS: Duration = Duration::from_millis(1);

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Pipes that nobody reads.
struct NoLogs(Arc<Fate>);

impl LogPipes for NoLogs {
    fn pipes(&self, _: &ServiceSpec, _: u64) -> io::Result<(OwnedFd, OwnedFd)> {
        if self.0.is_dead() {
            return Err(io::Error::other("nobody is there any more"));
        }
        let file = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        Ok((file.try_clone()?.into(), file.into()))
    }

    fn forget(&self, _: &str) {}
}

struct NoHelper;

impl Launcher for NoHelper {
    fn launch(&self, _: Start) -> BoxFuture<'static, io::Result<Launched>> {
        Box::pin(async { Err(io::Error::other("none here")) })
    }
}

struct PlayedClock(Arc<AtomicBool>);

impl ClockSource for PlayedClock {
    fn synchronised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl FactSource for PlayedFacts {
    fn read(&self) -> BoxFuture<'_, FactsAnswer> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(self.values.lock().unwrap().clone())))
    }
}

/// The folder of one host, in all its incarnations; it goes with the last of them.
pub struct Folder(PathBuf);

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub struct House {
    pub manager: Manager,
    /// Where it is followed.
    pub health: Option<NodeHealth>,
    pub stage: Stage,
    pub host_context: Arc<HostContext>,
    pub turns: Arc<Semaphore>,
    pub life: Incarnation,
    pub directory: Arc<Folder>,
    pub sent: std::os::unix::net::UnixDatagram,
    /// [`House::check`] judges it when it is dropped, unless its PID 1 has died.
    pub is_judged: bool,
}

impl Drop for House {
    fn drop(&mut self) {
        if self.is_judged && !self.stage.fate.is_dead() && !std::thread::panicking() {
            self.check();
        }
    }
}

/// The state that one incarnation of PID 1 leaves to the next.
#[derive(Clone)]
pub struct Ruin {
    pub stage: Stage,
    directory: Arc<Folder>,
    life: Incarnation,
    /// Of PID 1.
    pub age: Duration,
    pub died: Instant,
}

impl Ruin {
    /// Where the state is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A run ends while nobody is there.
    pub fn ends(&mut self, name: &str, exit: Exit) {
        self.stage.of(name).lock().unwrap().exit(exit);
    }

    /// The past that the incarnation leaves. To be called once.
    pub fn past(&self) -> state_store::Past {
        state_store::Past::take(&self.directory, &self.life).unwrap()
    }

    /// Whether it is recorded that the host is to stop.
    pub fn is_to_stop(&self) -> bool {
        self.directory.join("papers/intent").exists()
    }

    /// The clock of a runtime that has just been made goes on from where the one before stood: no sooner, and within a
    /// millisecond.
    pub async fn time_goes_on(&self) {
        let behind = self.died.saturating_duration_since(Instant::now());
        let millis = behind.as_nanos().div_ceil(1_000_000);
        tokio::time::advance(MS * u32::try_from(millis).unwrap()).await;
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// The first incarnation of PID 1: all that it was doing ends in the middle, and nothing of it is undone.
pub fn first_life(life: impl Future<Output = House>) -> Ruin {
    let fate = Fate::never();
    fate.play(|| {
        runtime().block_on(async {
            let ruin = life.await.ruin();
            if !fate.is_dead() {
                fate.die("between two of its deeds");
            }
            ruin
        })
    })
}

/// The next incarnation, in which the same services have been taken up.
pub fn next_life(ruin: Ruin, life: impl AsyncFnOnce(House)) {
    next_life_of(ruin, async |ruin| life(House::another_life(ruin).await).await);
}

/// The next incarnation, before it has taken anything up.
pub fn next_life_of(ruin: Ruin, life: impl AsyncFnOnce(Ruin)) {
    runtime().block_on(life(ruin));
}

static HOUSES: AtomicU32 = AtomicU32::new(0);

impl House {
    pub fn new() -> House {
        let number = HOUSES.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("kelson-house-{}-{number}", std::process::id()));
        std::fs::create_dir_all(directory.join("notify")).unwrap();
        let life = Incarnation::current().unwrap();
        let store = StateStore::create(&directory, &life).unwrap();
        let stage = Stage::new(Fate::current().unwrap_or_else(Fate::never));
        let events = EventLog::new(Some(store.clone()));
        let mut house =
            House::over(stage, Arc::new(Folder(directory)), life, events, store.clone(), Instant::now());
        house.is_judged = Fate::current().is_none();
        tokio::spawn(house.stage.clone().reap(store));
        house
    }

    /// The same services in another incarnation of PID 1. The one before must be dead.
    pub async fn another_life(mut ruin: Ruin) -> House {
        ruin.time_goes_on().await;
        ruin.stage = ruin.stage.another_life(Fate::never());
        let origin = Instant::now() - ruin.age;
        let (mut house, past) = House::takes_up(ruin, origin, false, |_| {}).await;
        house.is_judged = true;
        assert_eq!(past.doubts, Vec::<String>::new());
        house.manager.begin();
        house.settle().await;
        house
    }

    /// Follows the health of the host also where nothing is known of it.
    pub async fn takes_up_with_health(mut ruin: Ruin) -> (House, state_store::Past) {
        ruin.time_goes_on().await;
        ruin.stage = ruin.stage.another_life(Fate::never());
        let origin = Instant::now() - ruin.age;
        House::resumes(ruin, origin, false, true, |_| {}).await
    }

    /// As far as nothing has been begun. `closing`: the host was stopping. `look_on` comes before anything can happen.
    pub async fn takes_up(
        ruin: Ruin,
        origin: Instant,
        closing: bool,
        look_on: impl FnOnce(&House),
    ) -> (House, state_store::Past) {
        House::resumes(ruin, origin, closing, false, look_on).await
    }

    async fn resumes(
        ruin: Ruin,
        origin: Instant,
        closing: bool,
        follows_health: bool,
        look_on: impl FnOnce(&House),
    ) -> (House, state_store::Past) {
        let mut past = ruin.past();
        let Ruin { stage, directory, life, .. } = ruin;
        let events = EventLog::restore(past.store.clone(), std::mem::take(&mut past.events));
        let mut house = House::over(stage, directory, life, events, past.store.clone(), origin);
        look_on(&house);
        if closing {
            house.manager.starts_nothing_more();
        }
        let (mut specs, _) = past.specs();
        let making = house.stage.making();
        // Of a host whose health nobody asked for there is none.
        let known = std::mem::take(&mut past.health);
        if follows_health || !known.scopes.is_empty() || !known.restarts.is_empty() {
            house.health = Some(NodeHealth::recovering(&house.manager, house.specs(), known));
        }
        house
            .manager
            .resume(&mut past, &mut specs, &making, |pid| house.stage.started(pid), &Loaded::default())
            .await;
        if let Some(health) = &house.health {
            health.recovered();
        }
        house.stage.forget(&making);
        past.close_the_rest();
        tokio::spawn(house.stage.clone().reap(past.store.clone()));
        (house, past)
    }

    fn over(
        stage: Stage,
        directory: Arc<Folder>,
        life: Incarnation,
        events: EventLog,
        store: StateStore,
        origin: Instant,
    ) -> House {
        let turns = Arc::new(Semaphore::new(TURNS));
        let (groups, asked) = Groups::new();
        let host_context = Arc::new(HostContext {
            events,
            store: Some(store),
            registry: Registry::default(),
            sources: Sources {
                clock: Clock::with_source(Arc::new(PlayedClock(Arc::clone(&stage.clock)))),
                facts: Facts::with_source(Arc::clone(&stage.facts) as Arc<dyn FactSource>),
                ..Sources::new(Arc::new(NoHelper))
            },
            runners: Arc::new(stage.clone()),
            logs: Arc::new(NoLogs(Arc::clone(&stage.fate))),
            notify_directory: directory.join("notify"),
            origin,
            groups,
            run_end: kelson_services::run_end::RunEnd::new(None),
            turns: Arc::clone(&turns),
        });
        let manager = Manager::new(Arc::clone(&host_context), Arc::new(stage.clone()));
        tokio::spawn(groups::coordinate(manager.clone(), asked));
        let sent = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let is_judged = false;
        House { manager, health: None, stage, host_context, turns, life, directory, sent, is_judged }
    }

    /// Follows the health of the host and of its groups from now on.
    pub fn follow_health(&mut self) -> NodeHealth {
        let specs = self.specs();
        self.health.insert(NodeHealth::of(&self.manager, specs)).clone()
    }

    /// By which it and its groups are judged.
    fn specs(&self) -> HealthSpecs {
        let groups = self.stage.groups.lock().unwrap();
        self.manager.set_groups(&groups);
        HealthSpecs::new(HEALTH, &groups)
    }

    /// The files of groups say this from now on.
    pub async fn set_groups(&self, groups: impl IntoIterator<Item = GroupSpec>) {
        *self.stage.groups.lock().unwrap() = groups.into_iter().collect();
        let specs = self.specs();
        if let Some(health) = &self.health {
            health.set_specs(specs);
        }
        self.settle().await;
    }

    /// The rest of it when PID 1 is executed again: to be taken last, its tasks must never run again.
    pub fn ruin(&self) -> Ruin {
        Ruin {
            stage: self.stage.clone(),
            directory: Arc::clone(&self.directory),
            life: self.life.clone(),
            age: Instant::now() - self.host_context.origin,
            died: Instant::now(),
        }
    }

    /// A house whose services have been started by the boot.
    pub async fn with(specs: impl IntoIterator<Item = ServiceSpec>) -> House {
        let house = House::new();
        house.boot(specs).await;
        house
    }

    pub async fn boot(&self, specs: impl IntoIterator<Item = ServiceSpec>) {
        self.manager.take_in(loaded(specs)).await;
        self.manager.begin();
        self.settle().await;
    }

    /// An operator starts it and waits until it is up.
    pub async fn start(&self, name: &str) -> ActionResult {
        self.manager.start(&names(&[name]), true).await.remove(0)
    }

    pub async fn begin_start(&self, name: &str) {
        self.manager.start(&names(&[name]), false).await;
        self.settle().await;
    }

    /// An operator stops it and waits for its end.
    pub async fn stop(&self, name: &str) -> ActionResult {
        self.manager.stop(&names(&[name]), false, true).await.remove(0)
    }

    pub async fn begin_stop(&self, name: &str) {
        self.manager.stop(&names(&[name]), false, false).await;
        self.settle().await;
    }

    /// An operator restarts it and waits until it is up again.
    pub async fn restart(&self, name: &str) -> ActionResult {
        self.manager.restart(&names(&[name]), true).await.remove(0)
    }

    pub async fn begin_restart(&self, name: &str) {
        self.manager.restart(&names(&[name]), false).await;
        self.settle().await;
    }

    /// Lets time pass until this is so.
    ///
    /// # Panics
    /// When it is not so within two minutes.
    pub async fn until(&self, is_so: impl Fn(&House) -> bool) {
        let wait = async {
            while !is_so(self) {
                tokio::time::sleep(10 * MS).await;
            }
        };
        let came = tokio::time::timeout(secs(120), wait).await;
        assert!(came.is_ok(), "never came true: {:#?}", self.manager.list());
    }

    /// Lets everything that can happen now happen.
    pub async fn settle(&self) {
        tokio::time::sleep(MS).await;
    }

    pub fn now(&self, name: &str) -> Snapshot {
        self.manager.get(name).unwrap_or_else(|| panic!("no service {name}"))
    }

    pub fn state(&self, name: &str) -> State {
        self.now(name).state
    }

    pub fn message(&self, name: &str) -> String {
        self.now(name).message.to_string()
    }

    pub fn manners(&self, name: &str, change: impl FnOnce(&mut Manners)) {
        change(&mut self.stage.of(name).lock().unwrap().manners);
    }

    /// How long these take to end after their stop signal.
    pub fn obey_after(&self, names: &[&str], time: Duration) {
        names.iter().for_each(|name| self.manners(name, |one| one.obeys = Some(time)));
    }

    pub fn played<T>(&self, name: &str, look: impl FnOnce(&Played) -> T) -> T {
        look(&self.stage.of(name).lock().unwrap())
    }

    /// `state: message` of each event of a service.
    pub fn told(&self, name: &str) -> Vec<String> {
        let events = self.manager.events_of(name);
        events.iter().map(|event| format!("{}: {}", event.state.name(), event.message)).collect()
    }

    /// The message of a service begins so.
    #[track_caller]
    pub fn assert_says(&self, name: &str, begin: &str) {
        let message = self.message(name);
        assert!(message.starts_with(begin), "{name} says {message:?}");
    }

    #[track_caller]
    pub fn assert_told(&self, name: &str, part: &str) {
        let told = self.told(name);
        assert!(told.iter().any(|event| event.contains(part)), "{part:?} is not in {told:#?}");
    }

    /// The run ends by itself.
    pub async fn exit(&self, name: &str, status: i32) {
        self.stage.of(name).lock().unwrap().exit(Exit::Status(status));
        self.settle().await;
    }

    /// Says something over the socket of the present run.
    pub async fn say(&self, name: &str, text: &str) {
        self.sent.send_to(text.as_bytes(), self.notify_socket(name)).unwrap();
        self.settle().await;
    }

    /// The notify socket of the present run; what does not exist where it has none.
    pub fn notify_socket(&self, name: &str) -> PathBuf {
        let folder = self.directory.join("notify");
        let own = |file: &PathBuf| file.file_stem().is_some_and(|stem| stem == name);
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = files.filter(own).collect();
        assert!(files.len() <= 1, "of an earlier run too: {files:?}");
        files.pop().unwrap_or_else(|| folder.join(name))
    }

    pub fn record(&self, name: &str) -> Option<Record> {
        let recovered = state_store::read(&self.directory, &self.life).unwrap();
        assert_eq!(recovered.doubts, Vec::<String>::new());
        recovered.records.into_iter().find(|record| record.name == name)
    }

    /// Nothing that must never be was, and what is published and recorded agree.
    #[track_caller]
    pub fn check(&self) {
        self.stage.each(|name, played| {
            assert!(played.wrongs.is_empty(), "{name}: {:?} in {:?}", played.wrongs, played.calls);
            assert!(played.opens == played.closes + u32::from(played.opened), "{name}: {:?}", played.calls);
            let Some(now) = self.manager.get(name) else {
                assert!(!played.opened && !played.lives(), "{name} is gone and not cleaned up");
                return;
            };
            let rest = now.state.at_rest();
            assert!(
                !rest || (!played.opened && !played.lives()),
                "{name} rests: {now:?}, {:?}",
                played.calls
            );
            assert!(!(now.up && now.down), "{now:?}");
            assert!(!now.up || now.oneshot || played.lives(), "{now:?}");
            assert_eq!(now.state == State::Waiting, !now.missing.is_empty(), "{now:?}");
            if let Some(record) = self.record(name) {
                assert_eq!((record.service.state(), record.service.run), (now.state, now.run));
                // That a process is gone is remembered first.
                assert!(record.service.pid().is_none() || record.service.pid() == now.pid, "{now:?}");
                assert_eq!(
                    (record.service.finished(), record.service.restarts),
                    (now.finished, now.restarts)
                );
                assert!(
                    record.service.has_opened() || !played.opened,
                    "what must be undone is not remembered: {now:?}"
                );
                assert!(!record.service.has_opened() || !rest, "{now:?}");
            }
        });
    }
}

/// The messages of the host's own events.
pub fn host_told(house: &House) -> Vec<String> {
    house.manager.events_of("").iter().map(|event| event.message.to_string()).collect()
}

pub fn spec(name: &str) -> ServiceSpec {
    ServiceSpec::process(name, [name])
}

pub fn needs(name: &str, others: &[&str]) -> ServiceSpec {
    let up = |other: &&str| Requirement::service(*other, ServiceEvent::Up);
    ServiceSpec { depends: others.iter().map(up).collect(), ..spec(name) }
}

pub fn notify(name: &str) -> ServiceSpec {
    ServiceSpec { readiness: Readiness::Notify, ..spec(name) }
}

pub fn oneshot(name: &str) -> ServiceSpec {
    let kind = ServiceKind::Oneshot;
    ServiceSpec { kind, restart: RestartSpec::for_kind(kind), ..spec(name) }
}

pub fn once(name: &str) -> ServiceSpec {
    let mut spec = spec(name);
    spec.restart.policy = RestartPolicy::Once;
    spec
}

/// A check by a command of its name: first after a second, then each second.
pub fn exec_check(name: &str) -> Check {
    Check { interval: secs(1), ..Check::new(name, Probe::Exec { command: vec![name.into()] }) }
}

pub fn checked(service: &str, checks: impl IntoIterator<Item = Check>) -> ServiceSpec {
    ServiceSpec { health: checks.into_iter().collect(), ..spec(service) }
}

pub fn in_group(group: &str, spec: ServiceSpec) -> ServiceSpec {
    ServiceSpec { group: Some(group.into()), ..spec }
}

pub fn manual(spec: ServiceSpec) -> ServiceSpec {
    ServiceSpec { start: StartMode::Manual, ..spec }
}

pub fn loaded(specs: impl IntoIterator<Item = ServiceSpec>) -> Loaded {
    Loaded { services: specs.into_iter().collect(), ..Loaded::default() }
}

pub fn fault(service: Option<&str>, file: &str, message: &str) -> Diagnostic {
    Diagnostic {
        file: file.into(),
        line: 0,
        column: 0,
        service: service.map(str::to_owned),
        message: message.into(),
    }
}

pub fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Passes a copy of a descriptor over a datagram.
pub fn send_descriptor(house: &House, service: &str, descriptor: &OwnedFd, text: &str) {
    use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
    let address = UnixAddr::new(&house.notify_socket(service)).unwrap();
    let descriptors = [descriptor.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let bytes = [io::IoSlice::new(text.as_bytes())];
    sendmsg(house.sent.as_raw_fd(), &bytes, &rights, MsgFlags::empty(), Some(&address)).unwrap();
}
