//! Requests, exits, results of checks and messages in any order, over services that need each other in any way.
//!
//! A sequence is drawn from a seed: `world` draws the services, `acts` what happens to them. Whenever nothing is left to be
//! done at an instant, `laws` are asked; `witness` sees what shows only in the middle of things. A failure tells its seed,
//! and `KELSON_SEED=N` plays that one alone.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kelson_services::model::State;
use kelson_spec::service::Readiness;
use tokio::time::Instant;

use crate::house::*;
use acts::{Kind, Play};
use dice::Dice;
use laws::Laws;
use world::World;

mod acts;
mod deeds;
mod dice;
mod laws;
mod transitions;
mod witness;
mod world;

type Trace = Arc<Mutex<Vec<String>>>;

/// Of a failure so much is told.
const TOLD: usize = 60;

async fn sequence(seed: u64, trace: Trace) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let house = House::new();
    let onlooker = Arc::clone(&house.stage.onlooker);
    let result = played(&mut dice, house, trace).await;
    // It holds what holds it.
    *onlooker.lock().unwrap() = None;
    result
}

async fn played(dice: &mut Dice, house: House, trace: Trace) -> Result<(), String> {
    let world = World::draw(dice);
    for name in world.names() {
        let told = world::behave(dice, &house, &name);
        trace.lock().unwrap().push(format!("{}\n    {told}", world::brief(world.newest(&name))));
        if dice.one_in(3) {
            trace.lock().unwrap().push(world::change_command(dice, &world, &house, &name));
        }
    }
    let files = world.files();
    let world = Arc::new(Mutex::new(world));
    let book = witness::Book::default();
    witness::look_on(&house, &world, &book);
    let begun = Instant::now();
    let mut play = Play {
        house,
        world,
        book,
        requests: Arc::default(),
        reloads: Vec::new(),
        reading: Arc::default(),
        others: Vec::new(),
        begun,
        trace,
    };
    let follower =
        witness::follow(play.house.manager.clone(), Arc::clone(&play.book), Arc::clone(&play.trace));
    play.house.manager.take_in(loaded(files));
    play.house.manager.begin();
    let mut laws = Laws::default();
    for _ in 0..25 {
        if dice.roll(3) > 0 {
            play.quiet().await;
            must_hold(&mut laws, &play).await?;
        }
        play.act(dice).await;
    }
    if dice.one_in(2) {
        come_to_rest(&mut laws, &mut play).await?;
    }
    shut_down(dice, &mut laws, &mut play).await?;
    play.house.manager.close_events();
    tokio::time::timeout(secs(10), follower).await.map_err(|_| "the stream of events does not end")?.unwrap();
    must_hold(&mut laws, &play).await
}

async fn must_hold(laws: &mut Laws, play: &Play) -> Result<(), String> {
    let wrongs = laws.ask(play).await;
    if wrongs.is_empty() { Ok(()) } else { Err(wrongs.join("\n")) }
}

/// Nothing fails any more: then each service comes to a state in which it may stay.
async fn come_to_rest(laws: &mut Laws, play: &mut Play) -> Result<(), String> {
    play.tell("all goes well from now on".into());
    world::heal(&play.world.lock().unwrap(), &play.house);
    for _ in 0..40 {
        tokio::time::sleep(secs(10)).await;
        for now in play.house.manager.list() {
            let notify = play.world.lock().unwrap().versions[&*now.name]
                .iter()
                .any(|spec| spec.readiness == Readiness::Notify);
            if notify && matches!(now.state, State::Starting | State::Running) {
                let socket = play.house.directory.join("notify").join(&*now.name);
                // One that does not run has none.
                let _ = play.house.sent.send_to(b"READY=1", socket);
            }
        }
    }
    play.quiet().await;
    must_hold(laws, play).await?;
    for now in play.house.manager.list() {
        if !laws::may_stay(&now, play.world.lock().unwrap().newest(&now.name)) {
            return Err(format!("it does not come to rest: {now:?}"));
        }
    }
    // An operator's stop of all of them.
    let names = play.world.lock().unwrap().names();
    for name in names {
        play.ask(&name, Kind::Cascade, true);
    }
    tokio::time::sleep(secs(100)).await;
    play.quiet().await;
    must_hold(laws, play).await?;
    let moving: Vec<_> = play.house.manager.list().into_iter().filter(|now| !now.state.at_rest()).collect();
    if moving.is_empty() { Ok(()) } else { Err(format!("stopped, and not at rest: {moving:?}")) }
}

async fn shut_down(dice: &mut Dice, laws: &mut Laws, play: &mut Play) -> Result<(), String> {
    let patience = secs(dice.pick(&[0, 1, 5, 60, 60, 60]));
    play.tell(format!("the host stops within {patience:?}"));
    let (manager, at) = (play.house.manager.clone(), Instant::now());
    play.book.lock().unwrap().closing = Some(at);
    let stopping = tokio::spawn(async move { manager.stop_all(at + patience, &[]).await });
    for _ in 0..dice.roll(6) {
        play.act(dice).await;
    }
    let summary = tokio::time::timeout(secs(200), stopping).await;
    let summary = summary.map_err(|_| "the stop of all does not end")?.unwrap();
    laws.hurried = !summary.killed.is_empty();
    if !summary.given_up.is_empty() {
        return Err(format!("{summary:?}"));
    }
    if patience == secs(60) && !summary.killed.is_empty() {
        return Err(format!("within {patience:?} {:?} did not end", summary.killed));
    }
    tokio::time::sleep(secs(60)).await;
    play.quiet().await;
    must_hold(laws, play).await?;
    if let Some(moving) = play.house.manager.list().iter().find(|now| !now.state.at_rest()) {
        return Err(format!("the host has stopped, and this has not: {moving:?}"));
    }
    if let Some(open) =
        play.requests.lock().unwrap().iter().find(|one| one.answer.is_none() && one.kind != Kind::Added)
    {
        return Err(format!("it is never answered: {open:?}"));
    }
    for (what, tasks) in [("a reload", &mut play.reloads), ("a wait", &mut play.others)] {
        for task in tasks {
            tokio::time::timeout(secs(1), task).await.map_err(|_| format!("{what} does not end"))?.unwrap();
        }
    }
    Ok(())
}

/// Plays one sequence from its beginning.
fn play(seed: u64) {
    let trace: Trace = Arc::default();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    let runtime = builder.build().unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(sequence(seed, Arc::clone(&trace)))));
    if matches!(result, Ok(Ok(()))) {
        return;
    }
    let trace = trace.lock().unwrap();
    let whole = std::env::var_os("KELSON_SEED").is_some();
    let skip = if whole { 0 } else { trace.len().saturating_sub(TOLD) };
    eprintln!("seed {seed}, at the end of\n{}", trace[skip..].join("\n"));
    match result {
        Ok(Ok(())) => {}
        Ok(Err(wrong)) => panic!("seed {seed} (KELSON_SEED={seed} plays it alone): {wrong}"),
        Err(panicked) => resume_unwind(panicked),
    }
}

fn play_all(seeds: std::ops::RangeInclusive<u64>) {
    if let Ok(seed) = std::env::var("KELSON_SEED") {
        let seed = seed.parse().unwrap();
        (0..REPEATED).for_each(|_| play(seed));
        return;
    }
    let next = AtomicU64::new(*seeds.start());
    // The first failure is enough.
    let failed = AtomicBool::new(false);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > *seeds.end() || failed.load(Ordering::Relaxed) {
                        return;
                    }
                    if let Err(panicked) = catch_unwind(|| play(seed)) {
                        failed.store(true, Ordering::Relaxed);
                        resume_unwind(panicked);
                    }
                }
            });
        }
    });
}

/// What is ready at the same instant goes in an order that only a build with `tokio_unstable` draws from the seed.
const REPEATED: u32 = if cfg!(tokio_unstable) { 1 } else { 200 };

#[test]
fn no_order_of_requests_breaks_what_must_hold() {
    play_all(1..=500);
}

#[test]
fn long_no_order_of_requests_breaks_what_must_hold() {
    play_all(1..=100_000);
}
