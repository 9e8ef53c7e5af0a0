//! A service by whose end the host ends: which ends count, and that the next incarnation of PID 1 finds them.

use std::time::Duration;

use kelson_services::model::State;
use kelson_services::run_end::ServiceEnd;
use kelson_spec::service::{OnExit, RestartPolicy, ServiceSpec, WhenDown};

use crate::house::*;
use crate::when_down::minds;

/// The host ends with it, and it runs once.
fn ends(name: &str) -> ServiceSpec {
    let mut spec = ServiceSpec { on_exit: OnExit::Stop, ..spec(name) };
    spec.restart.policy = RestartPolicy::Once;
    spec
}

/// The service whose end is the end of the host, and its status.
async fn end(house: &House) -> Option<(String, u8)> {
    house.settle().await;
    let end = tokio::time::timeout(Duration::ZERO, house.manager.service_end()).await.ok();
    end.map(|ServiceEnd { name, status, .. }| (name.to_string(), status))
}

#[tokio::test(start_paused = true)]
async fn the_first_service_that_ends_counts() {
    let house = House::with([ends("web"), ends("db"), spec("other")]).await;
    house.exit("other", 9).await;
    assert_eq!(end(&house).await, None);
    house.exit("db", 4).await;
    house.exit("web", 5).await;
    assert_eq!(end(&house).await, Some(("db".to_owned(), 4)));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_the_policy_answers_does_not_count() {
    let mut web = ends("web");
    web.restart.policy = RestartPolicy::UntilSuccess;
    let house = House::with([web]).await;
    house.exit("web", 1).await;
    assert_eq!((house.state("web"), end(&house).await), (State::Backoff, None));
    tokio::time::sleep(secs(2)).await;
    house.exit("web", 0).await;
    assert_eq!(end(&house).await, Some(("web".to_owned(), 0)));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_stops_has_not_ended_and_what_a_rule_stops_has() {
    let web = ServiceSpec { depends: minds("web", "db", WhenDown::Stop).depends, ..ends("web") };
    let house = House::with([web, spec("db")]).await;
    house.stop("web").await;
    assert_eq!((house.state("web"), end(&house).await), (State::Stopped, None));
    house.manager.start(&names(&["web"]), false).await;
    house.settle().await;
    assert_eq!(house.state("web"), State::Running);
    house.exit("db", 1).await;
    house.settle().await;
    assert_eq!(house.state("web"), State::Stopped);
    assert_eq!(end(&house).await.map(|(name, _)| name), Some("web".to_owned()));
}

#[test]
fn a_crash_before_the_stop_keeps_the_end_and_its_status() {
    let ruin = first_life(async {
        let house = House::with([ends("web"), spec("db")]).await;
        house.exit("web", 3).await;
        // It is recorded, and nobody has acted on it.
        assert_eq!(house.state("web"), State::Failed);
        house
    });
    next_life(ruin, async |house| {
        assert_eq!(house.state("db"), State::Running);
        assert_eq!(end(&house).await, Some(("web".to_owned(), 3)));
    });
}
