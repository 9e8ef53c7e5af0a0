//! The service Fleet, and its metrics, on a host that belongs to no fleet.

use std::sync::Arc;

use kelson_proto::v1;
use kelson_services::spec::ServiceSpec;
use kelson_services::spec::fleet::Registration;
use tonic::Code;

use crate::{World, metrics, names};

/// A service that registers a name and a port.
fn registering(service: &str, name: &str) -> Arc<ServiceSpec> {
    let register = Registration { name: name.to_owned(), port: Some(5432), ..Registration::default() };
    Arc::new(ServiceSpec { register: Some(register), ..ServiceSpec::process(service, ["/none"]) })
}

#[tokio::test]
async fn what_is_up_is_registered_without_a_fleet() {
    let world = World::new().await;
    world.manager.add(registering("cron", "jobs"), false);
    world.manager.add(registering("sql", "postgres"), false);
    world.manager.start(&names(&["sql"]), true).await;
    let mut fleet = world.client().fleet();
    let listed = fleet.registry(v1::FleetRegistryRequest {}).await.unwrap().into_inner().registrations;
    let shown: Vec<_> = listed
        .iter()
        .map(|one| (one.service.as_str(), one.name.as_str(), one.port, one.up, one.state.as_str()))
        .collect();
    assert_eq!(
        shown,
        [("cron", "jobs", 5432, false, "absent"), ("sql", "postgres", 5432, true, "registered")]
    );
    let samples = metrics::samples(&metrics::get(&world, &[]).await.unwrap());
    let value = |name: &str| samples.get(name).copied();
    assert_eq!(value("kelson_registered cron"), Some(0.0));
    assert_eq!(value("kelson_registered sql"), Some(1.0));
    assert_eq!(value("kelson_registered db"), None, "it registers nothing");
    assert_eq!(value("kelson_fleet_connected"), None, "there is no fleet");
    world.end().await;
}

#[tokio::test]
async fn a_host_without_a_fleet_knows_no_other() {
    let world = World::new().await;
    let mut fleet = world.client().fleet();
    let status = fleet.status(v1::FleetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.membership, None);
    let hosts = fleet.hosts(v1::FleetHostsRequest::default()).await.unwrap_err();
    let instances = fleet.instances(v1::FleetInstancesRequest::default()).await.unwrap_err();
    let plans = fleet.plans(v1::FleetPlansRequest::default()).await.unwrap_err();
    let plan = v1::PutFleetPlanRequest { name: "roll".to_owned(), ..Default::default() };
    let put = fleet.put_plan(plan.clone()).await.unwrap_err();
    let remove = v1::RemoveFleetPlanRequest { name: "roll".to_owned(), revision: 1 };
    let remove = fleet.remove_plan(remove).await.unwrap_err();
    for refused in [hosts, instances, plans, put, remove] {
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("the machine file has no"), "{refused}");
    }
    let name = "web/../db".to_owned();
    let request = v1::FleetInstancesRequest { name, ..Default::default() };
    assert_eq!(fleet.instances(request).await.unwrap_err().code(), Code::InvalidArgument);
    for wrong in [
        v1::PutFleetPlanRequest { name: "../hosts".to_owned(), ..plan.clone() },
        v1::PutFleetPlanRequest { part: 1024, ..plan.clone() },
        v1::PutFleetPlanRequest { value: vec![0; (6 << 10) + 1], ..plan },
    ] {
        assert_eq!(fleet.put_plan(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    }
    world.end().await;
}
