//! The operations on one service, read in order: open and close in turn, one run at a time, each with its
//! hooks.

use kelson_runner::Exit;
use kelson_spec::service::ServiceSpec;
use tokio::time::Instant;

use super::world::World;
use crate::house::{Deed, What};

/// The run that is under way, or was the last since `open`.
struct Run {
    number: u64,
    mark: String,
    pre: usize,
    main: bool,
    post: usize,
    /// The incarnation of PID 1 that did the last of that.
    life: u32,
}

/// A main process from its begin to its end.
#[derive(Debug, Clone)]
pub struct Main {
    pub run: u64,
    pub command: String,
    pub begun: Instant,
    /// PID 1 hears of it; it may have ended by then.
    pub known: Option<Instant>,
    pub ended: Option<Instant>,
    pub exit: Option<Exit>,
}

#[derive(Default)]
pub struct Reading {
    read: usize,
    open: bool,
    lives: bool,
    last: u64,
    /// Nothing was run since it was opened.
    opened: bool,
    run: Option<Run>,
    pub mains: Vec<Main>,
    /// Stop signals to a main process: when, and of which run.
    pub signals: Vec<(Instant, u64)>,
    /// Main processes that were killed because they had not ended in time after it.
    pub kills: Vec<(Instant, u64)>,
}

fn mark(command: &str) -> &str {
    command.split(' ').next().unwrap()
}

impl Reading {
    /// Reads on. `hurried`: the total deadline has passed, and hooks are left out.
    pub fn read(&mut self, deeds: &[Deed], world: &World, hurried: bool, wrongs: &mut Vec<String>) {
        for deed in &deeds[self.read..] {
            if let Err(wrong) = self.take(deed, world, hurried) {
                wrongs.push(format!("{wrong}: {deed:?}"));
            }
        }
        self.read = deeds.len();
    }

    fn take(&mut self, deed: &Deed, world: &World, hurried: bool) -> Result<(), String> {
        match &deed.what {
            What::Open => {
                let again = std::mem::replace(&mut self.open, true);
                self.run = None;
                self.opened = true;
                wrong_if(again, "opened twice")
            }
            What::Close => {
                // Also where the turn to open never came.
                self.open = false;
                wrong_if(self.lives, "closed while something lives")?;
                self.over(world, hurried)
            }
            What::Hook(command) => {
                let spec = world.version(command);
                self.begins()?;
                let last = command.split(' ').next_back().unwrap();
                let (kind, number) = last.split_at(last.len() - 1);
                let number: usize = number.parse().unwrap();
                match kind {
                    "pre" => {
                        let run = self.run_of(deed, command, world, hurried)?;
                        let due = std::mem::replace(&mut run.pre, number + 1);
                        wrong_if(due != number || run.main || run.post > 0, "a pre hook out of its order")
                    }
                    "post" => {
                        // At the instant of its begin the run may have been broken off; what it owes stays owed.
                        let run = self.run_of(deed, command, world, hurried)?;
                        if number == 0 && deed.life > run.life {
                            // Those that were cut off are run again from the first.
                            run.post = 0;
                        }
                        run.life = deed.life;
                        let due = std::mem::replace(&mut run.post, number + 1);
                        wrong_if(due != number, "a post hook out of its order")?;
                        wrong_if(number >= spec.hooks.post.len(), "a post hook too many")
                    }
                    _ => Err("a hook in a wrong place".into()),
                }
            }
            What::Main(command) => {
                self.begins()?;
                let spec: &ServiceSpec = world.version(command);
                let run = self.run_of(deed, command, world, hurried)?;
                let again = std::mem::replace(&mut run.main, true);
                let (pre, post) = (run.pre, run.post);
                self.mains.push(Main {
                    run: deed.run,
                    command: command.clone(),
                    begun: deed.at,
                    known: None,
                    ended: None,
                    exit: None,
                });
                wrong_if(again || post > 0, "a run begins twice")?;
                wrong_if(pre != spec.hooks.pre.len(), "a run without its pre hooks")
            }
            What::MainKnown => {
                if let Some(main) = self.mains.last_mut() {
                    main.known = Some(deed.at);
                }
                Ok(())
            }
            What::MainEnds(_) | What::HookEnds => {
                if let (What::MainEnds(exit), Some(main)) = (&deed.what, self.mains.last_mut()) {
                    main.ended = Some(deed.at);
                    main.exit = Some(*exit);
                }
                wrong_if(!std::mem::replace(&mut self.lives, false), "ends twice")
            }
            What::Killed => {
                if self.mains.last().is_some_and(|main| main.run == deed.run && main.ended.is_none()) {
                    self.kills.push((deed.at, deed.run));
                }
                Ok(())
            }
            What::Signal(signal) => {
                let main = self.mains.last().is_some_and(|main| main.run == deed.run && main.ended.is_none());
                if main && !matches!(*signal, 0 | libc::SIGKILL) {
                    self.signals.push((deed.at, deed.run));
                }
                wrong_if(!self.lives, "a signal to nobody")
            }
        }
    }

    fn begins(&mut self) -> Result<(), String> {
        wrong_if(!self.open, "begins before open")?;
        wrong_if(std::mem::replace(&mut self.lives, true), "begins beside another")
    }

    fn run_of(
        &mut self,
        deed: &Deed,
        command: &str,
        world: &World,
        hurried: bool,
    ) -> Result<&mut Run, String> {
        let (number, mut before) = (deed.run, Ok(()));
        if self.run.as_ref().is_none_or(|run| run.number != number) {
            before = self.over(world, hurried);
            // A service whose file went and came back counts from the beginning. Of each death of PID 1 a run may be
            // lost that had a number and no process.
            let early = number <= u64::from(deed.life);
            let anew = self.mains.is_empty() || (early && std::mem::take(&mut self.opened));
            if number <= self.last && !anew {
                before = Err(format!("run {number} after run {}", self.last));
            }
            self.last = number;
            self.opened = false;
        }
        before?;
        let mark = mark(command).to_owned();
        let run = self.run.get_or_insert(Run { number, mark, pre: 0, main: false, post: 0, life: 0 });
        wrong_if(run.mark != self::mark(command), "parts of one run are of two files")?;
        Ok(run)
    }

    /// Nothing more comes of the run before: what it owed must be done.
    fn over(&mut self, world: &World, hurried: bool) -> Result<(), String> {
        let Some(run) = self.run.take() else { return Ok(()) };
        let owed = world.version(&run.mark).hooks.post.len();
        let text = format!("run {} had {} of {owed} post hooks", run.number, run.post);
        wrong_if(run.post != owed && !hurried, &text)
    }

    /// The last run is over, and what it owed must be done.
    pub fn ends(&mut self, world: &World, hurried: bool) -> Result<(), String> {
        self.over(world, hurried)
    }

    pub fn living(&self) -> Option<&Main> {
        self.mains.last().filter(|main| main.ended.is_none())
    }
}

fn wrong_if(wrong: bool, text: &str) -> Result<(), String> {
    if wrong { Err(text.to_owned()) } else { Ok(()) }
}
