//! Health checks of a played service: what a result, a restart, a stop make of it.

use std::time::Duration;

use kelson_services::manager::Outcome;
use kelson_services::model::{CheckReport, Standing, State};
use kelson_spec::service::{Check, Exhausted, RestartPolicy, ServiceSpec};

use crate::health_commands::{Commands, Conduct, fails, hangs, passes};
use crate::house::{exec_check as check, *};

fn commands(house: &House, service: &str) -> Commands {
    house.played(service, |played| played.commands.clone())
}

async fn report(house: &House, check: &str) -> CheckReport {
    house.manager.checks("web").await.into_iter().find(|report| &*report.name == check).unwrap()
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

/// Waits until this is true of the service.
async fn until(house: &House, what: impl Fn(&kelson_services::Snapshot) -> bool) {
    house.until(|house| what(&house.now("web"))).await;
}

#[tokio::test(start_paused = true)]
async fn h1_every_check_must_pass_in_the_new_run() {
    let house = House::with([checked("web", [check("a"), check("b")])]).await;
    assert_eq!(house.state("web"), State::Running);
    assert_eq!(house.message("web"), "running, waits for check a: no result yet; check b: no result yet");
    assert!(!house.now("web").up && house.now("web").healthy.is_none());
    until(&house, |web| web.up).await;
    assert_eq!(house.message("web"), "running, healthy after 1 s (PID 100)");
    house.assert_told("web", "running: check a passes");

    commands(&house, "web").set("b", hangs(""));
    house.exit("web", 1).await;
    assert!(!house.now("web").up && house.now("web").healthy.is_none());
    until(&house, |web| web.pid.is_some()).await;
    until(&house, |web| {
        web.message.starts_with("running, waits for check b: no answer within 1 s; the last run: ")
    })
    .await;
    assert!(!house.now("web").up && house.now("web").healthy.is_none(), "{:?}", house.now("web"));
    assert_eq!(report(&house, "a").await.standing, Standing::Passing);
    commands(&house, "web").set("b", passes());
    until(&house, |web| web.up).await;
    assert_eq!(house.now("web").run, 2);
}

#[tokio::test(start_paused = true)]
async fn h2_a_result_that_comes_after_the_end_of_its_run_is_dropped() {
    let house = House::with([checked("web", [Check { timeout: secs(5), ..check("a") }])]).await;
    commands(&house, "web").set("a", Conduct { after: Some(secs(3)), ..passes() });
    pass(2.0).await;
    assert_eq!(commands(&house, "web").running(), 1);
    house.exit("web", 1).await;
    assert_eq!(commands(&house, "web").running(), 0, "killed with the run");
    until(&house, |web| web.run == 2 && web.pid.is_some()).await;
    // The first run's check would have passed by now; the second run's asks only from here on.
    commands(&house, "web").set("a", hangs(""));
    pass(3.0).await;
    assert!(!house.now("web").up && house.now("web").healthy.is_none());
    assert!(!house.told("web").iter().any(|told| told.contains("check a passes")), "{:?}", house.told("web"));
}

#[tokio::test(start_paused = true)]
async fn h2_nothing_is_kept_of_a_stopped_run() {
    let house = House::with([checked("web", [check("a")])]).await;
    until(&house, |web| web.up).await;
    assert_eq!(report(&house, "a").await.results.len(), 1);
    house.obey_after(&["web"], secs(5));
    house.begin_stop("web").await;
    assert_eq!(house.state("web"), State::Stopping);
    assert_eq!(house.now("web").healthy, None, "nothing is checked any more");
    pass(6.0).await;
    let report = report(&house, "a").await;
    assert_eq!((report.standing, report.results.len(), report.since), (Standing::Pending, 0, None));
}

#[tokio::test(start_paused = true)]
async fn h3_two_failures_are_borne_three_are_not() {
    let house = House::with([checked("web", [check("a")])]).await;
    until(&house, |web| web.up).await;
    let commands = commands(&house, "web");
    let before = commands.begun().len();
    commands.set("a", fails("connection refused\n"));
    while commands.begun().len() < before + 2 {
        pass(0.01).await;
        assert!(house.now("web").up);
    }
    commands.set("a", passes());
    pass(3.0).await;
    assert!(house.now("web").up && house.now("web").healthy == Some(true));
    commands.set("a", fails("hello\nconnection refused\n"));
    until(&house, |web| !web.up).await;
    assert_eq!(house.now("web").healthy, Some(false));
    assert_eq!(house.message("web"), "running, waits for check a: connection refused");
    house.assert_told("web", "running: check a fails: connection refused");
    pass(60.0).await;
    assert_eq!((house.state("web"), house.now("web").run), (State::Running, 1), "restartAfter is 0: never");
    commands.set("a", passes());
    until(&house, |web| web.up).await;
    assert_eq!(house.message("web"), "running, healthy again");
}

#[tokio::test(start_paused = true)]
async fn h3_three_checks_that_fail_together_restart_once() {
    let hasty = |name: &str| Check { restart_after: 1, grace: Duration::ZERO, ..check(name) };
    let mut web = checked("web", [hasty("a"), hasty("b"), hasty("c")]);
    web.restart.delay = secs(3);
    let house = House::with([web]).await;
    for name in ["a", "b", "c"] {
        commands(&house, "web").set(name, fails("refused"));
    }
    until(&house, |web| web.state == State::Backoff).await;
    for name in ["a", "b", "c"] {
        commands(&house, "web").set(name, passes());
    }
    until(&house, |web| web.up).await;
    pass(60.0).await;
    assert_eq!((house.now("web").run, house.now("web").restarts), (2, 1), "{:#?}", house.told("web"));
}

#[tokio::test(start_paused = true)]
async fn h3_three_checks_that_fail_thrice_after_their_grace_restart_once() {
    let patient = |name: &str| Check { restart_after: 3, grace: secs(10), ..check(name) };
    let house = House::with([checked("web", ["a", "b", "c"].map(patient))]).await;
    for name in ["a", "b", "c"] {
        commands(&house, "web").set(name, fails("refused"));
    }
    until(&house, |web| web.state == State::Backoff).await;
    let restarts = house.told("web").iter().filter(|told| told.contains("failed 3 times")).count();
    assert_eq!(restarts, 2, "that it is stopped, and that it is restarted: {:#?}", house.told("web"));
    let begun = commands(&house, "web").begun();
    let of_run = |check: &str| begun.iter().filter(|(_, told)| *told == format!("run 1: {check}")).count();
    for name in ["a", "b", "c"] {
        assert!(of_run(name) >= 11, "{name} was asked {} times: ten of them in its grace", of_run(name));
        commands(&house, "web").set(name, passes());
    }
    pass(60.0).await;
    assert_eq!((house.now("web").up, house.now("web").run, house.now("web").restarts), (true, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn h3_failures_in_grace_restart_nothing() {
    let house = House::with([checked("web", [Check { restart_after: 3, ..check("a") }])]).await;
    commands(&house, "web").set("a", fails("refused"));
    pass(9.9).await;
    assert_eq!((house.state("web"), house.now("web").run), (State::Running, 1));
    assert_eq!(house.now("web").healthy, Some(false));
    pass(2.0).await;
    assert_eq!(house.now("web").run, 1, "three in a row after the grace");
    until(&house, |web| web.state == State::Backoff).await;
    house.assert_says("web", "check a failed 3 times: refused, restarting in");
}

#[tokio::test(start_paused = true)]
async fn h4_a_timeout_kills_and_counts_as_a_failure() {
    let house = House::with([checked("web", [Check { timeout: secs(1), ..check("a") }])]).await;
    let commands = commands(&house, "web");
    commands.set("a", hangs(&format!("{}\nasking\x1b[2J\n", "x".repeat(5000))));
    until(&house, |web| web.healthy == Some(false)).await;
    assert_eq!(house.message("web"), "running, waits for check a: no answer within 1 s");
    assert!(commands.killed() >= 3 && commands.most() == 1 && commands.running() <= 1);
    let report = report(&house, "a").await;
    let last = report.results.last().unwrap();
    assert!(!last.passed && last.output.len() <= 3072 && last.took >= secs(1));
    assert!(last.output.ends_with("xxx\nasking\u{fffd}[2J\nno answer within 1 s"), "{}", last.output);
    assert_eq!(report.results[0].output, "no answer within 1 s", "of old ones a line is kept");
    pass(60.0).await;
    assert_eq!(self::report(&house, "a").await.results.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn h4_a_check_that_cannot_be_killed_is_not_run_again_and_fails() {
    let house = House::with([checked("web", [check("a")])]).await;
    until(&house, |web| web.up).await;
    let commands = commands(&house, "web");
    commands.set("a", Conduct { unkillable: true, ..hangs("") });
    until(&house, |web| web.healthy == Some(false)).await;
    assert_eq!(
        house.message("web"),
        "running, waits for check a: the last one was killed and has not ended yet"
    );
    assert_eq!(commands.most(), 1);
    house.stop("web").await;
    assert_eq!(house.state("web"), State::Stopped);
}

#[tokio::test(start_paused = true)]
async fn h4_a_failure_without_a_word_tells_its_exit() {
    let house = House::with([checked("web", [Check { failure_threshold: 1, ..check("a") }])]).await;
    commands(&house, "web").set("a", fails(""));
    until(&house, |web| web.healthy == Some(false)).await;
    assert_eq!(house.message("web"), "running, waits for check a: exited with status 1");
}

#[tokio::test(start_paused = true)]
async fn h5_without_checks_health_is_not_known() {
    let house = House::with([spec("web")]).await;
    for _ in 0..3 {
        assert!(house.now("web").up && house.now("web").healthy.is_none());
        assert_eq!(house.manager.checks("web").await, []);
        pass(20.0).await;
    }
    assert_eq!(house.manager.checks("nobody").await, []);
}

#[tokio::test(start_paused = true)]
async fn h6_no_check_keeps_a_service_alive() {
    let mut web = checked("web", [check("a")]);
    web.restart.policy = RestartPolicy::Once;
    let job = ServiceSpec { health: vec![check("a")], ..oneshot("job") };
    let house = House::with([web, job]).await;
    commands(&house, "web").set("a", hangs(""));
    pass(1.5).await;
    assert_eq!(commands(&house, "web").running(), 1);
    house.exit("web", 0).await;
    house.exit("job", 0).await;
    assert_eq!(house.state("web"), State::Finished);
    house.assert_says("web", "exited with status 0 after 1.5 s");
    assert_eq!(commands(&house, "web").running(), 0);
    assert!(house.now("job").up && house.now("job").finished && house.now("job").healthy.is_none());
}

#[tokio::test(start_paused = true)]
async fn r4_a_restart_by_a_check_is_counted() {
    let hasty = Check { restart_after: 2, grace: Duration::ZERO, ..check("a") };
    let mut web = checked("web", [hasty]);
    web.restart.attempts = 1;
    web.restart.exhausted = Exhausted::Fail;
    let house = House::with([web]).await;
    commands(&house, "web").set("a", fails("refused"));
    until(&house, |web| web.run == 2).await;
    assert_eq!(house.now("web").restarts, 1);
    house.assert_told("web", "stopping: check a failed 2 times: refused, stopping it");
    house.assert_told("web", "backoff: check a failed 2 times: refused, restarting in");
    until(&house, |web| web.state == State::Failed).await;
    house.assert_says("web", "check a failed 2 times: refused; ");
    house.begin_start("web").await;
    assert_eq!(house.now("web").restarts, 0, "an operator's start counts anew");
}

#[tokio::test(start_paused = true)]
async fn g3_a_stop_during_a_check_takes_effect_at_once() {
    let house = House::with([checked("web", [Check { timeout: secs(60), ..check("a") }])]).await;
    commands(&house, "web").set("a", hangs(""));
    pass(5.0).await;
    assert_eq!(commands(&house, "web").running(), 1);
    let before = tokio::time::Instant::now();
    assert_eq!(house.stop("web").await.outcome, Outcome::Done);
    assert!(before.elapsed() < Duration::from_millis(10), "{:?}", before.elapsed());
    assert_eq!(
        (house.state("web"), house.message("web").as_str()),
        (State::Stopped, "stopped: asked by an operator")
    );
    house.settle().await;
    assert_eq!((commands(&house, "web").running(), commands(&house, "web").killed()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_check_begins_once_the_service_is_ready() {
    let web = ServiceSpec { health: vec![check("a")], ..notify("web") };
    let house = House::with([web]).await;
    pass(20.0).await;
    assert!(commands(&house, "web").begun().is_empty());
    house.say("web", "READY=1").await;
    assert!(!house.now("web").up);
    house.assert_told("web", "running: running, ready after 20 s (PID 100), up once its checks pass");
    until(&house, |web| web.up).await;
    house.say("web", "RELOADING=1").await;
    commands(&house, "web").set("a", fails("refused"));
    until(&house, |web| web.healthy == Some(false)).await;
    assert_eq!(house.message("web"), "says that it is reloading");
    house.say("web", "READY=1").await;
    until(&house, |web| &*web.message == "running, waits for check a: refused").await;
}

#[tokio::test(start_paused = true)]
async fn the_start_timeout_covers_health_where_checks_may_restart() {
    let slow = |name: &str, restart_after| {
        let web = checked(name, [Check { restart_after, grace: secs(600), ..check("a") }]);
        ServiceSpec { start_timeout: secs(20), ..web }
    };
    let house = House::with([slow("web", 3), slow("patient", 0), slow("well", 3)]).await;
    for name in ["web", "patient"] {
        commands(&house, name).set("a", fails("refused"));
    }
    pass(19.9).await;
    assert_eq!(house.state("web"), State::Running);
    pass(0.2).await;
    assert_eq!(house.state("web"), State::Backoff);
    house.assert_says("web", "not healthy after 20 s, restarting in");
    pass(100.0).await;
    assert_eq!((house.state("patient"), house.now("patient").run), (State::Running, 1));
    assert!(house.now("well").up && house.now("well").run == 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_asks_every_second_and_then_at_its_interval() {
    let calm = Check { interval: secs(30), ..check("a") };
    let house = House::with([checked("web", [calm])]).await;
    let commands = commands(&house, "web");
    commands.set("a", fails("refused"));
    pass(5.0).await;
    let begun = commands.begun().len();
    assert!((4..=5).contains(&begun), "{begun}");
    commands.set("a", passes());
    until(&house, |web| web.up).await;
    let begun = commands.begun().len();
    pass(29.0).await;
    assert_eq!(commands.begun().len(), begun);
    pass(4.1).await;
    assert_eq!(commands.begun().len(), begun + 1, "a tenth later at most");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_checks_do_not_beat_together() {
    let many: Vec<ServiceSpec> =
        (0..100).map(|n| checked(&format!("s{n}"), [Check { interval: secs(10), ..check("a") }])).collect();
    let house = House::with(many).await;
    pass(60.0).await;
    // Their fifth round is spread over seconds.
    let mut rounds: Vec<_> = (0..100).map(|n| commands(&house, &format!("s{n}")).begun()[4].0).collect();
    rounds.sort();
    assert!(rounds[99] - rounds[0] > secs(1), "{:?}", rounds[99] - rounds[0]);
}

#[tokio::test(start_paused = true)]
async fn a_built_in_service_brings_its_own_check() {
    let house = House::new();
    commands(&house, "web").set_own(fails("not serving yet"));
    house.boot([spec("web")]).await;
    pass(2.0).await;
    assert_eq!(house.message("web"), "running, waits for check own: not serving yet");
    commands(&house, "web").set_own(hangs(""));
    until(&house, |web| &*web.message == "running, waits for check own: no answer within 1 s").await;
    commands(&house, "web").set_own(passes());
    until(&house, |web| web.up && web.healthy == Some(true)).await;
    assert_eq!(report(&house, "own").await.kind, "played");
}
