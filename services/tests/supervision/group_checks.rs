//! The checks of groups: when they are asked, and what their answers mean for the group, its members and the host.

use std::time::Duration;

use kelson_proto::v1::HealthReport;
use kelson_runner::Exit;
use kelson_services::node_health::{HealthState, NodeHealth};
use kelson_services::prober::Verdict::{Fails, Passes};
use kelson_spec::GroupSpec;
use kelson_spec::service::{Check, Probe, ServiceSpec};

use crate::groups::{file as restarted, restarts};
use crate::house::*;
use crate::lines::Lines;
use crate::node_health::{span, state};

fn member(spec: ServiceSpec) -> ServiceSpec {
    in_group("shop", spec)
}

/// First after a second, then each second.
fn check(name: &str, port: u16) -> Check {
    Check { interval: secs(1), ..Check::new(name, Probe::tcp(port)) }
}

fn file(checks: impl IntoIterator<Item = Check>) -> GroupSpec {
    GroupSpec { name: "shop".into(), health: checks.into_iter().collect(), ..GroupSpec::default() }
}

async fn house(specs: Vec<ServiceSpec>, group: GroupSpec) -> (House, NodeHealth, Lines) {
    let mut house = House::new();
    house.set_groups([group]).await;
    let health = house.follow_health();
    house.boot(specs).await;
    let lines = house.stage.host.clone();
    (house, health, lines)
}

/// Two members, and the check `front` at port 80.
async fn shop() -> (House, NodeHealth, Lines) {
    house(vec![member(spec("db")), member(spec("web"))], file([check("front", 80)])).await
}

#[track_caller]
fn group(health: &NodeHealth) -> HealthReport {
    health.group("shop").unwrap()
}

/// `db: …`, `check front: …` of each culprit.
fn culprits(health: &HealthReport) -> Vec<String> {
    let named = |culprit: &kelson_proto::v1::Culprit| match &*culprit.check {
        "" => culprit.service.to_string(),
        check => format!("check {check}: {}", culprit.reason),
    };
    health.culprits.iter().map(named).collect()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(secs(seconds)).await;
}

async fn fails(house: &House, lines: &Lines, port: u16, times: usize) {
    for _ in 0..times {
        lines.at(port).answer(Fails, "refused");
    }
    house.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_is_healthy_only_while_its_checks_pass_and_its_members_and_the_host_do_not_hear_of_it() {
    let (house, health, lines) = shop().await;
    pass(60).await;
    let now = group(&health);
    assert_eq!(
        (state(&now), culprits(&now)),
        (HealthState::Pending, vec!["check front: no result yet".into()])
    );
    assert!(now.message.starts_with("1 of 1 check does not pass yet, failed if that lasts "), "{now:?}");
    assert_eq!(health.node_state(), HealthState::Healthy);
    lines.at(80).answer(Passes, "connected");
    pass(9).await;
    assert_eq!((state(&group(&health)), group(&health).culprits), (HealthState::Pending, vec![]));
    pass(2).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);
    assert_eq!(group(&health).message, "all 2 services are up and its one check passes for 11 s");

    // As long as fewer fail than make it fail, nothing happens.
    fails(&house, &lines, 80, 2).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);
    let changes = health.changes();
    fails(&house, &lines, 80, 1).await;
    let now = group(&health);
    assert_eq!((state(&now), culprits(&now)), (HealthState::Unhealthy, vec!["check front: refused".into()]));
    assert_eq!(now.last_break.map(|last| last.check), Some("front".to_owned()));
    assert!(changes.has_changed().unwrap());
    assert_eq!((health.node_state(), health.node().culprits), (HealthState::Healthy, vec![]));
    assert!(house.now("db").up && house.now("web").up);
    let told = host_told(&house);
    let unhealthy = "group shop is unhealthy: 1 of 1 check does not pass (check front: refused)".to_owned();
    assert!(told.contains(&"group shop: check front fails: refused".to_owned()), "{told:#?}");
    assert_eq!(told.last(), Some(&unhealthy));

    // Another reason is shown, and is no event.
    lines.at(80).answer(Fails, "reset");
    house.settle().await;
    assert_eq!((culprits(&group(&health)), host_told(&house)), (vec!["check front: reset".into()], told));
    lines.at(80).answer(Passes, "");
    pass(9).await;
    assert_eq!(state(&group(&health)), HealthState::Unhealthy);
    pass(2).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn checks_are_asked_while_all_members_are_up_and_begin_again_after_that() {
    let (house, health, lines) =
        house(vec![member(spec("db")), member(notify("web"))], file([check("front", 80), check("back", 81)]))
            .await;
    assert_eq!((lines.asked(), culprits(&group(&health))), (vec![], vec!["web".to_owned()]));
    house.say("web", "READY=1").await;
    assert_eq!(lines.asked(), [80, 81]);
    let first = lines.all();
    first.iter().for_each(|line| line.answer(Passes, ""));
    pass(11).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);

    house.exit("db", 1).await;
    assert_eq!((lines.asked(), culprits(&group(&health))), (vec![], vec!["db".to_owned()]));
    pass(3).await;
    // Earlier questions count for nothing.
    first.iter().for_each(|line| line.answer(Passes, ""));
    pass(60).await;
    assert_eq!(lines.asked(), [80, 81]);
    let both = ["check front: no result yet".to_owned(), "check back: no result yet".to_owned()];
    assert_eq!((state(&group(&health)), culprits(&group(&health))), (HealthState::Unhealthy, both.to_vec()));
    assert_eq!(health.node_state(), HealthState::Healthy);
    lines.at(80).answer(Passes, "");
    pass(60).await;
    assert_eq!(state(&group(&health)), HealthState::Unhealthy);
    lines.at(81).answer(Passes, "");
    pass(11).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_group_of_which_nothing_has_to_be_up_is_not_checked() {
    let (house, health, lines) = house(vec![member(manual(spec("db")))], file([check("front", 80)])).await;
    pass(11).await;
    assert_eq!((lines.asked(), state(&group(&health))), (vec![], HealthState::Healthy));
    house.start("db").await;
    house.settle().await;
    assert_eq!((lines.asked(), state(&group(&health))), (vec![80], HealthState::Unhealthy));
    lines.at(80).answer(Passes, "");
    pass(11).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn other_checks_begin_with_a_reload_and_those_that_are_gone_count_no_more() {
    let (house, health, lines) = shop().await;
    lines.at(80).answer(Passes, "");
    pass(11).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);
    // Another deadline alone asks nothing again.
    house.set_groups([GroupSpec { deadline: Some(secs(60)), ..file([check("front", 80)]) }]).await;
    assert_eq!((lines.all().len(), state(&group(&health))), (1, HealthState::Healthy));

    let before = lines.at(80);
    house.set_groups([file([check("front", 90)])]).await;
    assert_eq!((lines.asked(), before.ended()), (vec![90], true));
    let now = group(&health);
    assert_eq!(
        (state(&now), culprits(&now)),
        (HealthState::Pending, vec!["check front: no result yet".into()])
    );
    assert!(now.left.as_ref().map(span) > Some(secs(299)), "{now:?}");
    pass(301).await;
    assert_eq!(state(&group(&health)), HealthState::Failed);

    house.set_groups([file([])]).await;
    assert_eq!((lines.asked(), group(&health).culprits), (vec![], vec![]));
    pass(11).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);
    assert_eq!(group(&health).message, "all 2 services are up for 11 s");
    house.set_groups([]).await;
    assert_eq!(state(&group(&health)), HealthState::Healthy);
}

/// Two failures restart the group: at most `attempts` times in an hour, each time after `delay`.
fn restarting(attempts: u32, delay: Duration) -> GroupSpec {
    let front = Check { restart_after: 2, grace: secs(5), ..check("front", 80) };
    GroupSpec { health: vec![front], ..restarted(attempts, delay) }
}

#[tokio::test(start_paused = true)]
async fn a_check_of_a_group_restarts_it_within_its_budget() {
    let (house, health, lines) =
        house(vec![member(spec("db")), member(needs("web", &["db"])), spec("lone")], restarting(1, secs(20)))
            .await;
    // In its grace nothing is restarted.
    fails(&house, &lines, 80, 3).await;
    pass(6).await;
    fails(&house, &lines, 80, 1).await;
    assert_eq!(restarts(&house), 0);
    fails(&house, &lines, 80, 1).await;
    let told = host_told(&house);
    let restarts_why = "group shop restarts: check front failed 2 times: refused".to_owned();
    assert!(told.contains(&restarts_why), "{told:#?}");
    pass(5).await;
    assert_eq!((restarts(&house), lines.asked(), house.now("web").pid), (1, vec![], None));
    assert!(house.now("lone").up);
    pass(25).await;
    let runs = |house: &House| ["db", "web", "lone"].map(|name| house.now(name).run);
    assert_eq!((runs(&house), lines.asked()), ([2, 2, 1], vec![80]));

    // The budget is used up: that is reported once, and the members run on.
    for _ in 0..5 {
        pass(6).await;
        fails(&house, &lines, 80, 2).await;
    }
    assert_eq!((runs(&house), restarts(&house)), ([2, 2, 1], 1));
    let refused = |house: &House| {
        let refused = "group shop gave up after 2 failures in 1h and is not restarted, as asked for by check front failed";
        host_told(house).iter().filter(|text| text.starts_with(refused)).count()
    };
    assert_eq!(refused(&house), 1, "{:#?}", host_told(&house));
    assert!(house.now("db").up && house.now("web").up);
    assert_ne!(state(&group(&health)), HealthState::Healthy);
    // Once it has passed it may ask again.
    lines.at(80).answer(Passes, "");
    house.settle().await;
    fails(&house, &lines, 80, 2).await;
    assert_eq!((refused(&house), restarts(&house)), (2, 1));
}

/// Plays the shop until PID 1 is executed again; `later` goes on from there.
fn goes_on<Later: Future<Output = ()>>(
    group: GroupSpec,
    before: impl AsyncFnOnce(&House, &NodeHealth, &Lines),
    between: impl FnOnce(&mut Ruin),
    later: impl FnOnce(House, NodeHealth, Lines) -> Later,
) {
    let ruin = first_life(async {
        let (house, health, lines) = house(vec![member(spec("db")), member(spec("web"))], group).await;
        before(&house, &health, &lines).await;
        house
    });
    next_life_of(ruin, async |mut ruin| {
        between(&mut ruin);
        // Nobody asks what the incarnation before asked.
        ruin.stage.host = Lines::default();
        let house = House::another_life(ruin).await;
        let (health, lines) = (house.health.clone().unwrap(), house.stage.host.clone());
        later(house, health, lines).await;
    });
}

#[test]
fn v1_a_group_whose_checks_pass_stays_healthy_without_a_flap() {
    goes_on(
        file([check("front", 80)]),
        async |house, health, lines| {
            lines.at(80).answer(Passes, "");
            pass(400).await;
            assert_eq!(state(&group(health)), HealthState::Healthy);
            fails(house, lines, 80, 2).await;
        },
        |_| {},
        async |house, health, lines| {
            let now = group(&health);
            assert_eq!((state(&now), culprits(&now)), (HealthState::Healthy, vec![]));
            let (steady, lasts) = (now.steady.as_ref().map(span), now.lasts.as_ref().map(span));
            assert!(steady > Some(secs(399)) && lasts > Some(secs(389)), "{now:?}");
            let told = host_told(&house);
            assert_eq!(told.iter().filter(|text| text.starts_with("group shop is ")).count(), 1, "{told:#?}");
            pass(60).await;
            assert_eq!(state(&group(&health)), HealthState::Healthy);
            // The failures in a row go on.
            fails(&house, &lines, 80, 1).await;
            assert_eq!(culprits(&group(&health)), ["check front: refused"]);
        },
    );
}

#[test]
fn v1_a_group_whose_check_fails_stays_so() {
    goes_on(
        restarting(0, secs(1)),
        async |house, health, lines| {
            lines.at(80).answer(Passes, "");
            pass(1).await;
            fails(house, lines, 80, 3).await;
            pass(300).await;
            assert_eq!(state(&group(health)), HealthState::Failed);
            fails(house, lines, 80, 1).await;
        },
        |_| {},
        async |house, health, lines| {
            let now = group(&health);
            assert_eq!(
                (state(&now), culprits(&now)),
                (HealthState::Failed, vec!["check front: refused".into()])
            );
            assert_eq!(restarts(&house), 0);
            // One failure was counted before.
            fails(&house, &lines, 80, 1).await;
            assert_eq!(restarts(&house), 1);
            pass(30).await;
            lines.at(80).answer(Passes, "");
            pass(11).await;
            assert_eq!(state(&group(&health)), HealthState::Healthy);
        },
    );
}

#[test]
fn v5_checks_begin_again_where_a_member_ended_in_between() {
    goes_on(
        file([check("front", 80)]),
        async |_, health, lines| {
            lines.at(80).answer(Passes, "");
            pass(60).await;
            assert_eq!(state(&group(health)), HealthState::Healthy);
        },
        |ruin| ruin.ends("web", Exit::Status(3)),
        async |_house, health, lines| {
            assert_eq!(culprits(&group(&health)), ["web"]);
            pass(60).await;
            let now = group(&health);
            let missing = vec!["check front: no result yet".to_owned()];
            assert_eq!((state(&now), culprits(&now)), (HealthState::Unhealthy, missing));
            lines.at(80).answer(Passes, "");
            pass(11).await;
            assert_eq!(state(&group(&health)), HealthState::Healthy);
        },
    );
}

#[test]
fn v1_the_checks_of_a_changed_file_have_passed_nothing_in_the_next_incarnation() {
    goes_on(
        file([check("front", 80)]),
        async |house, health, lines| {
            lines.at(80).answer(Passes, "");
            pass(60).await;
            assert_eq!(state(&group(health)), HealthState::Healthy);
            house.set_groups([file([check("front", 90)])]).await;
        },
        |_| {},
        async |_, health, lines| {
            let now = group(&health);
            let missing = vec!["check front: no result yet".to_owned()];
            assert_eq!((state(&now), culprits(&now)), (HealthState::Pending, missing));
            assert_eq!(lines.asked(), [90]);
        },
    );
}
