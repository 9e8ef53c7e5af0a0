//! The events of a sequence, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelson_runner::Exit;
use kelson_services::manager::{Awaited, Outcome};
use tokio::time::Instant;

use super::dice::Dice;
use super::witness::Book;
use super::world::{World, behave, brief, change_command, name};
use crate::clocks;
use crate::house::{House, MS, Stage, loaded, secs};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Start,
    Restart,
    /// `plain`: nobody has to be stopped first.
    Stop,
    Cascade,
    /// Its file came back.
    Added,
}

/// A request to a service, and its answer. Their order is the order in which they were asked.
#[derive(Debug, Clone)]
pub struct Request {
    pub name: String,
    pub kind: Kind,
    pub waits: bool,
    pub asked: Instant,
    pub answer: Option<(Instant, Outcome, String)>,
    /// PID 1 died before it answered.
    pub is_lost: bool,
}

pub type VersionsRead = Arc<Mutex<BTreeMap<String, Vec<(Instant, usize)>>>>;

pub struct Play {
    pub house: House,
    pub world: Arc<Mutex<World>>,
    pub book: Book,
    pub requests: Arc<Mutex<Vec<Request>>>,
    pub reloads: Vec<tokio::task::JoinHandle<()>>,
    /// One reading after the other, as `init` has it: the later one counts.
    pub reading: Arc<tokio::sync::Mutex<()>>,
    pub others: Vec<tokio::task::JoinHandle<()>>,
    /// Of each service, since when it is certain that the host has read which of its files.
    pub versions_read: VersionsRead,
    pub begun: Instant,
    /// The acts so far, for the reader of a failure.
    pub trace: Arc<Mutex<Vec<String>>>,
    /// Services that have asked for more time.
    pub extended: Arc<Mutex<BTreeSet<String>>>,
    /// When this incarnation of PID 1 began.
    pub life_begun: Instant,
}

/// The machine is suspended for a while: no deadline ages by that.
pub fn suspend(dice: &mut Dice) -> String {
    let time = secs(dice.pick(&[1, 10, 3600, 30 * 24 * 3600]));
    clocks::suspend(time);
    format!("the machine is suspended for {time:?}")
}

impl Play {
    pub fn tell(&self, text: String) {
        if !text.is_empty() {
            self.trace.lock().unwrap().push(format!("{:>9.3} {text}", self.begun.elapsed().as_secs_f64()));
        }
    }

    /// Lets everything that can happen now happen, and the clock go on by a millisecond first.
    ///
    /// # Panics
    /// When it goes on for ever.
    pub async fn quiet(&self) {
        tokio::time::sleep(MS).await;
        let newest = self.house.manager.newest_event();
        let (mut last, mut calm, mut patience) = (*newest.borrow(), 0, 10_000);
        while calm < 12 {
            patience -= 1;
            assert!(patience > 0, "there is no end to what happens at this instant");
            tokio::task::yield_now().await;
            let now = *newest.borrow();
            calm = if now == last { calm + 1 } else { 0 };
            last = now;
        }
    }

    pub fn ask(&self, name: &str, kind: Kind, waits: bool) {
        self.tell(format!("{kind:?} {name}{}", if waits { ", waits" } else { "" }));
        let (manager, requests) = (self.house.manager.clone(), Arc::clone(&self.requests));
        let fate = Arc::clone(&self.house.stage.fate);
        let name = name.to_owned();
        tokio::spawn(async move {
            let request = Request {
                name: name.clone(),
                kind,
                waits,
                asked: Instant::now(),
                answer: None,
                is_lost: false,
            };
            let place = {
                let mut requests = requests.lock().unwrap();
                requests.push(request);
                requests.len() - 1
            };
            let one = [name];
            let mut results = match kind {
                Kind::Start => manager.start(&one, waits).await,
                Kind::Restart => manager.restart(&one, waits).await,
                Kind::Stop => manager.stop(&one, false, waits).await,
                Kind::Cascade => manager.stop(&one, true, waits).await,
                Kind::Added => return,
            };
            let result = results.pop().unwrap();
            if fate.is_dead() {
                return;
            }
            requests.lock().unwrap()[place].answer = Some((Instant::now(), result.outcome, result.message));
        });
    }

    pub async fn act(&mut self, dice: &mut Dice) {
        let names = self.world.lock().unwrap().names();
        let name = dice.pick(&names);
        let waits = dice.one_in(2);
        match dice.roll(40) {
            0..=3 => self.ask(&name, Kind::Start, waits),
            4..=6 => self.ask(&name, Kind::Restart, waits),
            7..=8 => self.ask(&name, Kind::Stop, waits),
            9..=10 => self.ask(&name, Kind::Cascade, waits),
            11..=16 => self.exit(dice, &name),
            17..=20 => self.say(dice, &name),
            21..=22 => self.tell(behave(dice, &self.house, &name)),
            23..=27 => {
                let world = self.world.lock().unwrap();
                self.tell(change_command(dice, &world, &self.house, &name));
            }
            28 => self.wait(dice, &name),
            29 => self.reload(dice),
            30..=34 => self.pass(secs(1 + dice.roll(4))).await,
            35 => self.pass(secs(20)).await,
            36 => self.tell(suspend(dice)),
            _ => self.pass(MS * u32::try_from(dice.roll(900)).unwrap()).await,
        }
    }

    async fn pass(&self, time: Duration) {
        self.tell(format!("{time:?} pass"));
        tokio::time::sleep(time).await;
    }

    fn exit(&self, dice: &mut Dice, name: &str) {
        self.tell(Play::end_of(dice, &self.house.stage, name));
    }

    /// Ends the running processes of the service, regardless of the state of PID 1.
    pub fn end_of(dice: &mut Dice, stage: &Stage, name: &str) -> String {
        let exit = match dice.roll(5) {
            0 | 1 => Exit::Status(0),
            2 | 3 => Exit::Status(3),
            _ => Exit::Signal { signal: 9, core: false },
        };
        let played = stage.of(name);
        let mut played = played.lock().unwrap();
        if !played.lives() {
            return String::new();
        }
        played.exit(exit);
        format!("{name} ends: {exit}")
    }

    fn say(&self, dice: &mut Dice, name: &str) {
        let text = match dice.roll(10) {
            0 => "RELOADING=1",
            1 => "STOPPING=1",
            2 => "WATCHDOG=trigger",
            3 => "WATCHDOG_USEC=2000000",
            5 => "WATCHDOG_USEC=2000000\nREADY=1",
            6 => "WATCHDOG=1",
            4 => "EXTEND_TIMEOUT_USEC=3000000",
            _ => "READY=1",
        };
        let socket = self.house.notify_socket(name);
        if self.house.sent.send_to(text.as_bytes(), socket).is_ok() {
            if text.starts_with("EXTEND") {
                self.extended.lock().unwrap().insert(name.to_owned());
            }
            self.tell(format!("{name} says {text}"));
        }
    }

    fn wait(&mut self, dice: &mut Dice, name: &str) {
        let awaited = dice.pick(&[Awaited::Up, Awaited::Down, Awaited::Finished]);
        let (manager, one) = (self.house.manager.clone(), [name.to_owned()]);
        self.others.push(tokio::spawn(async move {
            let _ = tokio::time::timeout(secs(20), manager.wait(&one, awaited)).await;
        }));
    }

    /// One file changes, goes or comes back, or nothing does.
    fn reload(&mut self, dice: &mut Dice) {
        let shared = Arc::clone(&self.world);
        let mut world = shared.lock().unwrap();
        let index = usize::try_from(dice.roll(world.names().len() as u64)).unwrap();
        let name = name(index);
        match (world.present.contains(&name), dice.roll(4)) {
            (true, 0) => {
                world.present.retain(|other| *other != name);
                self.tell(format!("the file of {name} is gone"));
            }
            (true, 1..=2) => {
                world.write(dice, index);
                self.tell(format!("the file of {name} changed: {}", brief(world.newest(&name))));
            }
            (true, _) => self.tell("the files are read again".into()),
            (false, _) => {
                world.present.push(name.clone());
                self.tell(format!("the file of {name} is back"));
                let asked = Instant::now();
                let request =
                    Request { name, kind: Kind::Added, waits: false, asked, answer: None, is_lost: false };
                self.requests.lock().unwrap().push(request);
            }
        }
        drop(world);
        self.read_files();
    }

    pub fn read_files(&mut self) {
        let (files, versions) = {
            let world = self.world.lock().unwrap();
            let version = |name: &String| (name.clone(), world.versions[name].len() - 1);
            (loaded(world.files()), world.present.iter().map(version).collect::<Vec<_>>())
        };
        let manager = self.house.manager.clone();
        let (turn, fate) = (Arc::clone(&self.reading), Arc::clone(&self.house.stage.fate));
        let versions_read = Arc::clone(&self.versions_read);
        self.reloads.push(tokio::spawn(async move {
            let turn = turn.lock().await;
            let report = manager.reload(files).await;
            drop(turn);
            // By then each service has taken the message up, or PID 1 has died before.
            tokio::time::sleep(MS).await;
            if fate.is_dead() || report.is_err() {
                return;
            }
            let mut read = versions_read.lock().unwrap();
            for (name, version) in versions {
                read.entry(name).or_default().push((Instant::now(), version));
            }
        }));
    }
}
