//! sd_notify, readiness descriptors, watchdogs, extended timeouts.

use std::io::Write as _;
use std::time::Duration;

use kelson_services::manager::Outcome;
use kelson_services::model::State;
use kelson_spec::service::{Readiness, ServiceSpec};

use crate::fate::Fate;
use crate::house::*;

#[tokio::test(start_paused = true)]
async fn ready_reloading_stopping_and_status() {
    let house = House::with([notify("web")]).await;
    assert_eq!(house.message("web"), "PID 100 started, waiting at most 1m30s for READY=1");
    house.say("web", "STATUS=warming up").await;
    assert_eq!(house.now("web").status_text.as_deref(), Some("warming up"));
    house.say("web", "READY=1").await;
    assert!(house.now("web").up);
    house.say("web", "RELOADING=1").await;
    assert!(!house.now("web").up && !house.now("web").down);
    house.say("web", "READY=1\nSTATUS=").await;
    assert!(house.now("web").up && house.now("web").status_text.is_none());
    house.say("web", "STOPPING=1").await;
    assert!(!house.now("web").up);
    house.assert_told("web", "running: says that it is stopping");
}

#[tokio::test(start_paused = true)]
async fn what_a_run_said_before_its_end_counts_before_its_end() {
    let house = House::with([notify("web")]).await;
    house.sent.send_to(b"READY=1", house.notify_socket("web")).unwrap();
    house.exit("web", 1).await;
    house.assert_told("web", "running, ready after");
    house.assert_told("web", "backoff: exited with status 1 after");
}

#[tokio::test(start_paused = true)]
async fn not_ready_in_time_unless_it_asks_for_more() {
    let quick = |name: &str| ServiceSpec { start_timeout: secs(5), ..notify(name) };
    let house = House::with([quick("a"), quick("b")]).await;
    house.say("b", "EXTEND_TIMEOUT_USEC=20000000").await;
    tokio::time::sleep(secs(6)).await;
    house.assert_says("a", "not ready after 5 s, restarting in");
    assert_eq!(house.state("b"), State::Starting);
    house.say("b", "READY=1").await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(house.state("b"), State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_extended_signals_once_and_kills_in_the_end() {
    let house = House::with([notify("web")]).await;
    house.say("web", "READY=1").await;
    house.obey_after(&["web"], secs(25));
    house.manager.stop(&names(&["web"]), false, false).await;
    tokio::time::sleep(secs(9)).await;
    house.say("web", "EXTEND_TIMEOUT_USEC=20000000").await;
    tokio::time::sleep(secs(17)).await;
    assert_eq!(house.state("web"), State::Stopped);
    assert_eq!(house.played("web", |web| web.said()), ["open", "run 1", "signal 15", "signal 0", "close"]);

    house.manners("web", |web| web.obeys = None);
    house.begin_start("web").await;
    house.stop("web").await;
    house.assert_told("web", "did not end within 10 s of its stop signal, killed");
}

/// Which of two things that are ready comes first is drawn: with 32 services each order comes.
#[tokio::test(start_paused = true)]
async fn a_stop_that_is_extended_before_its_signal_still_signals_once() {
    let all: Vec<String> = (0..32).map(|number| format!("s{number}")).collect();
    let house = House::with(all.iter().map(|name| notify(name))).await;
    for name in &all {
        house.say(name, "READY=1").await;
        house.say(name, "WATCHDOG=trigger\nEXTEND_TIMEOUT_USEC=20000000").await;
    }
    for name in &all {
        let signals = house.played(name, |one| one.said().iter().filter(|call| *call == "signal 15").count());
        assert_eq!(signals, 1, "{name}: {:?}", house.played(name, Played::said));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_that_is_not_fed_ends_the_run() {
    let house = House::with([notify("web")]).await;
    house.say("web", "READY=1\nWATCHDOG_USEC=2000000").await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        house.say("web", "WATCHDOG=1").await;
    }
    assert!(house.now("web").up);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    house.assert_says("web", "no WATCHDOG=1 within its interval");
    assert_eq!(house.now("web").restarts, 1);
    tokio::time::sleep(secs(3)).await;
    house.say("web", "READY=1").await;
    tokio::time::sleep(secs(10)).await;
    assert!(house.now("web").up, "the interval was the last run's");
    house.say("web", "WATCHDOG=trigger").await;
    assert!(house.message("web").contains("WATCHDOG=trigger"), "{}", house.message("web"));
    assert_eq!(house.now("web").restarts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_of_the_file_begins_with_ready_and_yields_to_the_program() {
    let watched = |name: &str| ServiceSpec { watchdog: Some(secs(2)), ..notify(name) };
    let forks = ServiceSpec { readiness: Readiness::Forks, ..watched("forks") };
    let house = House::with([watched("web"), watched("own"), forks]).await;
    for name in ["web", "forks"] {
        let given = house.played(name, |one| one.environment.clone());
        assert!(given.contains(&("WATCHDOG_USEC".to_owned(), "2000000".to_owned())), "{given:?}");
    }
    tokio::time::sleep(secs(10)).await;
    assert_eq!(house.now("web").restarts, 0, "it is not ready");
    house.say("web", "READY=1").await;
    house.say("own", "WATCHDOG_USEC=60000000\nREADY=1").await;
    tokio::time::sleep(Duration::from_millis(1900)).await;
    house.say("web", "WATCHDOG=1").await;
    tokio::time::sleep(Duration::from_millis(1900)).await;
    assert!(house.now("web").up);
    tokio::time::sleep(Duration::from_millis(200)).await;
    house.assert_says("web", "no WATCHDOG=1 within its interval");
    assert_eq!((house.now("web").restarts, house.now("own").up), (1, true));
}

#[tokio::test(start_paused = true)]
async fn mainpid_is_refused_with_a_reason_once_a_run() {
    let house = House::with([notify("web")]).await;
    // It is the main process already: programs report it of themselves.
    house.say("web", "MAINPID=100\nREADY=1").await;
    assert!(!house.told("web").iter().any(|told| told.contains("MAINPID")), "{:?}", house.told("web"));
    for _ in 0..10 {
        house.say("web", "MAINPID=4711").await;
    }
    let refused = house.told("web").iter().filter(|told| told.contains("MAINPID=4711 refused")).count();
    assert_eq!(refused, 1);
    assert_eq!(house.now("web").pid, Some(100));
}

#[tokio::test(start_paused = true)]
async fn a_flood_does_not_starve_a_stop_nor_fill_the_events() {
    let house = House::with([notify("web")]).await;
    let path = house.notify_socket("web");
    let flood = "RELOADING=1\nREADY=1\n".repeat(8);
    house.sent.set_nonblocking(true).unwrap();
    let before = house.manager.events(0, usize::MAX).next;
    for _ in 0..20 {
        while house.sent.send_to(flood.as_bytes(), &path).is_ok() {}
        tokio::time::sleep(10 * MS).await;
    }
    let told = house.manager.events(0, usize::MAX).next - before;
    assert!(told < 500, "{told} events in a fifth of a second");
    while house.sent.send_to(flood.as_bytes(), &path).is_ok() {}
    let results = house.stop("web").await;
    assert_eq!((results.outcome, house.state("web")), (Outcome::Done, State::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_barrier_is_answered() {
    let house = House::with([notify("web")]).await;
    let (reader, writer) = nix::unistd::pipe().unwrap();
    send_descriptor(&house, "web", &writer, "BARRIER=1");
    drop(writer);
    house.settle().await;
    let mut byte = [0];
    assert_eq!(nix::unistd::read(&reader, &mut byte), Ok(0), "every copy is closed");
    send_descriptor(&house, "web", &reader, "READY=1");
    house.settle().await;
    assert!(house.now("web").up, "what comes with a descriptor is read");
}

fn descriptor(name: &str) -> ServiceSpec {
    ServiceSpec { readiness: Readiness::Descriptor(3), ..spec(name) }
}

#[tokio::test(start_paused = true)]
async fn a_newline_on_the_descriptor() {
    let house = House::with([descriptor("web")]).await;
    let (end, number) = house.stage.of("web").lock().unwrap().descriptors.pop().unwrap();
    assert_eq!(number, 3);
    let mut end = std::fs::File::from(end);
    end.write_all(b"almost").unwrap();
    house.settle().await;
    assert_eq!(house.state("web"), State::Starting);
    end.write_all(b" there\n").unwrap();
    house.settle().await;
    assert!(house.now("web").up);
    drop(end);
    tokio::time::sleep(secs(5)).await;
    assert!(house.now("web").up);
}

#[tokio::test(start_paused = true)]
async fn a_descriptor_that_is_closed_without_a_newline_will_never_be_ready() {
    let house = House::with([descriptor("web")]).await;
    house.stage.of("web").lock().unwrap().descriptors.clear();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let text = "closed its readiness descriptor without a newline, restarting in";
    house.assert_says("web", text);
    assert_eq!(house.played("web", |web| web.said().last().cloned()).as_deref(), Some("signal 15"));
}

/// The kernel closes the descriptors of a dying process before it tells its parent.
#[tokio::test(start_paused = true)]
async fn a_death_before_ready_is_told_as_a_death() {
    let house = House::with([descriptor("web")]).await;
    house.stage.of("web").lock().unwrap().descriptors.clear();
    house.settle().await;
    house.exit("web", 3).await;
    let text = "exited with status 3 before it was ready after";
    house.assert_says("web", text);
}

#[test]
fn v1_what_is_said_at_the_moment_of_a_crash_is_heard() {
    for points in 0..8 {
        let ruin = first_life(async {
            let house = House::with([notify("web"), descriptor("db")]).await;
            Fate::current().unwrap().dies_after(points, 7);
            house.sent.send_to(b"READY=1", house.notify_socket("web")).unwrap();
            // It is closed right after its newline.
            let (end, _) = house.stage.of("db").lock().unwrap().descriptors.pop().unwrap();
            std::fs::File::from(end).write_all(b"\n").unwrap();
            house.settle().await;
            house
        });
        next_life(ruin, async |house| {
            tokio::time::sleep(secs(1)).await;
            for name in ["web", "db"] {
                assert!(house.now(name).up, "{points}: {}: {}", name, house.message(name));
            }
        });
    }
}
