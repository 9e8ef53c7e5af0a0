//! Reading the files again.

use std::sync::Arc;

use kelson_services::manager::{Awaited, Outcome};
use kelson_services::model::State;
use kelson_services::service_runner::table::{Input, StopReason};
use kelson_services::service_runner::task::{Command, prepare};
use kelson_spec::Loaded;
use kelson_spec::service::{Requirement, ServiceSpec};
use tokio::sync::{mpsc, oneshot};

use crate::house::*;

fn other(name: &str) -> ServiceSpec {
    ServiceSpec::process(name, [name, "--new"])
}

#[tokio::test(start_paused = true)]
async fn new_ones_start_removed_ones_stop_and_waiters_learn_of_it() {
    let house = House::with([spec("old"), needs("web", &["new"])]).await;
    assert_eq!(house.now("web").waiting_for(), ["service \"new\" to be up (there is no such service)"]);
    let report = house.manager.reload(loaded([spec("new"), needs("web", &["new"])])).await.unwrap();
    assert_eq!((report.started, report.stopped), (names(&["new"]), names(&["old"])));
    house.settle().await;
    assert_eq!((house.state("new"), house.state("web")), (State::Running, State::Running));
    assert!(house.manager.get("old").is_none() && house.record("old").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_built_in_that_the_first_of_its_users_brings_stays_and_stops_after_them() {
    let house = House::with([spec("web")]).await;
    house.manager.bring_in(Arc::new(notify("containerd")));
    house.manager.reload(loaded([spec("web"), needs("box", &["containerd"])])).await.unwrap();
    house.settle().await;
    assert_eq!((house.state("containerd"), house.state("box")), (State::Starting, State::Waiting));
    assert!(house.now("containerd").builtin);
    house.say("containerd", "READY=1").await;
    assert_eq!((house.state("containerd"), house.state("box")), (State::Running, State::Running));
    // No file names it, and it stays.
    let report = house.manager.reload(loaded([spec("web")])).await.unwrap();
    assert_eq!(report.stopped, ["box"]);
    house.manager.reload(loaded([spec("web"), needs("box", &["containerd"])])).await.unwrap();
    house.settle().await;
    assert_eq!((house.state("containerd"), house.state("box")), (State::Running, State::Running));
    house.manager.stop_all(tokio::time::Instant::now() + secs(60), &[]).await;
    let log = house.manager.events(0, 4096).events;
    let stopped = |name: &str| {
        log.iter().rposition(|event| &*event.service == name && event.state == State::Stopping).unwrap()
    };
    let rested = log.iter().rposition(|event| &*event.service == "box" && event.state.at_rest()).unwrap();
    assert!(stopped("box") < rested && rested < stopped("containerd"), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn what_this_host_cannot_run_does_not_run_on_as_it_was() {
    let house = House::with([spec("web")]).await;
    let impossible = ServiceSpec { description: IMPOSSIBLE.into(), ..once("web") };
    house.manager.reload(loaded([impossible])).await.unwrap();
    house.settle().await;
    assert_eq!(house.state("web"), State::Running, "until an operator asks for it");
    let answer = house.restart("web").await;
    assert_eq!(answer.outcome, Outcome::Failed);
    assert!(answer.message.contains("this host cannot run it"), "{}", answer.message);
    assert_eq!(house.played("web", |web| web.opens), 1, "the old runner is asked for nothing");
    // Mended, it runs again.
    house.manager.reload(loaded([spec("web")])).await.unwrap();
    house.settle().await;
    house.start("web").await;
    assert_eq!(house.state("web"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_changed_one_takes_its_file_up_with_its_next_run() {
    let house = House::with([spec("web"), spec("db")]).await;
    let report = house.manager.reload(loaded([other("web"), other("db")])).await.unwrap();
    assert_eq!((report.changed, report.next_run), (names(&["web", "db"]), vec![]));
    house.settle().await;
    for name in ["web", "db"] {
        assert!(house.now(name).changed);
        assert_eq!(house.played(name, |one| one.command.clone()), name, "what runs goes on");
    }
    house.exit("web", 1).await;
    assert_eq!((house.state("web"), house.now("web").changed), (State::Backoff, true));
    tokio::time::sleep(secs(2)).await;
    house.restart("db").await;
    for name in ["web", "db"] {
        let (command, opens) = house.played(name, |one| (one.command.clone(), one.opens));
        assert_eq!((command, opens), (format!("{name} --new"), 2));
        assert_eq!((house.state(name), house.now(name).changed), (State::Running, false));
    }
    assert_eq!((house.now("web").restarts, house.now("db").restarts), (1, 0));
}

/// Its delay stays what it was: the file says what is run next, and not when.
#[tokio::test(start_paused = true)]
async fn a_file_that_is_corrected_during_the_backoff_is_used_by_the_next_run() {
    let house = House::with([spec("web")]).await;
    house.exit("web", 1).await;
    let report = house.manager.reload(loaded([other("web")])).await.unwrap();
    assert_eq!((report.changed, report.next_run), (names(&["web"]), names(&["web"])));
    house.settle().await;
    assert_eq!(house.state("web"), State::Backoff);
    house.assert_told("web", "its file or image changed, its next run uses it");
    tokio::time::sleep(secs(2)).await;
    assert_eq!((house.state("web"), house.now("web").restarts), (State::Running, 1));
    assert_eq!(house.played("web", |web| (web.command.clone(), web.opens)), ("web --new".into(), 2));
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_uses_its_corrected_file_at_once() {
    let house = House::with([spec("db"), needs("web", &["typo"]), needs("late", &["db"])]).await;
    assert_eq!(house.state("web"), State::Waiting);
    let report =
        house.manager.reload(loaded([spec("db"), needs("web", &["db"]), other("late")])).await.unwrap();
    assert_eq!((report.changed, report.next_run), (names(&["web", "late"]), names(&["web"])));
    house.settle().await;
    assert_eq!((house.state("web"), house.now("web").changed), (State::Running, false));
    assert!(house.now("late").changed);

    // Prepared, and waiting again: what was prepared is undone.
    house.manager.stop(&names(&["db"]), true, true).await;
    house.manager.start(&names(&["db", "late"]), true).await;
    house.exit("late", 1).await;
    house
        .manager
        .reload(loaded([spec("db"), needs("web", &["db"]), needs("late", &["typo"])]))
        .await
        .unwrap();
    tokio::time::sleep(secs(2)).await;
    assert_eq!(house.state("late"), State::Waiting);
    house.manager.reload(loaded([spec("db"), needs("web", &["db"]), other("late")])).await.unwrap();
    house.settle().await;
    assert_eq!(
        (house.state("late"), house.played("late", |late| late.command.clone())),
        (State::Running, "late --new".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_during_the_backoff_takes_the_file_up() {
    let house = House::with([spec("web")]).await;
    house.exit("web", 1).await;
    house.manager.reload(loaded([other("web")])).await.unwrap();
    assert_eq!(house.start("web").await.outcome, Outcome::Done);
    assert_eq!(house.played("web", |web| web.command.clone()), "web --new");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_taken_back_is_none() {
    let house = House::with([spec("web")]).await;
    house.manager.reload(loaded([other("web")])).await.unwrap();
    house.manager.reload(loaded([spec("web")])).await.unwrap();
    house.settle().await;
    assert!(!house.now("web").changed);
    house.restart("web").await;
    assert_eq!(house.played("web", |web| web.command.clone()), "web");
}

#[tokio::test(start_paused = true)]
async fn the_when_of_a_new_file_is_asked() {
    let house = House::with([spec("web")]).await;
    house.stop("web").await;
    let mut changed = spec("web");
    changed.when = vec![Requirement::Path("/proc/nothing-of-the-kind".into())];
    house.manager.reload(loaded([changed])).await.unwrap();
    house.start("web").await;
    assert_eq!(house.state("web"), State::Skipped);
}

#[tokio::test(start_paused = true)]
async fn removed_and_added_again_while_it_stops() {
    let house = House::with([spec("web")]).await;
    house.obey_after(&["web"], secs(5));
    house.manager.reload(loaded([])).await.unwrap();
    house.settle().await;
    assert_eq!(house.state("web"), State::Stopping);
    let report = house.manager.reload(loaded([other("web")])).await.unwrap();
    assert_eq!(report.started, ["web"]);
    house.settle().await;
    assert_eq!(house.played("web", |web| (web.command.clone(), web.runs)), ("web --new".into(), 2));
}

#[tokio::test(start_paused = true)]
async fn a_oneshot_that_has_finished_can_be_removed() {
    let house = House::with([oneshot("job"), spec("web")]).await;
    house.exit("job", 0).await;
    let report = house.manager.reload(loaded([spec("web")])).await.unwrap();
    assert_eq!(report.stopped, ["job"]);
    house.settle().await;
    assert!(house.manager.get("job").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_start_beside_a_removal_leaves_no_run_without_its_owner() {
    let house = House::with([spec("web")]).await;
    house.manager.reload(loaded([])).await.unwrap();
    // Asked for at the moment when the service comes to rest, before its removal hears of that.
    let manager = house.manager.clone();
    let results = tokio::spawn(async move {
        let web = names(&["web"]);
        let _ = manager.wait(&web, Awaited::Down).await;
        manager.start(&web, true).await
    });
    let results = results.await.unwrap();
    house.settle().await;
    match house.manager.get("web") {
        Some(now) => assert!(now.up, "{now:?} {results:?}"),
        None => assert!(!house.played("web", |web| web.lives()), "{results:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_beside_a_removal_waits_for_nobody_who_is_gone() {
    let house = House::with([spec("web"), spec("db")]).await;
    house.obey_after(&["web"], secs(2));
    house.manager.reload(loaded([spec("db")])).await.unwrap();
    house.settle().await;
    let begun = tokio::time::Instant::now();
    let summary = house.manager.stop_all(begun + secs(60), &[]).await;
    assert!(summary.killed.is_empty() && begun.elapsed() <= secs(3), "{summary:?} {:?}", begun.elapsed());
    house.settle().await;
    assert!(house.manager.get("web").is_none(), "its removal was not forgotten");
}

#[tokio::test(start_paused = true)]
async fn faulty_becomes_good_and_good_becomes_faulty() {
    let house = House::new();
    let faulty = || Loaded {
        services: vec![spec("db")],
        diagnostics: vec![fault(Some("web"), "services/web.yaml", "unknown key")],
        ..Loaded::default()
    };
    house.manager.take_in(faulty()).await;
    house.manager.begin();
    house.settle().await;
    assert_eq!(
        (house.state("web"), house.message("web").as_str()),
        (State::Failed, "services/web.yaml: unknown key")
    );
    assert_eq!(house.start("web").await.outcome, Outcome::Refused);
    let report = house.manager.reload(loaded([spec("db"), spec("web")])).await.unwrap();
    assert_eq!(report.started, ["web"]);
    house.settle().await;
    assert_eq!(house.state("web"), State::Running);
    house.manager.reload(faulty()).await.unwrap();
    house.settle().await;
    assert_eq!(house.state("web"), State::Running, "what runs goes on with the file that it had");
}

/// A folder that cannot be read is no folder without services.
#[tokio::test(start_paused = true)]
async fn nothing_is_changed_when_the_files_could_not_be_read() {
    let house = House::with([spec("web")]).await;
    for file in ["/etc/kelson", "/etc/kelson/services"] {
        let unread = Loaded {
            diagnostics: vec![fault(None, file, "the folder cannot be read")],
            ..loaded([spec("new")])
        };
        let failure = house.manager.reload(unread).await.unwrap_err().to_string();
        house.settle().await;
        assert_eq!(house.state("web"), State::Running);
        assert!(failure.starts_with("the files could not be read: ") && failure.contains(file), "{failure}");
    }
    let machine = Loaded {
        diagnostics: vec![fault(None, "/etc/kelson/machine.yaml", "unknown key")],
        ..Loaded::default()
    };
    assert_eq!(house.manager.reload(machine).await.unwrap().stopped, ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_removals_lose_no_start() {
    let house = House::new();
    let fault = |n: u32| fault(Some(&format!("f{n}")), "x.yaml", "unknown key");
    house
        .manager
        .take_in(Loaded {
            services: vec![spec("web")],
            diagnostics: (0..1500).map(fault).collect(),
            ..Loaded::default()
        })
        .await;
    house.manager.begin();
    house.settle().await;
    let report = house.manager.reload(loaded([spec("web"), spec("new")])).await.unwrap();
    assert_eq!((report.started.len(), report.stopped.len()), (1, 1500));
    house.settle().await;
    assert_eq!(house.state("new"), State::Running);
}

/// A start that came before the end of a removal: a running service is not left without its owner.
#[tokio::test(start_paused = true)]
async fn only_who_rests_leaves() {
    let house = House::new();
    let prepared = prepare(Arc::new(spec("web")), false, true, &house.host_context);
    let handle = prepared.unwrap().launch();
    let leave = || {
        let (left, answer) = oneshot::channel();
        (handle.mailbox.send(Command::Leave { left }).is_ok(), answer)
    };
    assert!(handle.mailbox.send(Command::Request { input: Input::Begin, reply: None }).is_ok());
    assert_eq!(leave().1.await, Ok(false));
    house.settle().await;
    assert!(handle.snapshot.borrow().up && house.played("web", |web| web.lives()));

    // A stop that comes after it has left is answered all the same.
    let (rested, mut at_rest) = mpsc::unbounded_channel();
    let stop = |request_id| Command::Stop { request_id, reason: StopReason::Removed, rested: rested.clone() };
    assert!(handle.mailbox.send(stop(1)).is_ok());
    assert_eq!(at_rest.recv().await.as_deref(), Some("web"));
    let (_, answer) = leave();
    assert!(handle.mailbox.send(stop(2)).is_ok());
    assert_eq!(at_rest.recv().await.as_deref(), Some("web"));
    assert_eq!(answer.await, Ok(true));
    assert!(handle.mailbox.send(stop(3)).is_err(), "nobody is there any more");
    assert!(!house.played("web", |web| web.lives() || web.opened));
}
