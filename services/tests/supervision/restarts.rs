//! R2, R3, R4, R5 through the Manager.

use std::time::Duration;

use kelson_services::manager::Outcome;
use kelson_services::model::State;
use kelson_spec::service::Exhausted;

use crate::house::*;

#[tokio::test(start_paused = true)]
async fn r2_the_budget_ends_as_failed_or_waits_for_a_fresh_one() {
    let mut fail = spec("fail");
    fail.restart.attempts = 2;
    let mut delay = fail.clone();
    delay.name = "delay".into();
    delay.restart.exhausted = Exhausted::Delay;
    let house = House::with([fail, delay]).await;
    for _ in 0..3 {
        house.exit("fail", 3).await;
        house.exit("delay", 3).await;
        tokio::time::sleep(secs(3)).await;
    }
    assert_eq!(house.state("fail"), State::Failed);
    assert!(house.message("fail").ends_with("gave up after 3 failures in 5m"), "{}", house.message("fail"));
    assert_eq!(house.state("delay"), State::Backoff);
    tokio::time::sleep(secs(280)).await;
    assert_eq!(house.state("delay"), State::Backoff);
    tokio::time::sleep(secs(20)).await;
    assert_eq!((house.state("delay"), house.now("delay").restarts), (State::Running, 3));
    house.exit("delay", 3).await;
    assert!(house.message("delay").ends_with("(1 of 2 in 5m)"), "{}", house.message("delay"));
}

#[tokio::test(start_paused = true)]
async fn r3_the_backoff_doubles_and_is_forgotten() {
    let house = House::with([spec("web")]).await;
    for base in [1, 2, 4, 8] {
        house.exit("web", 1).await;
        tokio::time::sleep(secs(base) - 2 * MS).await;
        assert_eq!(house.state("web"), State::Backoff, "{base}");
        tokio::time::sleep(secs(base) / 4 + 3 * MS).await;
        assert_eq!(house.state("web"), State::Running, "{base}");
    }
    tokio::time::sleep(secs(31)).await;
    house.exit("web", 1).await;
    tokio::time::sleep(Duration::from_millis(1260)).await;
    assert_eq!(house.state("web"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn r4_an_operators_restart_is_immediate_and_not_counted() {
    let house = House::with([spec("web")]).await;
    house.exit("web", 1).await;
    let results = house.restart("web").await;
    assert_eq!((results.outcome, house.now("web").restarts), (Outcome::Done, 1));
    let results = house.restart("web").await;
    assert_eq!((results.outcome, house.now("web").restarts), (Outcome::Done, 1));
    let (opens, runs) = house.played("web", |web| (web.opens, web.runs));
    assert_eq!((opens, runs), (1, 3), "what was prepared still holds");
}

#[tokio::test(start_paused = true)]
async fn r5_a_restart_asks_the_whole_gate_again() {
    let house = House::with([spec("db"), needs("web", &["db"])]).await;
    house.manners("db", |db| db.spawn_fails = Some("/usr/bin/db: no such file".into()));
    house.exit("db", 1).await;
    house.exit("web", 1).await;
    tokio::time::sleep(secs(10)).await;
    assert_eq!(house.now("web").waiting_for(), ["service \"db\" to be up"]);
    house.assert_told("db", "could not start: /usr/bin/db: no such file, restarting in");
    house.manners("db", |db| db.spawn_fails = None);
    tokio::time::sleep(secs(40)).await;
    assert_eq!((house.state("web"), house.played("web", |web| web.opens)), (State::Running, 1));
}

#[tokio::test(start_paused = true)]
async fn preparing_that_fails_is_undone_each_time() {
    let house = House::new();
    house.manners("web", |web| web.open_fails = Some("no room".into()));
    house.manager.take_in(loaded([spec("web")])).await;
    house.manager.begin();
    tokio::time::sleep(secs(5)).await;
    house.assert_says("web", "preparing failed: no room, restarting in");
    house.manners("web", |web| web.open_fails = None);
    tokio::time::sleep(secs(10)).await;
    assert_eq!(house.state("web"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_ended_is_told() {
    let mut house = House::with([spec("web")]).await;
    // It is never cleaned up.
    house.is_judged = false;
    house.manners("web", |web| web.stop_fails = Some("cgroup.kill: permission denied".into()));
    house.begin_restart("web").await;
    house.assert_told("web", "cgroup.kill: permission denied");
}
