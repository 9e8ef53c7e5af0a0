//! Commands of checks that are played: what each answers, and when, is set by the test and may change at any time.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelson_runner::{
    BoxFuture, ExecControl, ExecRequest, Executing, Executor, Exit, RunnerError, WindowSize,
};
use kelson_services::health::{Answer, OwnCheck, Plan, Probe};
use kelson_spec::service::{self, Check};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::fate::Fate;

/// The conduct of a command.
#[derive(Clone)]
pub struct Conduct {
    pub says: String,
    pub exit: Exit,
    /// `None`: it never ends by itself.
    pub after: Option<Duration>,
    /// Not even a kill ends it.
    pub unkillable: bool,
}

pub fn passes() -> Conduct {
    Conduct { says: "fine\n".into(), exit: Exit::Status(0), after: Some(Duration::ZERO), unkillable: false }
}

pub fn fails(says: &str) -> Conduct {
    Conduct { says: says.into(), exit: Exit::Status(1), ..passes() }
}

pub fn hangs(says: &str) -> Conduct {
    Conduct { says: says.into(), after: None, ..passes() }
}

#[derive(Default)]
struct Book {
    conducts: HashMap<String, Conduct>,
    own: Option<Conduct>,
    running: HashMap<String, usize>,
    most: usize,
    /// `run 1: COMMAND`, with the time of its start.
    begun: Vec<(Instant, String)>,
    ended: Vec<Said>,
    killed: usize,
}

/// How one execution of a command ended.
#[derive(Debug, Clone)]
pub struct Said {
    pub run: u64,
    pub command: String,
    pub passed: bool,
    /// The incarnation of PID 1 that heard of it.
    pub life: u32,
}

/// The commands of one service.
#[derive(Clone, Default)]
pub struct Commands(Arc<Mutex<Book>>);

impl Commands {
    pub fn set(&self, command: &str, conduct: Conduct) {
        self.0.lock().unwrap().conducts.insert(command.to_owned(), conduct);
    }

    /// The service brings a check with it.
    pub fn set_own(&self, conduct: Conduct) {
        self.0.lock().unwrap().own = Some(conduct);
    }

    pub fn running(&self) -> usize {
        self.0.lock().unwrap().running.values().sum()
    }

    /// Most executions of one command at the same time.
    pub fn most(&self) -> usize {
        self.0.lock().unwrap().most
    }

    pub fn begun(&self) -> Vec<(Instant, String)> {
        self.0.lock().unwrap().begun.clone()
    }

    pub fn ended(&self) -> Vec<Said> {
        self.0.lock().unwrap().ended.clone()
    }

    pub fn killed(&self) -> usize {
        self.0.lock().unwrap().killed
    }

    pub fn of_run(&self, run: u64, fate: Arc<Fate>, life: u32) -> OfRun {
        OfRun { commands: self.clone(), run, fate, life }
    }

    pub fn own_check(&self) -> Option<OwnCheck> {
        self.0.lock().unwrap().own.as_ref()?;
        let check = Check::new("own", service::Probe::tcp(1));
        Some(OwnCheck { plan: Plan::from(&check), probe: Arc::new(Own(self.clone())) })
    }
}

struct Own(Commands);

impl Probe for Own {
    fn kind(&self) -> &'static str {
        "played"
    }

    fn ask(&self, _: Instant) -> BoxFuture<'static, Answer> {
        let conduct = self.0.0.lock().unwrap().own.clone().unwrap();
        Box::pin(async move {
            match conduct.after {
                None => std::future::pending().await,
                Some(_) if conduct.exit.success() => Answer::passes(conduct.says),
                Some(_) => Answer::fails(conduct.says),
            }
        })
    }
}

pub struct OfRun {
    commands: Commands,
    run: u64,
    /// Of the incarnation of PID 1 that asks.
    fate: Arc<Fate>,
    life: u32,
}

struct Control {
    commands: Commands,
    kill: watch::Sender<bool>,
}

impl ExecControl for Control {
    fn signal(&self, _: i32) {}

    fn kill(&self) {
        if self.kill.receiver_count() > 0 && !self.kill.send_replace(true) {
            self.commands.0.lock().unwrap().killed += 1;
        }
    }

    fn resize(&self, _: WindowSize) {}
}

/// Counts a command out when it has ended.
struct Place {
    commands: Commands,
    command: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.commands.0.lock().unwrap().running.get_mut(&self.command).unwrap() -= 1;
    }
}

impl Executor for OfRun {
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Executing, RunnerError>> {
        Box::pin(async move {
            self.fate.pass("before a command beside a run").await;
            let command = request.command.join(" ");
            let conduct = {
                let mut book = self.commands.0.lock().unwrap();
                book.begun.push((Instant::now(), format!("run {}: {command}", self.run)));
                let count = book.running.entry(command.clone()).or_default();
                *count += 1;
                let count = *count;
                book.most = book.most.max(count);
                book.conducts.get(&command).cloned().unwrap_or_else(passes)
            };
            let (book, run, said) = (self.commands.clone(), self.run, command.clone());
            let (fate, life) = (Arc::clone(&self.fate), self.life);
            let place = Place { commands: self.commands.clone(), command };
            self.fate.pass("after the begin of a command beside a run").await;
            let (output, write_end) = pipe();
            std::fs::File::from(write_end).write_all(conduct.says.as_bytes()).unwrap();
            let (errors, complaints) = pipe();
            let (kill, mut killed) = watch::channel(false);
            let exit = tokio::spawn(async move {
                let ends = async {
                    match conduct.after {
                        Some(after) => tokio::time::sleep(after).await,
                        None => std::future::pending().await,
                    }
                    conduct.exit
                };
                let kill = async {
                    // The other end may be gone: then nobody kills it any more.
                    let killed = killed.wait_for(|killed| *killed).await.is_ok();
                    if conduct.unkillable || !killed {
                        std::future::pending::<()>().await;
                    }
                    Exit::Signal { signal: 9, core: false }
                };
                let exit = tokio::select! {
                    exit = ends => exit,
                    exit = kill => exit,
                };
                let said = Said { run, command: said, passed: exit.success(), life };
                if !fate.is_dead() {
                    book.0.lock().unwrap().ended.push(said);
                }
                drop((place, complaints));
                exit
            });
            Ok(Executing {
                pid: 1000,
                input: None,
                output,
                errors: Some(errors),
                exit: Box::pin(async move { exit.await.unwrap_or(Exit::Lost) }),
                control: Arc::new(Control { commands: self.commands.clone(), kill }),
            })
        })
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap()
}
