//! PID 1 re-executes itself while its services are in each phase: they go on as if it had been there.

use std::time::Duration;

use kelson_runner::Exit;
use kelson_services::model::State;
use kelson_spec::service::{Check, Hook, RestartPolicy, ServiceSpec, WhenDown};
use tokio::time::Instant;

use crate::fate::Fate;
use crate::health_commands::fails;
use crate::hooks::hook;
use crate::house::*;
use crate::when_down::minds;

fn backoff(name: &str, delay: Duration) -> ServiceSpec {
    let mut spec = spec(name);
    spec.restart.delay = delay;
    spec.restart.max_delay = delay;
    spec
}

#[test]
fn v1_what_runs_goes_on_with_its_pid_its_run_and_its_counts() {
    let (before, seen) = (std::cell::RefCell::new(None), std::cell::RefCell::new(Vec::new()));
    let ruin = first_life(async {
        let house =
            House::with([backoff("web", MS), oneshot("job"), spec("idle"), manual(spec("never"))]).await;
        house.exit("web", 1).await;
        tokio::time::sleep(secs(5)).await;
        house.exit("job", 0).await;
        house.stop("idle").await;
        *before.borrow_mut() = Some(["web", "job", "idle", "never"].map(|name| house.now(name)));
        *seen.borrow_mut() = house.manager.events(0, 10_000).events;
        house
    });
    next_life(ruin, async |house| {
        let before = before.take().unwrap();
        for one in before {
            // The clock of the second life is a part of a millisecond ahead.
            let now = house.now(&one.name);
            assert!(now.entered.duration_since(one.entered) < 2 * MS, "{one:?} became {now:?}");
            assert_eq!(now, kelson_services::Snapshot { entered: now.entered, ..one });
        }
        assert_eq!((house.now("web").restarts, house.now("web").run), (1, 2));
        assert_eq!(house.manager.events(0, 10_000).events, *seen.borrow(), "nothing is told twice");
        // And it is lived on.
        house.exit("web", 1).await;
        tokio::time::sleep(secs(1)).await;
        assert_eq!((house.now("web").restarts, house.now("web").run), (2, 3));
        house.manager.start(&names(&["idle", "job"]), false).await;
        house.settle().await;
        assert_eq!((house.state("idle"), house.state("job")), (State::Running, State::Running));
    });
}

#[test]
fn a_backoff_of_30_s_that_had_12_s_left_has_12_s_left() {
    let ruin = first_life(async {
        let mut web = backoff("web", secs(24));
        web.restart.max_delay = secs(24);
        let house = House::with([web]).await;
        house.exit("web", 1).await;
        assert_eq!(house.state("web"), State::Backoff);
        tokio::time::sleep(secs(18)).await;
        house
    });
    next_life(ruin, async |house| {
        assert_eq!(house.state("web"), State::Backoff);
        tokio::time::sleep(secs(5)).await;
        assert_eq!(house.state("web"), State::Backoff);
        // With jitter 24 s are 30 at most.
        tokio::time::sleep(secs(8)).await;
        assert_eq!((house.state("web"), house.now("web").run), (State::Running, 2));
    });
}

#[test]
fn v4_a_stop_that_was_recorded_is_carried_out() {
    let ruin = first_life(async {
        let mut slow = spec("web");
        slow.stop.timeout = secs(60);
        let house = House::with([slow]).await;
        house.obey_after(&["web"], secs(20));
        house.manager.stop(&names(&["web"]), false, false).await;
        assert_eq!(house.state("web"), State::Stopping);
        house
    });
    next_life(ruin, async |house| {
        assert_eq!(house.state("web"), State::Stopping);
        tokio::time::sleep(secs(21)).await;
        let now = house.now("web");
        assert!(now.state == State::Stopped && now.stopped, "{now:?}");
        house.played("web", |played| assert_eq!((played.runs, played.closes), (1, 1)));
    });
}

/// Or the next service of this name would go on with its state.
#[test]
fn a_service_whose_spec_is_lost_leaves_no_record() {
    let ruin = first_life(async {
        let house = House::with([spec("web"), spec("db")]).await;
        house.stop("web").await;
        house
    });
    std::fs::remove_file(ruin.directory().join("papers/web.spec")).unwrap();
    next_life(ruin, async |house| {
        let events = host_told(&house);
        assert!(events.iter().any(|text| text.starts_with("service web is forgotten: ")), "{events:?}");
        assert_eq!((house.record("web"), house.state("db")), (None, State::Running));
    });
}

#[test]
fn v5_what_ended_in_between_is_handled_as_if_pid_1_had_been_there() {
    let ruin = first_life(House::with([backoff("web", secs(10)), oneshot("job")]));
    next_life_of(ruin, async |mut ruin| {
        for (name, exit) in [("web", Exit::Status(4)), ("job", Exit::Status(0))] {
            ruin.ends(name, exit);
        }
        let house = House::another_life(ruin).await;
        assert_eq!((house.state("web"), house.state("job")), (State::Backoff, State::Finished));
        house.assert_told("web", "exited with status 4");
    });
}

#[test]
fn g5_what_went_down_while_another_was_being_started_is_not_forgotten() {
    let ruin = first_life(async {
        let house = House::new();
        house.manners("web", |manners| manners.spawn = secs(5));
        house.boot([spec("db"), minds("web", "db", WhenDown::Restart)]).await;
        house.begin_restart("db").await;
        assert_eq!((house.now("db").run, house.state("web")), (2, State::Starting));
        house
    });
    next_life(ruin, async |house| {
        house.assert_told("web", "service \"db\", which it needs, went down and was started again");
        tokio::time::sleep(secs(10)).await;
        assert_eq!((house.now("db").run, house.now("web").run), (2, 2));
        assert_eq!(house.state("web"), State::Running);
    });
}

#[test]
fn v7_a_child_that_was_just_being_made_is_its_services() {
    let ruin = first_life(async {
        let house = House::new();
        house.manners("web", |manners| manners.spawn = secs(5));
        house.boot([spec("web")]).await;
        assert_eq!(house.state("web"), State::Starting);
        assert!(house.played("web", |played| played.lives()));
        house
    });
    next_life(ruin, async |house| {
        assert_eq!((house.state("web"), house.now("web").run), (State::Running, 1));
        house.played("web", |played| assert_eq!(played.runs, 1));
    });
}

#[test]
fn a_run_is_still_heard() {
    let ruin = first_life(House::with([notify("web")]));
    next_life(ruin, async |house| {
        assert_eq!(house.state("web"), State::Starting);
        house.say("web", "READY=1\nSTATUS=fine").await;
        assert_eq!(house.state("web"), State::Running);
        assert_eq!(house.now("web").status_text.as_deref(), Some("fine"));
    });
}

#[test]
fn what_was_being_prepared_is_prepared_again_and_undone_once() {
    let ruin = first_life(async {
        let house = House::new();
        house.manners("web", |manners| manners.open = secs(5));
        house.boot([spec("web")]).await;
        assert_eq!(house.state("web"), State::Preparing);
        house
    });
    next_life(ruin, async |house| {
        tokio::time::sleep(secs(6)).await;
        assert_eq!(house.state("web"), State::Running);
        house.stop("web").await;
    });
}

#[test]
fn a_spec_that_waits_to_be_taken_up_still_waits() {
    let ruin = first_life(async {
        let house = House::with([spec("web")]).await;
        let mut next = spec("web");
        next.restart.policy = RestartPolicy::Once;
        house.manager.reload(loaded([next])).await.unwrap();
        house.settle().await;
        assert!(house.now("web").changed);
        house
    });
    next_life(ruin, async |house| {
        assert!(house.now("web").changed);
        assert_eq!(house.manager.spec("web").unwrap().restart.policy, RestartPolicy::Once);
        house.exit("web", 1).await;
        assert_eq!(house.state("web"), State::Backoff, "the old one holds while its run does");
        tokio::time::sleep(secs(2)).await;
        assert_eq!((house.state("web"), house.now("web").changed), (State::Running, false));
        house.exit("web", 1).await;
        assert_eq!(house.state("web"), State::Failed);
    });
}

#[test]
fn a_file_that_was_corrected_during_the_backoff_is_used_by_the_next_incarnation() {
    let ruin = first_life(async {
        let house = House::with([spec("web"), spec("db")]).await;
        house.exit("web", 1).await;
        house.manager.reload(loaded([ServiceSpec::process("web", ["corrected"]), spec("db")])).await.unwrap();
        house.settle().await;
        assert_eq!((house.state("web"), house.now("web").changed), (State::Backoff, true));
        house
    });
    next_life(ruin, async |house| {
        assert_eq!((house.state("web"), house.now("web").changed), (State::Backoff, true));
        tokio::time::sleep(secs(2)).await;
        assert_eq!((house.state("web"), house.now("web").restarts), (State::Running, 1));
        assert_eq!(house.played("web", |web| (web.command.clone(), web.opens)), ("corrected".into(), 2));
    });
}

#[test]
fn a_manual_one_that_its_new_file_calls_auto_is_started_by_nobody() {
    let ruin = first_life(async {
        let house = House::with([spec("db"), manual(spec("web")), manual(spec("batch"))]).await;
        let files = loaded([spec("db"), spec("web"), manual(spec("batch"))]);
        let report = house.manager.reload(files).await.unwrap();
        assert_eq!(report.changed, ["web"]);
        house.settle().await;
        assert_eq!(house.state("web"), State::Initialized);
        house
    });
    next_life(ruin, async |house| {
        for name in ["web", "batch"] {
            assert_eq!((house.state(name), house.now(name).down), (State::Initialized, true), "{name}");
        }
        house.start("web").await;
        assert_eq!(house.state("web"), State::Running);
    });
}

/// PID 1 dies when it next comes to this place.
fn dies(place: &str) {
    Fate::current().unwrap().dies_at(place);
}

#[test]
fn v4_a_signal_that_was_not_sent_any_more_is_sent() {
    let ruin = first_life(async {
        let house = House::with([spec("web")]).await;
        dies("before a stop");
        house.begin_stop("web").await;
        house
    });
    next_life(ruin, async |house| {
        assert!(house.now("web").stopped);
        house.played("web", |played| assert_eq!(played.said()[2..], ["signal 15", "close"]));
    });
}

#[test]
fn v6_what_hooks_of_a_start_did_is_answered_before_the_next() {
    let ruin = first_life(async {
        let mut web = spec("web");
        let hook = |name: &str| Hook::new([name], secs(60));
        (web.hooks.pre, web.hooks.post) = (vec![hook("pre")], vec![hook("post")]);
        let house = House::new();
        house.manners("web", |manners| manners.hook("pre", None));
        house.boot([web]).await;
        house.manners("web", |manners| manners.hook("pre", Some((MS, Exit::Status(0)))));
        house
    });
    next_life(ruin, async |house| {
        house.settle().await;
        house.settle().await;
        assert_eq!((house.state("web"), house.now("web").restarts), (State::Running, 0));
        let said = house.played("web", |played| played.said());
        let hooks: Vec<&String> = said.iter().filter(|call| call.starts_with("hook")).collect();
        assert_eq!(hooks, ["hook pre", "hook post", "hook pre"]);
    });
}

#[test]
fn a_watchdog_is_neither_forgotten_nor_rings_for_what_was_before() {
    let ruin = first_life(async {
        let house = House::with([notify("web")]).await;
        house.say("web", "WATCHDOG_USEC=2000000\nREADY=1").await;
        for _ in 0..10 {
            tokio::time::sleep(secs(1)).await;
            house.say("web", "WATCHDOG=1").await;
        }
        house
    });
    next_life(ruin, async |house| {
        tokio::time::sleep(secs(1)).await;
        assert_eq!((house.state("web"), house.now("web").run), (State::Running, 1));
        tokio::time::sleep(secs(2)).await;
        house.assert_told("web", "no WATCHDOG=1 within its interval");
    });
}

#[test]
fn time_that_was_asked_for_is_not_taken_back() {
    let ruin = first_life(async {
        let web = ServiceSpec { start_timeout: secs(5), ..notify("web") };
        let house = House::with([web]).await;
        house.say("web", "EXTEND_TIMEOUT_USEC=60000000").await;
        house
    });
    next_life(ruin, async |house| {
        tokio::time::sleep(secs(50)).await;
        assert_eq!(house.state("web"), State::Starting);
        tokio::time::sleep(secs(11)).await;
        house.assert_told("web", "not ready after");
    });
}

#[test]
fn v8_one_that_was_reaped_before_it_was_known_is_not_run_again() {
    let ruin = first_life(async {
        let house = House::new();
        house.manners("job", |manners| manners.spawn = secs(5));
        house.boot([oneshot("job")]).await;
        house.exit("job", 0).await;
        assert_eq!(house.state("job"), State::Starting);
        house
    });
    next_life(ruin, async |house| {
        house.settle().await;
        assert!(house.now("job").finished);
        house.played("job", |played| assert_eq!(played.runs, 1));
    });
}

#[test]
fn v4_a_host_that_was_stopping_starts_nothing() {
    let ruin = first_life(async {
        let house = House::with([backoff("web", MS), spec("slow")]).await;
        house.manners("slow", |slow| slow.obeys = None);
        let manager = house.manager.clone();
        house.stage.of("web").lock().unwrap().exit(Exit::Status(1));
        house.manager.starts_nothing_more();
        tokio::spawn(async move { manager.stop_all(Instant::now() + secs(60), &[]).await });
        house.settle().await;
        house
    });
    next_life_of(ruin, async |mut ruin| {
        ruin.time_goes_on().await;
        ruin.stage = ruin.stage.another_life(Fate::never());
        let origin = Instant::now() - ruin.age;
        let (house, _) = House::takes_up(ruin, origin, true, |_| {}).await;
        tokio::time::sleep(secs(30)).await;
        house.played("web", |played| assert_eq!(played.runs, 1));
        house.manager.stop_all(Instant::now() + secs(60), &[]).await;
    });
}

#[test]
fn what_was_recorded_and_not_told_any_more_is_told() {
    let ruin = first_life(async {
        let house = House::with([backoff("web", secs(20))]).await;
        dies("before a write to events");
        house.exit("web", 4).await;
        house
    });
    next_life(ruin, async |house| {
        assert_eq!(house.state("web"), State::Backoff);
        house.assert_told("web", "exited with status 4");
    });
}

#[test]
fn v4_a_service_whose_file_is_gone_leaves() {
    let ruin = first_life(async {
        let house = House::with([spec("web")]).await;
        house.obey_after(&["web"], secs(5));
        house.manager.reload(loaded([])).await.unwrap();
        house.settle().await;
        assert_eq!(house.state("web"), State::Stopping);
        house
    });
    next_life(ruin, async |house| {
        tokio::time::sleep(secs(6)).await;
        assert!(house.manager.get("web").is_none());
    });
}

#[test]
fn v1_what_checks_said_goes_on() {
    let before = std::cell::RefCell::new(Vec::new());
    let ruin = first_life(async {
        let house = House::with([checked("web", [Check { failure_threshold: 3, ..exec_check("a") }])]).await;
        tokio::time::sleep(secs(5)).await;
        assert!(house.now("web").up);
        house.played("web", |web| web.commands.set("a", fails("no")));
        while house.manager.checks("web").await[0].results.iter().filter(|result| !result.passed).count() < 2
        {
            tokio::time::sleep(MS).await;
        }
        *before.borrow_mut() = house.manager.checks("web").await;
        house
    });
    next_life(ruin, async |house| {
        let (now, before) = (house.manager.checks("web").await, before.take());
        assert_eq!((now[0].standing, &now[0].results.len()), (before[0].standing, &before[0].results.len()));
        for (now, before) in now[0].results.iter().zip(&before[0].results) {
            assert_eq!((now.passed, &*now.output), (before.passed, &*before.output));
        }
        assert!(house.now("web").up);
        // The third in a row.
        tokio::time::sleep(secs(2)).await;
        assert!(!house.now("web").up);
        house.assert_told("web", "check a fails: no");
    });
}

#[test]
fn v1_one_that_is_reloading_has_been_ready() {
    let ruin = first_life(async {
        let mut web = ServiceSpec { health: vec![exec_check("a")], ..notify("web") };
        web.hooks.post_start = vec![hook("postStart")];
        let house = House::with([web]).await;
        house.say("web", "READY=1").await;
        tokio::time::sleep(secs(5)).await;
        house.say("web", "RELOADING=1").await;
        assert!(!house.now("web").up && house.now("web").healthy == Some(true), "{:?}", house.now("web"));
        house
    });
    next_life(ruin, async |house| {
        assert_eq!(house.now("web").healthy, Some(true));
        assert!(!house.manager.checks("web").await[0].results.is_empty());
        house.say("web", "READY=1").await;
        assert!(house.now("web").up, "{:?}", house.now("web"));
        tokio::time::sleep(secs(5)).await;
        let begun = house.played("web", |web| web.commands.begun());
        let post_starts = begun.iter().filter(|(_, what)| what.ends_with("postStart")).count();
        assert_eq!(post_starts, 1, "{begun:?}");
    });
}
