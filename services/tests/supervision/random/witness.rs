//! The witness writes down each event with the time of the clock that stands still, and each wrong that only
//! shows at the instant at which it is done.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use kelson_services::Manager;
use kelson_services::model::{Event, Snapshot, State};
use kelson_spec::service::{Requirement, ServiceEvent, ServiceSpec};
use tokio::time::Instant;

use super::transitions::allowed;
use super::world::World;
use crate::house::{House, MS, What};

#[derive(Default)]
pub struct Notes {
    /// Each with the time at which it was read.
    pub events: Vec<(Instant, Event)>,
    /// Numbers of those that were told in one incarnation of PID 1 and read in another: when is not known.
    pub late: HashSet<u64>,
    pub wrongs: Vec<String>,
    /// When the host began to stop.
    pub closing: Option<Instant>,
    states: HashMap<Arc<str>, State>,
}

impl Notes {
    /// The number of the next event.
    fn next(&self) -> u64 {
        self.events.last().map_or(1, |(_, event)| event.seq + 1)
    }

    /// Another incarnation of PID 1 goes on with the events: those that were read are unchanged, and those
    /// that were published and not read yet can be read.
    pub fn goes_on(&mut self, manager: &Manager) {
        let next = self.next();
        for event in manager.events(1, usize::MAX).events {
            if event.seq >= next {
                self.late.insert(event.seq);
                continue;
            }
            let read = &self.events[usize::try_from(event.seq).unwrap() - 1].1;
            let same = (&read.service, read.state, read.run) == (&event.service, event.state, event.run)
                && read.message.starts_with(&*event.message);
            if !same {
                self.wrongs.push(format!("{read:?} has become {event:?}"));
            }
        }
    }
}

pub type Book = Arc<Mutex<Notes>>;

/// Whether it holds by what is published now.
pub fn holds(requirement: &Requirement, look: &impl Fn(&str) -> Option<Snapshot>) -> bool {
    match requirement {
        // It is no need.
        Requirement::Service { name, event: ServiceEvent::Settled, .. } if look(name).is_none() => true,
        Requirement::Service { name, event, .. } => look(name).is_some_and(|now| match event {
            ServiceEvent::Up => now.up,
            ServiceEvent::Running => {
                now.pid.is_some() && matches!(now.state, State::Starting | State::Running)
            }
            ServiceEvent::Finished => now.finished,
            ServiceEvent::Down => now.down,
            ServiceEvent::Settled => match now.state {
                State::Waiting | State::Preparing | State::Starting | State::Stopping => false,
                State::Initialized | State::Failed | State::Skipped | State::Stopped => now.down,
                State::Running => now.up || now.healthy == Some(false),
                State::Finished => now.finished,
                State::Backoff => true,
            },
        }),
        Requirement::Any(each) => each.iter().any(|one| holds(one, look)),
        // It exists; see `world`.
        Requirement::Path(_) => true,
        other => panic!("{other:?} is not played"),
    }
}

/// Looks on while runs begin: the whole gate must hold at that instant, and the host must not be stopping.
pub fn look_on(house: &House, world: &Arc<Mutex<World>>, book: &Book) {
    let (manager, world, book) = (house.manager.clone(), Arc::clone(world), Arc::clone(book));
    let look_on = move |name: &str, run: u64, what: &What| {
        let (What::Main(command) | What::Hook(command)) = what else { return };
        if command.contains(" post") {
            return;
        }
        let world = world.lock().unwrap();
        let spec: &ServiceSpec = world.version(command);
        let now = Instant::now();
        let mut book = book.lock().unwrap();
        let first_pre = command.ends_with(" pre0");
        if first_pre || matches!(what, What::Main(_)) {
            let look = |name: &str| manager.get(name);
            for requirement in spec.depends.iter().filter(|one| !holds(one, &look)) {
                book.wrongs.push(format!("{name}: run {run} begins ({command}) without {requirement:?}"));
            }
        }
        if book.closing.is_some_and(|closing| now > closing) {
            book.wrongs.push(format!("{name}: {what:?} of run {run} begins while the host stops"));
        }
    };
    *house.stage.onlooker.lock().unwrap() = Some(Box::new(look_on));
}

/// Writes each event down at the time at which it comes, and minds their numbers and what follows what.
pub fn follow(
    house: &House,
    book: Book,
    trace: Arc<Mutex<Vec<String>>>,
    begun: Instant,
) -> tokio::task::JoinHandle<()> {
    let (manager, fate, life) = (house.manager.clone(), Arc::clone(&house.stage.fate), house.stage.life);
    let life_begun = Instant::now();
    tokio::spawn(async move {
        let mut newest = manager.newest_event();
        loop {
            // Nobody receives the messages that a dead incarnation goes on sending to itself.
            if !fate.is_dead() {
                let mut book = book.lock().unwrap();
                let mut next = book.next();
                let batch = manager.events(next, 10_000);
                for event in batch.events {
                    if event.seq != next {
                        book.wrongs.push(format!("event {} follows {}", event.seq, next - 1));
                    }
                    next = event.seq + 1;
                    if life > 1 && Instant::now() <= life_begun + 5 * MS {
                        // Perhaps what the previous incarnation had not come to tell.
                        book.late.insert(event.seq);
                    }
                    trace.lock().unwrap().push(format!(
                        "{:>9.3}     {} run {} {}: {}",
                        begun.elapsed().as_secs_f64(),
                        event.service,
                        event.run,
                        event.state.name(),
                        event.message
                    ));
                    if !event.service.is_empty() {
                        let before = book.states.insert(Arc::clone(&event.service), event.state);
                        let before = before.unwrap_or(State::Initialized);
                        // A removed service may come back as another of its name.
                        let anew = before.at_rest() && event.run <= 1 && event.state != State::Stopping;
                        if !anew && !allowed(before, event.state) {
                            book.wrongs.push(format!("{before:?} is followed by {event:?}"));
                        }
                    }
                    book.events.push((Instant::now(), event));
                }
            }
            if newest.changed().await.is_err() {
                return;
            }
        }
    })
}
