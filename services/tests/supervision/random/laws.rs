//! Laws that must hold at every moment at which nothing is left to be done.

use std::collections::{BTreeMap, HashSet};

use kelson_services::manager::Outcome;
use kelson_services::model::{CheckReport, Event, Snapshot, Standing, State};
use kelson_services::state_store;
use kelson_spec::service::{Probe, Requirement, ServiceEvent, ServiceKind, ServiceSpec, WhenDown};
use tokio::time::Instant;

use super::acts::{Kind, Play};
use super::deeds::Reading;
use super::laws_of_files::LawsOfFiles;
use super::laws_of_health::LawsOfHealth;
use super::laws_of_lives::LawsOfLives;
use super::witness::Book;
use super::world::World;
use crate::house::{MS, Stage};

/// The state at the last look, and how far the record of each service has been read.
#[derive(Default)]
pub struct Laws {
    before: BTreeMap<String, Snapshot>,
    requests: usize,
    pub readings: BTreeMap<String, Reading>,
    mains: BTreeMap<String, usize>,
    commands: BTreeMap<String, usize>,
    lives: LawsOfLives,
    health: LawsOfHealth,
    files: LawsOfFiles,
    /// When each incarnation of PID 1 began, also of those that died before anything was read.
    pub begins: Vec<Instant>,
    pub hurried: bool,
}

impl Laws {
    /// All that is wrong now.
    pub async fn ask(&mut self, play: &Play) -> Vec<String> {
        let manager = &play.house.manager;
        let mut reports: BTreeMap<String, Vec<CheckReport>> = BTreeMap::new();
        for now in manager.list().iter().filter(|now| now.pid.is_some()) {
            reports.insert(now.name.to_string(), manager.checks(&now.name).await);
        }
        let mut wrongs = std::mem::take(&mut play.book.lock().unwrap().wrongs);
        let list = manager.list();
        let world = play.world.lock().unwrap();
        self.read(&play.house.stage, play.life_begun, &play.book, &world, &mut wrongs);
        let closing = play.book.lock().unwrap().closing.is_some();
        for now in &list {
            let mut wrong = |text: String| wrongs.push(format!("{text}: {now:?}"));
            agrees_with_itself(now, &mut wrong);
            self.agrees_with_its_run(play, &world, now, &mut wrong);
            if let Some(reports) = reports.get(&*now.name) {
                agrees_with_its_checks(now, reports, &mut wrong);
            }
            if !closing && now.state == State::Waiting {
                waits_for_what_is_missing(play, &world, now, &mut wrong);
            }
            self.agrees_with_before(play, now, &mut wrong);
        }
        self.lives.ask(play, &world, &list, &self.readings, self.hurried, &mut wrongs);
        self.health.ask(play, &world, &list, &mut wrongs);
        self.files.ask(play, &self.readings, &mut wrongs);
        self.bonds_are_kept(&world, &list, &mut wrongs);
        self.stops_are_kept(play, &mut wrongs);
        is_remembered(play, &list, &mut wrongs);
        self.before = list.into_iter().map(|now| (now.name.to_string(), now)).collect();
        self.requests = play.requests.lock().unwrap().len();
        wrongs
    }

    /// Reads the operations since the last look. `life_begun`: when this incarnation of PID 1 began.
    pub fn read(
        &mut self,
        stage: &Stage,
        life_begun: Instant,
        book: &Book,
        world: &World,
        wrongs: &mut Vec<String>,
    ) {
        for name in world.names() {
            let hurried = self.hurried;
            let reading = self.readings.entry(name.clone()).or_default();
            let played = stage.of(&name);
            let played = played.lock().unwrap();
            let mut found = Vec::new();
            let (signals, kills) = (reading.signals.len(), reading.kills.len());
            reading.read(&played.deeds, world, hurried, &mut found);
            found.extend(played.wrongs.iter().cloned());
            let begun = played.commands.begun();
            for (at, text) in &begun[self.commands.get(&name).copied().unwrap_or_default()..] {
                let (run, command) = text.split_once(": ").unwrap();
                let number: u64 = run.trim_start_matches("run ").parse().unwrap();
                let main = reading.mains.iter().rev().find(|main| main.run == number);
                // An end while nobody was there is not known before it is reaped.
                let unseen = |ended| ended <= life_begun && *at <= life_begun + 5 * MS;
                let alive = main.is_some_and(|main| {
                    main.begun <= *at
                        && main
                            .ended
                            .is_none_or(|ended| *at <= ended || Some(*at) <= main.known || unseen(ended))
                });
                if !alive {
                    found.push(format!("{command} of run {number} begins while that does not live"));
                }
                let since = main.map(|main| main.begun);
                let times = begun.iter().filter(|(at, said)| Some(*at) >= since && said == text).count();
                // Those that were cut off are run again, but for postStart.
                let most = if command.contains(" preStop") { stage.life } else { 1 };
                let counts = command.contains(" postStart") || command.contains(" preStop");
                if counts && times > usize::try_from(most).unwrap() {
                    found.push(format!("{command} of run {number} begins {times} times"));
                }
                let spec = world.version(command);
                let startup = spec.health.iter().filter(|check| check.startup);
                let is = |check: &kelson_spec::service::Check| command.ends_with(&check.name);
                let mut all = spec.health.iter().chain(spec.registration_checks());
                if all.any(|check| !check.startup && is(check)) {
                    for check in startup.filter(|check| !is(check)) {
                        let passed = played.commands.ended().iter().any(|said| {
                            said.run == number && said.passed && said.command.ends_with(&check.name)
                        });
                        if !passed {
                            found.push(format!("{command} of run {number} begins before {}", check.name));
                        }
                    }
                }
            }
            self.commands.insert(name.clone(), begun.len());
            for (at, run) in &reading.signals[signals..] {
                let main = reading.mains.iter().rev().find(|main| main.run == *run).unwrap();
                // A start that was given up: its program may run, and nobody knew yet that it does.
                let known = main.known.is_some_and(|known| known <= *at);
                for hook in world.version(&main.command).hooks.pre_stop.iter().filter(|_| known) {
                    let text = format!("run {run}: {}", hook.command.join(" "));
                    let before = begun.iter().any(|(begun, said)| *said == text && begun <= at);
                    if !before && !hurried {
                        found.push(format!("run {run} is signalled before {}", hook.command.join(" ")));
                    }
                }
                let book = book.lock().unwrap();
                let told = book.events.iter().rev().find(|(when, event)| {
                    *event.service == *name
                        && event.run == *run
                        && when <= at
                        && event.message.ends_with("its stop signal comes in 2 s")
                });
                let soon = |when, event: &kelson_services::model::Event| {
                    *at < when + 2000 * MS && !book.late.contains(&event.seq)
                };
                if told.is_some_and(|(when, event)| soon(*when, event)) && !hurried {
                    found.push(format!("run {run} is signalled before its delay is over"));
                }
            }
            for (at, run) in &reading.kills[kills..] {
                let main = reading.mains.iter().rev().find(|main| main.run == *run).unwrap();
                let timeout = world.version(&main.command).stop.timeout;
                let signalled = reading.signals.iter().find(|(_, signalled)| signalled == run);
                // Where PID 1 died between the record of a stop and its signal, the time counts from the record.
                let late = |when: Instant| {
                    self.begins.iter().any(|begun| (*begun..=*begun + 5 * MS).contains(&when))
                };
                if signalled.is_some_and(|(when, _)| *at < *when + timeout && !late(*when)) && !hurried {
                    found.push(format!("run {run} is killed before its stop timeout is over"));
                }
            }
            wrongs.extend(found.into_iter().map(|wrong| format!("{name}: {wrong}")));
        }
    }

    fn agrees_with_its_run(
        &self,
        play: &Play,
        world: &World,
        now: &Snapshot,
        wrong: &mut impl FnMut(String),
    ) {
        let reading = &self.readings[&*now.name];
        let played = play.house.stage.of(&now.name);
        let played = played.lock().unwrap();
        let living = reading.living();
        if now.pid.is_some() && living.is_none_or(|main| main.run != now.run) {
            wrong("has a PID and does not live".into());
        }
        if now.state.at_rest() && (played.opened || played.lives()) {
            wrong("rests and was not cleaned up".into());
        }
        if now.up && !now.oneshot {
            match living {
                None => wrong("is up and does not live".into()),
                Some(main) => {
                    let spec = world.version(&main.command);
                    let registered = spec.registration_checks().iter().filter(|_| now.withheld.is_none());
                    let decisive = spec.health.iter().map(|check| ("up", check));
                    for (is, check) in decisive.chain(registered.map(|check| ("registered", check))) {
                        let Probe::Exec { command } = &check.probe else { continue };
                        let command = command.join(" ");
                        let ended = played.commands.ended();
                        let said = ended.iter().filter(|said| said.run == now.run && said.command == command);
                        let (passed, lives): (Vec<bool>, Vec<u32>) =
                            said.map(|said| (said.passed, said.life)).unzip();
                        let threshold = usize::try_from(check.success_threshold).unwrap();
                        if !passed.windows(threshold).any(|some| some.iter().all(|passed| *passed)) {
                            wrong(format!("is {is} and {command} has not passed in this run"));
                        }
                        let newest = passed.iter().zip(&lives).rev().take_while(|(passed, _)| !**passed);
                        // The last that an earlier incarnation heard of it may have been its own last.
                        let heard: Vec<u32> = newest.map(|(_, life)| *life).collect();
                        let deaths = heard.windows(2).filter(|pair| pair[0] != pair[1]).count();
                        let unsure = deaths
                            + usize::from(heard.first().is_some_and(|life| *life != play.house.stage.life));
                        let failed = heard.len().saturating_sub(unsure);
                        if failed >= usize::try_from(check.failure_threshold).unwrap() {
                            wrong(format!("is {is} and {command} fails"));
                        }
                    }
                }
            }
        }
    }

    /// Checks the changes from one look to the next.
    fn agrees_with_before(&self, play: &Play, now: &Snapshot, wrong: &mut impl FnMut(String)) {
        let Some(before) = self.before.get(&*now.name) else { return };
        let requests = play.requests.lock().unwrap();
        let new = requests[self.requests..].iter().filter(|request| request.name == *now.name);
        let asked: HashSet<&str> = new
            .map(|request| match request.kind {
                Kind::Start | Kind::Restart => "start",
                Kind::Stop | Kind::Cascade => "stop",
                Kind::Added => "added",
            })
            .collect();
        if asked.contains("added") || now.run < before.run {
            return;
        }
        // Its group begins with all that nobody else has stopped.
        let with_group = play.book.lock().unwrap().events.iter().rev().any(|(_, event)| {
            *event.service == *now.name
                && event.run == before.run
                && event.message.starts_with("starts again with its group")
        });
        let by_dependency = before.message.starts_with("stopped: service \"") && !with_group;
        let stays = before.state == State::Stopped && (before.stopped || by_dependency);
        if stays && now.run > before.run && !asked.contains("start") {
            wrong(format!("was stopped and is started though nobody asked ({})", before.message));
        }
        let counted = |one: &Snapshot| -> i64 {
            one.restarts_by
                .iter()
                .filter(|(reason, _)| reason.counts())
                .map(|(_, count)| i64::from(count))
                .sum()
        };
        let more = i64::from(now.restarts) - i64::from(before.restarts);
        let more_counted = counted(now) - counted(before);
        if more_counted < 0 {
            // Another of its name, whose file came back.
            return;
        }
        if more != more_counted && !asked.contains("start") {
            wrong(format!("{more} restarts more, {more_counted} counted reasons more"));
        }
    }

    /// `whenDown`: none runs on that is to be stopped with one that is down.
    fn bonds_are_kept(&self, world: &World, list: &[Snapshot], wrongs: &mut Vec<String>) {
        for now in list.iter().filter(|now| matches!(now.state, State::Starting | State::Running)) {
            let Some(main) = self.readings[&*now.name].living() else { continue };
            for requirement in &world.version(&main.command).depends {
                let Requirement::Service { name, when_down, .. } = requirement else { continue };
                if *when_down == WhenDown::Ignore || now.pid.is_none() {
                    continue;
                }
                let Some(other) = list.iter().find(|other| *other.name == **name) else {
                    wrongs.push(format!("{name} was removed: {now:?}"));
                    continue;
                };
                let reading = &self.readings[name];
                let down = match other.oneshot {
                    true => other.state.at_rest() && !other.finished,
                    false => {
                        // One that ended at the very instant may have been started again before this one was.
                        let ended = |it: &super::deeds::Main| it.ended.is_some_and(|at| at > main.begun);
                        reading.mains.iter().rev().take(4).any(ended)
                            || !matches!(other.state, State::Starting | State::Running)
                    }
                };
                if down {
                    wrongs.push(format!("{} runs on: {now:?}; {other:?}", now.name));
                }
            }
        }
    }

    /// No run begins after a stop that was answered, until somebody asks for a start.
    fn stops_are_kept(&mut self, play: &Play, wrongs: &mut Vec<String>) {
        let requests = play.requests.lock().unwrap();
        for (name, reading) in &self.readings {
            let seen = self.mains.entry(name.clone()).or_default();
            for main in &reading.mains[*seen..] {
                let of_it = requests.iter().enumerate().filter(|(_, request)| request.name == *name);
                let mut asked = None;
                let mut stopped = None;
                for (number, request) in of_it {
                    match (request.kind, &request.answer) {
                        (Kind::Start | Kind::Restart | Kind::Added, _) if request.asked <= main.begun => {
                            asked = Some(number);
                        }
                        // One that was on its way out is another than that whose file is back.
                        (_, Some((_, _, text))) if text.contains("its file was removed") => {}
                        // One that is answered is remembered.
                        (Kind::Stop | Kind::Cascade, Some((at, Outcome::Done, _)))
                            if (request.waits || request.kind == Kind::Stop) && *at < main.begun =>
                        {
                            stopped = Some(number);
                        }
                        _ => {}
                    }
                }
                if let Some(number) = stopped.filter(|number| Some(*number) > asked) {
                    let stop = &requests[number];
                    wrongs.push(format!("{name}: run {} begins after a stop: {stop:?}", main.run));
                }
            }
            *seen = reading.mains.len();
        }
    }
}

fn agrees_with_itself(now: &Snapshot, wrong: &mut impl FnMut(String)) {
    let rests = now.state.at_rest();
    let mut must = |holds: bool, text: &str| {
        if !holds {
            wrong(text.to_owned());
        }
    };
    must(!(now.up && now.down), "up and down");
    must(!now.up || now.oneshot || (now.state == State::Running && now.pid.is_some()), "up without a run");
    must(!now.oneshot || now.up == now.finished, "a one-shot is up once it has finished");
    must(!now.finished || (now.state == State::Finished && !now.stopped), "finished and not at its end");
    must(!now.stopped || now.state == State::Stopped, "stopped and not at rest");
    must(!now.down || (rests && !(now.oneshot && now.finished)), "down and not at its end");
    let ended = matches!(now.state, State::Failed | State::Skipped | State::Finished | State::Stopped);
    must(
        !(ended && now.group.is_none()) || now.down || (now.oneshot && now.finished),
        "at its end and not down",
    );
    must(!rests || now.pid.is_none(), "rests with a PID");
    must(
        now.pid.is_none() || matches!(now.state, State::Starting | State::Running | State::Stopping),
        "a PID in a wrong state",
    );
    must(now.state == State::Waiting || now.missing.is_empty(), "waits for something in a wrong state");
    must(now.healthy.is_none() || now.pid.is_some(), "healthy without a run");
}

fn agrees_with_its_checks(now: &Snapshot, reports: &[CheckReport], wrong: &mut impl FnMut(String)) {
    let (of_registration, reports): (Vec<&CheckReport>, Vec<&CheckReport>) =
        reports.iter().partition(|report| report.registration);
    let is_passing = |report: &&CheckReport| report.standing == Standing::Passing;
    if now.up && now.withheld.is_some() == of_registration.iter().all(is_passing) {
        wrong(format!("is to be registered only while these checks pass: {of_registration:?}"));
    }
    let stands = |standing| reports.iter().filter(|report| report.standing == standing).count();
    let (passing, failing) = (stands(Standing::Passing), stands(Standing::Failing));
    if now.up && passing < reports.len() {
        wrong(format!("is up and not all its checks pass: {reports:?}"));
    }
    if now.state != State::Running || reports.is_empty() {
        return;
    }
    let healthy = match (failing, passing == reports.len()) {
        (0, true) => Some(true),
        (0, false) => None,
        _ => Some(false),
    };
    if now.healthy != healthy {
        wrong(format!("its health should be {healthy:?}: {reports:?}"));
    }
}

fn event_text(name: &str, event: ServiceEvent, other: Option<&Snapshot>) -> Option<String> {
    let text = match event {
        ServiceEvent::Up => format!("service \"{name}\" to be up"),
        ServiceEvent::Running => format!("service \"{name}\" to be running"),
        ServiceEvent::Finished => format!("service \"{name}\" to have finished"),
        ServiceEvent::Down => format!("service \"{name}\" to be down"),
        ServiceEvent::Settled => format!("service \"{name}\" to be up or down"),
    };
    if other.is_none() && event == ServiceEvent::Settled {
        return None;
    }
    let Some(now) = other else { return Some(format!("{text} (there is no such service)")) };
    let look = |_: &str| Some(now.clone());
    if super::witness::holds(&Requirement::service(name, event), &look) {
        return None;
    }
    Some(match now.state {
        State::Failed => format!("{text} (it failed: {})", now.message),
        State::Skipped => format!("{text} (it was skipped)"),
        State::Stopped if now.down => format!("{text} (it was stopped)"),
        State::Initialized if now.down => format!("{text} (nothing starts it; its start is manual)"),
        _ => text,
    })
}

fn missing(play: &Play, spec: &ServiceSpec) -> Vec<String> {
    let text = |requirement: &Requirement| match requirement {
        Requirement::Service { name, event, .. } => {
            event_text(name, *event, play.house.manager.get(name).as_ref())
        }
        Requirement::Any(each) => {
            let texts: Option<Vec<String>> = each
                .iter()
                .map(|one| match one {
                    Requirement::Service { name, event, .. } => {
                        event_text(name, *event, play.house.manager.get(name).as_ref())
                    }
                    _ => None,
                })
                .collect();
            texts.map(|texts| texts.join(" or "))
        }
        _ => None,
    };
    spec.depends.iter().filter_map(text).collect()
}

/// Each text is true, and nothing is missing from it.
fn waits_for_what_is_missing(play: &Play, world: &World, now: &Snapshot, wrong: &mut impl FnMut(String)) {
    if now.missing.is_empty() && now.message.contains("asking whether its `when` holds") {
        return;
    }
    // Which of its files it was started with is not told while files are being read.
    let versions = &world.versions[&*now.name];
    let sure = !now.changed && play.reloads.iter().all(|reload| reload.is_finished());
    let candidates = if sure { &versions[versions.len() - 1..] } else { &versions[..] };
    if !candidates.iter().any(|spec| missing(play, spec) == now.waiting_for()) {
        let last = candidates.last().map(|spec| missing(play, spec));
        wrong(format!("it should wait for {last:?}"));
    }
}

fn is_remembered(play: &Play, list: &[Snapshot], wrongs: &mut Vec<String>) {
    let recovered = state_store::read(&play.house.directory, &play.house.life).unwrap();
    wrongs.extend(recovered.doubts);
    for now in list {
        let Some(record) = recovered.records.iter().find(|record| record.name == *now.name) else {
            // Nothing has happened to it yet.
            if now.run > 0 {
                wrongs.push(format!("nothing is remembered of {now:?}"));
            }
            continue;
        };
        let opened = play.house.played(&now.name, |played| played.opened);
        let agrees = (record.service.state(), record.service.run) == (now.state, now.run)
            // That a process is gone is remembered first.
            && (record.service.pid().is_none() || record.service.pid() == now.pid)
            && (record.service.finished(), record.service.restarts) == (now.finished, now.restarts)
            && (record.service.has_opened() || !opened)
            && (!record.service.has_opened() || !now.state.at_rest())
            && (record.service.stopped() || !now.stopped);
        if !agrees {
            wrongs.push(format!("{record:?} is remembered of {now:?}"));
        }
    }
}

/// The host has stopped all that was left at once.
pub fn hurries(event: &Event) -> bool {
    event.message.starts_with("the total deadline of")
}

/// Whether a one-shot or a service is where it may stay for ever.
pub fn may_stay(now: &Snapshot, spec: &ServiceSpec) -> bool {
    match now.state {
        State::Finished
        | State::Failed
        | State::Skipped
        | State::Stopped
        | State::Initialized
        | State::Waiting => true,
        State::Running => now.up || spec.kind == ServiceKind::Oneshot,
        State::Starting | State::Preparing | State::Stopping | State::Backoff => false,
    }
}
