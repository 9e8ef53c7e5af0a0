//! Who writes down what happens: each event with the time of the clock that stands still, and each wrong that only shows
//! at the instant at which it is done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kelson_services::Manager;
use kelson_services::model::{Event, Snapshot, State};
use kelson_spec::service::{Requirement, ServiceEvent, ServiceSpec};
use tokio::time::Instant;

use super::transitions::allowed;
use super::world::World;
use crate::house::{House, What};

#[derive(Default)]
pub struct Notes {
    pub events: Vec<(Instant, Event)>,
    pub wrongs: Vec<String>,
    /// When the host began to stop.
    pub closing: Option<Instant>,
}

pub type Book = Arc<Mutex<Notes>>;

/// Whether it holds by what is published now.
pub fn holds(requirement: &Requirement, look: &impl Fn(&str) -> Option<Snapshot>) -> bool {
    match requirement {
        Requirement::Service { name, event, .. } => look(name).is_some_and(|now| match event {
            ServiceEvent::Up => now.up,
            ServiceEvent::Running => {
                now.pid.is_some() && matches!(now.state, State::Starting | State::Running)
            }
            ServiceEvent::Finished => now.finished,
            ServiceEvent::Down => now.down,
        }),
        Requirement::Any(each) => each.iter().any(|one| holds(one, look)),
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
pub fn follow(manager: Manager, book: Book, trace: Arc<Mutex<Vec<String>>>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut newest = manager.newest_event();
        let (begun, mut next) = (Instant::now(), 1);
        let mut states: HashMap<Arc<str>, State> = HashMap::new();
        loop {
            {
                let batch = manager.events(next, 10_000);
                let mut book = book.lock().unwrap();
                for event in batch.events {
                    if event.seq != next {
                        book.wrongs.push(format!("event {} follows {}", event.seq, next - 1));
                    }
                    next = event.seq + 1;
                    trace.lock().unwrap().push(format!(
                        "{:>9.3}     {} run {} {}: {}",
                        begun.elapsed().as_secs_f64(),
                        event.service,
                        event.run,
                        event.state.name(),
                        event.message
                    ));
                    if !event.service.is_empty() {
                        let before = states.insert(Arc::clone(&event.service), event.state);
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
