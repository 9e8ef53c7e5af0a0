//! The life of kelson-probe under its driver: killed, frozen, deaf, unwanted; the checks go on.

#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod host;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use host::{Host, SOON, TestLauncher, loopback, of_web, schedule};
use kelson_services::prober::{Place, Report, Verdict};
use kelson_spec::service::Asks;
use nix::sys::signal::{Signal, kill};
use tokio::net::TcpListener;

#[test]
#[ignore = "not a test: the process kelson-probe of the tests"]
fn personality_probe() {
    host::personality();
}

/// A service that takes connections.
async fn service() -> std::net::SocketAddr {
    let listener = TcpListener::bind(loopback(0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    address
}

fn gone(pid: nix::unistd::Pid) -> bool {
    kill(pid, None).is_err()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < SOON, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_killed_probe_is_replaced_and_the_checks_go_on() {
    let mut host = Host::new();
    let mut asked = host.watch(service().await, Asks::Tcp);
    assert_eq!(asked.next().await.verdict, Verdict::Passes);
    let old = host.up().await;
    kill(old, Signal::SIGKILL).unwrap();
    let since = Instant::now();
    host.replaced(old).await;
    assert!(since.elapsed() < Duration::from_secs(5));
    let reason = match host.report().await {
        Report::Replaced { place: Place::Host, reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason, "killed by signal 9");
    let answer = asked.fresh().await;
    assert_eq!((answer.verdict, &*answer.text), (Verdict::Passes, "connected"));
    assert_eq!(host.prober.status().borrow().restarts, 1);
    // None was made up meanwhile.
    while let Ok(answer) = asked.answers.try_recv() {
        assert_eq!(answer.verdict, Verdict::Passes);
    }
}

#[tokio::test]
async fn a_frozen_probe_is_replaced_and_its_late_checks_are_counted() {
    let mut host = Host::new();
    let service = service().await;
    let mut quick = host.watch(service, Asks::Tcp);
    let hourly = kelson_services::prober::Schedule {
        interval: Duration::from_secs(3600),
        ..schedule(service, Asks::Tcp)
    };
    let mut slow = host.watch_with(hourly);
    quick.next().await;
    slow.next().await;
    let old = host.up().await;
    kill(old, Signal::SIGSTOP).unwrap();
    let since = Instant::now();
    host.replaced(old).await;
    let took = since.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_secs(6), "{took:?}");
    let reason = "did not answer its ping and was killed".to_owned();
    assert_eq!(host.report().await, Report::Replaced { place: Place::Host, reason, late: 1 });
    assert_eq!(quick.fresh().await.verdict, Verdict::Passes);
    eventually("the old one is gone", || gone(old)).await;
    // The other is asked again when it would have been.
    assert!(slow.answers.try_recv().is_err());
}

/// A host whose first probe is a shell that does this, and its first check.
fn with_stand_in(script: &'static str) -> Host {
    Host::with(TestLauncher { stand_in: Some(script).into(), ..TestLauncher::default() })
}

/// Waits until the stand-in is replaced, and returns the report about it.
async fn real_one(host: &mut Host) -> (String, usize) {
    let mut status = host.prober.status();
    let replaced = status.wait_for(|status| status.restarts > 0);
    tokio::time::timeout(SOON, replaced).await.unwrap().unwrap();
    *host.launcher.stand_in.lock().unwrap() = None;
    host.up().await;
    match host.report().await {
        Report::Replaced { reason, late, .. } => (reason, late),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_that_never_reads_is_replaced() {
    let mut host = with_stand_in("exec sleep 1000");
    let service = service().await;
    let mut asked: Vec<_> = (0..2000).map(|_| host.watch(service, Asks::Tcp)).collect();
    let (reason, late) = real_one(&mut host).await;
    assert_eq!((&*reason, late), ("did not answer its ping and was killed", 2000));
    assert_eq!(asked[1999].next().await.verdict, Verdict::Passes);
}

#[tokio::test]
async fn one_that_sends_garbage_is_replaced() {
    // It stays: a probe that ends is replaced for that.
    let mut host = with_stand_in("echo y >&3; exec sleep 1000");
    let mut asked = host.watch(service().await, Asks::Tcp);
    let (reason, _) = real_one(&mut host).await;
    assert!(reason.starts_with("sent what is no message ("), "{reason}");
    assert_eq!(asked.next().await.verdict, Verdict::Passes);
}

#[tokio::test]
async fn a_launch_that_fails_is_said_once_and_tried_again() {
    let mut host = Host::with(TestLauncher { failing: 3.into(), ..TestLauncher::default() });
    let mut asked = host.watch(service().await, Asks::Tcp);
    let text = "could not be started: the test wants it so; 1 checks wait for it".to_owned();
    assert_eq!(host.report().await, Report::Trouble { place: Place::Host, text });
    assert_eq!(asked.next().await.verdict, Verdict::Passes);
    let reason = "could not be started: the test wants it so".to_owned();
    assert!(matches!(host.report().await, Report::Replaced { reason: why, .. } if why == reason));
    assert!(host.reports.try_recv().is_err());
}

#[tokio::test]
async fn one_that_dies_again_and_again_is_not_started_in_a_loop() {
    let host = Host::new();
    let _asked = host.watch(service().await, Asks::Tcp);
    let since = Instant::now();
    let mut old = host.up().await;
    for _ in 0..4 {
        kill(old, Signal::SIGKILL).unwrap();
        old = host.replaced(old).await;
    }
    // At once, then after 100, 200, 400 ms.
    assert!(since.elapsed() >= Duration::from_millis(700));
}

#[tokio::test]
async fn nothing_runs_before_the_first_check_and_a_network_of_its_own_has_its_own_probe() {
    let host = Host::new();
    let service = service().await;
    tokio::task::yield_now().await;
    assert!(host.launcher.apart.lock().unwrap().is_empty());
    let mut here = host.watch(service, Asks::Tcp);
    here.next().await;
    let place = of_web();
    let mut there = host.watch_at(place.clone(), schedule(service, Asks::Tcp));
    there.next().await;
    assert_eq!(*host.launcher.apart.lock().unwrap(), [false, true]);
    assert_eq!((host.prober.status().borrow().checks, host.prober.status().borrow().others), (2, 1));
    // It ends with its last check; the host's stays for a while.
    drop(there.watch.take());
    eventually("the other ends", || host.prober.status().borrow().others == 0).await;
    assert!(host.prober.status().borrow().helper.up);
    let mut there = host.watch_at(place, schedule(service, Asks::Tcp));
    there.next().await;
    assert_eq!(host.prober.status().borrow().restarts, 0);
}

#[tokio::test]
async fn a_check_that_ended_is_heard_of_no_more_and_the_last_takes_the_probe_along() {
    let host = Host::new();
    let mut asked = host.watch(service().await, Asks::Tcp);
    asked.next().await;
    let pid = host.up().await;
    drop(asked.watch.take());
    while asked.answers.try_recv().is_ok() {}
    let mut status = host.prober.status();
    let ended = status.wait_for(|status| status.helper.pid.is_none());
    let ended = tokio::time::timeout(SOON, ended).await.unwrap().unwrap().clone();
    assert_eq!(
        (&*ended.helper.message, ended.wanted, ended.checks, ended.restarts),
        ("nothing to ask", false, 0, 0)
    );
    assert!(asked.answers.try_recv().is_err());
    eventually("it is gone", || gone(pid)).await;
}

#[tokio::test]
async fn an_operators_restart_is_not_counted() {
    let mut host = Host::new();
    let mut asked = host.watch(service().await, Asks::Tcp);
    asked.next().await;
    let old = host.up().await;
    host.prober.restart();
    host.replaced(old).await;
    asked.fresh().await;
    assert_eq!(host.prober.status().borrow().restarts, 0);
    assert!(host.reports.try_recv().is_err());
}

#[tokio::test]
async fn shutdown_ends_all_of_them_and_no_other_is_started() {
    let host = Host::new();
    let service = service().await;
    let mut here = host.watch(service, Asks::Tcp);
    let place = of_web();
    let mut there = host.watch_at(place, schedule(service, Asks::Tcp));
    here.next().await;
    there.next().await;
    let pid = host.up().await;
    kill(pid, Signal::SIGSTOP).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(1);
    host.prober.shutdown(deadline).await;
    assert!(tokio::time::Instant::now() < deadline + Duration::from_secs(2));
    eventually("the frozen one was killed", || gone(pid)).await;
    let mut late = host.watch(service, Asks::Tcp);
    drop(late.watch.take());
    host.prober.shutdown(deadline).await;
    assert_eq!(host.launcher.apart.lock().unwrap().len(), 2);
    assert_eq!(host.prober.status().borrow().helper.pid, None);
}

#[tokio::test]
async fn dropping_the_driver_ends_all() {
    let host = Host::new();
    let mut asked = host.watch(service().await, Asks::Tcp);
    asked.next().await;
    let pid = host.up().await;
    kill(pid, Signal::SIGSTOP).unwrap();
    drop(host);
    eventually("it is gone", || gone(pid)).await;
}

#[tokio::test]
async fn pid_1_sleeps_between_rare_checks() {
    let host = Host::new();
    let rare = kelson_services::prober::Schedule {
        interval: Duration::from_secs(60),
        ..schedule(service().await, Asks::Tcp)
    };
    let mut asked = host.watch_with(rare);
    asked.next().await;
    let before = host.wakes.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let wakes = host.wakes.load(Ordering::Relaxed) - before;
    assert!(wakes <= 4, "{wakes} in 4 s");
    assert!(host.prober.status().borrow().helper.up);
}
