//! Groups: the order of their members, and the restart of all of them together.

use std::sync::Arc;
use std::time::Duration;

use kelson_services::manager::Outcome;
use kelson_services::model::{RestartReason, State};
use kelson_spec::GroupSpec;
use kelson_spec::service::{
    Check, Lifecycle, LifecycleHook, Requirement, RestartScope, RestartSpec, ServiceEvent, ServiceKind,
    ServiceSpec, StartMode,
};
use tokio::time::Instant;

use crate::health_commands::{fails, passes};
use crate::house::*;

fn member(spec: ServiceSpec, hook: Option<LifecycleHook>, depends: &[(&str, ServiceEvent)]) -> ServiceSpec {
    let depends = depends.iter().map(|(name, event)| Requirement::service(*name, *event)).collect();
    let lifecycle = Lifecycle { hook, sidecar: false };
    ServiceSpec { group: Some("shop".into()), lifecycle, depends, ..spec }
}

/// The shop, with the dependencies that `kelson-load` gives it: migrate before, proxy beside, db and web, warm once they
/// are up, sweep once they are down. The mains restart as a group once they have failed twice.
fn shop() -> Vec<ServiceSpec> {
    use ServiceEvent::{Down, Finished, Up};
    let before = [("migrate", Finished), ("proxy", Up)];
    let main = |name, more: &[(&str, ServiceEvent)]| {
        let mut spec = member(spec(name), None, &[&before, more].concat());
        spec.restart.scope = RestartScope::Group;
        spec.restart.attempts = 1;
        spec
    };
    let mut proxy = member(spec("proxy"), None, &[]);
    proxy.lifecycle.sidecar = true;
    vec![
        member(oneshot("migrate"), Some(LifecycleHook::Prestart), &[]),
        proxy,
        main("db", &[]),
        main("web", &[("db", Up)]),
        member(oneshot("warm"), Some(LifecycleHook::Poststart), &[("db", Up), ("web", Up)]),
        member(oneshot("sweep"), Some(LifecycleHook::Poststop), &[("db", Down), ("web", Down)]),
    ]
}

/// The shop, open.
async fn open() -> House {
    open_with(shop()).await
}

async fn open_with(specs: Vec<ServiceSpec>) -> House {
    let house = House::with(specs).await;
    house.exit("migrate", 0).await;
    house.exit("warm", 0).await;
    house
}

/// Lets services use their budget up: they fail, are restarted, and fail again.
async fn use_up_all(house: &House, all: &[&str]) {
    for name in all {
        house.exit(name, 1).await;
    }
    house.until(|house| all.iter().all(|name| house.now(name).pid.is_some())).await;
    for name in all {
        house.exit(name, 1).await;
    }
}

async fn use_up(house: &House, name: &str) {
    use_up_all(house, &[name]).await;
}

/// When something was asked of a service for the last time.
fn last(house: &House, name: &str, call: &str) -> Duration {
    house.played(name, |one| {
        let found = one.calls.iter().rev().find(|(_, said)| said.starts_with(call));
        found.unwrap_or_else(|| panic!("{name} had no {call:?}: {:?}", one.calls)).0
    })
}

fn runs(house: &House) -> Vec<(&'static str, u32)> {
    let all = ["migrate", "proxy", "db", "web", "warm", "sweep"];
    all.map(|name| (name, house.played(name, |one| one.runs))).to_vec()
}

pub fn restarts(house: &House) -> u64 {
    house.manager.group_restarts().get("shop").copied().unwrap_or_default()
}

fn by_group(house: &House, name: &str) -> u32 {
    house.now(name).restarts_by.iter().find(|(reason, _)| *reason == RestartReason::Group).unwrap().1
}

#[tokio::test(start_paused = true)]
async fn a_group_starts_and_stops_in_order_and_what_comes_after_comes_each_time() {
    let house = House::with(shop()).await;
    assert_eq!(house.state("proxy"), State::Running);
    assert_eq!(
        house.message("web"),
        r#"waiting for service "migrate" to have finished, service "db" to be up"#
    );
    house.exit("migrate", 0).await;
    assert!(house.now("web").up && house.now("db").up);
    assert_eq!(house.state("warm"), State::Running);
    house.exit("warm", 0).await;
    assert_eq!(house.state("sweep"), State::Waiting);
    house.obey_after(&["web", "db", "proxy"], secs(1));
    let all = names(&["db", "web", "proxy"]);
    let stop = async || {
        let stopped = house.manager.stop(&all, true, true).await;
        assert!(stopped.iter().all(|result| result.outcome == Outcome::Done), "{stopped:?}");
        house.settle().await;
    };
    stop().await;
    assert!(last(&house, "web", "close") <= last(&house, "db", "signal"));
    assert!(last(&house, "db", "close") <= last(&house, "proxy", "signal"));
    assert_eq!(house.state("sweep"), State::Running);
    house.exit("sweep", 0).await;
    assert_eq!(house.state("sweep"), State::Finished);
    // Once more: it waits for the next end of the mains, and only once the first of them is up.
    house.start("proxy").await;
    assert_eq!(house.state("sweep"), State::Finished);
    house.manager.start(&names(&["db", "web"]), true).await;
    house.settle().await;
    assert_eq!(house.state("sweep"), State::Waiting);
    stop().await;
    house.exit("sweep", 0).await;
    assert_eq!((house.state("sweep"), house.played("sweep", |one| one.runs)), (State::Finished, 2));
    // A member that an operator stopped is not armed.
    house.manager.start(&all, true).await;
    house.settle().await;
    house.stop("sweep").await;
    house.restart("web").await;
    house.settle().await;
    assert_eq!((house.state("sweep"), house.now("sweep").stopped), (State::Stopped, true));
}

#[tokio::test(start_paused = true)]
async fn a_used_up_budget_restarts_the_group_in_order_exactly_once() {
    let house = open().await;
    house.obey_after(&["web", "db", "proxy"], secs(1));
    // Both mains ask.
    use_up_all(&house, &["db", "web"]).await;
    tokio::time::sleep(secs(10)).await;
    house.exit("migrate", 0).await;
    house.exit("warm", 0).await;
    assert_eq!(restarts(&house), 1);
    assert_eq!(
        runs(&house),
        [("migrate", 2), ("proxy", 2), ("db", 3), ("web", 3), ("warm", 2), ("sweep", 0)],
        "{:#?}",
        host_told(&house)
    );
    assert!(last(&house, "proxy", "signal") < last(&house, "proxy", "run"));
    assert!(last(&house, "migrate", "run") < last(&house, "db", "run"));
    assert!(last(&house, "db", "run") <= last(&house, "web", "run"));
    assert!(last(&house, "web", "run") <= last(&house, "warm", "run"));
    assert_eq!(house.state("sweep"), State::Waiting, "the mains were never down for good");
    for name in ["db", "web", "proxy", "migrate", "warm"] {
        assert!(house.now(name).up, "{:?}", house.now(name));
    }
    let told = host_told(&house);
    assert!(told[0].starts_with("group shop restarts: db: exited with status 1"), "{told:#?}");
    assert!(told[1].starts_with("group shop has stopped, it starts again in 1"), "{told:#?}");
    assert_eq!(told.len(), 2, "{told:#?}");
    house.assert_told("proxy", "stopped: its group is restarted (db: exited with status 1");
    house.assert_told("proxy", "starts again with its group: db: exited with status 1");
    assert_eq!((by_group(&house, "proxy"), by_group(&house, "migrate")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_check_restarts_the_group_in_order_exactly_once() {
    let mut specs = shop();
    for spec in &mut specs {
        if ["db", "web"].contains(&spec.name.as_str()) {
            spec.health = vec![Check { restart_after: 3, grace: Duration::ZERO, ..exec_check("ping") }];
        }
    }
    let house = House::with(specs).await;
    house.exit("migrate", 0).await;
    tokio::time::sleep(secs(3)).await;
    house.exit("warm", 0).await;
    assert!(house.now("web").up && house.now("db").up);
    let ping = |name: &str, conduct| house.played(name, |one| one.commands.set("ping", conduct));
    ping("web", fails("no"));
    ping("db", fails("no"));
    house.until(|house| restarts(house) > 0).await;
    ping("web", passes());
    ping("db", passes());
    tokio::time::sleep(secs(5)).await;
    house.exit("migrate", 0).await;
    tokio::time::sleep(secs(5)).await;
    house.exit("warm", 0).await;
    assert_eq!(
        runs(&house),
        [("migrate", 2), ("proxy", 2), ("db", 2), ("web", 2), ("warm", 2), ("sweep", 0)]
    );
    assert!(last(&house, "web", "signal") <= last(&house, "db", "signal"));
    assert!(last(&house, "db", "signal") <= last(&house, "proxy", "signal"));
    assert_eq!(restarts(&house), 1);
    let told = host_told(&house);
    assert!(told[0].contains("check ping"), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn each_restart_waits_longer_until_all_have_been_up_for_long() {
    let mut specs = shop();
    for spec in &mut specs {
        spec.restart.attempts = u32::from(spec.restart.scope == RestartScope::Group);
        spec.restart.delay = secs(2);
        spec.restart.max_delay = secs(6);
        // Each budget is whole again when the next round begins.
        spec.restart.interval = secs(8);
    }
    let house = open_with(specs).await;
    let rest = async || {
        tokio::time::sleep(secs(5)).await;
        use_up(&house, "web").await;
        let stopped = Instant::now();
        let runs = house.played("proxy", |one| one.runs);
        house.until(|house| house.played("proxy", |one| one.runs) > runs).await;
        let rest = stopped.elapsed();
        house.exit("migrate", 0).await;
        house.exit("warm", 0).await;
        rest.as_secs_f64()
    };
    for least in [2.0, 4.0, 6.0, 6.0] {
        let rest = rest().await;
        assert!((least..=least * 1.25 + 0.05).contains(&rest), "{rest} where {least} was due");
    }
    // Up for a while each time, but not for the ten seconds that it takes at least.
    tokio::time::sleep(secs(11)).await;
    assert!(rest().await < 2.6);
}

#[tokio::test(start_paused = true)]
async fn g8_what_an_operator_stops_during_a_restart_stays_so() {
    // While others stop; while it stops itself; and during the rest.
    for moment in [Duration::from_millis(500), Duration::from_millis(1500), Duration::from_millis(2500)] {
        let house = open().await;
        house.obey_after(&["db", "proxy"], secs(1));
        use_up(&house, "web").await;
        tokio::time::sleep(moment).await;
        let cascades = house.state("db") == State::Stopping;
        let stopped = house.manager.stop(&names(&["proxy"]), true, true).await;
        assert!(
            matches!(stopped[0].outcome, Outcome::Done | Outcome::NothingToDo),
            "{moment:?}: {stopped:?}"
        );
        tokio::time::sleep(secs(10)).await;
        house.exit("migrate", 0).await;
        assert_eq!(
            (house.state("proxy"), house.now("proxy").stopped, house.played("proxy", |one| one.runs)),
            (State::Stopped, true, 1),
            "{moment:?}: {:#?}",
            house.told("proxy")
        );
        if cascades {
            assert!(house.now("db").stopped, "{:?}", house.now("db"));
        } else {
            // The others wait for it, and say so.
            let waits = r#"waiting for service "proxy" to be up (it was stopped); the last run: its group is restarted"#;
            house.assert_says("db", waits);
        }
        house.manager.start(&names(&["proxy", "db"]), true).await;
        house.settle().await;
        assert!(house.now("web").up);
    }
}

#[tokio::test(start_paused = true)]
async fn g8_what_an_operator_starts_during_a_restart_starts_at_once_and_once() {
    let house = open().await;
    use_up(&house, "web").await;
    assert_eq!((house.state("proxy"), house.now("proxy").down), (State::Stopped, false));
    // During the rest.
    let started = house.manager.start(&names(&["proxy", "migrate"]), false).await;
    assert!(started.iter().all(|result| result.outcome == Outcome::Done), "{started:?}");
    house.settle().await;
    assert!(house.now("proxy").up);
    house.exit("migrate", 0).await;
    tokio::time::sleep(secs(5)).await;
    assert!(house.now("web").up && house.now("db").up);
    assert_eq!(
        runs(&house)[..2],
        [("migrate", 2), ("proxy", 2)],
        "what the operator had done is not done again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_an_operator_started_may_ask_again() {
    let house = open().await;
    house.obey_after(&["db", "proxy"], secs(1));
    let mut late = shop().remove(3);
    late.name = "late".into();
    late.depends.clear();
    late.start = StartMode::Manual;
    late.restart.attempts = 0;
    late.health = vec![Check {
        interval: Duration::from_millis(100),
        initial_delay: Duration::from_millis(100),
        restart_after: 1,
        failure_threshold: 1,
        grace: Duration::ZERO,
        ..exec_check("ping")
    }];
    house.manager.reload(loaded([shop(), vec![late]].concat())).await.unwrap();
    house.played("late", |one| one.commands.set("ping", fails("no")));
    use_up(&house, "web").await;
    house.manager.start(&names(&["late"]), false).await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!((restarts(&house), house.now("late").run), (1, 1), "it asks during the restart");
    tokio::time::sleep(secs(4)).await;
    assert_eq!(restarts(&house), 2, "{:#?}", host_told(&house));
    assert!(
        host_told(&house).iter().any(|told| told.contains("restarts: late: ")),
        "{:#?}",
        host_told(&house)
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_host_ends_a_restart() {
    for moment in [Duration::from_millis(500), Duration::from_millis(1500), Duration::from_millis(2500)] {
        let house = open().await;
        house.obey_after(&["db", "proxy"], secs(1));
        use_up(&house, "web").await;
        let before = runs(&house);
        tokio::time::sleep(moment).await;
        let summary = house.manager.stop_all(Instant::now() + secs(60), &[]).await;
        assert!(summary.killed.is_empty(), "{summary:?}");
        tokio::time::sleep(secs(60)).await;
        assert_eq!(runs(&house), before, "{moment:?}");
        assert!(house.manager.list().iter().all(|service| service.down), "{:#?}", house.manager.list());
    }
}

#[test]
fn a_restart_that_pid_1_did_not_see_to_its_end_begins_again() {
    let ruin = first_life(async {
        let house = open().await;
        house.obey_after(&["db"], secs(5));
        use_up(&house, "web").await;
        tokio::time::sleep(secs(1)).await;
        assert_eq!((house.state("db"), house.state("proxy")), (State::Stopping, State::Running));
        house
    });
    next_life(ruin, async |house| {
        tokio::time::sleep(secs(20)).await;
        house.exit("migrate", 0).await;
        house.exit("warm", 0).await;
        assert_eq!(restarts(&house), 1);
        assert_eq!(
            runs(&house),
            [("migrate", 2), ("proxy", 2), ("db", 2), ("web", 3), ("warm", 2), ("sweep", 0)],
            "{:#?}",
            host_told(&house)
        );
        for name in ["web", "db", "proxy", "migrate", "warm"] {
            assert!(house.now(name).up, "{:?}", house.now(name));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn members_come_and_go_during_a_restart() {
    let house = open().await;
    house.obey_after(&["db", "proxy"], secs(1));
    use_up(&house, "web").await;
    let mut specs = shop();
    specs.retain(|spec| spec.name != "warm" && spec.name != "sweep");
    specs.push(member(spec("new"), None, &[("web", ServiceEvent::Up)]));
    let report = house.manager.reload(loaded(specs)).await.unwrap();
    assert_eq!((report.started, report.stopped), (names(&["new"]), names(&["sweep", "warm"])));
    tokio::time::sleep(secs(10)).await;
    house.exit("migrate", 0).await;
    assert!(house.now("web").up && house.now("new").up, "{:?}", house.now("web"));
    assert!(house.manager.get("warm").is_none() && house.manager.get("sweep").is_none());
    assert_eq!((restarts(&house), house.played("new", |one| one.runs)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_outside_and_what_cannot_be_stopped_is_left_alone() {
    let mut specs = shop();
    specs.push(needs("outside", &["web"]));
    let house = open_with(specs).await;
    house.manners("proxy", |proxy| proxy.unkillable = true);
    use_up(&house, "web").await;
    tokio::time::sleep(secs(5)).await;
    assert_eq!((house.state("proxy"), house.state("outside")), (State::Stopping, State::Running));
    tokio::time::sleep(secs(300)).await;
    let told = host_told(&house);
    assert!(told.contains(&"group shop does not wait any longer for proxy to stop".to_owned()), "{told:#?}");
    let waits = r#"waiting for service "migrate" to have finished, service "proxy" to be up; the last run: "#;
    house.assert_says("db", waits);
    assert_eq!(house.now("outside").run, 1);
}

#[tokio::test(start_paused = true)]
async fn the_boot_waits_neither_for_what_is_not_required_nor_for_the_end_of_the_mains() {
    let mut extra = notify("extra");
    extra.required = false;
    let mut specs = shop();
    specs.push(extra);
    let house = House::with(specs).await;
    let manager = house.manager.clone();
    let settled = tokio::spawn(async move { manager.settled().await });
    house.exit("migrate", 0).await;
    assert!(!settled.is_finished());
    house.exit("warm", 0).await;
    assert!(settled.is_finished());
    assert_eq!((house.state("sweep"), house.state("extra")), (State::Waiting, State::Starting));
}

#[tokio::test(start_paused = true)]
async fn groups_are_counted_each() {
    let house = open().await;
    assert_eq!(house.manager.group_restarts().len(), 0);
    use_up(&house, "web").await;
    let counts: Vec<(Arc<str>, u64)> = house.manager.group_restarts().into_iter().collect();
    assert_eq!(counts, [(Arc::from("shop"), 1)]);
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_restart_is_not_up_until_it_comes() {
    let mut db = in_group("g", spec("db"));
    db.restart.scope = RestartScope::Group;
    // The same answer makes it fail and ask.
    db.health =
        vec![Check { failure_threshold: 1, restart_after: 1, grace: Duration::ZERO, ..exec_check("ping") }];
    let web = in_group("g", needs("web", &["db"]));
    let house = House::new();
    house.played("db", |db| db.commands.set("ping", passes()));
    house.obey_after(&["web"], secs(5));
    house.manager.take_in(loaded([db, web])).await;
    house.manager.begin();
    tokio::time::sleep(secs(3)).await;
    assert!(house.now("web").up);
    house.played("db", |db| db.commands.set("ping", fails("no")));
    tokio::time::sleep(secs(3)).await;
    let now = house.now("db");
    assert_eq!((now.state, now.up, now.healthy), (State::Running, false, Some(false)), "{now:?}");
    assert_eq!(house.state("web"), State::Stopping);
}

/// The file of the shop: at most `attempts` restarts in an hour, each after `delay`.
pub fn file(attempts: u32, delay: Duration) -> GroupSpec {
    let rules = RestartSpec {
        attempts,
        delay,
        max_delay: delay,
        interval: secs(3600),
        ..RestartSpec::for_kind(ServiceKind::Service)
    };
    GroupSpec { name: "shop".into(), restart: Some(rules), ..GroupSpec::default() }
}

#[tokio::test(start_paused = true)]
async fn the_file_of_a_group_bounds_its_restarts_and_says_how_long_it_rests() {
    let house = open().await;
    house.manager.set_groups(&[file(1, secs(20))]);
    use_up(&house, "web").await;
    tokio::time::sleep(secs(19)).await;
    assert_eq!((restarts(&house), house.played("proxy", |one| one.runs)), (1, 1));
    tokio::time::sleep(secs(7)).await;
    assert_eq!(house.played("proxy", |one| one.runs), 2);
    house.exit("migrate", 0).await;
    house.exit("warm", 0).await;
    // Another member asks: the budget is that of the group.
    let before = runs(&house);
    use_up(&house, "db").await;
    tokio::time::sleep(secs(60)).await;
    let now = house.now("db");
    assert!(now.state == State::Failed && now.down && !now.finished, "{now:?}");
    assert!(now.message.ends_with("; group shop gave up after 2 failures in 1h"), "{now:?}");
    assert!(house.now("web").up && house.now("proxy").up);
    assert_eq!(restarts(&house), 1);
    let told = host_told(&house);
    let refused = "group shop gave up after 2 failures in 1h and is not restarted, as asked for by db: exited with status 1";
    assert!(told.iter().any(|text| text.starts_with(refused)), "{told:#?}");
    // It ran once more by its own policy, and all others as before.
    let again: Vec<_> =
        before.into_iter().map(|(name, runs)| (name, runs + u32::from(name == "db"))).collect();
    assert_eq!(runs(&house), again);
    // Without the file the group is restarted again.
    house.manager.set_groups(&[]);
    house.start("db").await;
    use_up(&house, "db").await;
    assert_eq!(restarts(&house), 2);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_asks_a_group_without_a_budget_left_ends_its_service_as_failed() {
    let mut db = in_group("shop", spec("db"));
    db.restart.scope = RestartScope::Group;
    db.health = vec![Check { restart_after: 1, grace: Duration::ZERO, ..exec_check("ping") }];
    let web = in_group("shop", spec("web"));
    let house = House::new();
    house.manager.set_groups(&[file(1, secs(1))]);
    house.played("db", |db| db.commands.set("ping", fails("no")));
    house.manager.take_in(loaded([db, web])).await;
    house.manager.begin();
    tokio::time::sleep(secs(30)).await;
    let now = house.now("db");
    assert!(now.state == State::Failed && now.down, "{now:?}");
    assert!(now.message.contains("group shop gave up after 2 failures in 1h"), "{now:?}");
    assert_eq!((restarts(&house), house.now("web").run, house.now("web").up), (1, 2, true));
}

#[test]
fn the_budget_of_a_group_is_kept_over_the_death_of_pid_1() {
    let ruin = first_life(async {
        let house = open().await;
        house.manager.set_groups(&[file(1, secs(1))]);
        use_up(&house, "web").await;
        tokio::time::sleep(secs(5)).await;
        house.exit("migrate", 0).await;
        house.exit("warm", 0).await;
        assert_eq!(restarts(&house), 1);
        house
    });
    next_life(ruin, async |house| {
        house.manager.set_groups(&[file(1, secs(1))]);
        assert_eq!(restarts(&house), 1);
        use_up(&house, "db").await;
        tokio::time::sleep(secs(30)).await;
        assert_eq!((restarts(&house), house.state("db")), (1, State::Failed));
        assert!(house.now("db").down && house.now("web").up);
    });
}

#[test]
fn a_restart_that_was_cut_off_needs_no_budget_again() {
    let ruin = first_life(async {
        let house = open().await;
        house.manager.set_groups(&[file(1, secs(2))]);
        house.obey_after(&["db"], secs(5));
        use_up(&house, "web").await;
        tokio::time::sleep(secs(1)).await;
        assert_eq!(house.state("db"), State::Stopping);
        house
    });
    next_life(ruin, async |house| {
        house.manager.set_groups(&[file(1, secs(2))]);
        tokio::time::sleep(secs(20)).await;
        house.exit("migrate", 0).await;
        house.exit("warm", 0).await;
        assert_eq!(restarts(&house), 1);
        for name in ["web", "db", "proxy"] {
            assert!(house.now(name).up, "{:?}", house.now(name));
        }
    });
}
