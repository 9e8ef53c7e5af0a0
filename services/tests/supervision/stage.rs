//! The stage plays the processes of a host's services. It outlives PID 1, as processes do.
//!
//! A process that ends is a zombie until PID 1 reaps it: then its status is written down, the kernel forgets
//! it, and its owner gets the status. An incarnation of PID 1 that is dead ([`Fate`]) changes nothing here
//! any more.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kelson_runner::{
    Attachment, BoxFuture, Executor, Exit, Leftover, RunContext, Runner, RunnerError, Running, StopPlan,
    StopReport, service_id,
};
use kelson_services::ServicesError;
use kelson_services::health::OwnCheck;
use kelson_services::last_resort::Survivors;
use kelson_services::manager::{Usage, UsageSource};
use kelson_services::service_runner::host_context::{RunnerFactory, RunningProcess};
use kelson_services::state_store::StateStore;
use kelson_spec::GroupSpec;
use kelson_spec::service::{ServiceSpec, Workload};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::fate::Fate;
use crate::health_commands::Commands;
use crate::house::IMPOSSIBLE;
use crate::lines::Lines;

/// When each played process was started, in ticks.
const START_TIME: u64 = 7;

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
    /// The kernel reports that it has killed one of its processes.
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

type Ending = watch::Sender<Option<Exit>>;

struct Living {
    pid: i32,
    exit: Ending,
    /// When it was sent its stop signal.
    signalled: Option<Instant>,
    /// It ends then, regardless of the state of PID 1.
    ends: Option<(Instant, Exit)>,
    run: u64,
    hook: bool,
}

/// A process that has ended and was not reaped.
struct Zombie {
    pid: i32,
    exit: Exit,
    owner: Ending,
}

/// An operation on a service, in the order of time.
#[derive(Debug, Clone)]
pub struct Deed {
    pub at: Instant,
    /// 0: of no run.
    pub run: u64,
    pub what: What,
    /// By which incarnation of PID 1, from 1 on.
    pub life: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Open,
    Close,
    /// The main process, by its command.
    Main(String),
    /// Its spawn is reported.
    MainKnown,
    MainEnds(Exit),
    /// A command in place of it.
    Hook(String),
    HookEnds,
    Signal(i32),
    /// It had not ended in time after its stop signal.
    Killed,
}

/// Is told of each main process and each hook in its place that is about to begin: service, run, what.
pub type Onlooker = Box<dyn Fn(&str, u64, &What) + Send>;

/// The record of one service.
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
    /// The commands that its checks run.
    pub commands: Commands,
    /// Its network checks.
    pub lines: Lines,
    pub deeds: Vec<Deed>,
    living: Option<Living>,
    zombies: Vec<Zombie>,
    /// Children that stand in the record of those that are just being made: run and PID.
    making: Vec<(u64, i32)>,
    /// Rings when something has ended.
    bell: Arc<Notify>,
    life: u32,
}

impl Played {
    pub fn lives(&self) -> bool {
        self.living.is_some()
    }

    /// The run and the PID of the main process that lives.
    pub fn main(&self) -> Option<(u64, i32)> {
        self.living.as_ref().filter(|living| !living.hook).map(|living| (living.run, living.pid))
    }

    pub fn said(&self) -> Vec<String> {
        self.calls.iter().map(|(_, call)| call.clone()).collect()
    }

    pub fn when(&self, call: &str) -> Option<Duration> {
        self.calls.iter().find(|(_, said)| said == call).map(|(at, _)| *at)
    }

    /// The run ends so.
    pub fn exit(&mut self, exit: Exit) {
        if let Some(living) = self.living.take() {
            self.descriptors.clear();
            self.deed(living.run, if living.hook { What::HookEnds } else { What::MainEnds(exit) });
            self.zombies.push(Zombie { pid: living.pid, exit, owner: living.exit });
            self.bell.notify_one();
        }
    }

    /// This very process ends so.
    fn end(&mut self, pid: i32, exit: Exit) {
        if self.living.as_ref().is_some_and(|living| living.pid == pid) {
            self.exit(exit);
        }
    }

    fn deed(&mut self, run: u64, what: What) {
        let life = self.life;
        self.deeds.push(Deed { at: Instant::now(), run, what, life });
    }

    fn is_child(&self, pid: i32) -> bool {
        self.living.as_ref().is_some_and(|living| living.pid == pid)
            || self.zombies.iter().any(|zombie| zombie.pid == pid)
    }

    /// Where the end of a child is reported, once it was reaped.
    fn ending(&self, pid: i32) -> Option<watch::Receiver<Option<Exit>>> {
        let living = self.living.iter().map(|living| (living.pid, &living.exit));
        let zombies = self.zombies.iter().map(|zombie| (zombie.pid, &zombie.owner));
        living.chain(zombies).find(|(other, _)| *other == pid).map(|(_, exit)| exit.subscribe())
    }
}

/// The facts of the host.
#[derive(Default)]
pub struct PlayedFacts {
    pub values: Mutex<BTreeMap<String, String>>,
    /// How often they were read.
    pub reads: AtomicU32,
}

/// All played services; makes their runners.
#[derive(Clone)]
pub struct Stage {
    played: Arc<Mutex<BTreeMap<String, Arc<Mutex<Played>>>>>,
    origin: Instant,
    pids: Arc<AtomicI32>,
    pub onlooker: Arc<Mutex<Option<Onlooker>>>,
    bell: Arc<Notify>,
    /// The connections to the network of the host.
    pub host: Lines,
    /// This host can run nothing any more.
    pub refuses: Arc<AtomicBool>,
    /// The files of groups.
    pub groups: Arc<Mutex<Vec<GroupSpec>>>,
    /// The clock of the host is synchronised.
    pub clock: Arc<AtomicBool>,
    pub facts: Arc<PlayedFacts>,
    /// Of the incarnation of PID 1 that plays on it now.
    pub fate: Arc<Fate>,
    pub life: u32,
}

impl Stage {
    pub fn new(fate: Arc<Fate>) -> Stage {
        Stage {
            played: Arc::default(),
            origin: Instant::now(),
            pids: Arc::new(AtomicI32::new(100)),
            onlooker: Arc::default(),
            bell: Arc::default(),
            host: Lines::default(),
            refuses: Arc::default(),
            groups: Arc::default(),
            clock: Arc::default(),
            facts: Arc::default(),
            fate,
            life: 1,
        }
    }

    /// The same for another incarnation of PID 1. A process that was about to end by itself still does.
    pub fn another_life(&self, fate: Arc<Fate>) -> Stage {
        let life = self.life + 1;
        for played in self.all() {
            let mut all = played.lock().unwrap();
            all.life = life;
            let Some(living) = &all.living else { continue };
            if let (pid, Some((at, exit))) = (living.pid, living.ends) {
                let played = Arc::clone(&played);
                tokio::spawn(async move {
                    tokio::time::sleep_until(at).await;
                    played.lock().unwrap().end(pid, exit);
                });
            }
        }
        Stage { fate, life, ..self.clone() }
    }

    fn all(&self) -> Vec<Arc<Mutex<Played>>> {
        self.played.lock().unwrap().values().cloned().collect()
    }

    pub fn each(&self, mut look: impl FnMut(&str, &Played)) {
        for (name, played) in self.played.lock().unwrap().iter() {
            look(name, &played.lock().unwrap());
        }
    }

    pub fn of(&self, name: &str) -> Arc<Mutex<Played>> {
        let made = || {
            let played = Played { bell: Arc::clone(&self.bell), life: self.life, ..Played::default() };
            Arc::new(Mutex::new(played))
        };
        Arc::clone(self.played.lock().unwrap().entry(name.to_owned()).or_insert_with(made))
    }

    /// Children that were just being made.
    pub fn making(&self) -> Vec<Leftover> {
        let mut making = Vec::new();
        self.each(|name, played| {
            let of_it = played.making.iter().map(|(run, pid)| Leftover {
                service: service_id(name),
                run: *run,
                pid: *pid,
            });
            making.extend(of_it);
        });
        making
    }

    /// These are known by now.
    pub fn forget(&self, made: &[Leftover]) {
        for played in self.all() {
            played.lock().unwrap().making.retain(|(_, pid)| !made.iter().any(|child| child.pid == *pid));
        }
    }

    /// When a child was started, be it ended or not.
    pub fn started(&self, pid: i32) -> Option<u64> {
        let is_child = |played: Arc<Mutex<Played>>| played.lock().unwrap().is_child(pid);
        self.all().into_iter().any(is_child).then_some(START_TIME)
    }

    /// Reaps for as long as this incarnation lasts.
    pub async fn reap(self, store: StateStore) {
        loop {
            while self.reap_one(&store) {}
            self.bell.notified().await;
        }
    }

    fn reap_one(&self, store: &StateStore) -> bool {
        let has_ended = |played: &Arc<Mutex<Played>>| !played.lock().unwrap().zombies.is_empty();
        let Some(played) = self.all().into_iter().find(has_ended) else { return false };
        let (pid, exit) = {
            let played = played.lock().unwrap();
            (played.zombies[0].pid, played.zombies[0].exit)
        };
        store.exit(pid, exit);
        if self.fate.at("before the kernel forgets a child") {
            return false;
        }
        let zombie = played.lock().unwrap().zombies.remove(0);
        if self.fate.at("before the owner of a child hears of its end") {
            return false;
        }
        zombie.owner.send_replace(Some(exit));
        true
    }

    fn show(&self, name: &str, run: u64, what: &What) {
        if let Some(onlooker) = &*self.onlooker.lock().unwrap() {
            onlooker(name, run, what);
        }
    }
}

impl RunnerFactory for Stage {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Result<Box<dyn Runner>, ServicesError> {
        if spec.description == IMPOSSIBLE || self.refuses.load(Ordering::Relaxed) {
            return Err(ServicesError::NotNow("this host cannot run it".into()));
        }
        Ok(Box::new(Player {
            spec: Arc::clone(spec),
            played: self.of(&spec.name),
            stage: self.clone(),
            attached: false,
            main: None,
            is_signalled: false,
        }))
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        let fate = Arc::clone(&self.fate);
        Ok(Arc::new(self.of(&spec.name).lock().unwrap().commands.of_run(run.run, fate, self.life)))
    }

    fn network(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn kelson_services::health::network::Network>, ServicesError> {
        Ok(Arc::new(self.of(&spec.name).lock().unwrap().lines.of_run(run.run)))
    }

    fn host_network(&self) -> Result<Arc<dyn kelson_services::health::network::Network>, ServicesError> {
        Ok(Arc::new(self.host.of_run(u64::from(self.life))))
    }

    fn own_check(&self, spec: &Arc<ServiceSpec>) -> Option<OwnCheck> {
        self.of(&spec.name).lock().unwrap().commands.own_check()
    }
}

impl Survivors for Stage {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Box<dyn Runner> {
        RunnerFactory::runner(self, spec).unwrap()
    }

    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError> {
        RunnerFactory::executor(self, spec, run)
    }

    fn leftovers(&self) -> Vec<Leftover> {
        self.making()
    }

    fn started(&self, pid: i32) -> Option<u64> {
        Stage::started(self, pid)
    }
}

impl UsageSource for Stage {
    fn usage(&self, _: &str) -> Usage {
        Usage::default()
    }
}

struct Player {
    /// It was opened in an earlier incarnation, and may be opened again.
    attached: bool,
    spec: Arc<ServiceSpec>,
    played: Arc<Mutex<Played>>,
    stage: Stage,
    /// How the run that was begun or taken up ends.
    main: Option<watch::Receiver<Option<Exit>>>,
    /// It was sent its stop signal.
    is_signalled: bool,
}

/// How a run ends. Once that is asked for, its child is recorded by its owner.
fn ended(
    played: &Arc<Mutex<Played>>,
    fate: &Arc<Fate>,
    pid: i32,
    mut exit: watch::Receiver<Option<Exit>>,
) -> BoxFuture<'static, Exit> {
    let (played, fate) = (Arc::clone(played), Arc::clone(fate));
    Box::pin(async move {
        if !fate.is_dead() {
            played.lock().unwrap().making.retain(|(_, other)| *other != pid);
        }
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::Lost),
            Err(_) => Exit::Lost,
        }
    })
}

impl Player {
    fn played(&self) -> MutexGuard<'_, Played> {
        self.played.lock().unwrap()
    }

    async fn pass(&self, place: &str) {
        self.stage.fate.pass(place).await;
    }

    /// A child is made, and stands in the record of those that are being made.
    fn make(&self, context: &mut RunContext, hook: bool) -> (i32, watch::Receiver<Option<Exit>>) {
        let pid = self.stage.pids.fetch_add(1, Ordering::Relaxed);
        let (exit, exited) = watch::channel(None);
        let mut played = self.played();
        played.making.push((context.run, pid));
        played.living = Some(Living { pid, exit, signalled: None, ends: None, run: context.run, hook });
        played.environment = std::mem::take(&mut context.environment);
        played.descriptors = std::mem::take(&mut context.descriptors);
        (pid, exited)
    }

    /// A command in place of the main process.
    async fn hook(&mut self, command: &str, mut context: RunContext) -> Result<Running, RunnerError> {
        self.pass("before a hook").await;
        let manners = self.call(format!("hook {command}"));
        let what = What::Hook(command.to_owned());
        self.stage.show(&self.spec.name, context.run, &what);
        {
            let mut played = self.played();
            if !played.opened || played.lives() {
                played.wrongs.push(format!("hook {command} at a wrong time"));
            }
            played.deed(context.run, what);
        }
        let (pid, exited) = self.make(&mut context, true);
        let ends = manners.hooks.get(command).copied().unwrap_or(Some((Duration::ZERO, Exit::Status(0))));
        let ends = ends.map(|(after, exit)| (Instant::now() + after, exit));
        if let Some(living) = &mut self.played().living {
            living.ends = ends;
        }
        self.pass("after the begin of a hook").await;
        self.main = Some(exited.clone());
        let (all, fate) = (Arc::clone(&self.played), Arc::clone(&self.stage.fate));
        let told = ended(&self.played, &self.stage.fate, pid, exited.clone());
        let exit = Box::pin(async move {
            if let Some((at, exit)) = ends {
                let mut exited = exited;
                tokio::select! {
                    _ = exited.wait_for(Option::is_some) => {}
                    () = tokio::time::sleep_until(at) => if !fate.is_dead() {
                        all.lock().unwrap().end(pid, exit);
                    },
                }
            }
            told.await
        });
        Ok(Running { pid, start_time: START_TIME, stop_signal: None, addresses: Vec::new(), exit })
    }

    fn call(&self, call: impl Into<String>) -> Manners {
        let at = Instant::now() - self.stage.origin;
        let mut played = self.played();
        played.calls.push((at, call.into()));
        played.manners.clone()
    }
}

fn error(message: &str) -> RunnerError {
    RunnerError::new(message)
}

impl Runner for Player {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async move {
            self.pass("before open").await;
            let manners = self.call("open");
            {
                let again = std::mem::take(&mut self.attached);
                let mut played = self.played();
                if played.opened && !again {
                    played.wrongs.push("opened twice without a close".into());
                }
                if !played.opened {
                    played.deed(0, What::Open);
                    played.opens += 1;
                }
                played.opened = true;
            }
            self.pass("in the middle of open").await;
            tokio::time::sleep(manners.open).await;
            self.pass("after open").await;
            manners.open_fails.map_or(Ok(()), |text| Err(error(&text)))
        })
    }

    fn run(&mut self, mut context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(async move {
            if let Some(command) = context.command.clone() {
                return self.hook(&command.join(" "), context).await;
            }
            self.pass("before a child is made").await;
            let manners = self.call(format!("run {}", context.run));
            let command = match &self.spec.workload {
                Workload::Process(process) => process.command.join(" "),
                Workload::Container(container) => container.image.clone(),
                Workload::Target => String::new(),
            };
            let what = What::Main(command.clone());
            self.stage.show(&self.spec.name, context.run, &what);
            {
                let mut played = self.played();
                if !played.opened {
                    played.wrongs.push(format!("run {} without open", context.run));
                }
                if played.lives() {
                    played.wrongs.push(format!("run {} beside another", context.run));
                }
                played.runs += 1;
                played.command = command;
                played.deed(context.run, what);
            }
            if let Some(text) = manners.spawn_fails {
                self.played().deed(context.run, What::MainEnds(Exit::Lost));
                tokio::time::sleep(manners.spawn).await;
                self.pass("after a start that failed").await;
                return Err(error(&text));
            }
            let run = context.run;
            let (pid, exited) = self.make(&mut context, false);
            self.is_signalled = false;
            self.main = Some(exited.clone());
            self.pass("after a child is made").await;
            tokio::time::sleep(manners.spawn).await;
            self.pass("before a child is known").await;
            self.played().deed(run, What::MainKnown);
            let exit = ended(&self.played, &self.stage.fate, pid, exited);
            Ok(Running { pid, start_time: START_TIME, stop_signal: None, addresses: Vec::new(), exit })
        })
    }

    fn attach(&mut self, before: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        Box::pin(async move {
            self.pass("before a run is taken up").await;
            self.attached = before.opened;
            let mut played = self.played();
            if played.opened && !before.opened {
                played.wrongs.push(format!("attached to {before:?}"));
            }
            let known = before.opened && before.start_time == START_TIME;
            let Some(exit) = played.ending(before.pid).filter(|_| known) else { return Ok(None) };
            drop(played);
            self.main = Some(exit.clone());
            let exit = ended(&self.played, &self.stage.fate, before.pid, exit);
            Ok(Some(Running {
                pid: before.pid,
                start_time: before.start_time,
                stop_signal: None,
                addresses: Vec::new(),
                exit,
            }))
        })
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        Box::pin(async move {
            self.pass("before a stop").await;
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
                let (mut exit, pid, ends) = {
                    let mut played = self.played();
                    let living = played.living.as_mut().unwrap();
                    if !matches!(plan.signal, 0 | libc::SIGKILL) {
                        let since = *living.signalled.get_or_insert_with(Instant::now);
                        let obeys = manners.obeys.map(|after| since + after);
                        living.ends = obeys.map(|at| (at, Exit::Signal { signal: 15, core: false }));
                    }
                    let of_hook = living.hook;
                    let ends = living.ends.filter(|_| plan.signal != libc::SIGKILL && !of_hook);
                    let (exit, run, pid) = (living.exit.subscribe(), living.run, living.pid);
                    played.deed(run, What::Signal(plan.signal));
                    (exit, pid, ends)
                };
                self.is_signalled |= plan.signal != 0;
                self.pass("after a signal").await;
                let obeyed = async {
                    match ends {
                        Some((at, exit)) => {
                            tokio::time::sleep_until(at).await;
                            exit
                        }
                        None => std::future::pending().await,
                    }
                };
                killed = tokio::select! {
                    biased;
                    () = async { drop(exit.wait_for(Option::is_some).await) } => false,
                    how = obeyed => {
                        self.pass("while a service stops").await;
                        self.played().end(pid, how);
                        false
                    }
                    () = tokio::time::sleep(plan.timeout) => {
                        self.pass("before a kill").await;
                        self.call("killed");
                        let mut played = self.played();
                        let one = played.living.as_ref().filter(|one| one.pid == pid && plan.signal != libc::SIGKILL);
                        if let Some((run, signalled)) = one.map(|one| (one.run, one.signalled)) {
                            played.deed(run, What::Killed);
                            if signalled.is_none() {
                                played.wrongs.push("killed without its stop signal".into());
                            }
                        }
                        played.end(pid, Exit::Signal { signal: 9, core: false });
                        true
                    }
                };
            }
            if let Some(mut exit) = self.main.take() {
                // Its status may still be on its way.
                let _ = exit.wait_for(Option::is_some).await;
            }
            self.pass("after a stop").await;
            let out_of_memory = self.played().manners.out_of_memory;
            Ok(StopReport { killed, out_of_memory, ..StopReport::default() })
        })
    }

    fn is_signalled(&self) -> bool {
        self.is_signalled
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(async move {
            self.pass("before close").await;
            let manners = self.call("close");
            if self.played().lives() {
                self.played().wrongs.push("closed while it lives".into());
            }
            tokio::time::sleep(manners.close).await;
            self.pass("in the middle of close").await;
            {
                let mut played = self.played();
                played.closes += u32::from(played.opened);
                played.opened = false;
                played.deed(0, What::Close);
            }
            self.pass("after close").await;
            manners.close_fails.map_or(Ok(()), |text| Err(error(&text)))
        })
    }
}
