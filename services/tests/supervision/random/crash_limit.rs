//! PID 1 crashes once too often: all services stop from their records alone, whatever was going on.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use kelson_runner::Exit;
use kelson_services::last_resort;
use kelson_services::state_store::Kind;
use kelson_spec::service::ServiceSpec;
use tokio::time::Instant;

use super::deeds::Reading;
use super::laws::{Laws, hurries};
use super::laws_of_lives::needs;
use super::witness::Book;
use super::world::World;
use crate::house::{Ruin, secs};

/// Longer than all stops of a sequence take one after the other.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Stops all services of a host whose PID 1 began at `origin` and has died, and returns what is wrong with that.
pub async fn stop(
    ruin: &Ruin,
    origin: Instant,
    laws: &mut Laws,
    book: &Book,
    world: &Mutex<World>,
) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut past = ruin.past();
    tokio::spawn(ruin.stage.clone().reap(past.store.clone()));
    laws.hurried |= past.events.iter().any(|(_, event)| hurries(event));
    let begun = Instant::now();
    laws.read(&ruin.stage, begun, book, &world.lock().unwrap(), &mut wrongs);
    let alive = |(name, reading): (&String, &Reading)| reading.living().map(|main| (name.clone(), main.run));
    let alive: Vec<(String, u64)> = laws.readings.iter().filter_map(alive).collect();
    let (specs, _) = past.specs();
    let next = |name: &String| past.paper(Kind::NextSpec, name).map(|next: ServiceSpec| (name.clone(), next));
    let next: BTreeMap<String, ServiceSpec> = specs.keys().filter_map(next).collect();
    let closing = book.lock().unwrap().closing.is_some();
    if closing && past.paper::<String>(Kind::Intent, "").is_none() {
        wrongs.push("how the host was to stop is forgotten".to_owned());
    }
    let stop = last_resort::stop(&mut past, &ruin.stage, begun - origin, begun + DEADLINE);
    if tokio::time::timeout(secs(600), stop).await.is_err() {
        wrongs.push("the stop of all services does not end".to_owned());
    }
    let world = &world.lock().unwrap();
    laws.read(&ruin.stage, begun, book, world, &mut wrongs);
    let hurried = laws.hurried;
    for (name, reading) in &mut laws.readings {
        if let Some(main) = reading.living() {
            wrongs.push(format!("{name} still runs: {main:?}"));
        }
        if let Err(wrong) = reading.ends(world, hurried) {
            wrongs.push(format!("{name}: {wrong}"));
        }
    }
    for (name, run) in alive {
        killed_in_turn(&name, run, &laws.readings[&name], &mut wrongs);
    }
    for name in laws.readings.keys() {
        signalled_in_order(name, &laws.readings, begun, world, &next, &mut wrongs);
    }
    wrongs
}

/// A run that lived has had its stop signal before it was killed.
fn killed_in_turn(name: &str, run: u64, reading: &Reading, wrongs: &mut Vec<String>) {
    let main = reading.mains.iter().rev().find(|main| main.run == run).unwrap();
    let killed = main.exit == Some(Exit::Signal { signal: libc::SIGKILL, core: false });
    if killed && !reading.signals.iter().any(|(_, signalled)| *signalled == run) {
        wrongs.push(format!("{name} is killed without its stop signal: {main:?}"));
    }
}

/// No service is signalled while one that needs it runs.
fn signalled_in_order(
    name: &str,
    readings: &BTreeMap<String, Reading>,
    begun: Instant,
    world: &World,
    next: &BTreeMap<String, ServiceSpec>,
    wrongs: &mut Vec<String>,
) {
    for (at, _) in readings[name].signals.iter().filter(|(at, _)| *at >= begun) {
        for (user, other) in readings.iter().filter(|(user, _)| *user != name) {
            let running =
                |main: &&super::deeds::Main| main.begun <= *at && main.ended.is_none_or(|ended| ended > *at);
            let Some(main) = other.mains.iter().rev().find(running) else { continue };
            let mut files = [Some(world.version(&main.command)), next.get(user)].into_iter().flatten();
            if files.any(|spec| spec.depends.iter().any(|requirement| needs(requirement, name))) {
                wrongs.push(format!(
                    "{name} is stopped at {at:?} while {user}, which needs it, runs: {main:?}"
                ));
            }
        }
    }
}
