//! H7: the health of the host and of groups, over services that are played.

use std::sync::Arc;
use std::time::Duration;

use kelson_services::manager::Outcome;
use kelson_services::node_health::{Health, HealthState, NodeHealth, NodeHealthSpec};
use kelson_spec::Loaded;
use kelson_spec::service::{Exhausted, Lifecycle, LifecycleHook, Requirement, ServiceEvent, ServiceSpec};

use crate::house::*;

const SPEC: NodeHealthSpec =
    NodeHealthSpec { minimum: Duration::from_secs(10), deadline: Duration::from_secs(300) };

/// A house that has just begun, and its health.
async fn house(specs: impl IntoIterator<Item = ServiceSpec>) -> (House, NodeHealth) {
    let house = House::new();
    let health = NodeHealth::of(&house.manager, SPEC);
    house.manager.take_in(loaded(specs));
    house.manager.begin();
    house.settle().await;
    (house, health)
}

fn culprits(health: &Health) -> Vec<&str> {
    health.culprits.iter().map(|culprit| &*culprit.service).collect()
}

fn in_group(group: &str, spec: ServiceSpec) -> ServiceSpec {
    ServiceSpec { group: Some(group.into()), ..spec }
}

fn host_told(house: &House) -> Vec<String> {
    house.manager.events_of("").iter().map(|event| event.message.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn h7_every_service_at_the_same_time_for_the_minimum() {
    let (house, health) = house([spec("db"), notify("web"), oneshot("migrate")]).await;
    assert_eq!(culprits(&health.node()), ["migrate", "web"]);
    house.exit("migrate", 0).await;
    assert_eq!(culprits(&health.node()), ["web"]);
    house.say("web", "READY=1").await;
    let now = health.node();
    assert_eq!((now.state, culprits(&now), now.services), (HealthState::Pending, vec![], 3));
    tokio::time::sleep(secs(9)).await;
    assert_eq!(health.node_state(), HealthState::Pending);
    // A break: the whole minimum again.
    house.exit("db", 1).await;
    assert_eq!(culprits(&health.node()), ["db"]);
    tokio::time::sleep(secs(2)).await;
    let now = health.node();
    assert_eq!((now.state, culprits(&now)), (HealthState::Pending, vec![]));
    assert_eq!(&*now.last_break.unwrap().service, "db");
    tokio::time::sleep(secs(7)).await;
    assert_eq!(health.node_state(), HealthState::Pending);
    tokio::time::sleep(secs(4)).await;
    assert_eq!(health.node_state(), HealthState::Healthy);
    assert_eq!(host_told(&house), ["the host is healthy: all 3 services are up for 10 s"]);
    house.check();
}

#[tokio::test(start_paused = true)]
async fn other_settings_count_at_once() {
    let (_house, health) = house([spec("db")]).await;
    tokio::time::sleep(secs(4)).await;
    assert_eq!(health.node_state(), HealthState::Pending);
    // What has passed of the minimum counts.
    health.set_spec(NodeHealthSpec { minimum: secs(5), ..SPEC });
    tokio::time::sleep(secs(2)).await;
    assert_eq!((health.node_state(), health.node().minimum), (HealthState::Healthy, secs(5)));
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
    assert_eq!((now.state, culprits(&now)), (HealthState::Failed, vec!["cart", "lost"]));
    let told = host_told(&house);
    let failed = told.last().unwrap();
    assert!(
        failed.starts_with("the host has failed: not healthy within 5m; 2 of 4 services are not up"),
        "{failed}"
    );
    assert!(failed.contains(r#"cart: waiting for service "lost" to be up"#), "{failed}");
    assert!(failed.contains("lost: PID"), "{failed}");
    // Whoever follows hears of it, and it recovers.
    states.borrow_and_update();
    house.say("lost", "READY=1").await;
    assert!(states.has_changed().unwrap());
    tokio::time::sleep(secs(11)).await;
    assert_eq!(health.node_state(), HealthState::Healthy);
    house.check();
}

#[tokio::test(start_paused = true)]
async fn h7_health_is_never_latched() {
    let (house, health) = house([spec("db"), spec("web")]).await;
    tokio::time::sleep(secs(11)).await;
    assert_eq!(health.node_state(), HealthState::Healthy);
    house.exit("web", 3).await;
    let now = health.node();
    assert_eq!((now.state, culprits(&now)), (HealthState::Unhealthy, vec!["web"]));
    assert!(now.culprits[0].reason.contains("exited with status 3"), "{now:?}");
    tokio::time::sleep(secs(400)).await;
    assert_eq!(health.node_state(), HealthState::Healthy);
    // A run that ends and begins between two looks is a break as well.
    let told = host_told(&house);
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(told[1].starts_with("the host is unhealthy: 1 of 2 services is not up (web: "), "{told:#?}");
    house.check();
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
    let started = house.manager.start(&names(&["idle"]), true).await;
    assert_eq!(started[0].outcome, Outcome::Done);
    house.exit("idle", 1).await;
    assert_eq!(culprits(&health.node()), ["idle"]);
    house.manager.stop(&names(&["idle"]), false, true).await;
    assert_eq!(culprits(&health.node()), Vec::<&str>::new());
    // One that the files want up is missed, whoever stopped it; and so is what follows it, while it runs.
    house.manager.stop(&names(&["web"]), false, true).await;
    house.settle().await;
    let now = health.node();
    assert_eq!((now.state, culprits(&now)), (HealthState::Unhealthy, vec!["sweep", "web"]));
    assert_eq!(&*now.culprits[1].reason, "stopped: asked by an operator");
    house.exit("sweep", 0).await;
    assert_eq!(culprits(&health.node()), ["web"]);
    house.check();
}

#[tokio::test(start_paused = true)]
async fn h7_a_file_with_mistakes_is_a_culprit_until_it_is_mended() {
    let (house, health) = house([spec("web")]).await;
    let diagnostics = vec![fault(Some("db"), "db.yaml", "unknown key")];
    house.manager.reload(Loaded { diagnostics, ..loaded([spec("web")]) }).await;
    house.settle().await;
    let now = health.node();
    assert_eq!(culprits(&now), ["db"]);
    assert!(now.culprits[0].reason.contains("unknown key"), "{now:?}");
    house.manager.reload(loaded([spec("web"), spec("db")])).await;
    house.settle().await;
    assert_eq!((culprits(&health.node()), health.node().services), (vec![], 2));
    // A service that is gone is nobody's culprit.
    house.exit("db", 1).await;
    assert_eq!(culprits(&health.node()), ["db"]);
    house.manager.reload(loaded([spec("web")])).await;
    house.settle().await;
    assert_eq!((culprits(&health.node()), health.node().services), (vec![], 1));
    house.check();
}

#[tokio::test(start_paused = true)]
async fn h7_a_group_has_a_health_of_its_own() {
    let (house, health) =
        house([in_group("shop", spec("db")), in_group("shop", notify("web")), spec("lone")]).await;
    tokio::time::sleep(secs(11)).await;
    let shop = health.group("shop").unwrap();
    assert_eq!((shop.state, culprits(&shop), shop.services), (HealthState::Pending, vec!["web"], 2));
    house.say("web", "READY=1").await;
    tokio::time::sleep(secs(11)).await;
    assert_eq!(health.group_state("shop"), Some(HealthState::Healthy));
    house.exit("lone", 1).await;
    assert_eq!(
        (health.node_state(), health.group_state("shop")),
        (HealthState::Unhealthy, Some(HealthState::Healthy))
    );
    assert_eq!(health.group("nobody"), None);
    let groups: Vec<Arc<str>> = health.groups().into_iter().map(|(name, _)| name).collect();
    assert_eq!(groups, [Arc::from("shop")]);
    assert!(host_told(&house).contains(&"group shop is healthy: all 2 services are up for 10 s".to_owned()));
    house.check();
}
