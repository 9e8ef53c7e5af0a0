//! Laws over the incarnations of PID 1: no work that one of them began is lost, done twice or left to nobody.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_runner::Exit;
use kelson_services::model::{Event, Snapshot, State};
use kelson_spec::service::{Requirement, RestartPolicy, ServiceEvent, ServiceKind};
use tokio::time::Instant;

use super::acts::{Kind, Play};
use super::deeds::Reading;
use super::world::World;
use crate::house::{MS, secs};

/// The precision of times in messages.
const ROUNDED: Duration = Duration::from_millis(110);

#[derive(Default)]
pub struct LawsOfLives {
    /// So much was looked at.
    events: usize,
    mains: BTreeMap<String, usize>,
    signals: BTreeMap<String, usize>,
    /// Which ends of runs the policy has decided on.
    decided: BTreeMap<(String, u64), String>,
}

impl LawsOfLives {
    pub fn ask(
        &mut self,
        play: &Play,
        world: &World,
        list: &[Snapshot],
        readings: &BTreeMap<String, Reading>,
        hurried: bool,
        wrongs: &mut Vec<String>,
    ) {
        self.every_end_is_decided_once(play, readings, wrongs);
        for now in list {
            every_process_is_known(play, now, wrongs);
            self.what_has_succeeded_is_not_run_again(play, world, now, readings, wrongs);
        }
        what_was_told_is_what_is(play, list, wrongs);
        clocks_have_left_what_they_had_left(play, list, readings, wrongs);
        if !hurried {
            self.the_host_stops_in_order(play, world, readings, wrongs);
        }
    }

    /// V8: no exit status is lost, and none counts twice.
    fn every_end_is_decided_once(
        &mut self,
        play: &Play,
        readings: &BTreeMap<String, Reading>,
        wrongs: &mut Vec<String>,
    ) {
        let book = play.book.lock().unwrap();
        for (_, event) in &book.events[self.events..] {
            if event.message.contains("exit status was lost") {
                wrongs.push(format!("a status is lost: {event:?}"));
            }
            if event.message.starts_with("broken off") && event.message.contains("path ") {
                wrongs.push(format!("broken off for a path that exists: {event:?}"));
            }
            let ended = event.message.starts_with("exited with") || event.message.starts_with("killed by");
            if event.state != State::Backoff || !ended {
                continue;
            }
            let main = readings[&*event.service].mains.iter().rev().find(|main| main.run == event.run);
            let how = main.and_then(|main| main.exit).map(words_of).unwrap_or_default();
            if !event.message.starts_with(&how) {
                wrongs.push(format!("it {how}: {event:?}"));
            }
            let key = (event.service.to_string(), event.run);
            if let Some(before) = self.decided.insert(key, event.message.to_string())
                // A service whose file went and came back counts from the beginning.
                && event.run > 1
                && before != *event.message
            {
                wrongs.push(format!("its end was decided on before ({before}): {event:?}"));
            }
        }
        self.events = book.events.len();
    }

    /// V5: one that has ended successfully is not run again, unless somebody asks.
    fn what_has_succeeded_is_not_run_again(
        &mut self,
        play: &Play,
        world: &World,
        now: &Snapshot,
        readings: &BTreeMap<String, Reading>,
        wrongs: &mut Vec<String>,
    ) {
        let mains = &readings[&*now.name].mains;
        let seen = self.mains.entry(now.name.to_string()).or_default();
        for pair in mains.windows(2).skip(seen.saturating_sub(1)) {
            let [before, again] = pair else { continue };
            let spec = world.version(&before.command);
            let ends = spec.kind == ServiceKind::Oneshot && spec.restart.policy != RestartPolicy::Forever;
            if !ends || before.exit != Some(Exit::Status(0)) || spec.group.is_some() {
                continue;
            }
            let requests = play.requests.lock().unwrap();
            let asked = requests.iter().any(|request| {
                *request.name == *now.name
                    && matches!(request.kind, Kind::Start | Kind::Restart | Kind::Added)
                    && request.asked <= again.begun
                    && request.asked + MS >= before.begun
            });
            // Told to restart with one that it needs.
            let bound = spec.depends.iter().any(|requirement| {
                matches!(
                    requirement,
                    Requirement::Service { when_down: kelson_spec::service::WhenDown::Restart, .. }
                )
            });
            if !asked && !bound {
                wrongs.push(format!("{}: it had succeeded, and is run again: {pair:?}", now.name));
            }
        }
        *seen = mains.len();
    }

    /// S1: services that others need outlive them, in whichever life each is stopped.
    fn the_host_stops_in_order(
        &mut self,
        play: &Play,
        world: &World,
        readings: &BTreeMap<String, Reading>,
        wrongs: &mut Vec<String>,
    ) {
        let book = play.book.lock().unwrap();
        let Some(closing) = book.closing else { return };
        for (name, reading) in readings {
            let seen = self.signals.entry(name.clone()).or_default();
            for (at, run) in &reading.signals[*seen..] {
                let stops = |event: &Event| event.message.contains("the host is stopping");
                // The first reason of its stop: that the host stops as well is reported later.
                let told = book.events.iter().find(|(_, event)| {
                    *event.service == **name && event.run == *run && event.state == State::Stopping
                });
                // A hook before its process is broken off at once: nobody has that process yet.
                let hook = !reading.mains.iter().any(|main| main.run == *run);
                if *at < closing || hook || !told.is_some_and(|(_, event)| stops(event)) {
                    continue;
                }
                for (user, other) in readings {
                    let Some(main) = other.mains.iter().rev().find(|main| main.begun <= *at) else {
                        continue;
                    };
                    let lives = main.ended.is_none_or(|ended| ended > *at);
                    // The file that it runs with orders the stop, and so does a file that was read and is
                    // still to be taken up. One that was written but not read does not, and what an earlier
                    // incarnation had read is gone.
                    let known = play.house.manager.spec(user).filter(|_| *at >= play.life_begun);
                    let needs = [Some(world.version(&main.command)), known.as_deref()]
                        .into_iter()
                        .flatten()
                        .any(|spec| spec.depends.iter().any(|requirement| needs(requirement, name)));
                    if lives && needs && user != name {
                        wrongs.push(format!(
                            "{name} is stopped at {at:?} while {user}, which needs it, runs: {main:?}"
                        ));
                    }
                }
            }
            *seen = reading.signals.len();
        }
    }
}

/// Alternatives may form a circle, in which there is no order.
pub fn needs(requirement: &Requirement, name: &str) -> bool {
    matches!(requirement, Requirement::Service { name: other, event, .. } if other == name && *event != ServiceEvent::Down)
}

fn words_of(exit: Exit) -> String {
    kelson_services::service_runner::words::exit(exit)
}

/// V7: no process runs of a service that does not know it.
fn every_process_is_known(play: &Play, now: &Snapshot, wrongs: &mut Vec<String>) {
    let played = play.house.stage.of(&now.name);
    let Some((run, pid)) = played.lock().unwrap().main() else { return };
    let known = match now.state {
        State::Starting | State::Running => now.run == run && now.pid.is_none_or(|known| known == pid),
        State::Stopping => now.pid.is_none_or(|known| known == pid),
        // The start of it was given up, and is being cleared away.
        _ => false,
    };
    if !known {
        wrongs.push(format!("run {run} with PID {pid} is nobody's: {now:?}"));
    }
}

/// The last reported state of a service is the state that it has.
fn what_was_told_is_what_is(play: &Play, list: &[Snapshot], wrongs: &mut Vec<String>) {
    let book = play.book.lock().unwrap();
    for now in list.iter().filter(|now| now.state != State::Initialized) {
        let told = book.events.iter().rev().find(|(_, event)| event.service == now.name);
        if told.is_none_or(|(_, event)| (event.state, event.run) != (now.state, now.run)) {
            wrongs.push(format!("{told:?} was told last of {now:?}"));
        }
    }
}

/// The pause that a text tells of: `…, restarting in 1.2 s …`.
fn pause(message: &str) -> Option<Duration> {
    let (_, rest) = message.split_once("restarting in ")?;
    let mut words = rest.split([' ', ',', ';']);
    let number: f64 = words.next()?.parse().ok()?;
    match words.next()? {
        "ms" => Some(Duration::from_secs_f64(number / 1000.0)),
        "s" => Some(Duration::from_secs_f64(number)),
        _ => None,
    }
}

/// Backoff and `startTimeout`: neither starts again with a life, nor ends with it.
fn clocks_have_left_what_they_had_left(
    play: &Play,
    list: &[Snapshot],
    readings: &BTreeMap<String, Reading>,
    wrongs: &mut Vec<String>,
) {
    let book = play.book.lock().unwrap();
    let at = Instant::now();
    for now in list {
        let last = book
            .events
            .iter()
            .rev()
            .find(|(_, event)| event.service == now.name && event.state == State::Backoff);
        if let Some((told, event)) = last
            && !book.late.contains(&event.seq)
            && let Some(pause) = pause(&event.message)
        {
            if now.state == State::Backoff && at > *told + pause + ROUNDED && at > play.life_begun + 20 * MS {
                wrongs.push(format!("its pause is over: {now:?}"));
            }
            let next =
                readings[&*now.name].mains.iter().find(|main| main.begun >= *told && main.run > event.run);
            let asked = play.requests.lock().unwrap().iter().any(|request| {
                *request.name == *now.name && request.asked >= *told && request.kind != Kind::Stop
            });
            let starts = next.is_some_and(|main| main.begun + ROUNDED < *told + pause);
            if starts && !asked && now.group.is_none() {
                wrongs.push(format!("it starts before its pause is over: {event:?}, {next:?}"));
            }
        }
        let gave_up = book.events.iter().rev().find(|(told, event)| {
            event.service == now.name
                && *told > at - secs(60)
                && event.message.starts_with("not ready after 15 s")
        });
        let main = gave_up.and_then(|(told, event)| {
            // A service whose file went and came back counts its runs from the beginning.
            let of_it = |main: &&super::deeds::Main| main.run == event.run && main.begun <= *told;
            let main = readings[&*now.name].mains.iter().rev().find(of_it)?;
            (*told < main.begun + secs(15)).then_some(main)
        });
        if let Some(main) = main {
            wrongs.push(format!("its startTimeout was over too soon: {gave_up:?}, {main:?}"));
        }
        let Some(main) = readings[&*now.name].living().filter(|_| now.state == State::Starting) else {
            continue;
        };
        let known = main.known.map(|known| known.max(main.begun));
        let late =
            known.is_some_and(|known| at > known + secs(15) + 20 * MS && at > play.life_begun + 20 * MS);
        if late && now.pid.is_some() && !play.extended.lock().unwrap().contains(&*now.name) {
            wrongs.push(format!("its startTimeout is over: {now:?}"));
        }
    }
}
