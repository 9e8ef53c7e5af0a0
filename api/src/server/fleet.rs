//! The service Fleet: what services register, and what the store of the fleet has.

use kelson_proto::v1;
use kelson_proto::v1::fleet_server;
use kelson_services::fleet::Fleet;
use kelson_services::spec::names::{LONGEST_NAME, is_name};
use tonic::{Request, Response, Status};

use super::fleet_plans::{self, silent};

/// Hosts, or registered services, of one answer.
const PAGE: u32 = 500;
/// The longest place in a list, in bytes: three names.
const PLACE_MAX: usize = 1024;

pub struct FleetApi {
    pub fleet: Fleet,
}

#[tonic::async_trait]
impl fleet_server::Fleet for FleetApi {
    async fn registry(
        &self,
        _: Request<v1::FleetRegistryRequest>,
    ) -> Result<Response<v1::FleetRegistryResponse>, Status> {
        Ok(Response::new(v1::FleetRegistryResponse { registrations: self.fleet.registrations() }))
    }

    async fn status(
        &self,
        _: Request<v1::FleetStatusRequest>,
    ) -> Result<Response<v1::FleetStatusResponse>, Status> {
        Ok(Response::new(v1::FleetStatusResponse { membership: self.fleet.membership() }))
    }

    async fn hosts(
        &self,
        request: Request<v1::FleetHostsRequest>,
    ) -> Result<Response<v1::FleetHostsResponse>, Status> {
        let request = of_hosts(request.into_inner())?;
        self.fleet.hosts(request).await.map(Response::new).map_err(silent)
    }

    async fn instances(
        &self,
        request: Request<v1::FleetInstancesRequest>,
    ) -> Result<Response<v1::FleetInstancesResponse>, Status> {
        let request = of_instances(request.into_inner())?;
        self.fleet.instances(request).await.map(Response::new).map_err(silent)
    }

    async fn plans(
        &self,
        request: Request<v1::FleetPlansRequest>,
    ) -> Result<Response<v1::FleetPlansResponse>, Status> {
        fleet_plans::list(&self.fleet, request.into_inner()).await.map(Response::new)
    }

    async fn put_plan(
        &self,
        request: Request<v1::PutFleetPlanRequest>,
    ) -> Result<Response<v1::PutFleetPlanResponse>, Status> {
        fleet_plans::put(&self.fleet, request.into_inner()).await.map(Response::new)
    }

    async fn remove_plan(
        &self,
        request: Request<v1::RemoveFleetPlanRequest>,
    ) -> Result<Response<v1::RemoveFleetPlanResponse>, Status> {
        fleet_plans::remove(&self.fleet, request.into_inner()).await.map(Response::new)
    }
}

fn of_hosts(request: v1::FleetHostsRequest) -> Result<v1::FleetHostsRequest, Status> {
    short(&request.after)?;
    Ok(v1::FleetHostsRequest { limit: page(request.limit), ..request })
}

fn of_instances(request: v1::FleetInstancesRequest) -> Result<v1::FleetInstancesRequest, Status> {
    short(&request.after)?;
    if !request.name.is_empty() && !is_name(&request.name) {
        return Err(Status::invalid_argument(format!(
            "services are registered under names of small letters, digits and -, no - first, at most {LONGEST_NAME}"
        )));
    }
    Ok(v1::FleetInstancesRequest { limit: page(request.limit), ..request })
}

fn short(after: &str) -> Result<(), Status> {
    if after.len() > PLACE_MAX {
        return Err(Status::invalid_argument(format!("`after` has more than {PLACE_MAX} bytes")));
    }
    Ok(())
}

fn page(limit: u32) -> u32 {
    if limit == 0 { PAGE } else { limit.min(PAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_at_most_500() {
        for (asked, given) in [(0, 500), (1, 1), (500, 500), (501, 500), (u32::MAX, 500)] {
            let hosts = of_hosts(v1::FleetHostsRequest { after: "edge-1".to_owned(), limit: asked }).unwrap();
            assert_eq!((hosts.after.as_str(), hosts.limit), ("edge-1", given));
            let request = v1::FleetInstancesRequest { limit: asked, ..Default::default() };
            assert_eq!(of_instances(request).unwrap().limit, given);
        }
    }

    #[test]
    fn names_and_places_have_limits() {
        let refused = |name: &str, after: &str| {
            let (name, after) = (name.to_owned(), after.to_owned());
            let request = v1::FleetInstancesRequest { name, after, limit: 0 };
            of_instances(request).err().map(|status| status.code())
        };
        assert_eq!(refused("web-1", "web-1/Edge.lan/nginx"), None);
        let long = "a".repeat(LONGEST_NAME + 1);
        for name in ["web/edge-1", "Web", "-web", "web\0", &long] {
            assert_eq!(refused(name, ""), Some(tonic::Code::InvalidArgument), "{name:?}");
        }
        let (fits, long) = ("a".repeat(PLACE_MAX), "a".repeat(PLACE_MAX + 1));
        assert_eq!(refused("", &fits), None);
        assert_eq!(refused("", &long), Some(tonic::Code::InvalidArgument));
        assert!(of_hosts(v1::FleetHostsRequest { after: long, limit: 0 }).is_err());
    }
}
