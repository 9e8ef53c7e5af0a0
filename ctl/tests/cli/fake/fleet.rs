//! The fleet of a host, in pages of two.

use kelson_proto::v1::fleet_server::Fleet;
use kelson_proto::v1::*;
use tonic::{Request, Response, Status};

use super::{Answer, Shared};
use crate::samples::at;

const PAGE: usize = 2;

/// What the host registers, and what the store has. Without a membership there is no store.
#[derive(Default)]
pub struct Registered {
    pub registrations: Vec<FleetRegistration>,
    pub membership: Option<FleetMembership>,
    pub hosts: Vec<FleetHost>,
    pub instances: Vec<FleetInstance>,
    /// Each page is the first one.
    pub stuck: bool,
    /// The plans that the store has.
    pub plans: Vec<FleetPlanPart>,
}

#[tonic::async_trait]
impl Fleet for Shared {
    async fn registry(&self, _: Request<FleetRegistryRequest>) -> Answer<FleetRegistryResponse> {
        self.note("registry".to_owned())?;
        let registrations = self.state().fleet.registrations.clone();
        Ok(Response::new(FleetRegistryResponse { registrations }))
    }

    async fn status(&self, _: Request<FleetStatusRequest>) -> Answer<FleetStatusResponse> {
        self.note("fleet status".to_owned())?;
        Ok(Response::new(FleetStatusResponse { membership: self.state().fleet.membership.clone() }))
    }

    async fn hosts(&self, request: Request<FleetHostsRequest>) -> Answer<FleetHostsResponse> {
        let FleetHostsRequest { after, limit } = request.into_inner();
        self.note(format!("hosts after={after} limit={limit}"))?;
        let state = self.state();
        let fleet = store(&state.fleet)?;
        let mut hosts = fleet.hosts.clone();
        hosts.retain(|host| fleet.stuck || host.name > after);
        let more = hosts.len() > PAGE;
        hosts.truncate(PAGE);
        Ok(Response::new(FleetHostsResponse { hosts, more }))
    }

    async fn instances(&self, request: Request<FleetInstancesRequest>) -> Answer<FleetInstancesResponse> {
        let FleetInstancesRequest { name, after, limit } = request.into_inner();
        self.note(format!("instances {name} after={after} limit={limit}"))?;
        let state = self.state();
        let fleet = store(&state.fleet)?;
        let place = |one: &FleetInstance| format!("{}/{}/{}", one.name, one.host, one.service);
        let mut instances = fleet.instances.clone();
        instances.retain(|one| name.is_empty() || one.name == name);
        instances.retain(|one| fleet.stuck || place(one) > after);
        let more = instances.len() > PAGE;
        instances.truncate(PAGE);
        let cursor = instances.last().filter(|_| more).map(place).unwrap_or_default();
        Ok(Response::new(FleetInstancesResponse { instances, cursor }))
    }

    async fn plans(&self, request: Request<FleetPlansRequest>) -> Answer<FleetPlansResponse> {
        let FleetPlansRequest { plan, after, .. } = request.into_inner();
        self.note(format!("plans {plan} after={after}"))?;
        let state = self.state();
        let fleet = store(&state.fleet)?;
        let mut parts = fleet.plans.clone();
        parts.sort_by_key(|part| (part.host.clone(), part.name.clone(), part.part));
        let of = |part: &FleetPlanPart| format!("{}/{}", part.host, part.name);
        parts.retain(|part| if plan.is_empty() { part.part == 0 } else { of(part) == plan });
        Ok(Response::new(FleetPlansResponse { parts, cursor: String::new(), time: at(1_795_254_600) }))
    }

    async fn put_plan(&self, request: Request<PutFleetPlanRequest>) -> Answer<PutFleetPlanResponse> {
        let PutFleetPlanRequest { name, part, revision, value } = request.into_inner();
        self.note(format!("put plan {name} {part}"))?;
        let mut state = self.state();
        let plans = &mut state.fleet.plans;
        let is = |one: &FleetPlanPart, part| one.host == "edge-1" && one.name == name && one.part == part;
        let known = plans.iter().find(|one| is(one, 0)).map_or(0, |one| one.revision);
        if known != revision {
            return Err(Status::aborted("another has changed the plan, or it is gone"));
        }
        plans.retain(|one| !is(one, part));
        let revision = if part == 0 { revision + 1 } else { revision };
        plans.push(FleetPlanPart { host: "edge-1".to_owned(), name, part, revision, value });
        Ok(Response::new(PutFleetPlanResponse { revision, time: at(1_795_254_600) }))
    }

    async fn remove_plan(&self, request: Request<RemoveFleetPlanRequest>) -> Answer<RemoveFleetPlanResponse> {
        let RemoveFleetPlanRequest { name, revision } = request.into_inner();
        self.note(format!("remove plan {name} {revision}"))?;
        self.state().fleet.plans.retain(|one| one.name != name);
        Ok(Response::new(RemoveFleetPlanResponse {}))
    }
}

fn store(fleet: &Registered) -> Result<&Registered, Status> {
    match fleet.membership {
        Some(_) => Ok(fleet),
        None => {
            Err(Status::failed_precondition("the machine file has no `fleet`: this host belongs to none"))
        }
    }
}
