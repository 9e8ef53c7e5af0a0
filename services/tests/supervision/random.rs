//! Requests, exits, results of checks and messages in any order, over services that need each other in any way.
//!
//! A sequence is drawn from a seed: `world` draws the services, `acts` what happens to them, and where PID 1 is to die
//! in it, `story` ends its life at the point that is drawn and goes on with the next one. Whenever nothing is left to
//! be done at an instant, `laws` are asked; `witness` sees what shows only in the middle of things. A failure tells its
//! seed, and `KELSON_SEED=N` plays that one alone.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dice::Dice;
use story::{End, Story};

use crate::fate::Fate;

mod acts;
mod crash_limit;
mod deeds;
mod dice;
mod laws;
mod laws_of_files;
mod laws_of_health;
mod laws_of_lives;
mod story;
mod transitions;
mod witness;
mod world;

type Trace = Arc<Mutex<Vec<String>>>;

/// The number of lines that a failure shows.
const TOLD: usize = 80;
/// So much happens in a sequence.
const ACTS: u32 = 25;

/// A sequence that is played.
#[derive(Debug, Clone, Copy)]
struct Play {
    seed: u64,
    acts: u32,
    /// PID 1 dies in the middle of it, several times as a rule.
    dies: bool,
}

/// At which points the incarnations of a sequence end, the first life first; and where a torn write is cut.
fn draw_deaths(dice: &mut Dice) -> Vec<(u64, u64)> {
    let count = dice.pick(&[1, 1, 1, 2, 2, 3, 5]);
    let death = |number: u64, dice: &mut Dice| {
        // The later ones are mostly in the recovery from the one before, or soon after.
        let within = dice.pick(if number == 0 { &[60, 600, 600, 2000] } else { &[20, 60, 60, 400, 1500] });
        (dice.roll(within), dice.roll(1 << 20))
    };
    (0..count).map(|number| death(number, dice)).collect()
}

/// Plays a sequence; where PID 1 died in it is added to `deaths`.
fn lives(play: Play, trace: &Trace, deaths: &Deaths) -> Result<(), String> {
    let mut dice = Dice::new(play.seed);
    let mut ends = if play.dies { draw_deaths(&mut dice) } else { Vec::new() }.into_iter();
    let mut story = Story::new(&mut dice, play.acts, Arc::clone(trace));
    let mut at_the_limit = false;
    for life in 1.. {
        let death = ends.next();
        let fate = Fate::never();
        let end = fate.play(|| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().start_paused(true);
            #[cfg(tokio_unstable)]
            builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&(play.seed + (life << 40)).to_le_bytes()));
            let runtime = builder.build().unwrap();
            match at_the_limit {
                true => runtime.block_on(story.reaches_the_crash_limit(&mut dice, &fate)),
                false => runtime.block_on(story.live(&mut dice, &fate, death)),
            }
        });
        match end {
            End::Died(place) => {
                *deaths.lock().unwrap().entry(place).or_default() += 1;
                at_the_limit = dice.one_in(4);
            }
            End::Over(result) => return result,
        }
        let _ = life;
    }
    Ok(())
}

/// How often PID 1 died where.
type Deaths = Mutex<BTreeMap<String, u64>>;

type Outcome = Result<Result<(), String>, Box<dyn std::any::Any + Send>>;

fn outcome(play: Play, trace: &Trace, deaths: &Deaths) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| lives(play, trace, deaths)))
}

/// Plays one sequence from its beginning. One that fails is shown in the shortest form that fails as well.
fn play(whole: Play, deaths: &Deaths) {
    let trace: Trace = Arc::default();
    let mut result = outcome(whole, &trace, deaths);
    if matches!(result, Ok(Ok(()))) {
        return;
    }
    let (mut shown, mut told) = (whole, trace);
    for acts in 0..whole.acts {
        let (shorter, trace) = (Play { acts, ..whole }, Trace::default());
        let outcome = outcome(shorter, &trace, &Deaths::default());
        if !matches!(outcome, Ok(Ok(()))) {
            (shown, told, result) = (shorter, trace, outcome);
            break;
        }
    }
    let trace = told.lock().unwrap();
    let skip = if std::env::var_os("KELSON_SEED").is_some() { 0 } else { trace.len().saturating_sub(TOLD) };
    eprintln!("{shown:?}, at the end of\n{}", trace[skip..].join("\n"));
    let Play { seed, acts, .. } = shown;
    match result {
        Ok(Ok(())) => {}
        Ok(Err(wrong)) => panic!(
            "seed {seed}: {wrong}\nKELSON_SEED={seed} KELSON_ACTS={acts} hack/simulate{} plays it alone",
            if shown.dies { " lives" } else { " life" }
        ),
        Err(panicked) => resume_unwind(panicked),
    }
}

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap())
}

fn play_all(seeds: std::ops::RangeInclusive<u64>, dies: bool) {
    let acts = number("KELSON_ACTS").map_or(ACTS, |acts| u32::try_from(acts).unwrap());
    let of = |seed| Play { seed, acts, dies };
    let deaths = Deaths::default();
    if let Some(seed) = number("KELSON_SEED") {
        (0..REPEATED).for_each(|_| play(of(seed), &deaths));
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
                    if let Err(panicked) = catch_unwind(|| play(of(seed), &deaths)) {
                        failed.store(true, Ordering::Relaxed);
                        resume_unwind(panicked);
                    }
                }
            });
        }
    });
    let deaths = deaths.into_inner().unwrap();
    if !deaths.is_empty() {
        println!("{} sequences; PID 1 died {} times:", seeds.count(), deaths.values().sum::<u64>());
        deaths.iter().for_each(|(place, count)| println!("{count:>8}  {place}"));
    }
}

/// Tasks that are ready at the same instant run in an order that only a build with `tokio_unstable` draws
/// from the seed.
const REPEATED: u32 = if cfg!(tokio_unstable) { 1 } else { 200 };

/// `KELSON_SEEDS=N`: N seeds in place of the usual number.
fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    1..=number("KELSON_SEEDS").unwrap_or(usual)
}

#[test]
fn no_order_of_requests_breaks_what_must_hold() {
    play_all(1..=500, false);
}

#[test]
fn no_death_of_pid_1_breaks_what_must_hold() {
    play_all(1..=200, true);
}

#[test]
fn long_no_order_of_requests_breaks_what_must_hold() {
    play_all(seeds(100_000), false);
}

#[test]
fn long_no_death_of_pid_1_breaks_what_must_hold() {
    play_all(seeds(100_000), true);
}
