//! Requests, exits and messages in any order over three services that need each other.

use kelson_services::manager::Outcome;
use kelson_services::model::State;
use tokio::time::Instant;

use crate::house::*;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

async fn sequence(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let house = House::new();
    for name in NAMES {
        let (open, spawn, obeys, close) = (dice.roll(3), dice.roll(3), dice.roll(4), dice.roll(3));
        house.manners(name, |one| {
            one.open = secs(open) / 4;
            one.spawn = secs(spawn) / 4;
            one.obeys = (obeys != 3).then(|| secs(obeys));
            one.close = secs(close) / 4;
        });
    }
    let mut b = needs("b", &["a"]);
    b.stop.delay = secs(dice.roll(2));
    let mut c = needs("c", &["a", "b"]);
    c.restart.attempts = 3;
    let first = if dice.roll(2) == 0 { notify("a") } else { oneshot("a") };
    house.manager.take_in(loaded([first, b, c]));
    house.manager.begin();
    for _ in 0..30 {
        let name = NAMES[usize::try_from(dice.roll(3)).unwrap()];
        let one = names(&[name]);
        let manager = house.manager.clone();
        match dice.roll(12) {
            0 | 1 => drop(tokio::spawn(async move { manager.start(&one, true).await })),
            2 => drop(tokio::spawn(async move { manager.restart(&one, true).await })),
            3 => drop(tokio::spawn(async move { manager.stop(&one, true, true).await })),
            4 => drop(tokio::spawn(async move { manager.stop(&one, false, false).await })),
            5 => {
                let status = i32::try_from(dice.roll(2)).unwrap();
                house.exit(name, status).await;
            }
            6 => drop(house.sent.send_to(b"READY=1", house.directory.join("notify/a"))),
            7 => drop(house.sent.send_to(b"RELOADING=1", house.directory.join("notify/a"))),
            8 => {
                let fails = (dice.roll(2) == 0).then(|| "no".to_owned());
                house.manners(name, |one| one.spawn_fails = fails);
            }
            9 => tokio::time::sleep(secs(dice.roll(4))).await,
            _ => tokio::time::sleep(MS * u32::try_from(dice.roll(700)).unwrap()).await,
        }
        if dice.roll(2) == 0 {
            house.settle().await;
            house.check();
        }
    }
    // Whatever was under way: the last request wins, and every request is answered.
    house.settle().await;
    let last: Vec<String> = names(&NAMES);
    let stopped = tokio::time::timeout(secs(120), house.manager.stop(&last, true, true)).await;
    let stopped = stopped.unwrap_or_else(|_| panic!("seed {seed}: a stop is never answered"));
    house.settle().await;
    for name in NAMES {
        let now = house.now(name);
        let rests = matches!(now.state, State::Finished | State::Failed);
        assert!(rests, "seed {seed}: {now:?} {stopped:?} {:#?}", house.told(name));
        assert!(now.down || now.finished, "seed {seed}: {now:?}");
    }
    assert!(stopped.iter().all(|result| result.outcome != Outcome::Refused), "seed {seed}: {stopped:?}");
    house.check();
    let runs = NAMES.map(|name| house.played(name, |one| one.runs));
    let summary = house.manager.stop_all(Instant::now() + secs(60), &[]).await;
    assert!(summary.killed.is_empty(), "seed {seed}: {summary:?}");
    tokio::time::sleep(secs(100)).await;
    assert_eq!(
        runs,
        NAMES.map(|name| house.played(name, |one| one.runs)),
        "seed {seed}: a run after the stop"
    );
    house.check();
}

#[test]
fn no_order_of_requests_breaks_what_must_hold() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    for seed in 1..=400 {
        runtime.block_on(sequence(seed));
    }
}
