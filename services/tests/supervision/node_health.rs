//! H7: the health of the host and of groups, over services that are played.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use kelson_proto::v1::HealthReport;
use kelson_runner::Exit;
use kelson_services::manager::Outcome;
use kelson_services::model::Numbered as _;
use kelson_services::model::State;
use kelson_services::node_health::{HealthState, NodeHealth, NodeHealthSpec};
use kelson_spec::Loaded;
use kelson_spec::service::{Exhausted, Lifecycle, LifecycleHook, Requirement, ServiceEvent, ServiceSpec};
use tokio::time::Instant;

use crate::house::*;

/// A house that has just begun, and its health.
async fn house(specs: impl IntoIterator<Item = ServiceSpec>) -> (House, NodeHealth) {
    let mut house = House::new();
    let health = house.follow_health();
    house.boot(specs).await;
    (house, health)
}

pub fn state(health: &HealthReport) -> HealthState {
    HealthState::of_number(health.state).unwrap()
}

/// A span of a report.
pub fn span(of: &prost_types::Duration) -> Duration {
    Duration::try_from(*of).unwrap()
}

fn time(of: &Option<prost_types::Timestamp>) -> SystemTime {
    SystemTime::try_from(of.unwrap()).unwrap()
}

fn culprits(health: &HealthReport) -> Vec<&str> {
    health.culprits.iter().map(|culprit| &*culprit.service).collect()
}

#[tokio::test(start_paused = true)]
async fn h7_every_service_at_the_same_time_for_the_minimum() {
    let (house, health) = house([spec("db"), notify("web"), oneshot("migrate")]).await;
    assert_eq!(culprits(&health.node()), ["migrate", "web"]);
    house.exit("migrate", 0).await;
    assert_eq!(culprits(&health.node()), ["web"]);
    house.say("web", "READY=1").await;
    let now = health.node();
    assert_eq!((state(&now), culprits(&now), now.services), (HealthState::Pending, vec![], 3));
    tokio::time::sleep(secs(9)).await;
    assert_eq!(health.node_state(), HealthState::Pending);
    // A break: the whole minimum again.
    house.exit("db", 1).await;
    assert_eq!(culprits(&health.node()), ["db"]);
    tokio::time::sleep(secs(2)).await;
    let now = health.node();
    assert_eq!((state(&now), culprits(&now)), (HealthState::Pending, vec![]));
    assert_eq!(&*now.last_break.unwrap().service, "db");
    tokio::time::sleep(secs(7)).await;
    assert_eq!(health.node_state(), HealthState::Pending);
    tokio::time::sleep(secs(4)).await;
    assert_eq!(health.node_state(), HealthState::Healthy);
    assert_eq!(host_told(&house), ["the host is healthy: all 3 services are up for 10 s"]);
}

#[tokio::test(start_paused = true)]
async fn other_settings_count_at_once() {
    let (_house, health) = house([spec("db")]).await;
    tokio::time::sleep(secs(4)).await;
    assert_eq!(health.node_state(), HealthState::Pending);
    // The part of the minimum that has passed counts.
    health.set_specs(NodeHealthSpec { minimum: secs(5), ..HEALTH });
    tokio::time::sleep(secs(2)).await;
    assert_eq!(
        (health.node_state(), health.node().minimum.as_ref().map(span)),
        (HealthState::Healthy, Some(secs(5)))
    );
}

#[tokio::test(start_paused = true)]
async fn h7_flapping_keeps_it_from_healthy_and_the_deadline_names_the_culprits() {
    let (house, health) = house([spec("db"), spec("web"), needs("cart", &["lost"]), notify("lost")]).await;
    let mut states = health.changes();
    for _ in 0..34 {
        tokio::time::sleep(secs(8)).await;
        house.exit("web", 1).await;
        let _ = house.manager.start(&names(&["web"]), false).await;
    }
    assert_eq!(health.node_state(), HealthState::Pending);
    tokio::time::sleep(secs(60)).await;
    let now = health.node();
    assert_eq!((state(&now), culprits(&now)), (HealthState::Failed, vec!["cart", "lost"]));
    let told = host_told(&house);
    let failed = told.last().unwrap();
    assert!(
        failed.starts_with("the host has failed: not healthy within 5m; 2 of 4 services are not up"),
        "{failed}"
    );
    assert!(failed.contains(r#"cart: waiting for service "lost" to be up"#), "{failed}");
    assert!(failed.contains("lost: PID"), "{failed}");
    // A follower receives it, and it recovers.
    states.borrow_and_update();
    house.say("lost", "READY=1").await;
    assert!(states.has_changed().unwrap());
    tokio::time::sleep(secs(11)).await;
    assert_eq!(health.node_state(), HealthState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn h7_health_is_never_latched() {
    let (house, health) = house([spec("db"), spec("web")]).await;
    tokio::time::sleep(secs(11)).await;
    assert_eq!(health.node_state(), HealthState::Healthy);
    house.exit("web", 3).await;
    let now = health.node();
    assert_eq!((state(&now), culprits(&now)), (HealthState::Unhealthy, vec!["web"]));
    assert!(now.culprits[0].reason.contains("exited with status 3"), "{now:?}");
    tokio::time::sleep(secs(400)).await;
    assert_eq!(health.node_state(), HealthState::Healthy);
    // A run that ends and begins between two looks is a break as well.
    let told = host_told(&house);
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(told[1].starts_with("the host is unhealthy: 1 of 2 services is not up (web: "), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn h7_what_the_files_want_up_is_asked_and_nothing_else() {
    let mut flaky = spec("extra");
    flaky.required = false;
    flaky.restart.attempts = 1;
    flaky.restart.exhausted = Exhausted::Fail;
    let mut skipped = spec("skipped");
    skipped.when = vec![Requirement::service("idle", ServiceEvent::Up)];
    let poststop = ServiceSpec {
        lifecycle: Lifecycle { hook: Some(LifecycleHook::Poststop), sidecar: false },
        depends: vec![Requirement::service("web", ServiceEvent::Down)],
        ..oneshot("sweep")
    };
    let (house, health) =
        house([spec("web"), manual(spec("idle")), flaky, skipped, in_group("shop", poststop)]).await;
    house.exit("extra", 1).await;
    tokio::time::sleep(secs(11)).await;
    assert_eq!(
        (health.node_state(), health.node().services),
        (HealthState::Healthy, 1),
        "{:?}",
        health.node()
    );
    assert_eq!(health.group("shop").unwrap().services, 0);
    // Started by hand, a manual one is asked like any other until it is stopped by hand.
    assert_eq!(house.start("idle").await.outcome, Outcome::Done);
    house.exit("idle", 1).await;
    assert_eq!(culprits(&health.node()), ["idle"]);
    house.stop("idle").await;
    assert_eq!(culprits(&health.node()), Vec::<&str>::new());
    // One that the files want up is missed, regardless of who stopped it; and so is what follows it, while it
    // runs.
    house.stop("web").await;
    house.settle().await;
    let now = health.node();
    assert_eq!((state(&now), culprits(&now)), (HealthState::Unhealthy, vec!["sweep", "web"]));
    assert_eq!(&*now.culprits[1].reason, "stopped: asked by an operator");
    house.exit("sweep", 0).await;
    assert_eq!(culprits(&health.node()), ["web"]);
}

#[tokio::test(start_paused = true)]
async fn h7_a_file_with_mistakes_is_a_culprit_until_it_is_mended() {
    let (house, health) = house([spec("web")]).await;
    let diagnostics = vec![fault(Some("db"), "db.yaml", "unknown key")];
    house.manager.reload(Loaded { diagnostics, ..loaded([spec("web")]) }).await.unwrap();
    house.settle().await;
    let now = health.node();
    assert_eq!(culprits(&now), ["db"]);
    assert!(now.culprits[0].reason.contains("unknown key"), "{now:?}");
    house.manager.reload(loaded([spec("web"), spec("db")])).await.unwrap();
    house.settle().await;
    assert_eq!((culprits(&health.node()), health.node().services), (vec![], 2));
    // A service that is gone is nobody's culprit.
    house.exit("db", 1).await;
    assert_eq!(culprits(&health.node()), ["db"]);
    house.manager.reload(loaded([spec("web")])).await.unwrap();
    house.settle().await;
    assert_eq!((culprits(&health.node()), health.node().services), (vec![], 1));
}

#[tokio::test(start_paused = true)]
async fn h7_a_group_has_a_health_of_its_own() {
    let (house, health) =
        house([in_group("shop", spec("db")), in_group("shop", notify("web")), spec("lone")]).await;
    tokio::time::sleep(secs(11)).await;
    let shop = health.group("shop").unwrap();
    assert_eq!((state(&shop), culprits(&shop), shop.services), (HealthState::Pending, vec!["web"], 2));
    house.say("web", "READY=1").await;
    tokio::time::sleep(secs(11)).await;
    assert_eq!(health.group_state("shop"), Some(HealthState::Healthy));
    house.exit("lone", 1).await;
    assert_eq!(
        (health.node_state(), health.group_state("shop")),
        (HealthState::Unhealthy, Some(HealthState::Healthy))
    );
    assert_eq!(health.group("nobody"), None);
    let groups: Vec<String> = health.groups().into_iter().map(|group| group.group).collect();
    assert_eq!(groups, ["shop"]);
    assert!(host_told(&house).contains(&"group shop is healthy: all 2 services are up for 10 s".to_owned()));
}

/// The contents of a report, apart from the time that passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// State, count of services, culprits and the last break.
    pub words: Vec<String>,
    /// When it entered its state, since when all are up, when the deadline began, since when each culprit is one, and when
    /// the last break was.
    pub times: Vec<Option<Instant>>,
}

impl Standing {
    pub fn of(health: &HealthReport) -> Standing {
        let now = Instant::now();
        let lasts = health.lasts.as_ref().map(span).unwrap();
        let (entered, since) = (now - lasts, time(&health.since));
        // Their distance is exact, whatever the clock of the wall says.
        let at = |at: SystemTime| match at.duration_since(since) {
            Ok(after) => entered + after,
            Err(before) => entered - before.duration(),
        };
        let named = health.culprits.iter().chain(&health.last_break);
        let mut words = vec![state(health).name().to_owned(), health.services.to_string()];
        words.extend(named.clone().map(|culprit| format!("{}: {}", culprit.service, culprit.reason)));
        let left = health.left.as_ref().map(span).filter(|left| !left.is_zero());
        let begun = left.zip(health.deadline.as_ref()).map(|(left, deadline)| now + left - span(deadline));
        let mut times = vec![Some(entered), health.steady.as_ref().map(|steady| now - span(steady)), begun];
        times.extend(named.map(|culprit| Some(at(time(&culprit.since)))));
        Standing { words, times }
    }

    /// The clocks of two incarnations of PID 1 agree within milliseconds.
    pub fn is(&self, other: &Standing) -> bool {
        let near = |one: &Instant, other: &Instant| {
            one.max(other).duration_since(*one.min(other)) <= Duration::from_millis(10)
        };
        let same = |(one, other): (&Option<Instant>, &Option<Instant>)| match (one, other) {
            (Some(one), Some(other)) => near(one, other),
            (one, other) => one == other,
        };
        self.words == other.words
            && self.times.len() == other.times.len()
            && self.times.iter().zip(&other.times).all(same)
    }
}

fn standings(health: &NodeHealth) -> Vec<Standing> {
    std::iter::once(health.node()).chain(health.groups()).map(|health| Standing::of(&health)).collect()
}

#[track_caller]
fn assert_same(one: &[Standing], other: &[Standing]) {
    let same = one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is(other));
    assert!(same, "{one:#?} became {other:#?}");
}

/// Plays a host until PID 1 re-executes itself, and looks whether its health is then what it was; `later`
/// goes on from there.
fn goes_on<Later: Future<Output = ()>>(
    specs: Vec<ServiceSpec>,
    before: impl AsyncFnOnce(&House, &NodeHealth),
    later: impl FnOnce(House, NodeHealth) -> Later,
) {
    let known = RefCell::new((Vec::new(), Vec::new()));
    let ruin = first_life(async {
        let (house, health) = house(specs).await;
        before(&house, &health).await;
        *known.borrow_mut() = (standings(&health), host_told(&house));
        house
    });
    next_life(ruin, async |house| {
        let health = house.health.clone().unwrap();
        let (standing, told) = known.take();
        assert_same(&standing, &standings(&health));
        assert_eq!(host_told(&house), told, "nothing is told twice");
        later(house, health).await;
    });
}

#[test]
fn v1_a_healthy_host_stays_so_without_a_word_and_keeps_its_last_break() {
    goes_on(
        vec![in_group("shop", spec("db")), in_group("shop", spec("web")), spec("lone"), oneshot("job")],
        async |house, health| {
            house.exit("job", 0).await;
            tokio::time::sleep(secs(11)).await;
            house.exit("web", 3).await;
            tokio::time::sleep(secs(400)).await;
            assert_eq!(&*health.node().last_break.unwrap().service, "web");
        },
        async |house, health| {
            let told = host_told(&house).len();
            tokio::time::sleep(secs(600)).await;
            assert_eq!((health.node_state(), host_told(&house).len()), (HealthState::Healthy, told));
            // And it is judged as before.
            house.exit("db", 1).await;
            assert_eq!(health.group_state("shop"), Some(HealthState::Unhealthy));
            tokio::time::sleep(secs(30)).await;
            assert_eq!(health.group_state("shop"), Some(HealthState::Healthy));
        },
    );
}

#[test]
fn v1_a_failed_host_stays_failed_with_the_same_culprits() {
    goes_on(
        vec![spec("web"), in_group("shop", notify("late")), in_group("shop", spec("db"))],
        async |_, health| {
            tokio::time::sleep(secs(301)).await;
            assert_eq!((health.node_state(), culprits(&health.node())), (HealthState::Failed, vec!["late"]));
        },
        async |house, health| {
            tokio::time::sleep(secs(100)).await;
            assert_eq!(health.group_state("shop"), Some(HealthState::Failed));
            house.say("late", "READY=1").await;
            tokio::time::sleep(secs(11)).await;
            assert_eq!(health.node_state(), HealthState::Healthy);
            assert_eq!(health.group_state("shop"), Some(HealthState::Healthy));
        },
    );
}

#[test]
fn v1_the_minimum_and_the_deadline_have_left_what_they_had_left() {
    goes_on(
        vec![spec("web"), in_group("shop", notify("late"))],
        async |house, _| {
            tokio::time::sleep(secs(100)).await;
            house.say("late", "READY=1").await;
            tokio::time::sleep(secs(6)).await;
        },
        async |_, health| {
            tokio::time::sleep(secs(3)).await;
            assert_eq!(health.node_state(), HealthState::Pending);
            tokio::time::sleep(secs(2)).await;
            assert_eq!(health.node_state(), HealthState::Healthy);
        },
    );
    goes_on(
        vec![notify("late")],
        async |_, _| tokio::time::sleep(secs(290)).await,
        async |_, health| {
            tokio::time::sleep(secs(8)).await;
            assert_eq!(health.node_state(), HealthState::Pending);
            tokio::time::sleep(secs(3)).await;
            assert_eq!(health.node_state(), HealthState::Failed);
        },
    );
}

#[test]
fn v1_how_often_a_group_was_restarted_is_kept() {
    let mut web = in_group("shop", spec("web"));
    web.restart.attempts = 1;
    web.restart.scope = kelson_spec::service::RestartScope::Group;
    let restarts = |house: &House| house.manager.group_restarts().get("shop").copied();
    goes_on(
        vec![web, in_group("shop", spec("db"))],
        async |house, _| {
            house.exit("web", 1).await;
            tokio::time::sleep(secs(5)).await;
            house.exit("web", 1).await;
            tokio::time::sleep(secs(60)).await;
            assert_eq!(restarts(house), Some(1));
        },
        async |house, _| assert_eq!(restarts(&house), Some(1)),
    );
}

#[test]
fn v5_a_service_that_ends_in_between_makes_the_host_unhealthy() {
    let ruin = first_life(async {
        let (house, _) = house([spec("db"), spec("web")]).await;
        tokio::time::sleep(secs(11)).await;
        house
    });
    next_life_of(ruin, async |mut ruin| {
        ruin.ends("web", Exit::Status(3));
        let house = House::another_life(ruin).await;
        let health = house.health.clone().unwrap();
        assert_eq!((health.node_state(), culprits(&health.node())), (HealthState::Unhealthy, vec!["web"]));
        let told = host_told(&house);
        assert!(told.last().unwrap().starts_with("the host is unhealthy: 1 of 2"), "{told:#?}");
    });
}

#[test]
fn v2_health_that_is_lost_begins_again_and_that_is_reported() {
    let ruin = first_life(async {
        let (house, health) = house([in_group("shop", spec("db"))]).await;
        tokio::time::sleep(secs(11)).await;
        assert_eq!(health.node_state(), HealthState::Healthy);
        house
    });
    next_life_of(ruin, async |ruin| {
        // Both slots of the host, which comes first or second.
        let file = std::fs::File::options().write(true).open(ruin.directory().join("health")).unwrap();
        let bytes = std::fs::read(ruin.directory().join("health")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xff; bytes.len() - 4096], 4096).unwrap();
        let (house, past) = House::takes_up_with_health(ruin).await;
        assert!(past.doubts.iter().any(|doubt| doubt.contains("is torn")), "{:?}", past.doubts);
        let health = house.health.clone().unwrap();
        assert_eq!(health.node_state(), HealthState::Pending);
        let told = host_told(&house);
        assert!(told.iter().any(|text| text.contains("its deadline begins again")), "{told:#?}");
        tokio::time::sleep(secs(11)).await;
        assert_eq!(health.node_state(), HealthState::Healthy);
        assert_eq!(health.group_state("shop"), Some(HealthState::Healthy));
    });
}

#[test]
fn v1_health_is_kept_where_no_service_can_be_run_any_more() {
    let ruin = first_life(async {
        let (house, health) = house([in_group("shop", notify("web"))]).await;
        tokio::time::sleep(secs(301)).await;
        assert_eq!(health.group_state("shop"), Some(HealthState::Failed));
        house
    });
    next_life_of(ruin, async |ruin| {
        ruin.stage.refuses.store(true, Ordering::Relaxed);
        let mut house = House::another_life(ruin).await;
        // Nobody can clean up what is left.
        house.is_judged = false;
        let health = house.health.clone().unwrap();
        assert_eq!(house.state("web"), State::Failed);
        for now in [health.group("shop").unwrap(), health.node()] {
            assert_eq!((state(&now), culprits(&now)), (HealthState::Failed, vec!["web"]));
            let since = time(&now.culprits[0].since).elapsed().unwrap();
            assert!(since > secs(300) && now.lasts.as_ref().map(span) < Some(secs(3)), "{now:?}");
        }
        let told = host_told(&house);
        assert_eq!(told.iter().filter(|text| text.starts_with("group shop ")).count(), 1, "{told:#?}");
    });
}
