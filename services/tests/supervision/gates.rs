//! G1, G2, G3, G4, G5, G7, G8, G9 through the Manager.

use std::time::Duration;

use kelson_runner::Exit;
use kelson_services::manager::{Awaited, Outcome};
use kelson_services::model::State;
use kelson_spec::service::{Requirement, ServiceEvent, ServiceSpec};

use crate::house::*;

#[tokio::test(start_paused = true)]
async fn g1_a_gate_asks_whether_all_hold_now() {
    let house = House::with([notify("a"), notify("b"), needs("c", &["a", "b"])]).await;
    house.say("a", "READY=1").await;
    house.say("a", "RELOADING=1").await;
    house.say("b", "READY=1").await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(house.state("c"), State::Waiting);
    assert_eq!(house.played("c", |c| c.runs), 0);
    house.say("a", "READY=1").await;
    assert_eq!(house.state("c"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn g1_the_gate_is_asked_again_after_preparing_and_after_waiting_for_a_turn() {
    let house = House::new();
    house.manners("c", |c| c.open = secs(5));
    house.boot([notify("a"), needs("c", &["a"])]).await;
    house.say("a", "READY=1").await;
    assert_eq!(house.state("c"), State::Preparing);
    house.say("a", "RELOADING=1").await;
    tokio::time::sleep(secs(6)).await;
    assert_eq!(house.state("c"), State::Waiting, "prepared, and shut again");
    // Now nobody gets a turn, and the dependency goes while it waits for one.
    let all = house.turns.acquire_many(32).await.unwrap();
    house.say("a", "READY=1").await;
    assert_eq!(house.state("c"), State::Starting);
    house.say("a", "RELOADING=1").await;
    drop(all);
    tokio::time::sleep(secs(1)).await;
    assert_eq!((house.state("c"), house.played("c", |c| c.runs)), (State::Waiting, 0));
    house.say("a", "READY=1").await;
    assert_eq!((house.state("c"), house.played("c", |c| c.runs)), (State::Running, 1));
}

#[tokio::test(start_paused = true)]
async fn after_waits_for_what_is_on_its_way_and_for_nothing_else() {
    let mut web = spec("web");
    web.depends =
        ["db", "manual", "nobody"].map(|name| Requirement::service(name, ServiceEvent::Settled)).to_vec();
    let house = House::new();
    house.manners("db", |db| db.open = secs(5));
    house.boot([notify("db"), manual(spec("manual")), web]).await;
    assert_eq!(house.now("web").waiting_for(), ["service \"db\" to be up or down"]);
    tokio::time::sleep(secs(6)).await;
    assert_eq!((house.state("db"), house.state("web")), (State::Starting, State::Waiting));
    // A start that fails has been waited for as well.
    house.exit("db", 3).await;
    assert_eq!((house.state("db"), house.state("web")), (State::Backoff, State::Running));
    // It orders starts only: nothing that runs minds, and the next start waits again.
    tokio::time::sleep(secs(60)).await;
    assert_eq!((house.state("db"), house.state("web")), (State::Starting, State::Running));
    house.stop("web").await;
    house.begin_start("web").await;
    assert_eq!((house.state("db"), house.state("web")), (State::Starting, State::Waiting));
    house.say("db", "READY=1").await;
    assert_eq!(house.state("web"), State::Running);
    assert_eq!(house.stop("db").await.outcome, Outcome::Done, "nobody needs it");
}

#[tokio::test(start_paused = true)]
async fn g2_the_text_names_what_is_missing_and_changes() {
    let mut c = needs("c", &["a", "b"]);
    c.depends.push(Requirement::TimeSynced);
    c.depends.push(Requirement::Path("/proc/nothing-of-the-kind".into()));
    c.depends.push(Requirement::Any(vec![
        Requirement::service("m", ServiceEvent::Running),
        Requirement::service("f", ServiceEvent::Finished),
    ]));
    let house = House::with([notify("a"), notify("b"), manual(spec("m")), manual(oneshot("f")), c]).await;
    house.say("a", "READY=1").await;
    let waits = house.now("c").waiting_for();
    assert_eq!(
        waits,
        [
            "service \"b\" to be up",
            "the clock to be synchronised",
            "path \"/proc/nothing-of-the-kind\" to exist",
            "service \"m\" to be running (nothing starts it; its start is manual) or service \"f\" to have \
             finished (nothing starts it; its start is manual)",
        ]
    );
    house.assert_told("c", "waiting for service \"a\" to be up, service \"b\" to be up, ");
    house.assert_told("c", "waiting for service \"b\" to be up, the clock");
    house.manners("m", |m| m.spawn_fails = Some("no such file".into()));
    house.stop("b").await;
    assert_eq!(house.now("c").waiting_for()[0], "service \"b\" to be up (it was stopped)");
}

/// Starts `web`, brings it where it is to be stopped, stops it.
async fn stopped_at(spec: ServiceSpec, manners: impl FnOnce(&mut Manners), at: State) -> House {
    let house = House::new();
    house.manners("web", manners);
    house.boot([spec]).await;
    assert_eq!(house.state("web"), at);
    let before = tokio::time::Instant::now();
    assert_eq!(house.stop("web").await.outcome, Outcome::Done);
    assert!(before.elapsed() <= MS, "{at:?}: took {:?}", before.elapsed());
    house.settle().await;
    let now = house.now("web");
    assert!(now.state == State::Stopped && now.stopped && now.down && !now.finished, "{at:?}: {now:?}");
    assert!(now.message.contains("asked by an operator"), "{}", now.message);
    tokio::time::sleep(secs(600)).await;
    assert_eq!(house.now("web"), now, "nothing of the start is left");
    house
}

#[tokio::test(start_paused = true)]
async fn g3_stop_takes_effect_at_once_in_every_phase() {
    let mut waiting = spec("web");
    waiting.depends.push(Requirement::TimeSynced);
    let house = stopped_at(waiting, |_| (), State::Waiting).await;
    assert!(house.message("web").contains("while waiting for the clock to be synchronised"));
    assert_eq!(house.played("web", |web| web.calls.len()), 0);

    // A disk about which nobody answers.
    let mut when = spec("web");
    when.when.push(Requirement::Path("/etc/nothing-of-the-kind".into()));
    let house = House::new();
    house.boot([when]).await;
    house.stop("web").await;
    assert!(house.now("web").stopped, "while `when` is asked");

    let house = stopped_at(spec("web"), |web| web.open = secs(100), State::Preparing).await;
    assert_eq!(house.played("web", |web| web.said()), ["open", "close"]);
    assert!(house.message("web").contains("while preparing"));

    let house = stopped_at(spec("web"), |web| web.spawn = secs(100), State::Starting).await;
    assert_eq!(house.played("web", |web| web.said()), ["open", "run 1", "signal 15", "close"]);
    assert!(house.message("web").contains("while starting"));

    let house = stopped_at(notify("web"), |_| (), State::Starting).await;
    assert_eq!(house.played("web", |web| web.said()), ["open", "run 1", "signal 15", "close"]);

    let house = stopped_at(spec("web"), |web| web.spawn_fails = Some("no".into()), State::Backoff).await;
    assert!(house.message("web").contains("before its restart"));
    assert_eq!(house.played("web", |web| web.said()), ["open", "run 1", "close"]);
}

#[tokio::test(start_paused = true)]
async fn g3_what_is_cleaned_up_waits_for_nothing_any_more() {
    let house = House::with([spec("db"), needs("web", &["db"])]).await;
    house.manners("db", |db| db.spawn_fails = Some("no".into()));
    house.manners("web", |web| web.close = secs(5));
    house.exit("db", 1).await;
    house.exit("web", 1).await;
    tokio::time::sleep(secs(2)).await;
    assert_eq!(house.state("web"), State::Waiting);
    house.begin_stop("web").await;
    assert_eq!((house.state("web"), house.now("web").waiting_for()), (State::Stopping, vec![]));
    assert_eq!(house.message("web"), "stopped: asked by an operator, undoing what was prepared");
    tokio::time::sleep(secs(5)).await;
    assert!(house.now("web").stopped && house.message("web").contains("while waiting for service \"db\""));
}

#[tokio::test(start_paused = true)]
async fn g3_a_start_that_waits_for_its_turn_is_cancelled() {
    let house = House::new();
    let all = house.turns.acquire_many(32).await.unwrap();
    house.boot([spec("web")]).await;
    assert_eq!(house.state("web"), State::Preparing);
    assert_eq!(house.stop("web").await.outcome, Outcome::Done);
    drop(all);
    tokio::time::sleep(secs(5)).await;
    assert_eq!(house.played("web", |web| web.opens + web.runs), 0);
    assert_eq!(house.turns.available_permits(), 32);
}

#[tokio::test(start_paused = true)]
async fn slow_starts_hold_the_others_up_for_a_second_a_batch() {
    let house = House::new();
    for n in 0..66 {
        house.manners(&format!("slow-{n:02}"), |slow| slow.open = secs(30));
    }
    let slow = (0..66).map(|n| spec(&format!("slow-{n:02}")));
    house.manager.take_in(loaded(slow.chain([spec("web")]))).await;
    house.manager.begin();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(house.state("web"), State::Running);
    tokio::time::sleep(secs(40)).await;
    assert!(house.manager.list().iter().all(|service| service.up));
    assert_eq!(house.turns.available_permits(), 32);
}

#[tokio::test(start_paused = true)]
async fn g4_a_oneshot_that_failed_keeps_its_dependants_waiting() {
    let house = House::with([oneshot("migrate"), needs("web", &["migrate"])]).await;
    house.exit("migrate", 3).await;
    let waits = house.now("web").waiting_for();
    assert!(
        waits[0].starts_with("service \"migrate\" to be up (it failed: exited with status 3"),
        "{waits:?}"
    );
    let again = house.manager.restart(&names(&["migrate"]), false).await;
    assert_eq!(again[0].outcome, Outcome::Done);
    house.settle().await;
    assert_eq!(house.state("web"), State::Waiting);
    house.exit("migrate", 0).await;
    assert_eq!(house.state("web"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn g5_a_dependency_that_restarts_leaves_its_dependant_alone() {
    let house = House::with([spec("db"), needs("web", &["db"])]).await;
    house.exit("db", 1).await;
    assert_eq!((house.state("db"), house.state("web")), (State::Backoff, State::Running));
    tokio::time::sleep(secs(3)).await;
    house.restart("db").await;
    assert_eq!(house.played("web", |web| web.runs), 1);
    assert_eq!(house.played("db", |db| db.runs), 3);
}

#[tokio::test(start_paused = true)]
async fn g7_manual_is_down_and_what_the_boot_will_start_is_not() {
    let house = House::new();
    let down = |name: &str, other: &str| ServiceSpec {
        depends: vec![Requirement::service(other, ServiceEvent::Down)],
        ..spec(name)
    };
    house
        .manager
        .take_in(loaded([manual(spec("m")), spec("a"), down("of-m", "m"), manual(down("of-a", "a"))]))
        .await;
    assert!(house.now("m").down && !house.now("a").down);
    house.begin_start("of-a").await;
    assert_eq!(house.now("of-a").waiting_for(), ["service \"a\" to be down"]);
    house.manager.begin();
    house.settle().await;
    assert_eq!(house.state("of-m"), State::Running);
    assert_eq!(house.now("of-a").waiting_for(), ["service \"a\" to be down"]);
    house.stop("a").await;
    house.settle().await;
    assert_eq!(house.state("of-a"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn g7_nothing_waits_for_a_manual_service_when_the_host_stops() {
    let house = House::with([spec("db"), manual(needs("m", &["db"])), manual(oneshot("job"))]).await;
    house.obey_after(&["db"], secs(1));
    let begun = tokio::time::Instant::now();
    let summary = house.manager.stop_all(begun + secs(60), &[]).await;
    assert!(summary.killed.is_empty() && summary.given_up.is_empty(), "{summary:?}");
    assert!(begun.elapsed() < 1100 * MS, "{:?}", begun.elapsed());
    for name in ["m", "job"] {
        assert!(house.now(name).down && house.state(name) == State::Initialized, "{:?}", house.now(name));
        assert_eq!(house.played(name, |one| one.calls.len()), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn g8_two_requests_at_once_are_each_answered_with_what_happened() {
    let house = House::with([spec("web")]).await;
    house.obey_after(&["web"], secs(2));
    let web = names(&["web"]);
    let manager = &house.manager;
    let (a, b) = tokio::join!(manager.restart(&web, true), manager.restart(&web, true));
    assert_eq!((a[0].outcome, b[0].outcome), (Outcome::Superseded, Outcome::Done));
    assert_eq!(house.played("web", |web| web.runs), 2, "one restart");

    let (a, b) = tokio::join!(manager.stop(&web, false, true), manager.start(&web, true));
    assert_eq!((a[0].outcome, b[0].outcome), (Outcome::Superseded, Outcome::Done));
    assert_eq!((house.state("web"), house.played("web", |web| web.runs)), (State::Running, 3));

    let (a, b) = tokio::join!(manager.restart(&web, true), manager.stop(&web, false, true));
    assert_eq!((a[0].outcome, b[0].outcome), (Outcome::Superseded, Outcome::Done));
    assert!(house.now("web").stopped);

    // Two that want the same thing: what was asked for happens to both.
    house.manners("web", |web| web.spawn = secs(2));
    let (a, b) = tokio::join!(manager.start(&web, true), manager.start(&web, true));
    assert_eq!((a[0].outcome, b[0].outcome), (Outcome::Done, Outcome::Done), "{a:?} {b:?}");
    let (a, b) = tokio::join!(manager.stop(&web, false, true), manager.stop(&web, false, true));
    assert_eq!((a[0].outcome, b[0].outcome), (Outcome::Done, Outcome::Done), "{a:?} {b:?}");
    let c = manager.start(&names(&["webb"]), true).await;
    assert_eq!(c[0].message, "there is no service \"webb\"; did you mean \"web\"?");
}

#[tokio::test(start_paused = true)]
async fn g8_a_start_while_a_failed_run_is_cleaned_up_is_not_lost() {
    let house = House::with([once("web")]).await;
    house.manners("web", |web| web.close = secs(2));
    house.exit("web", 1).await;
    assert_eq!(house.start("web").await.outcome, Outcome::Done);
    assert_eq!(house.state("web"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn g9_a_oneshot_that_was_stopped_half_way_is_down_and_not_finished() {
    let mut after = spec("after");
    after.depends = vec![Requirement::service("job", ServiceEvent::Finished)];
    let house = House::with([oneshot("job"), after]).await;
    house.stop("job").await;
    house.settle().await;
    let job = house.now("job");
    assert!(job.down && !job.up && !job.finished && job.stopped, "{job:?}");
    assert_eq!(house.now("after").waiting_for(), ["service \"job\" to have finished (it was stopped)"]);
    assert!(house.manager.wait(&names(&["job"]), Awaited::Down).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn when_is_asked_once_and_an_alternative_is_enough() {
    let mut skipped = spec("skipped");
    skipped.when = vec![Requirement::Path("/proc/nothing-of-the-kind".into())];
    let mut started = spec("started");
    started.when = vec![Requirement::Any(vec![
        Requirement::Path("/proc/nothing-of-the-kind".into()),
        Requirement::Path("/proc/self/stat".into()),
    ])];
    let house = House::with([skipped, started]).await;
    tokio::time::sleep(secs(10)).await;
    assert_eq!(house.state("skipped"), State::Skipped);
    assert_eq!(house.message("skipped"), "skipped: path \"/proc/nothing-of-the-kind\" does not exist");
    assert!(house.now("skipped").down);
    assert_eq!(house.state("started"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn each_transition_is_recorded() {
    let house = House::with([notify("web")]).await;
    let of = |state| (state, house.record("web").unwrap());
    let (_, record) = of(State::Starting);
    assert!(
        record.service.pid().is_some()
            && record.service.has_opened()
            && record.start_time == 7
            && record.service.run == 1
    );
    house.say("web", "READY=1").await;
    assert_eq!(house.record("web").unwrap().service.state(), State::Running);
    house.exit("web", 3).await;
    let record = house.record("web").unwrap();
    assert_eq!(
        (record.service.state(), record.service.exit, record.service.restarts),
        (State::Backoff, Some(Exit::Status(3)), 1)
    );
    assert!(record.service.pid().is_none() && record.service.has_opened());
    house.stop("web").await;
    let record = house.record("web").unwrap();
    assert!(
        record.service.state() == State::Stopped && record.service.stopped() && !record.service.has_opened()
    );
}
