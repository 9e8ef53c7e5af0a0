//! S1, S4, S7 and the stop of all.

use std::time::Duration;

use kelson_runner::Exit;
use kelson_services::manager::Outcome;
use kelson_services::model::State;
use kelson_spec::service::{RefusedRequest, Requirement, ServiceEvent, ServiceSpec};
use tokio::time::Instant;

use crate::hooks::hook;
use crate::house::*;

#[tokio::test(start_paused = true)]
async fn s1_the_order_is_the_reverse_and_branches_overlap() {
    // a ← b ← c, and a diamond: base ← left, right ← top.
    let house = House::with([
        spec("a"),
        needs("b", &["a"]),
        needs("c", &["b"]),
        spec("base"),
        needs("left", &["base"]),
        needs("right", &["base"]),
        needs("top", &["left", "right"]),
        manual(needs("idle", &["a"])),
    ])
    .await;
    for service in house.manager.list() {
        house.manners(&service.name, |one| one.obeys = Some(secs(2)));
    }
    let begun = Instant::now();
    let summary = house.manager.stop_all(begun + secs(60), &[]).await;
    assert!(summary.killed.is_empty() && summary.given_up.is_empty(), "{summary:?}");
    assert!(begun.elapsed() < Duration::from_millis(6100), "{:?}", begun.elapsed());
    let signal = |name: &str| house.played(name, |one| one.when("signal 15").unwrap());
    let close = |name: &str| house.played(name, |one| one.when("close").unwrap());
    for (first, then) in
        [("c", "b"), ("b", "a"), ("top", "left"), ("top", "right"), ("left", "base"), ("right", "base")]
    {
        assert!(close(first) <= signal(then), "{first} before {then}");
    }
    assert_eq!(signal("left"), signal("right"));
    assert_eq!(signal("c"), signal("top"));
    assert!(house.manager.list().iter().all(|service| service.down));
    assert_eq!(house.message("c"), "stopped: the host is stopping");
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_once_the_host_stops() {
    let mut waits = needs("waits", &["late"]);
    waits.restart.delay = Duration::ZERO;
    let house =
        House::with([spec("db"), needs("web", &["db"]), notify("late"), waits, manual(spec("idle"))]).await;
    house.obey_after(&["web"], secs(5));
    let manager = house.manager.clone();
    let stopping = tokio::spawn(async move { manager.stop_all(Instant::now() + secs(60), &[]).await });
    house.settle().await;
    assert_eq!((house.state("web"), house.state("db")), (State::Stopping, State::Running));
    for asked in [
        house.manager.start(&names(&["db", "idle"]), false).await,
        house.manager.restart(&names(&["db", "idle"]), false).await,
    ] {
        assert!(asked.iter().all(|result| result.outcome == Outcome::Refused), "{asked:?}");
    }
    // It fails while it waits for those that need it to stop.
    house.exit("db", 1).await;
    tokio::time::sleep(secs(3)).await;
    assert_eq!(house.played("db", |db| db.runs), 1);
    assert!(stopping.await.unwrap().killed.is_empty());
    assert_eq!(house.played("waits", |one| one.runs) + house.played("idle", |one| one.runs), 0);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_under_way_is_broken_off_when_the_host_stops() {
    let mut db = spec("db");
    (db.hooks.pre, db.hooks.post) = (vec![hook("first"), hook("second")], vec![hook("post")]);
    let house = House::with([db, spec("base"), needs("web", &["db", "base"])]).await;
    house.obey_after(&["web"], secs(5));
    house.manners("db", |db| db.hook("first", Some((secs(2), Exit::Status(0)))));
    // Those that need it run on meanwhile.
    house.begin_restart("db").await;
    assert_eq!((house.state("db"), house.state("web")), (State::Starting, State::Running));
    let stopping = {
        let manager = house.manager.clone();
        tokio::spawn(async move { manager.stop_all(Instant::now() + secs(60), &[]).await })
    };
    house.settle().await;
    house.settle().await;
    assert_eq!((house.state("db"), house.state("web")), (State::Stopped, State::Stopping));
    assert!(stopping.await.unwrap().killed.is_empty());
    house.played("db", |db| {
        let said = db.said();
        assert_eq!(said.iter().filter(|call| *call == "hook second").count(), 1, "{said:?}");
        assert_eq!(said.iter().filter(|call| *call == "hook post").count(), 2, "{said:?}");
    });
    assert_eq!(house.message("db"), "stopped while starting: the host is stopping");
}

#[tokio::test(start_paused = true)]
async fn s3_the_total_deadline_kills_and_gives_up() {
    let house = House::with([spec("db"), needs("web", &["db"]), spec("rock"), spec("apid")]).await;
    house.manners("web", |web| web.obeys = None);
    house.manners("rock", |rock| rock.unkillable = true);
    let begun = Instant::now();
    let summary = house.manager.stop_all(begun + secs(5), &["apid"]).await;
    assert!(begun.elapsed() < secs(9), "{:?}", begun.elapsed());
    assert_eq!(summary.given_up, ["rock"]);
    assert!(summary.killed.contains(&"web".to_owned()), "{summary:?}");
    assert_eq!(
        (house.state("web"), house.state("db"), house.state("apid")),
        (State::Stopped, State::Stopped, State::Stopped)
    );
    house.assert_told("web", "the total deadline has passed: killed");
    let told = house.told("web");
    assert!(!told.iter().any(|event| event.contains("did not end within 10 s")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn s4_the_delay_comes_before_the_signal_and_ends_with_the_process() {
    let mut web = spec("web");
    web.stop.delay = secs(3);
    let house = House::with([web]).await;
    for restart in [true, false] {
        let at = Instant::now();
        let manager = &house.manager;
        let web = names(&["web"]);
        match restart {
            true => manager.restart(&web, false).await,
            false => manager.stop(&web, false, false).await,
        };
        house.settle().await;
        assert!(!house.now("web").up && house.state("web") == State::Stopping);
        assert_eq!(house.played("web", |web| web.when("signal 15")).is_some(), !restart);
        tokio::time::sleep(secs(3)).await;
        assert_eq!(house.state("web"), if restart { State::Running } else { State::Stopped });
        assert!(at.elapsed() < secs(4));
    }
    house.start("web").await;
    let signals = house.played("web", |web| web.said().iter().filter(|call| *call == "signal 15").count());
    house.manager.stop(&names(&["web"]), false, false).await;
    house.exit("web", 0).await;
    assert_eq!(house.state("web"), State::Stopped, "gone before the delay was over");
    let after = house.played("web", |web| web.said().iter().filter(|call| *call == "signal 15").count());
    assert_eq!((signals, after), (2, 2), "nobody was left to be signalled");
}

#[tokio::test(start_paused = true)]
async fn s7_what_others_need_is_refused_or_stopped_after_them() {
    let mut either = spec("either");
    let up = |name: &str| Requirement::service(name, ServiceEvent::Up);
    either.depends = vec![Requirement::Any(vec![up("db"), up("spare")])];
    let house = House::with([
        spec("db"),
        spec("spare"),
        either,
        needs("web", &["db"]),
        needs("top", &["web"]),
        ServiceSpec { depends: vec![up("db"), Requirement::TimeSynced], ..spec("waiting") },
    ])
    .await;
    let refused = house.stop("db").await;
    assert_eq!(refused.outcome, Outcome::Refused);
    assert_eq!(refused.message, "needed by \"web\"; stop that first, or use --cascade");
    assert_eq!(house.state("db"), State::Running);
    house.obey_after(&["web", "top"], secs(1));
    let done = house.manager.stop(&names(&["db"]), true, true).await;
    assert_eq!(done[0].outcome, Outcome::Done, "{done:?}");
    assert!(done[0].message.ends_with(", after top, web"), "{}", done[0].message);
    let at = |name: &str, call: &str| house.played(name, |one| one.when(call).unwrap());
    assert!(at("top", "close") <= at("web", "signal 15") && at("web", "close") <= at("db", "signal 15"));
    assert_eq!(house.message("web"), "stopped: \"db\", which it needs, is to be stopped");
    assert_eq!((house.state("either"), house.state("waiting")), (State::Running, State::Waiting));
}

#[tokio::test(start_paused = true)]
async fn of_two_services_that_conflict_the_later_one_runs() {
    let conflicts =
        |name: &str| ServiceSpec { conflicts: vec!["old".into(), "none".into()], ..manual(spec(name)) };
    let refusing = ServiceSpec { refuses: vec![RefusedRequest::Start], ..conflicts("refusing") };
    let house = House::with([spec("old"), needs("web", &["old"]), conflicts("new"), refusing]).await;
    house.obey_after(&["web", "old"], secs(2));
    let refused = house.manager.start(&names(&["refusing", "missing"]), true).await;
    assert!(refused.iter().all(|result| result.outcome == Outcome::Refused), "{refused:?}");
    assert_eq!((house.state("old"), house.state("web")), (State::Running, State::Running));

    let done = house.manager.start(&names(&["new"]), true).await;
    assert_eq!(done[0].outcome, Outcome::Done, "{done:?}");
    let at = |name: &str, call: &str| house.played(name, |one| one.when(call).unwrap());
    assert!(at("web", "close") <= at("old", "signal 15") && at("old", "close") <= at("new", "run 1"));
    assert_eq!(house.message("old"), "stopped: \"new\", with which it conflicts, is started");
    assert_eq!(house.message("web"), "stopped: \"old\", which it needs, is to be stopped");

    // It says nothing itself, and is stopped for the other all the same.
    house.manager.restart(&names(&["old"]), true).await;
    assert_eq!((house.state("old"), house.state("new")), (State::Running, State::Stopped));

    // Of two in one request it is not known which one is meant.
    let asked = names(&["old", "new", "web"]);
    for results in [house.manager.start(&asked, true).await, house.manager.restart(&asked, true).await] {
        let refused: Vec<&str> = results
            .iter()
            .filter(|result| result.outcome == Outcome::Refused)
            .map(|result| result.message.as_str())
            .collect();
        assert_eq!(
            refused,
            [
                "it conflicts with new, which was asked for too: name one of them",
                "it conflicts with old, which was asked for too: name one of them"
            ]
        );
        assert_eq!(results.len(), 3);
    }
    assert_eq!(
        ["old", "new", "web"].map(|name| house.state(name)),
        [State::Running, State::Stopped, State::Running]
    );
}

#[tokio::test(start_paused = true)]
async fn s7_two_cascades_at_once_are_both_answered() {
    let house = House::with([spec("db"), needs("web", &["db"])]).await;
    house.obey_after(&["web"], secs(2));
    let db = names(&["db"]);
    let both =
        async { tokio::join!(house.manager.stop(&db, true, true), house.manager.stop(&db, true, true)) };
    let (a, b) = tokio::time::timeout(secs(20), both).await.expect("both are answered");
    assert_eq!((a[0].outcome, b[0].outcome), (Outcome::Done, Outcome::Done));
    assert!(house.now("db").stopped && house.now("web").stopped);
}

#[tokio::test(start_paused = true)]
async fn s7_a_cascade_that_was_overtaken_says_so() {
    let house = House::with([spec("db"), needs("web", &["db"])]).await;
    house.obey_after(&["web"], secs(2));
    house.obey_after(&["db"], secs(2));
    let db = names(&["db"]);
    let start = async {
        tokio::time::sleep(secs(3)).await;
        house.manager.start(&db, true).await
    };
    let (stopped, started) = tokio::join!(house.manager.stop(&db, true, true), start);
    assert_eq!((stopped[0].outcome, started[0].outcome), (Outcome::Superseded, Outcome::Done), "{stopped:?}");
}

#[test]
fn s7_a_cascade_ends_with_the_pid_1_that_was_asked_for_it() {
    let ruin = first_life(async {
        let house = House::with([spec("db"), needs("web", &["db"])]).await;
        house.obey_after(&["web"], secs(5));
        let manager = house.manager.clone();
        tokio::spawn(async move { manager.stop(&names(&["db"]), true, true).await });
        tokio::time::sleep(secs(1)).await;
        assert_eq!((house.state("web"), house.state("db")), (State::Stopping, State::Running));
        house
    });
    next_life(ruin, async |house| {
        tokio::time::sleep(secs(20)).await;
        assert!(house.now("web").stopped && house.state("web") == State::Stopped, "{:?}", house.now("web"));
        assert_eq!(house.state("db"), State::Running);
        let done = house.manager.stop(&names(&["db"]), true, true).await;
        assert_eq!(done[0].outcome, Outcome::Done, "{done:?}");
    });
}

#[tokio::test(start_paused = true)]
async fn a_thousand_are_stopped_without_asking_a_million_times() {
    let house = House::new();
    house
        .manager
        .take_in(loaded(
            (0..1000).map(|n| if n == 0 { spec("s0") } else { needs(&format!("s{n}"), &["s0"]) }),
        ))
        .await;
    house.manager.begin();
    tokio::time::sleep(secs(5)).await;
    let all: Vec<String> = (0..1000).map(|n| format!("s{n}")).collect();
    let begun = std::time::Instant::now();
    let results = house.manager.stop(&all, false, true).await;
    assert_eq!(results.len(), 1000);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_has_ended_has_no_pid_while_it_is_cleaned_up() {
    let house = House::with([spec("web")]).await;
    house.manners("web", |web| web.close = secs(1));
    house.begin_stop("web").await;
    house.settle().await;
    assert!(!house.played("web", Played::lives));
    assert_eq!((house.state("web"), house.now("web").pid), (State::Stopping, None));
    let record = house.record("web").unwrap();
    assert_eq!(
        (record.service.pid(), record.service.exit),
        (None, Some(Exit::Signal { signal: 15, core: false }))
    );
    tokio::time::sleep(secs(1)).await;
}
