//! `whenDown`: what a service that runs does when one that it needs goes down; and why services were started again.

use kelson_runner::Exit;
use kelson_services::model::{RestartReason, State};
use kelson_spec::service::{Check, Requirement, ServiceEvent, ServiceSpec, WhenDown};

use crate::health_commands::{fails, passes};
use crate::house::*;

pub fn minds(name: &str, other: &str, when_down: WhenDown) -> ServiceSpec {
    let depends = vec![Requirement::Service { name: other.into(), event: ServiceEvent::Up, when_down }];
    ServiceSpec { depends, ..spec(name) }
}

fn count(house: &House, name: &str, reason: RestartReason) -> u32 {
    house.now(name).restarts_by.iter().find(|(other, _)| *other == reason).unwrap().1
}

#[tokio::test(start_paused = true)]
async fn g5_each_rule_does_what_it_says_when_a_dependency_restarts() {
    let house = House::with([
        spec("db"),
        minds("ignores", "db", WhenDown::Ignore),
        minds("stops", "db", WhenDown::Stop),
        minds("restarts", "db", WhenDown::Restart),
    ])
    .await;
    house.exit("db", 3).await;
    assert_eq!((house.state("ignores"), house.now("ignores").up), (State::Running, true));
    let stopped = house.now("stops");
    assert_eq!((stopped.state, stopped.down, stopped.stopped), (State::Stopped, true, false));
    assert!(
        stopped.message.starts_with(
            "stopped: service \"db\", which it needs, went down (exited with status 3 after 1 ms"
        ),
        "{}",
        stopped.message
    );
    assert_eq!(house.now("restarts").waiting_for(), ["service \"db\" to be up"]);
    house.assert_told("restarts", "stopping: restarting: service \"db\", which it needs, went down (");
    tokio::time::sleep(secs(2)).await;
    assert_eq!(house.state("restarts"), State::Running);
    assert_eq!((house.now("restarts").restarts, house.played("restarts", |one| one.runs)), (0, 2));
    assert_eq!(count(&house, "restarts", RestartReason::Dependency), 1);
    assert_eq!((house.state("stops"), house.played("ignores", |one| one.runs)), (State::Stopped, 1));
}

#[tokio::test(start_paused = true)]
async fn one_that_went_down_and_came_back_at_once_went_down() {
    let mut db = spec("db");
    db.restart.delay = secs(0);
    let house = House::with([db, minds("web", "db", WhenDown::Restart)]).await;
    house.exit("db", 0).await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(house.played("web", |web| web.runs), 2);
}

#[tokio::test(start_paused = true)]
async fn one_whose_process_has_ended_is_down_before_it_is_cleaned_up() {
    let house = House::with([once("db"), minds("web", "db", WhenDown::Stop)]).await;
    house.manners("db", |db| db.close = secs(5));
    house.exit("db", 3).await;
    assert_eq!((house.state("web"), house.played("web", Played::lives)), (State::Stopped, false));
    let told = "stopped: service \"db\", which it needs, went down (exited with status 3 after 1 ms)";
    house.assert_says("web", told);
    tokio::time::sleep(secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn unhealthy_is_not_down() {
    let db = checked("db", [Check { failure_threshold: 1, ..exec_check("ask") }]);
    let house = House::new();
    house.played("db", |db| db.commands.set("ask", passes()));
    house.manager.take_in(loaded([db, minds("web", "db", WhenDown::Stop)])).await;
    house.manager.begin();
    tokio::time::sleep(secs(3)).await;
    assert_eq!(house.state("web"), State::Running);
    house.played("db", |db| db.commands.set("ask", fails("no")));
    tokio::time::sleep(secs(5)).await;
    assert_eq!((house.now("db").healthy, house.state("web")), (Some(false), State::Running));
    house.begin_restart("db").await;
    assert_eq!(house.state("web"), State::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_that_has_finished_is_not_down() {
    let house = House::with([oneshot("job"), minds("web", "job", WhenDown::Stop)]).await;
    house.exit("job", 0).await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(house.state("web"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_stop_outweighs_a_restart_and_the_shutdown_both() {
    let mut web = minds("web", "db", WhenDown::Restart);
    web.depends.extend(minds("web", "cache", WhenDown::Stop).depends);
    web.stop.delay = secs(1);
    let house = House::with([spec("db"), spec("cache"), web, minds("other", "db", WhenDown::Restart)]).await;
    house.exit("db", 0).await;
    assert_eq!(house.state("web"), State::Stopping);
    let summary = house.manager.stop_all(tokio::time::Instant::now() + secs(30), &[]).await;
    assert!(summary.killed.is_empty());
    for name in ["web", "other"] {
        assert_eq!((house.state(name), house.played(name, |one| one.runs)), (State::Stopped, 1), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_restart_tells_and_counts_its_reason() {
    let mut web = notify("web");
    web.resources.memory_max = Some(64 << 20);
    web.start_timeout = secs(5);
    let house = House::with([web]).await;
    house.exit("web", 3).await;
    tokio::time::sleep(secs(10)).await;
    house.assert_told("web", "not ready after 5 s, restarting in");
    let starting = async || {
        while house.state("web") != State::Starting {
            house.settle().await;
        }
    };
    starting().await;
    house.say("web", "READY=1").await;
    house.manners("web", |web| web.out_of_memory = true);
    house.stage.of("web").lock().unwrap().exit(Exit::Signal { signal: 9, core: false });
    house.settle().await;
    house.assert_told("web", "killed by SIGKILL after");
    house.assert_told("web", ": out of memory (its memoryMax is 64Mi), restarting in");
    house.manners("web", |web| web.out_of_memory = false);
    starting().await;
    house.say("web", "READY=1\nWATCHDOG_USEC=1000000").await;
    tokio::time::sleep(secs(1)).await;
    house.assert_told("web", "no WATCHDOG=1 within its interval, restarting in");
    starting().await;
    house.begin_restart("web").await;
    for (reason, least) in [
        (RestartReason::Exit, 1),
        (RestartReason::NotReady, 1),
        (RestartReason::OutOfMemory, 1),
        (RestartReason::Watchdog, 1),
        (RestartReason::Operator, 1),
    ] {
        assert!(count(&house, "web", reason) >= least, "{reason:?}: {:?}", house.now("web").restarts_by);
    }
    let counted: u32 =
        house.now("web").restarts_by.iter().filter(|(reason, _)| reason.counts()).map(|(_, n)| n).sum();
    assert_eq!(counted, house.now("web").restarts);
}
