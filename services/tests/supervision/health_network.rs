//! Network checks of a played service: what an answer means, what comes too late, what gates a start.

use std::time::Duration;

use kelson_services::model::{CheckReport, RestartReason, Standing, State};
use kelson_services::prober::Verdict::{Fails, Passes, Silent};
use kelson_spec::fleet::Registration;
use kelson_spec::service::{Check, Probe, ServiceSpec};
use tokio::time::Instant;

use crate::fate::Fate;
use crate::health_commands::{fails, passes};
use crate::house::*;
use crate::lines::Lines;

/// First after a second, then each second.
fn check(name: &str, port: u16) -> Check {
    Check { interval: secs(1), ..Check::new(name, Probe::tcp(port)) }
}

fn startup(name: &str, port: u16) -> Check {
    Check { startup: true, ..check(name, port) }
}

async fn house(checks: impl IntoIterator<Item = Check>) -> (House, Lines) {
    let house = House::with([checked("web", checks)]).await;
    let lines = house.played("web", |played| played.lines.clone());
    (house, lines)
}

async fn report(house: &House, check: &str) -> CheckReport {
    house.manager.checks("web").await.into_iter().find(|report| &*report.name == check).unwrap()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn h1_every_network_check_must_pass_in_the_new_run() {
    let (house, lines) = house([check("a", 1), check("b", 2)]).await;
    assert_eq!(house.message("web"), "running, waits for check a: no result yet; check b: no result yet");
    assert_eq!(lines.at(1).schedule.initial_delay, secs(1));
    lines.at(1).answer(Passes, "connected");
    lines.at(2).answer(Passes, "connected");
    house.settle().await;
    assert!(house.now("web").up, "{:?}", house.now("web"));
    // The pass of each is reported before their joint result, also where they come together.
    let told = house.told("web");
    let at = |part: &str| told.iter().position(|told| told.contains(part)).unwrap();
    assert!(
        at("check a passes") < at("healthy after") && at("check b passes") < at("healthy after"),
        "{told:#?}"
    );

    let first_run = lines.all();
    house.exit("web", 1).await;
    assert!(lines.asked().is_empty(), "nobody asks a run that has ended");
    pass(5).await;
    assert_eq!((house.state("web"), house.now("web").run), (State::Running, 2));
    lines.at(1).answer(Passes, "");
    // A late answer of the first run's probe counts for nothing, neither for nor against.
    for line in &first_run {
        assert!(line.run == 1 && line.ended());
        line.answer(Passes, "");
    }
    house.settle().await;
    assert!(!house.now("web").up && house.now("web").healthy.is_none());
    house.assert_says("web", "running, waits for check b: no result yet; the last run: ");
    lines.at(2).answer(Passes, "");
    house.settle().await;
    assert!(house.now("web").up);
    for _ in 0..5 {
        first_run[0].answer(Fails, "refused");
    }
    house.settle().await;
    assert!(house.now("web").up);
    assert_eq!(report(&house, "a").await.results.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn h2_an_answer_that_comes_after_the_end_is_dropped() {
    let (house, lines) = house([check("a", 1)]).await;
    let line = lines.at(1);
    house.obey_after(&["web"], secs(5));
    house.begin_stop("web").await;
    line.answer(Passes, "");
    house.settle().await;
    assert_eq!((house.state("web"), house.now("web").healthy), (State::Stopping, None));
    let report = report(&house, "a").await;
    assert_eq!((report.standing, report.results.len(), report.since), (Standing::Pending, 0, None));
    assert!(!house.told("web").iter().any(|told| told.contains("check a")), "{:?}", house.told("web"));
    pass(10).await;
}

#[tokio::test(start_paused = true)]
async fn h3_three_network_checks_that_fail_together_restart_once() {
    let hasty = |name, port| Check { restart_after: 3, grace: secs(5), ..check(name, port) };
    let (house, lines) = house([hasty("a", 1), hasty("b", 2), hasty("c", 3)]).await;
    // Failures in grace restart nothing.
    for _ in 0..4 {
        (1..=3).for_each(|port| lines.at(port).answer(Fails, "refused"));
        pass(1).await;
    }
    assert_eq!((house.state("web"), house.now("web").healthy), (State::Running, Some(false)));
    pass(1).await;
    // All three ask for a restart in one batch.
    for _ in 0..3 {
        (1..=3).for_each(|port| lines.at(port).answer(Fails, "refused"));
    }
    house.settle().await;
    house.assert_says("web", "check a failed 3 times: refused, restarting in");
    pass(60).await;
    (1..=3).for_each(|port| lines.at(port).answer(Passes, ""));
    pass(60).await;
    let web = house.now("web");
    assert_eq!((web.run, web.restarts, web.up), (2, 1, true), "{:#?}", house.told("web"));
    assert_eq!(web.restarts_by.iter().find(|(by, _)| *by == RestartReason::Check).unwrap().1, 1);
}

#[tokio::test(start_paused = true)]
async fn h3_two_failures_of_a_network_check_are_borne() {
    let (house, lines) = house([check("a", 1)]).await;
    for (verdict, up) in [(Passes, true), (Fails, true), (Silent, true), (Passes, true), (Fails, true)] {
        lines.at(1).answer(verdict, "");
        house.settle().await;
        assert_eq!(house.now("web").up, up);
    }
    lines.at(1).answer(Silent, "");
    lines.at(1).answer(Silent, "");
    house.settle().await;
    assert_eq!(house.message("web"), "running, waits for check a: no answer within 1 s");
    house.assert_told("web", "running: check a fails: no answer within 1 s");
    // Why it fails changes: that is shown, and is no event.
    let events = house.told("web").len();
    lines.at(1).answer(Fails, "connection refused");
    house.settle().await;
    assert_eq!(house.message("web"), "running, waits for check a: connection refused");
    assert_eq!(house.told("web").len(), events);
}

/// It has these checks, and one of its registration at port 8.
fn registered(checks: impl IntoIterator<Item = Check>) -> ServiceSpec {
    let checks_of_registration = vec![check("page", 8)];
    let register = Registration { checks: checks_of_registration, ..Registration::default() };
    ServiceSpec { register: Some(register), ..checked("web", checks) }
}

fn withheld(house: &House) -> Option<String> {
    house.now("web").withheld.map(|text| text.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_check_of_the_registration_decides_about_nothing_else() {
    let house = House::with([registered([check("a", 1), startup("boot", 9)])]).await;
    let lines = house.played("web", |played| played.lines.clone());
    assert_eq!((lines.asked(), withheld(&house).as_deref()), (vec![9], Some("check page: no result yet")));
    lines.at(9).answer(Passes, "");
    house.settle().await;
    assert_eq!(house.message("web"), "running, waits for check a: no result yet");
    lines.at(1).answer(Passes, "");
    house.settle().await;
    assert!(house.now("web").up);
    assert_eq!(withheld(&house).as_deref(), Some("check page: no result yet"));
    lines.at(8).answer(Passes, "");
    house.settle().await;
    assert_eq!(withheld(&house), None);
    for _ in 0..30 {
        lines.at(8).answer(Fails, "refused");
        house.settle().await;
    }
    let web = house.now("web");
    assert_eq!((web.up, web.healthy, web.run, web.restarts), (true, Some(true), 1, 0));
    assert_eq!(withheld(&house).as_deref(), Some("check page: refused"));
    house.assert_told("web", "running: check page fails: refused");
    let page = report(&house, "page").await;
    assert!(page.registration && !page.startup && page.standing == Standing::Failing, "{page:?}");
    // Those of the next run begin without a result.
    lines.at(8).answer(Passes, "");
    house.settle().await;
    assert_eq!(withheld(&house), None);
    house.exit("web", 1).await;
    pass(5).await;
    assert_eq!(house.now("web").run, 2);
    assert_eq!(withheld(&house).as_deref(), Some("check page: no result yet"));
}

#[tokio::test(start_paused = true)]
async fn a_service_with_checks_of_its_registration_alone_is_up_at_once() {
    let house = House::with([registered([])]).await;
    let lines = house.played("web", |played| played.lines.clone());
    for (verdict, expected) in [(Passes, None), (Fails, Some("check page: refused"))] {
        (0..3).for_each(|_| lines.at(8).answer(verdict, "refused"));
        house.settle().await;
        let web = house.now("web");
        assert_eq!((web.up, web.healthy, withheld(&house).as_deref()), (true, None, expected));
        assert_eq!(&*web.message, "running (PID 100)");
    }
}

#[test]
fn a_registration_is_as_it_was_after_a_crash_of_pid_1() {
    let ruin = first_life(async {
        let house = House::with([registered([])]).await;
        house.played("web", |played| played.lines.clone()).at(8).answer(Passes, "");
        house.settle().await;
        assert_eq!(withheld(&house), None);
        house
    });
    next_life_of(ruin, async |mut ruin| {
        ruin.time_goes_on().await;
        let origin = Instant::now() - ruin.age;
        ruin.stage = ruin.stage.another_life(Fate::never());
        let (house, _) = House::takes_up(ruin, origin, false, |_| {}).await;
        // Before anything has been asked again, and after it.
        assert_eq!((house.now("web").up, withheld(&house)), (true, None));
        house.manager.begin();
        house.settle().await;
        assert_eq!((house.now("web").up, withheld(&house)), (true, None));
    });
}

#[tokio::test(start_paused = true)]
async fn a_startup_check_gates_the_others_and_is_asked_no_more() {
    let (house, lines) = house([check("a", 1), startup("boot", 9), exec_check("cmd")]).await;
    let commands = house.played("web", |played| played.commands.clone());
    assert_eq!(lines.asked(), [9]);
    assert_eq!(house.message("web"), "running, waits for check boot: no result yet");
    lines.at(9).answer(Fails, "not yet");
    pass(30).await;
    assert_eq!(house.message("web"), "running, waits for check boot: not yet");
    assert!(lines.asked() == [9] && commands.begun().is_empty());
    let report_a = report(&house, "a").await;
    assert_eq!((report_a.since, report_a.late, report_a.startup), (None, None, false));

    let boot = lines.at(9);
    boot.answer(Passes, "connected");
    house.settle().await;
    assert_eq!(lines.asked(), [1]);
    assert_eq!(lines.at(1).schedule.initial_delay, secs(1));
    house.assert_told("web", "running: check boot passes");
    assert_eq!(house.message("web"), "running, waits for check a: no result yet; check cmd: no result yet");
    assert!(!house.now("web").up && house.now("web").healthy.is_none());
    lines.at(1).answer(Passes, "");
    pass(2).await;
    assert!(house.now("web").up);
    // It is done with: what still comes of it changes nothing, and it is never late.
    for _ in 0..5 {
        boot.answer(Fails, "refused");
    }
    pass(300).await;
    lines.at(1).answer(Passes, "");
    house.settle().await;
    assert!(house.now("web").up);
    let report = report(&house, "boot").await;
    assert!(report.startup && report.standing == Standing::Passing && report.late.is_none());
    assert_eq!(report.results.last().map(|last| last.output.as_str()), Some("connected"));
}

#[tokio::test(start_paused = true)]
async fn a_startup_command_gates_the_others_in_each_run() {
    let boot = Check { startup: true, success_threshold: 2, ..exec_check("boot") };
    let (house, lines) = house([boot, check("a", 1)]).await;
    let commands = house.played("web", |played| played.commands.clone());
    pass(10).await;
    let asked = commands.begun().len();
    assert_eq!((asked, lines.asked()), (2, vec![1]), "asked until it has passed twice");
    lines.at(1).answer(Passes, "");
    house.settle().await;
    assert!(house.now("web").up);
    commands.set("boot", fails("no"));
    house.exit("web", 1).await;
    pass(30).await;
    assert_eq!(house.now("web").run, 2);
    assert!(lines.asked().is_empty() && !house.now("web").up);
    house.assert_says("web", "running, waits for check boot: no; the last run: ");
    commands.set("boot", passes());
    pass(10).await;
    assert_eq!(lines.asked(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_never_comes_is_restarted_by_its_startup_check() {
    let boot = Check { restart_after: 3, grace: secs(5), ..startup("boot", 9) };
    let calm = Check { restart_after: 1, grace: secs(5), ..check("a", 1) };
    let (house, lines) = house([boot, calm]).await;
    for _ in 0..4 {
        lines.at(9).answer(Fails, "refused");
        pass(1).await;
    }
    pass(1).await;
    for n in 0..3 {
        assert_eq!((house.now("web").run, house.state("web")), (1, State::Running), "{n}");
        lines.at(9).answer(Fails, "refused");
        house.settle().await;
    }
    house.assert_says("web", "check boot failed 3 times: refused, restarting in");
    pass(60).await;
    lines.at(9).answer(Passes, "");
    house.settle().await;
    // The grace of those that come after it begins with them.
    pass(4).await;
    lines.at(1).answer(Fails, "refused");
    house.settle().await;
    assert_eq!((house.now("web").run, house.state("web")), (2, State::Running));
    pass(1).await;
    lines.at(1).answer(Fails, "refused");
    house.settle().await;
    assert_eq!(house.state("web"), State::Backoff);
}

#[tokio::test(start_paused = true)]
async fn a_late_check_is_told_and_costs_no_health() {
    let (house, lines) = house([check("a", 1), exec_check("cmd")]).await;
    lines.at(1).answer(Passes, "");
    pass(2).await;
    assert!(house.now("web").up);
    lines.at(1).answer(Passes, "");
    // Its interval, a tenth of that, its timeout and three seconds more.
    tokio::time::sleep(Duration::from_millis(5050)).await;
    assert_eq!(report(&house, "a").await.late, None);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let late = report(&house, "a").await.late.unwrap();
    assert!(late >= secs(3) && late < Duration::from_millis(3100), "{late:?}");
    pass(3600).await;
    assert!(report(&house, "a").await.late.unwrap() > secs(3600));
    assert_eq!(report(&house, "cmd").await.late, None);
    assert!(house.now("web").up && house.now("web").healthy == Some(true));
    assert_eq!(house.now("web").run, 1);
    lines.at(1).answer(Passes, "");
    assert_eq!(report(&house, "a").await.late, None);
}

#[tokio::test(start_paused = true)]
async fn a_first_answer_may_be_late_too() {
    let slow = Check { initial_delay: secs(20), ..check("a", 1) };
    let (house, _) = house([slow]).await;
    pass(20).await;
    assert_eq!(report(&house, "a").await.late, None);
    pass(10).await;
    assert!(report(&house, "a").await.late.is_some());
    assert_eq!(house.now("web").healthy, None);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_must_ping_and_does_not_is_restarted() {
    let web = ServiceSpec { health: vec![check("a", 1)], ..notify("web") };
    let house = House::with([web]).await;
    let lines = house.played("web", |played| played.lines.clone());
    house.say("web", "READY=1\nWATCHDOG_USEC=5000000").await;
    lines.at(1).answer(Passes, "");
    for _ in 0..3 {
        pass(4).await;
        house.say("web", "WATCHDOG=1").await;
    }
    assert!(house.now("web").up, "its checks pass and it pings");
    pass(6).await;
    let web = house.now("web");
    assert!(!web.up && web.healthy.is_none() && web.restarts == 1, "{web:?}");
    assert_eq!(web.restarts_by.iter().find(|(by, _)| *by == RestartReason::Watchdog).unwrap().1, 1);
    house.assert_told("web", "no WATCHDOG=1 within");
}
