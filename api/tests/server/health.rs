//! The health of the host, of groups and of services, in Kelson's own words and in those of grpc.health.v1.

use std::sync::Arc;

use kelson_services::spec::Loaded;
use kelson_services::spec::service::StartMode;
use tokio_stream::StreamExt as _;

use super::*;

fn asked(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.into() }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("it never came")
}

fn in_shop(name: &str) -> ServiceSpec {
    let mut spec = ServiceSpec::process(name, [name]);
    spec.group = Some("shop".into());
    spec.start = StartMode::Manual;
    spec
}

#[tokio::test]
async fn names_of_the_host_of_services_and_of_the_boot() {
    let world = World::new().await;
    let mut health = HealthClient::new(channel(&world).await);
    let mut status =
        async |name: &str| health.check(asked(name)).await.map(|said| said.into_inner().status());
    for name in ["", "boot", "kelson.v1.Services", "kelson.v1.Health", "service/web", "service/db"] {
        assert_eq!(status(name).await.unwrap(), ServingStatus::NotServing, "{name}");
    }
    for name in ["service/nope", "group/shop", "web", "unit/web"] {
        assert_eq!(status(name).await.unwrap_err().code(), Code::NotFound, "{name}");
    }
    world.boot.send_modify(|boot| boot.total = Some(Duration::from_secs(1)));
    for name in ["boot", "kelson.v1.Services", "kelson.v1.Health"] {
        assert_eq!(status(name).await.unwrap(), ServingStatus::Serving, "{name}");
    }
    assert_eq!(status("").await.unwrap(), ServingStatus::NotServing, "a boot that is over is no health");
    world.manager.begin();
    world.manager.wait(&["web".to_owned()], kelson_services::manager::Awaited::Up).await.unwrap();
    assert_eq!(status("service/web").await.unwrap(), ServingStatus::Serving);
    // For the minimum healthy time.
    let mut stream =
        world.client().health().watch(v1::WatchHealthRequest::default()).await.unwrap().into_inner();
    while within(stream.next()).await.unwrap().unwrap().health.unwrap().state()
        != v1::health_report::State::Healthy
    {}
    assert_eq!(status("").await.unwrap(), ServingStatus::Serving);
    world.end().await;
}

#[tokio::test]
async fn a_watch_follows_a_service_that_comes_and_goes() {
    let world = World::new().await;
    let mut health = HealthClient::new(channel(&world).await);
    let mut web = health.watch(asked("service/late")).await.unwrap().into_inner();
    let mut shop = health.watch(asked("group/shop")).await.unwrap().into_inner();
    let mut nonsense = health.watch(asked("late")).await.unwrap().into_inner();
    let next = async |stream: &mut tonic::Streaming<tonic_health::pb::HealthCheckResponse>| {
        within(stream.next()).await.map(|said| said.unwrap().status())
    };
    for stream in [&mut web, &mut shop, &mut nonsense] {
        assert_eq!(next(stream).await, Some(ServingStatus::ServiceUnknown));
    }
    world.manager.add(Arc::new(in_shop("late")), false);
    assert_eq!(next(&mut web).await, Some(ServingStatus::NotServing));
    // Nothing that has to be up is missing in the group.
    loop {
        match next(&mut shop).await {
            Some(ServingStatus::NotServing) => {}
            said => break assert_eq!(said, Some(ServingStatus::Serving)),
        }
    }
    world.manager.start(&["late".to_owned()], true).await;
    assert_eq!(next(&mut web).await, Some(ServingStatus::Serving));
    world.manager.reload(Loaded::default()).await.unwrap();
    assert_eq!(next(&mut web).await, Some(ServingStatus::NotServing));
    loop {
        match next(&mut shop).await {
            Some(ServingStatus::NotServing) => {}
            said => break assert_eq!(said, Some(ServingStatus::ServiceUnknown)),
        }
    }
    assert_eq!(next(&mut web).await, Some(ServingStatus::ServiceUnknown));
    // It comes again under the same name.
    world.manager.add(Arc::new(in_shop("late")), false);
    assert_eq!(next(&mut web).await, Some(ServingStatus::NotServing));
    world.end().await;
    assert_eq!((next(&mut web).await, next(&mut nonsense).await), (None, None), "streams end with PID 1");
}

#[tokio::test]
async fn reports_name_culprits_and_streams_end() {
    let world = World::new().await;
    let mut client = world.client().health();
    let now = client.get(v1::GetHealthRequest::default()).await.unwrap().into_inner().health.unwrap();
    assert_eq!(now.state(), v1::health_report::State::Pending);
    let culprits: Vec<(&str, &str)> =
        now.culprits.iter().map(|culprit| (culprit.service.as_str(), culprit.reason.as_str())).collect();
    assert_eq!(culprits, [("db", "not started yet"), ("web", "not started yet")]);
    assert_eq!((now.services, now.group.as_str(), now.steady), (2, "", None));
    assert!(now.left.is_some() && now.since.is_some(), "{now:?}");
    let unknown = v1::GetHealthRequest { group: "shop".into() };
    assert_eq!(client.get(unknown).await.unwrap_err().code(), Code::NotFound);
    let unknown = v1::WatchHealthRequest { group: "shop".into() };
    assert_eq!(client.watch(unknown).await.unwrap_err().code(), Code::NotFound);

    world.manager.add(Arc::new(in_shop("till")), false);
    world.manager.start(&["till".to_owned()], true).await;
    let listing = client.list(v1::ListHealthRequest::default()).await.unwrap().into_inner();
    assert_eq!(listing.node.unwrap().services, 3);
    assert_eq!((listing.groups.len(), listing.groups[0].group.as_str()), (1, "shop"));

    let mut stream =
        client.watch(v1::WatchHealthRequest { group: "shop".into() }).await.unwrap().into_inner();
    let mut node = client.watch(v1::WatchHealthRequest::default()).await.unwrap().into_inner();
    assert!(within(node.next()).await.unwrap().is_ok());
    let mut last = within(stream.next()).await.unwrap().unwrap();
    while last.health.as_ref().unwrap().state() != v1::health_report::State::Healthy {
        last = within(stream.next()).await.unwrap().unwrap();
    }
    world.manager.stop(&["till".to_owned()], false, true).await;
    world.manager.reload(Loaded::default()).await.unwrap();
    let gone = loop {
        if let Err(status) = within(stream.next()).await.unwrap() {
            break status;
        }
    };
    assert_eq!(gone.code(), Code::NotFound);
    assert!(within(stream.next()).await.is_none());
    world.end().await;
    while let Some(Ok(_)) = within(node.next()).await {}
    assert!(within(node.next()).await.is_none());
}
