//! A Manager over services that are played: the clock stands still and jumps, and each runner notes what is asked of it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kelson_conditions::{Clock, ClockSource, Helper, HelperSpawner, Network, Paths};
use kelson_runner::{
    Attachment, BoxFuture, Executor, Exit, Leftover, RunContext, Runner, RunnerError, Running, StopPlan,
    StopReport, service_id,
};
use kelson_services::Manager;
use kelson_services::events::EventLog;
use kelson_services::groups::{self, Groups};
use kelson_services::health::OwnCheck;
use kelson_services::manager::{Usage, UsageSource};
use kelson_services::model::{Snapshot, State};
use kelson_services::service_runner::gate::{Registry, Sources};
use kelson_services::service_runner::task::{LogPipes, RunnerFactory, RunningProcess, Surroundings, TURNS};
use kelson_services::state_store::{self, LifeId, Record, StateStore};
use kelson_spec::service::{
    LogSpec, Readiness, Requirement, RestartPolicy, RestartSpec, ServiceEvent, ServiceKind, ServiceSpec,
    StartMode, Workload,
};
use kelson_spec::{Diagnostic, Loaded};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::health_commands::Commands;
use crate::lines::Lines;

/// The description of a service that the played host cannot run.
pub const IMPOSSIBLE: &str = "impossible";

pub const MS: Duration = Duration::from_millis(1);

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// How a played service behaves.
#[derive(Clone)]
pub struct Manners {
    pub open: Duration,
    pub open_fails: Option<String>,
    pub spawn: Duration,
    pub spawn_fails: Option<String>,
    /// How long it takes to end after its stop signal; `None`: it ignores it.
    pub obeys: Option<Duration>,
    /// Not even SIGKILL ends it.
    pub unkillable: bool,
    pub stop_fails: Option<String>,
    /// Of commands that do not succeed at once.
    hooks: HashMap<String, Option<(Duration, Exit)>>,
    /// The kernel is said to have killed one of its processes.
    pub out_of_memory: bool,
    pub close: Duration,
    pub close_fails: Option<String>,
}

impl Manners {
    /// How long the hook of this command takes and how it ends; `None`: never by itself.
    pub fn hook(&mut self, command: &str, ends: Option<(Duration, Exit)>) {
        self.hooks.insert(command.to_owned(), ends);
    }
}

impl Default for Manners {
    fn default() -> Self {
        Manners {
            open: Duration::ZERO,
            open_fails: None,
            spawn: Duration::ZERO,
            spawn_fails: None,
            obeys: Some(Duration::ZERO),
            unkillable: false,
            stop_fails: None,
            hooks: HashMap::new(),
            out_of_memory: false,
            close: Duration::ZERO,
            close_fails: None,
        }
    }
}

struct Living {
    pid: i32,
    exit: watch::Sender<Option<Exit>>,
    signalled: Option<Instant>,
    run: u64,
    hook: bool,
}

/// What was done with a service, in the order of time.
#[derive(Debug, Clone)]
pub struct Deed {
    pub at: Instant,
    /// 0: of no run.
    pub run: u64,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Open,
    Close,
    /// The main process, by its command.
    Main(String),
    /// Its spawn is reported.
    MainKnown,
    MainEnds,
    /// A command in place of it.
    Hook(String),
    HookEnds,
    Signal(i32),
}

/// Is told of each main process and each hook in its place that is about to begin: service, run, what.
pub type Onlooker = Box<dyn Fn(&str, u64, &What) + Send>;

/// What became of one service.
#[derive(Default)]
pub struct Played {
    pub manners: Manners,
    /// `open`, `run 1`, `signal 15`, `kill`, `close`, each with the time since the house was built.
    pub calls: Vec<(Duration, String)>,
    pub wrongs: Vec<String>,
    pub opened: bool,
    pub runs: u32,
    pub opens: u32,
    pub closes: u32,
    pub environment: Vec<(String, String)>,
    pub descriptors: Vec<(OwnedFd, i32)>,
    /// The command of the spec that the last run had.
    pub command: String,
    /// What its checks run.
    pub commands: Commands,
    /// Its network checks.
    pub lines: Lines,
    pub deeds: Vec<Deed>,
    living: Option<Living>,
}

impl Played {
    pub fn lives(&self) -> bool {
        self.living.is_some()
    }

    pub fn said(&self) -> Vec<String> {
        self.calls.iter().map(|(_, call)| call.clone()).collect()
    }

    pub fn when(&self, call: &str) -> Option<Duration> {
        self.calls.iter().find(|(_, said)| said == call).map(|(at, _)| *at)
    }

    /// The run ends so.
    pub fn exit(&mut self, exit: Exit) {
        self.end(exit);
    }

    fn end(&mut self, exit: Exit) {
        self.descriptors.clear();
        if let Some(living) = self.living.take() {
            self.deed(living.run, if living.hook { What::HookEnds } else { What::MainEnds });
            living.exit.send_replace(Some(exit));
        }
    }

    fn deed(&mut self, run: u64, what: What) {
        self.deeds.push(Deed { at: Instant::now(), run, what });
    }
}

/// All played services; makes their runners.
#[derive(Clone)]
pub struct Stage {
    played: Arc<Mutex<HashMap<String, Arc<Mutex<Played>>>>>,
    origin: Instant,
    pids: Arc<AtomicI32>,
    pub onlooker: Arc<Mutex<Option<Onlooker>>>,
}

impl Stage {
    /// Children that were just being made.
    fn making(&self) -> Vec<Leftover> {
        let played = self.played.lock().unwrap();
        let made = played.iter().filter_map(|(name, played)| {
            let played = played.lock().unwrap();
            let living = played.living.as_ref().filter(|living| !living.hook)?;
            Some(Leftover { service: service_id(name), run: living.run, pid: living.pid })
        });
        made.collect()
    }

    pub fn of(&self, name: &str) -> Arc<Mutex<Played>> {
        Arc::clone(self.played.lock().unwrap().entry(name.to_owned()).or_default())
    }

    fn show(&self, name: &str, run: u64, what: &What) {
        if let Some(onlooker) = &*self.onlooker.lock().unwrap() {
            onlooker(name, run, what);
        }
    }
}

impl RunnerFactory for Stage {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, String> {
        if spec.description == IMPOSSIBLE {
            return Err("this host cannot run it".into());
        }
        Ok(Box::new(Player {
            spec: Arc::clone(spec),
            played: self.of(&spec.name),
            stage: self.clone(),
            attached: false,
        }))
    }

    fn executor(&self, spec: &Arc<ServiceSpec>, run: RunningProcess) -> Result<Arc<dyn Executor>, String> {
        Ok(Arc::new(self.of(&spec.name).lock().unwrap().commands.of_run(run.run)))
    }

    fn network(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn kelson_services::health::network::Network>, String> {
        Ok(Arc::new(self.of(&spec.name).lock().unwrap().lines.of_run(run.run)))
    }

    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        self.of(&spec.name).lock().unwrap().commands.own_check()
    }
}

impl UsageSource for Stage {
    fn usage(&self, _: &str) -> Usage {
        Usage::default()
    }
}

struct Player {
    /// It was opened in an earlier life, and may be opened again.
    attached: bool,
    spec: Arc<ServiceSpec>,
    played: Arc<Mutex<Played>>,
    stage: Stage,
}

impl Player {
    fn played(&self) -> MutexGuard<'_, Played> {
        self.played.lock().unwrap()
    }

    /// A command in place of the main process.
    fn hook(&self, command: &str, context: RunContext) -> Result<Running, RunnerError> {
        let manners = self.call(format!("hook {command}"));
        let what = What::Hook(command.to_owned());
        self.stage.show(&self.spec.name, context.run, &what);
        let pid = self.stage.pids.fetch_add(1, Ordering::Relaxed);
        let mut played = self.played();
        if !played.opened || played.lives() {
            played.wrongs.push(format!("hook {command} at a wrong time"));
        }
        played.deed(context.run, what);
        let (exit, mut exited) = watch::channel(None);
        played.living = Some(Living { pid: 0, exit, signalled: None, run: context.run, hook: true });
        played.environment = context.environment;
        let ends = manners.hooks.get(command).copied();
        let all = Arc::clone(&self.played);
        drop(played);
        let exit = Box::pin(async move {
            if let Some((after, exit)) = ends.unwrap_or(Some((Duration::ZERO, Exit::Status(0)))) {
                tokio::select! {
                    _ = exited.wait_for(Option::is_some) => {}
                    () = tokio::time::sleep(after) => all.lock().unwrap().end(exit),
                }
            }
            match exited.wait_for(Option::is_some).await {
                Ok(exit) => exit.unwrap_or(Exit::Lost),
                Err(_) => Exit::Lost,
            }
        });
        Ok(Running { pid, start_time: 7, exit })
    }

    fn call(&self, call: impl Into<String>) -> Manners {
        let at = Instant::now() - self.stage.origin;
        let mut played = self.played();
        played.calls.push((at, call.into()));
        played.manners.clone()
    }
}

fn error(message: &str) -> RunnerError {
    RunnerError { message: message.to_owned(), errno: None }
}

impl Runner for Player {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async move {
            let manners = self.call("open");
            {
                let again = std::mem::take(&mut self.attached);
                let mut played = self.played();
                if played.opened && !again {
                    played.wrongs.push("opened twice without a close".into());
                }
                played.deed(0, What::Open);
                played.opened = true;
                played.opens += u32::from(!again);
            }
            tokio::time::sleep(manners.open).await;
            manners.open_fails.map_or(Ok(()), |text| Err(error(&text)))
        })
    }

    fn run(&mut self, context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(async move {
            if let Some(command) = context.command.clone() {
                return self.hook(&command.join(" "), context);
            }
            let manners = self.call(format!("run {}", context.run));
            let command = match &self.spec.workload {
                Workload::Process(process) => process.command.join(" "),
                Workload::Container(container) => container.image.clone(),
            };
            let what = What::Main(command.clone());
            self.stage.show(&self.spec.name, context.run, &what);
            let pid = self.stage.pids.fetch_add(1, Ordering::Relaxed);
            let exit = {
                let mut played = self.played();
                if !played.opened {
                    played.wrongs.push(format!("run {} without open", context.run));
                }
                if played.lives() {
                    played.wrongs.push(format!("run {} beside another", context.run));
                }
                played.runs += 1;
                played.deed(context.run, what);
                let (exit, exited) = watch::channel(None);
                if manners.spawn_fails.is_none() {
                    played.living =
                        Some(Living { pid, exit, signalled: None, run: context.run, hook: false });
                    played.environment = context.environment;
                    played.descriptors = context.descriptors;
                } else {
                    played.deed(context.run, What::MainEnds);
                }
                played.command = command;
                exited
            };
            tokio::time::sleep(manners.spawn).await;
            if let Some(text) = manners.spawn_fails {
                return Err(error(&text));
            }
            self.played().deed(context.run, What::MainKnown);
            let mut exit = exit;
            let exit = Box::pin(async move {
                match exit.wait_for(Option::is_some).await {
                    Ok(exit) => exit.unwrap_or(Exit::Lost),
                    Err(_) => Exit::Lost,
                }
            });
            Ok(Running { pid, start_time: 7, exit })
        })
    }

    fn attach(&mut self, before: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        self.attached = before.opened;
        let mut played = self.played();
        if before.opened != played.opened {
            played.wrongs.push(format!("attached to {before:?}"));
        }
        let living =
            played.living.as_ref().filter(|living| living.pid == before.pid && before.start_time == 7);
        let running = living.map(|living| {
            let mut exit = living.exit.subscribe();
            let exit = async move { exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit) };
            let exit = Box::pin(async move { exit.await.unwrap_or(Exit::Lost) });
            Running { pid: before.pid, start_time: before.start_time, exit }
        });
        Box::pin(std::future::ready(Ok(running)))
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        Box::pin(async move {
            let mut killed = false;
            if self.played().lives() {
                let manners = self.call(match (plan.signal, plan.timeout) {
                    (libc::SIGKILL, Duration::ZERO) => "kill".to_owned(),
                    (signal, _) => format!("signal {signal}"),
                });
                if let Some(text) = manners.stop_fails {
                    return Err(error(&text));
                }
                if manners.unkillable {
                    std::future::pending::<()>().await;
                }
                let (mut exit, since) = {
                    let mut played = self.played();
                    let living = played.living.as_mut().unwrap();
                    let since = *living.signalled.get_or_insert_with(Instant::now);
                    let (exit, run) = (living.exit.subscribe(), living.run);
                    played.deed(run, What::Signal(plan.signal));
                    (exit, since)
                };
                let obeyed = async {
                    match manners.obeys {
                        Some(after) if plan.signal != libc::SIGKILL => {
                            tokio::time::sleep_until(since + after).await
                        }
                        _ => std::future::pending().await,
                    }
                };
                killed = tokio::select! {
                    biased;
                    _ = exit.wait_for(Option::is_some) => false,
                    () = obeyed => {
                        self.played().end(Exit::Signal { signal: 15, core: false });
                        false
                    }
                    () = tokio::time::sleep(plan.timeout) => {
                        self.call("killed");
                        self.played().end(Exit::Signal { signal: 9, core: false });
                        true
                    }
                };
            }
            let out_of_memory = self.played().manners.out_of_memory;
            Ok(StopReport { killed, out_of_memory, ..StopReport::default() })
        })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async move {
            let manners = self.call("close");
            if self.played().lives() {
                self.played().wrongs.push("closed while it lives".into());
            }
            tokio::time::sleep(manners.close).await;
            let mut played = self.played();
            played.closes += u32::from(played.opened);
            played.opened = false;
            played.deed(0, What::Close);
            manners.close_fails.map_or(Ok(()), |text| Err(error(&text)))
        })
    }
}

/// Pipes that nobody reads.
struct NoLogs;

impl LogPipes for NoLogs {
    fn pipes(&self, _: &str, _: u64, _: &LogSpec) -> io::Result<(OwnedFd, OwnedFd)> {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        Ok((file.try_clone()?.into(), file.into()))
    }

    fn forget(&self, _: &str) {}
}

struct NoHelper;

impl HelperSpawner for NoHelper {
    fn spawn(&self) -> BoxFuture<'static, io::Result<Helper>> {
        Box::pin(async { Err(io::Error::other("none here")) })
    }
}

struct WrongClock;

impl ClockSource for WrongClock {
    fn synchronised(&self) -> bool {
        false
    }
}

pub struct House {
    pub manager: Manager,
    pub stage: Stage,
    pub surroundings: Arc<Surroundings>,
    pub turns: Arc<Semaphore>,
    pub life: LifeId,
    pub directory: PathBuf,
    pub sent: std::os::unix::net::UnixDatagram,
}

/// What one life of PID 1 leaves to the next.
pub struct Ruin {
    stage: Stage,
    directory: PathBuf,
    life: LifeId,
    age: Duration,
    exits: Vec<(i32, Exit)>,
}

impl Ruin {
    /// A run ends while nobody is there.
    pub fn ends(&mut self, name: &str, exit: Exit) {
        let played = self.stage.of(name);
        let mut played = played.lock().unwrap();
        self.exits.push((played.living.as_ref().unwrap().pid, exit));
        played.end(exit);
    }
}

/// Two lives of PID 1: all that the first was doing ends in the middle, and nothing of it is undone.
pub fn two_lives<First, Second>(first: impl FnOnce() -> First, second: impl FnOnce(Ruin) -> Second)
where
    First: Future<Output = House>,
    Second: Future<Output = ()>,
{
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let old = runtime();
    let ruin = old.block_on(async {
        let house = first().await;
        let ruin = house.ruin();
        // It is not torn down: the next one lives in it.
        std::mem::forget(house);
        ruin
    });
    // As in execve no destructor runs.
    std::mem::forget(old);
    runtime().block_on(second(ruin));
}

static HOUSES: AtomicU32 = AtomicU32::new(0);

impl House {
    pub fn new() -> House {
        let number = HOUSES.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("kelson-house-{}-{number}", std::process::id()));
        std::fs::create_dir_all(directory.join("notify")).unwrap();
        let life = LifeId::current().unwrap();
        let store = StateStore::create(&directory, &life).unwrap();
        let stage = Stage {
            played: Arc::default(),
            origin: Instant::now(),
            pids: Arc::new(AtomicI32::new(100)),
            onlooker: Arc::default(),
        };
        House::over(stage, directory, life, EventLog::new(Some(store.clone())), store, Instant::now())
    }

    /// The same services in another life of PID 1, which began `age` ago. The one before must be dead.
    pub async fn another_life(ruin: Ruin) -> House {
        let Ruin { stage, directory, life, age, exits } = ruin;
        let mut past = state_store::Past::take(&directory, &life).unwrap();
        past.exits.extend(exits);
        let events = EventLog::restore(past.store.clone(), std::mem::take(&mut past.events));
        let origin = Instant::now() - age;
        let house = House::over(stage, directory, life, events, past.store.clone(), origin);
        let (mut specs, missing) = past.specs();
        assert_eq!(missing, Vec::<String>::new());
        let making = house.stage.making();
        house.manager.resume(&mut past, &mut specs, &making, |_| Some(7)).await;
        assert_eq!(past.doubts, Vec::<String>::new());
        house.manager.begin();
        house.settle().await;
        house
    }

    fn over(
        stage: Stage,
        directory: PathBuf,
        life: LifeId,
        events: EventLog,
        store: StateStore,
        origin: Instant,
    ) -> House {
        let turns = Arc::new(Semaphore::new(TURNS));
        let (groups, asked) = Groups::new();
        let surroundings = Arc::new(Surroundings {
            events,
            store: Some(store),
            registry: Registry::default(),
            sources: Sources {
                paths: Paths::new(Arc::new(NoHelper)),
                network: Network::new(),
                clock: Clock::with_source(Arc::new(WrongClock)),
            },
            runners: Arc::new(stage.clone()),
            logs: Arc::new(NoLogs),
            notify_directory: directory.join("notify"),
            origin,
            groups,
            turns: Arc::clone(&turns),
        });
        let manager = Manager::new(Arc::clone(&surroundings), Arc::new(stage.clone()));
        tokio::spawn(groups::coordinate(manager.clone(), asked));
        let sent = std::os::unix::net::UnixDatagram::unbound().unwrap();
        House { manager, stage, surroundings, turns, life, directory, sent }
    }

    /// What is left of it when PID 1 is executed anew: to be taken last, its tasks must never run again.
    pub fn ruin(&self) -> Ruin {
        Ruin {
            stage: self.stage.clone(),
            directory: self.directory.clone(),
            life: self.life.clone(),
            age: Instant::now() - self.surroundings.origin,
            exits: Vec::new(),
        }
    }

    /// A house whose services have been started by the boot.
    pub async fn with(specs: impl IntoIterator<Item = ServiceSpec>) -> House {
        let house = House::new();
        house.manager.take_in(loaded(specs));
        house.manager.begin();
        house.settle().await;
        house
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

    pub fn played<T>(&self, name: &str, look: impl FnOnce(&Played) -> T) -> T {
        look(&self.stage.of(name).lock().unwrap())
    }

    /// `state: message` of each event of a service.
    pub fn told(&self, name: &str) -> Vec<String> {
        let events = self.manager.events_of(name);
        events.iter().map(|event| format!("{}: {}", event.state.name(), event.message)).collect()
    }

    #[track_caller]
    pub fn assert_told(&self, name: &str, part: &str) {
        let told = self.told(name);
        assert!(told.iter().any(|event| event.contains(part)), "{part:?} is not in {told:#?}");
    }

    /// The run ends by itself.
    pub async fn exit(&self, name: &str, status: i32) {
        self.stage.of(name).lock().unwrap().end(Exit::Status(status));
        self.settle().await;
    }

    /// Says something over the socket of the present run.
    pub async fn say(&self, name: &str, text: &str) {
        self.sent.send_to(text.as_bytes(), self.directory.join("notify").join(name)).unwrap();
        self.settle().await;
    }

    pub fn record(&self, name: &str) -> Option<Record> {
        let recovered = state_store::read(&self.directory, &self.life).unwrap();
        assert_eq!(recovered.doubts, Vec::<String>::new());
        recovered.records.into_iter().find(|record| record.name == name)
    }

    /// Nothing that must never be was, and what is published and recorded agree.
    #[track_caller]
    pub fn check(&self) {
        for (name, played) in self.stage.played.lock().unwrap().iter() {
            let played = played.lock().unwrap();
            assert!(played.wrongs.is_empty(), "{name}: {:?} in {:?}", played.wrongs, played.calls);
            assert!(played.opens == played.closes + u32::from(played.opened), "{name}: {:?}", played.calls);
            let Some(now) = self.manager.get(name) else {
                assert!(!played.opened && !played.lives(), "{name} is gone and not cleaned up");
                continue;
            };
            let rest =
                matches!(now.state, State::Finished | State::Failed | State::Skipped | State::Initialized);
            assert!(
                !rest || (!played.opened && !played.lives()),
                "{name} rests: {now:?}, {:?}",
                played.calls
            );
            assert!(!(now.up && now.down), "{now:?}");
            assert!(!now.up || now.oneshot || played.lives(), "{now:?}");
            assert_eq!(now.state == State::Waiting, !now.waiting_for.is_empty(), "{now:?}");
            if let Some(record) = self.record(name) {
                assert_eq!((record.life.state, record.life.run), (now.state, now.run));
                // That a process is gone is remembered first.
                assert!(record.life.pid.is_none() || record.life.pid == now.pid, "{now:?}");
                assert_eq!((record.life.finished, record.life.restarts), (now.finished, now.restarts));
                assert!(
                    record.life.has_opened() || !played.opened,
                    "what must be undone is not remembered: {now:?}"
                );
                assert!(!record.life.has_opened() || !rest, "{now:?}");
            }
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
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
    let address = UnixAddr::new(&house.directory.join("notify").join(service)).unwrap();
    let descriptors = [descriptor.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let bytes = [io::IoSlice::new(text.as_bytes())];
    sendmsg(house.sent.as_raw_fd(), &bytes, &rights, MsgFlags::empty(), Some(&address)).unwrap();
}
